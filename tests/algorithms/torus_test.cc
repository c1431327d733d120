// How a torus lies, and that all its edges are used at once.
// SPDX-License-Identifier: Apache-2.0

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <vector>

#include "algorithms/lengths.h"
#include "algorithms/messages.h"
#include "tests/algorithms/verified_case.h"

namespace banyan::torus_test {
namespace {

using ::testing::ElementsAre;

TEST(Torus, HasDimensionsAsEqualAsCanBe) {
  EXPECT_THAT(torus_shape(1), ElementsAre(1));
  EXPECT_THAT(torus_shape(2), ElementsAre(2));
  EXPECT_THAT(torus_shape(7), ElementsAre(7));
  EXPECT_THAT(torus_shape(6), ElementsAre(3, 2));
  EXPECT_THAT(torus_shape(8), ElementsAre(2, 2, 2));
  EXPECT_THAT(torus_shape(64), ElementsAre(4, 4, 4));
  EXPECT_THAT(torus_shape(360), ElementsAre(10, 6, 6));
  EXPECT_THAT(torus_shape(65536), ElementsAre(64, 32, 32));
  for (int ranks = 1; ranks < 3000; ++ranks) {
    const std::vector<int> shape = torus_shape(ranks);
    EXPECT_LE(shape.size(), 3U);
    EXPECT_EQ(std::accumulate(shape.begin(), shape.end(), 1, std::multiplies<>()), ranks);
  }
}

BuiltCase built(Collective collective, int ranks, uint64_t count,
                const Parameters& parameters = {}) {
  return build_case({.collective = collective,
                     .algorithm = find_algorithm("torus"),
                     .ranks = ranks,
                     .count = count,
                     .check = false,
                     .parameters = parameters});
}

uint64_t rounds_of(const BuiltCase& built) {
  const auto ranks = static_cast<int>(built.schedules.size());
  const std::vector<Message> messages =
      match_messages(built.schedules, Group::everyone(ranks, 0).ranks);
  uint64_t rounds = 0;
  for (const auto& depths : depths_of(built.schedules, messages, {.dependency = 0, .message = 1}))
    for (const uint32_t depth : depths) rounds = std::max<uint64_t>(rounds, depth);
  return rounds;
}

// Each of four neighbours of a rank on a square gets as much, and nobody else anything.
TEST(Torus, AllreduceUsesAllLinksAlike) {
  const BuiltCase plane = built(Collective::kAllreduce, 25, 25 * 4 * 100);
  for (size_t rank = 0; rank < plane.schedules.size(); ++rank) {
    std::map<int, uint64_t> sent;
    for (const Step& step : plane.schedules[rank].steps)
      if (step.op == Op::kSend) sent[step.peer] += step.src.size;
    EXPECT_EQ(sent.size(), 4U);
    for (const auto& [peer, bytes] : sent)
      EXPECT_EQ(bytes, uint64_t{2} * 24 * 4 * 100 * 4 / 4) << rank << " to " << peer;
  }
}

TEST(Torus, AllreduceMovesTheLeast) {
  const BuiltCase solid = built(Collective::kAllreduce, 16, 16 * 6 * 100);
  for (const Schedule& schedule : solid.schedules)
    EXPECT_EQ(schedule.bytes_sent(), uint64_t{2} * 15 * 6 * 100 * 4);
}

// Along each dimension it is as much, in the sum 2(P - 1)/P.
TEST(Torus, UsesAllLinksOfItsDimensionsAlike) {
  const BuiltCase solid = built(Collective::kAllreduce, 27, 27 * 6 * 10, {.dimensions = {3, 3, 3}});
  for (const Schedule& schedule : solid.schedules) {
    std::map<int, uint64_t> sent;
    for (const Step& step : schedule.steps)
      if (step.op == Op::kSend) sent[step.peer] += step.src.size;
    EXPECT_EQ(sent.size(), 6U);
    for (const auto& [peer, bytes] : sent)
      EXPECT_EQ(bytes, uint64_t{2} * 26 * 6 * 10 * 4 / 6) << peer;
  }
}

TEST(Torus, HasTheRoundsOfItsDimensions) {
  EXPECT_EQ(rounds_of(built(Collective::kAllreduce, 25, 25 * 40)), 2U * (4 + 4));
  EXPECT_EQ(rounds_of(built(Collective::kAllreduce, 64, 64 * 60)), 2U * (3 + 3 + 3));
  EXPECT_EQ(rounds_of(built(Collective::kAllgather, 25, 40)), 4U + 4);
  EXPECT_EQ(rounds_of(built(Collective::kReduceScatter, 25, 40)), 4U + 4);
  const Parameters uneven{.dimensions = {2, 3, 4}};
  EXPECT_EQ(rounds_of(built(Collective::kAllreduce, 24, 24 * 60, uneven)), 2U * (1 + 2 + 3));
}

}  // namespace
}  // namespace banyan::torus_test
