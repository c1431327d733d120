// Every algorithm is right for every number of ranks: each of its collectives, verified
// symbolically.
// SPDX-License-Identifier: Apache-2.0

#include "algorithms/algorithms.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "algorithms/verify/verify.h"
#include "tests/algorithms/verified_case.h"
#include "tests/support/sanitizers.h"

namespace banyan::algorithms_test {
namespace {

struct Codec {
  DataType type;
  ReduceOp op;
};
constexpr Codec kCodecs[] = {
    {DataType::kFloat32, ReduceOp::kSum},       {DataType::kBfloat16, ReduceOp::kSum},
    {DataType::kFloat32, ReduceOp::kAvg},       {DataType::kBfloat16, ReduceOp::kAvg},
    {DataType::kFloat32, ReduceOp::kPreMulSum}, {DataType::kBfloat16, ReduceOp::kPreMulSum},
    {DataType::kFloat32, ReduceOp::kMin},       {DataType::kBfloat16, ReduceOp::kMin},
};

// What an algorithm is tried with, in an order that meets all pairs of settings soon.
VerifiedCase case_of(int algorithm, Collective collective, int ranks, uint32_t draw) {
  const auto size = static_cast<uint64_t>(ranks);
  const std::array<uint64_t, 7> counts{0, 1, 2, size - 1, size, size + 1, 37};
  VerifiedCase call{.collective = collective, .algorithm = algorithm, .ranks = ranks};
  call.count = counts[draw % counts.size()];
  call.in_place = draw / 3 % 2 == 1 && collective != Collective::kAlltoallv;
  call.check = draw % 5 != 4;
  if (has_root(collective)) call.root = static_cast<int>(draw * 7 % static_cast<uint32_t>(ranks));
  if (reduces(collective)) {
    const Codec codec = kCodecs[(draw + draw / 8) % std::size(kCodecs)];
    call.type = codec.type;
    call.op = codec.op;
  } else {
    call.type = draw % 2 == 0 ? DataType::kInt8 : DataType::kFloat64;
  }
  if (is_synchronisation(collective)) {
    call.count = 0;
    call.in_place = false;
  }
  return call;
}

bool minds_hosts(int algorithm) {
  const Algorithm& row = algorithms()[static_cast<size_t>(algorithm)];
  return row.by_levels || row.name == "ring";
}

// Algorithms that go by hosts meet every shape in turn, and no levels.
std::shared_ptr<const Shape> shape_for(int algorithm, int ranks, uint32_t draw) {
  if (!minds_hosts(algorithm)) return nullptr;
  std::vector<Shape> shapes = shapes_of(ranks);
  const size_t turn = draw % (shapes.size() + 1);
  return turn == shapes.size() ? nullptr : std::make_shared<Shape>(std::move(shapes[turn]));
}

Verification verify_case(const VerifiedCase& call, uint32_t draw) {
  const BuiltCase built = build_case(call);
  return verify(built.schedules, built.problems,
                {.slots = static_cast<int>(draw % 5), .seed = draw});
}

std::string text_of(const VerifiedCase& call, uint32_t draw) {
  std::ostringstream text;
  text << call << ", " << draw % 5 << " slots, seed " << draw;
  return text.str();
}

// A failure is reported once for each algorithm and collective.
template <class Visit>
void for_each_generator(Visit visit) {
  for (size_t algorithm = 0; algorithm < algorithms().size(); ++algorithm)
    for (int collective = 0; collective < kCollectiveCount; ++collective)
      if (algorithms()[algorithm].fits(static_cast<Collective>(collective)))
        visit(static_cast<int>(algorithm), static_cast<Collective>(collective));
}

TEST(Algorithms, AreRightForFewRanksInEveryWay) {
  for_each_generator([](int algorithm, Collective collective) {
    for (int ranks = 1; ranks <= 8; ++ranks)
      for (uint32_t draw = 0; draw < 32; ++draw) {
        VerifiedCase call = case_of(algorithm, collective, ranks, draw);
        call.shape = shape_for(algorithm, ranks, draw);
        const Verification result = verify_case(call, draw / 2);
        EXPECT_TRUE(result.ok) << text_of(call, draw / 2) << ": " << result.reason;
        if (!result.ok) return;
      }
  });
}

// Every shape meets every way to call.
TEST(Algorithms, AreRightOnEveryHierarchy) {
  for_each_generator([](int algorithm, Collective collective) {
    if (!minds_hosts(algorithm)) return;
    for (int ranks = 2; ranks <= 9; ++ranks)
      for (const Shape& shape : shapes_of(ranks))
        for (uint32_t draw = 0; draw < 24; ++draw) {
          VerifiedCase call = case_of(algorithm, collective, ranks, draw);
          call.shape = std::make_shared<Shape>(shape);
          const Verification result = verify_case(call, draw / 2);
          EXPECT_TRUE(result.ok) << text_of(call, draw / 2) << ": " << result.reason;
          if (!result.ok) return;
        }
  });
}

// Two racks have 12 and 11 hosts, one of which has a rank more: in the smaller rack somebody
// carries nothing, next to blocks that are all empty.
TEST(Algorithms, HierarchicalMessagesDoNotDependOnWhereScratchLies) {
  const VerifiedCase call{.collective = Collective::kReduceScatterv,
                          .algorithm = find_algorithm("hierarchical"),
                          .ranks = 47,
                          .count = 2,
                          .in_place = true,
                          .op = ReduceOp::kPreMulSum,
                          .shape = std::make_shared<Shape>(shapes_of(47).back())};
  const Verification result = verify_case(call, 0);
  EXPECT_TRUE(result.ok) << result.reason;
}

TEST(Algorithms, AreRightForEveryRoot) {
  for_each_generator([](int algorithm, Collective collective) {
    if (!has_root(collective)) return;
    for (int ranks = 2; ranks <= 8; ++ranks)
      for (int root = 0; root < ranks; ++root)
        for (uint32_t draw = 0; draw < 4; ++draw) {
          VerifiedCase call = case_of(algorithm, collective, ranks, draw * 5 + 1);
          call.root = root;
          call.shape = shape_for(algorithm, ranks, draw + static_cast<uint32_t>(root));
          const Verification result = verify_case(call, draw);
          EXPECT_TRUE(result.ok) << text_of(call, draw) << ": " << result.reason;
          if (!result.ok) return;
        }
  });
}

// Verifies a case that moves something, but for what never does. The other settings are drawn for
// each case by itself, so that none goes along with the algorithm.
void verify_drawn(int algorithm, Collective collective, int ranks, bool in_place) {
  std::seed_seq seeds{algorithm, static_cast<int>(collective), ranks, in_place ? 1 : 0};
  std::array<uint32_t, 1> drawn{};
  seeds.generate(drawn.begin(), drawn.end());
  const uint32_t draw = drawn[0] >> 8;
  VerifiedCase call = case_of(algorithm, collective, ranks, draw);
  call.in_place = in_place;
  call.shape = shape_for(algorithm, ranks, drawn[0] & 0xff);
  if (call.count == 0 && !is_synchronisation(collective)) call.count = draw % 5 + 1;
  const Verification result = verify_case(call, draw / 8);
  EXPECT_TRUE(result.ok) << text_of(call, draw / 8) << ": " << result.reason;
}

bool has_place(Collective collective) {
  return collective != Collective::kAlltoallv && !is_synchronisation(collective);
}

class AlgorithmsOfRanks : public ::testing::TestWithParam<int> {};

// Every algorithm and collective is verified at every number of ranks: in place at every other, its
// neighbours at the others.
TEST_P(AlgorithmsOfRanks, AreRight) {
  for_each_generator([turn = GetParam()](int algorithm, Collective collective) mutable {
    verify_drawn(algorithm, collective, GetParam(), ++turn % 2 == 0 && has_place(collective));
  });
}
// A sanitizer looks at the verifier and not at the schedules: a part will do.
INSTANTIATE_TEST_SUITE_P(To64, AlgorithmsOfRanks,
                         ::testing::Range(9, 65, test::kAddressSanitizer ? 11 : 1));

// Long vectors are cut into segments that follow each other.
TEST(Algorithms, AreRightForLongVectors) {
  uint32_t draw = 0;
  for (int algorithm = 0; algorithm < static_cast<int>(algorithms().size()); ++algorithm) {
    if (!algorithms()[static_cast<size_t>(algorithm)].fits(Collective::kAllreduce)) continue;
    for (const int ranks : {1, 2, 3, 5, 8})
      for (const bool in_place : {false, true}) {
        const Codec codec = kCodecs[++draw % std::size(kCodecs)];
        const VerifiedCase call{.algorithm = algorithm,
                                .ranks = ranks,
                                .count = (uint64_t{17} << 20) / size_of(codec.type) + 1,
                                .in_place = in_place,
                                .type = codec.type,
                                .op = codec.op,
                                .check = true,
                                .shape = shape_for(algorithm, ranks, draw)};
        const Verification result = verify_case(call, draw);
        EXPECT_TRUE(result.ok) << text_of(call, draw) << ": " << result.reason;
      }
  }
}

// Gives the most ranks that are verified in a fraction of a second: where the steps are as many as
// pairs of ranks, or a message has a piece of every rank, fewer.
int most_ranks(std::string_view name, Collective collective) {
  if (name == "bruck") return collective == Collective::kAlltoall ? 127 : 256;
  if (name == "circulant")
    return collective == Collective::kAllgatherv  ? 127
           : collective == Collective::kAllgather ? 256
                                                  : 1024;
  if (name == "direct" && collective == Collective::kGather) return 1024;
  const bool meets_at_root = collective == Collective::kAllreduce ||
                             collective == Collective::kReduce ||
                             collective == Collective::kBroadcast || is_synchronisation(collective);
  if (name == "torus" && collective == Collective::kAllreduce) return 1024;
  if (name == "leaders") return 1024;
  if ((name == "star" || name == "hierarchical") && meets_at_root) return 1024;
  const bool logarithmic = name == "recursive_doubling" || name == "binomial" ||
                           name == "double_tree" || name == "dissemination";
  return logarithmic ? 1024 : 127;
}

// A sample: each generator takes every other number, its neighbour the others.
TEST(Algorithms, AreRightForManyRanks) {
  static constexpr int kMost = test::kAddressSanitizer ? 127 : 1024;
  constexpr int kSample[] = {65, 127, 255, 256, 1000, 1024};
  for (int place = 0; place < static_cast<int>(std::size(kSample)); ++place) {
    int turn = place;
    for_each_generator([&turn, ranks = kSample[place]](int algorithm, Collective collective) {
      const auto name = algorithms()[static_cast<size_t>(algorithm)].name;
      if (++turn % 2 == 0 || ranks > std::min(kMost, most_ranks(name, collective))) return;
      verify_drawn(algorithm, collective, ranks, ranks % 2 == 0 && has_place(collective));
    });
  }
}

}  // namespace
}  // namespace banyan::algorithms_test
