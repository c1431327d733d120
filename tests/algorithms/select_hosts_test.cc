// What the default table has for ranks that lie on hosts.
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "algorithms/choice/select.h"

namespace banyan::select_hosts_test {
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

// Beyond the lengths that were measured for the rows that are made by a program.
TEST(DefaultTable, SumsLongVectorsAroundARingOfHosts) {
  constexpr uint64_t kRow = 2 * kMiB;
  const auto of = [](uint64_t bytes, int ranks) {
    return choose(call(Collective::kAllreduce, bytes), ranks, Medium::kNetwork, *parse_rules(""));
  };
  for (const int ranks : {3, 4, 8}) {
    const Choice choice = of(kRow + 4, ranks);
    EXPECT_EQ(name(choice.algorithm), "ring") << ranks;
    EXPECT_EQ(reason_of(choice), "default table, with seg=512K");
  }
  EXPECT_EQ(reason_of(of(kRow, 4)), "default table");
  for (const int ranks : {2, 9}) EXPECT_EQ(name(of(kRow + 4, ranks).algorithm), "circulant");
}

// On more ranks than were measured: default_tables_test.py looks at the others.
TEST(DefaultTable, GoesByHostsOnANetwork) {
  using enum Collective;
  const Hierarchy hosts = hosts_of(3, 8);
  const Hierarchy flat;
  const auto of = [](Collective collective, uint64_t bytes, const Hierarchy* hierarchy,
                     Medium medium = Medium::kNetwork, std::string_view text = "") {
    return chosen(collective, bytes, 24, hierarchy, medium, text);
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
  EXPECT_EQ(of(kAllgather, 340, &hosts), "bruck");  // of one of 24 ranks
  EXPECT_EQ(of(kAllgather, 344, &hosts), "hierarchical");
  EXPECT_EQ(of(kGather, 2 * kKiB, &hosts), "leaders");
  EXPECT_EQ(of(kGather, 2 * kKiB + 4, &hosts), "binomial");
  EXPECT_EQ(of(kScatter, 8 * kKiB, &hosts), "leaders");
  EXPECT_EQ(of(kScatter, 8 * kKiB + 4, &hosts), "direct");
  EXPECT_EQ(of(kAlltoall, 256, &hosts), "bruck");
  EXPECT_EQ(of(kAlltoall, 2 * kKiB, &hosts), "hierarchical");
  EXPECT_EQ(of(kAllreduce, 64 * kMiB, &flat), "circulant");
  EXPECT_EQ(of(kAllreduce, 64 * kMiB, nullptr), "circulant");
  EXPECT_EQ(of(kAllreduce, 64 * kMiB, &hosts, Medium::kMemory), "circulant");
  const Hierarchy two = hosts_of(2, 16);
  EXPECT_EQ(chosen(kAllreduce, 16 * kKiB, 32, &two), "leaders");
  EXPECT_EQ(chosen(kAllreduce, 32 * kKiB, 32, &two), "hierarchical");
}

}  // namespace
}  // namespace banyan::select_hosts_test
