// What the default table has for ranks that lie on hosts.
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "algorithms/choice/select.h"

namespace banyan {
namespace {

constexpr uint64_t kKiB = 1024;
constexpr uint64_t kMiB = 1024 * kKiB;

std::string_view name(int algorithm) {
  return algorithms()[static_cast<size_t>(algorithm)].name;
}

Hierarchy hosts_of(int hosts, int each) {
  std::vector<int> labels;
  for (int place = 0; place < hosts * each; ++place) labels.push_back(place / each);
  return Hierarchy::of_labels("host", labels);
}

Problem call(Collective collective, uint64_t bytes) {
  Problem problem;
  problem.collective = collective;
  problem.count = bytes / problem.element();
  return problem;
}

std::string_view chosen(Collective collective, uint64_t bytes, int ranks, const Hierarchy* hosts,
                        Medium medium = Medium::kNetwork, std::string_view text = "") {
  return name(choose(call(collective, bytes), ranks, medium, *parse_rules(text), hosts).algorithm);
}

TEST(DefaultTable, GoesByHostsOnANetwork) {
  using enum Collective;
  const Hierarchy hosts = hosts_of(3, 2);
  const Hierarchy flat;
  const auto of = [](Collective collective, uint64_t bytes, const Hierarchy* hierarchy,
                     Medium medium = Medium::kNetwork, std::string_view text = "") {
    return chosen(collective, bytes, 6, hierarchy, medium, text);
  };
  EXPECT_EQ(of(kAllreduce, 4, &hosts), "leaders");
  EXPECT_EQ(of(kAllreduce, 64 * kMiB, &hosts, Medium::kNetwork, "^hierarchical"), "circulant");
  EXPECT_EQ(of(kBarrier, 0, &hosts), "leaders");
  EXPECT_EQ(of(kSplit, 0, &hosts), "leaders");
  for (const Collective collective : {kAllreduce, kBroadcast}) {
    EXPECT_EQ(of(collective, 16 * kKiB, &hosts), "leaders");
    EXPECT_EQ(of(collective, 16 * kKiB + 4, &hosts), "hierarchical");
  }
  EXPECT_EQ(of(kReduce, 8 * kKiB, &hosts), "leaders");
  EXPECT_EQ(of(kReduce, 8 * kKiB + 4, &hosts), "hierarchical");
  EXPECT_EQ(of(kReduceScatter, 4, &hosts), "hierarchical");
  EXPECT_EQ(of(kReduceScatter, 16 * kKiB, &hosts), "hierarchical");
  EXPECT_EQ(of(kAllgather, 168, &hosts), "star");  // of one of six ranks
  EXPECT_EQ(of(kAllgather, 172, &hosts), "bruck");
  EXPECT_EQ(of(kAllgather, 1364, &hosts), "bruck");
  EXPECT_EQ(of(kAllgather, 1368, &hosts), "hierarchical");
  EXPECT_EQ(of(kGather, 2 * kKiB, &hosts), "leaders");
  EXPECT_EQ(of(kGather, 2 * kKiB + 4, &hosts), "binomial");
  EXPECT_EQ(of(kScatter, 8 * kKiB, &hosts), "leaders");
  EXPECT_EQ(of(kScatter, 8 * kKiB + 4, &hosts), "direct");
  EXPECT_EQ(of(kAlltoall, 256, &hosts), "bruck");
  EXPECT_EQ(of(kAlltoall, 2 * kKiB, &hosts), "direct");
  EXPECT_EQ(of(kAllreduce, 64 * kMiB, &flat), "circulant");
  EXPECT_EQ(of(kAllreduce, 64 * kMiB, nullptr), "circulant");
  EXPECT_EQ(of(kAllreduce, 64 * kMiB, &hosts, Medium::kMemory), "circulant");
}

TEST(DefaultTable, KnowsTwoHosts) {
  using enum Collective;
  const Hierarchy lone = Hierarchy::of_labels("host", std::vector<int>{0, 1, 1});
  EXPECT_EQ(chosen(kReduceScatter, 64 * kKiB, 3, &lone), "pairwise");
  EXPECT_EQ(chosen(kReduceScatter, 64 * kKiB + 4, 3, &lone), "hierarchical");
  EXPECT_EQ(chosen(kAllgather, 16 * kKiB, 3, &lone), "bruck");  // of one of three ranks
  EXPECT_EQ(chosen(kAllgather, 16 * kKiB + 4, 3, &lone), "hierarchical");
  const Hierarchy fours = hosts_of(2, 4);
  for (const Collective collective : {kAllreduce, kBroadcast}) {
    EXPECT_EQ(chosen(collective, 32 * kKiB, 8, &fours), "leaders");
    EXPECT_EQ(chosen(collective, 32 * kKiB + 4, 8, &fours), "hierarchical");
  }
  EXPECT_EQ(chosen(kAllgather, 512, 8, &fours), "star");
  EXPECT_EQ(chosen(kAllgather, 516, 8, &fours), "hierarchical");
  const Hierarchy eights = hosts_of(2, 8);
  EXPECT_EQ(chosen(kAllreduce, 32 * kKiB, 16, &eights), "hierarchical");
  const Hierarchy racks = Hierarchy::of_labels("leaf", std::vector<int>{0, 0, 1});
  EXPECT_EQ(chosen(kReduceScatter, 4, 3, &racks), "hierarchical");
}

TEST(DefaultTable, CollectsSmallBlocksWhereHostsHaveMany) {
  const Hierarchy hosts = hosts_of(3, 4);
  EXPECT_EQ(chosen(Collective::kAlltoall, 256, 12, &hosts), "bruck");
  EXPECT_EQ(chosen(Collective::kAlltoall, 2 * kKiB, 12, &hosts), "hierarchical");
  EXPECT_EQ(chosen(Collective::kAlltoall, 2 * kKiB + 4, 12, &hosts), "direct");
}

}  // namespace
}  // namespace banyan
