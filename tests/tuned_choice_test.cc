// Rules with nodes and types, and those of the tuning file behind the variable's.
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "algorithms/select.h"

namespace banyan {
namespace {

Rules rules(std::string_view variable, std::string_view tuned = "") {
  const Result<Rules> first = parse_rules(variable);
  const Result<Rules> second = parse_rules(tuned);
  EXPECT_TRUE(first.ok() && second.ok());
  return join_rules(*first, *second);
}

// "ring: tuning file rule 1"
std::string chosen(const Rules& by, Medium medium = Medium::kMemory,
                   const Hierarchy* hierarchy = nullptr, DataType type = DataType::kFloat32,
                   Collective collective = Collective::kAllreduce) {
  Problem problem;
  problem.collective = collective;
  problem.type = type;
  problem.count = 1024;
  const Choice choice = choose(problem, 6, medium, by, hierarchy);
  return std::string(algorithms()[static_cast<size_t>(choice.algorithm)].name) + ": " +
         choice.because;
}

std::string by_default() {
  return chosen({});
}

TEST(TunedChoice, comes_after_the_variable_and_before_the_table) {
  EXPECT_EQ(chosen(rules("", "barrier: star; allreduce: ring")), "ring: tuning file rule 2");
  EXPECT_EQ(chosen(rules("double_tree", "ring")), "double_tree: BANYAN_ALGO rule 1");
  EXPECT_EQ(chosen(rules("barrier: star", "ring")), "ring: tuning file rule 1");
  EXPECT_EQ(chosen(rules("barrier: star", "barrier: star")), by_default());
}

TEST(TunedChoice, is_asked_for_what_the_variable_leaves) {
  EXPECT_EQ(chosen(rules("^direct", "allreduce: direct; allreduce: ring")),
            "ring: BANYAN_ALGO rule 1, tuning file rule 2");
  EXPECT_EQ(chosen(rules("^direct", "allreduce: direct, star")),
            "star: BANYAN_ALGO rule 1, tuning file rule 1");
  EXPECT_EQ(chosen(rules("^ring", "ring")).find("ring: "), std::string::npos);
  EXPECT_EQ(chosen(rules("^direct", "^ring; star")),
            "star: BANYAN_ALGO rule 1, tuning file rule 2");
}

TEST(TunedChoice, counts_nodes_as_ranks_lie) {
  const Hierarchy hosts = *Hierarchy::make(6, {{"host", {{0, 1}, {2, 3, 4}, {5}}}});
  EXPECT_EQ(nodes_of(6, Medium::kMemory, nullptr), 1);
  EXPECT_EQ(nodes_of(6, Medium::kCrowdedCores, nullptr), 1);
  EXPECT_EQ(nodes_of(6, Medium::kNetwork, nullptr), 6);
  EXPECT_EQ(nodes_of(6, Medium::kNetwork, &hosts), 3);
  const Rules three = rules("", "allreduce nodes=3-3: ring");
  EXPECT_EQ(chosen(three, Medium::kNetwork, &hosts), "ring: tuning file rule 1");
  EXPECT_EQ(chosen(three), by_default());
}

// Of the largest node, where they differ.
TEST(TunedChoice, counts_ranks_of_a_node) {
  const Hierarchy hosts = *Hierarchy::make(6, {{"host", {{0, 1}, {2, 3, 4}, {5}}}});
  EXPECT_EQ(ppn_of(6, Medium::kMemory, nullptr), 6);
  EXPECT_EQ(ppn_of(6, Medium::kNetwork, nullptr), 1);
  EXPECT_EQ(ppn_of(6, Medium::kNetwork, &hosts), 3);
  const Rules three = rules("", "allreduce ppn=2-3: ring");
  EXPECT_EQ(chosen(three, Medium::kNetwork, &hosts), "ring: tuning file rule 1");
  EXPECT_EQ(chosen(three), by_default());
}

TEST(TunedChoice, calls_have_memory_of_the_host) {
  EXPECT_EQ(chosen(rules("mem=host: ring")), "ring: BANYAN_ALGO rule 1");
  EXPECT_EQ(chosen(rules("mem=cuda, host: ring")), "ring: BANYAN_ALGO rule 1");
  EXPECT_EQ(chosen(rules("mem=cuda: ring; mem=managed: ring")), by_default());
  const auto barrier = [](const Rules& by) {
    return chosen(by, Medium::kMemory, nullptr, DataType::kFloat32, Collective::kBarrier);
  };
  EXPECT_EQ(barrier(rules("mem=host: star")), barrier({}));
}

TEST(TunedChoice, looks_at_the_type) {
  const Rules floats = rules("", "dtype=float32,float64: ring; barrier dtype=int8: star");
  EXPECT_EQ(chosen(floats), "ring: tuning file rule 1");
  EXPECT_EQ(chosen(floats, Medium::kMemory, nullptr, DataType::kFloat64),
            "ring: tuning file rule 1");
  EXPECT_EQ(chosen(floats, Medium::kMemory, nullptr, DataType::kInt32), by_default());
  for (const DataType type : {DataType::kInt8, DataType::kFloat32})  // a barrier has none
    EXPECT_EQ(chosen(floats, Medium::kMemory, nullptr, type, Collective::kBarrier),
              "direct: default table");
}

}  // namespace
}  // namespace banyan
