// Rings on several hosts enter each of them once, however ranks are numbered, and are the rings of
// ranks that ascend where hosts follow each other.
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "tests/algorithms/verified_case.h"

namespace banyan::rings_test {
namespace {

constexpr Collective kRings[] = {Collective::kAllreduce,     Collective::kReduce,
                                 Collective::kBroadcast,     Collective::kAllgather,
                                 Collective::kAllgatherv,    Collective::kReduceScatter,
                                 Collective::kReduceScatterv};

VerifiedCase ring_of(Collective collective, const Shape& shape, int ranks) {
  VerifiedCase call{
      .collective = collective, .algorithm = find_algorithm("ring"), .ranks = ranks, .count = 64};
  call.check = false;  // agreement has messages of its own
  call.shape = std::make_shared<Shape>(shape);
  return call;
}

// Pairs of ranks of which one sends data to the other, those to the root of a reduce aside.
std::set<std::pair<int, int>> edges_of(const VerifiedCase& call) {
  const BuiltCase built = build_case(call);
  std::set<std::pair<int, int>> edges;
  for (int rank = 0; rank < call.ranks; ++rank) {
    const std::vector<Step>& steps = built.schedules[static_cast<size_t>(rank)].steps;
    const size_t last = call.collective == Collective::kReduce && rank != call.root ? 1 : 0;
    size_t sends = 0;
    for (const Step& step : steps) sends += step.op == Op::kSend ? 1 : 0;
    for (const Step& step : steps)
      if (step.op == Op::kSend && sends-- > last && step.src.size > 0)
        edges.emplace(rank, step.peer);
  }
  return edges;
}

int crossing(const std::set<std::pair<int, int>>& edges, const Hierarchy& hierarchy, int level) {
  return static_cast<int>(std::count_if(edges.begin(), edges.end(), [&](const auto& edge) {
    return hierarchy.part_of(level, edge.first) != hierarchy.part_of(level, edge.second);
  }));
}

TEST(Rings, EntersEachPartOfEveryLevelOnce) {
  for (const int ranks : {4, 8, 12, 13})
    for (const Shape& shape : shapes_of(ranks))
      for (const Collective collective : kRings) {
        const auto edges = edges_of(ring_of(collective, shape, ranks));
        for (int level = 0; level < shape.hierarchy.depth(); ++level) {
          const int parts = shape.hierarchy.parts(level);
          EXPECT_LE(crossing(edges, shape.hierarchy, level), parts == 1 ? 0 : parts)
              << name_of(collective) << " on " << shape.name << ", level " << level;
        }
        EXPECT_LE(edges.size(), static_cast<size_t>(ranks)) << name_of(collective);
      }
}

TEST(Rings, IsThatOfRanksWhereHostsFollowEachOther) {
  for (const char* name : {"threes", "twos in racks of two", "1+2+3+...", "one each", "one host"})
    for (const Shape& shape : shapes_of(12)) {
      if (shape.name != name) continue;
      for (const Collective collective : kRings) {
        VerifiedCase call = ring_of(collective, shape, 12);
        const BuiltCase by_hosts = build_case(call);
        call.shape = nullptr;
        const BuiltCase flat = build_case(call);
        for (size_t rank = 0; rank < 12; ++rank)
          EXPECT_EQ(by_hosts.schedules[rank].steps, flat.schedules[rank].steps)
              << name_of(collective) << " on " << shape.name;
      }
    }
}

// From host to host as the ring was told, in rings and in the chains of hierarchical.
TEST(Rings, IsTheOneThatWasTold) {
  Shape shape = shape_of("four hosts", {0, 0, 1, 1, 2, 2, 3, 3});
  shape.hierarchy = shape.hierarchy.in_ring({0, 1, 4, 5, 2, 3, 6, 7});  // hosts 0, 2, 1, 3
  const auto hosts = [&](const VerifiedCase& call) {
    std::set<std::pair<int, int>> pairs;
    for (const auto& [from, to] : edges_of(call))
      if (from / 2 != to / 2) pairs.emplace(from / 2, to / 2);
    return pairs;
  };
  using Pairs = std::set<std::pair<int, int>>;
  EXPECT_EQ(hosts(ring_of(Collective::kAllreduce, shape, 8)),
            (Pairs{{0, 2}, {2, 1}, {1, 3}, {3, 0}}));
  for (const bool sums : {false, true}) {
    VerifiedCase call = ring_of(sums ? Collective::kReduce : Collective::kBroadcast, shape, 8);
    call.algorithm = find_algorithm("hierarchical");
    call.count = 1 << 20;
    call.root = 4;
    EXPECT_EQ(hosts(call),
              sums ? (Pairs{{1, 2}, {3, 1}, {0, 3}}) : (Pairs{{2, 1}, {1, 3}, {3, 0}}));
  }
}

}  // namespace
}  // namespace banyan::rings_test
