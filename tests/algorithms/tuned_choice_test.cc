// Rules with nodes and types, and those of the tuning file behind the variable's.
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "algorithms/choice/select.h"

namespace banyan::tuned_choice_test {
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

TEST(TunedChoice, ComesAfterTheVariableAndBeforeTheTable) {
  EXPECT_EQ(chosen(rules("", "barrier: star; allreduce: ring")), "ring: tuning file rule 2");
  EXPECT_EQ(chosen(rules("double_tree", "ring")), "double_tree: BANYAN_ALGO rule 1");
  EXPECT_EQ(chosen(rules("barrier: star", "ring")), "ring: tuning file rule 1");
  EXPECT_EQ(chosen(rules("barrier: star", "barrier: star")), by_default());
}

TEST(TunedChoice, IsAskedForWhatTheVariableLeaves) {
  EXPECT_EQ(chosen(rules("^direct", "allreduce: direct; allreduce: ring")),
            "ring: BANYAN_ALGO rule 1, tuning file rule 2");
  EXPECT_EQ(chosen(rules("^direct", "allreduce: direct, star")),
            "star: BANYAN_ALGO rule 1, tuning file rule 1");
  EXPECT_EQ(chosen(rules("^ring", "ring")).find("ring: "), std::string::npos);
  EXPECT_EQ(chosen(rules("^direct", "^ring; star")),
            "star: BANYAN_ALGO rule 1, tuning file rule 2");
}

TEST(TunedChoice, CountsNodesAsRanksLie) {
  const Hierarchy hosts = *Hierarchy::make(6, {{"host", {{0, 1}, {2, 3, 4}, {5}}}});
  EXPECT_EQ(nodes_of(6, Medium::kMemory, nullptr), 1);
  EXPECT_EQ(nodes_of(6, Medium::kCrowdedCores, nullptr), 1);
  EXPECT_EQ(nodes_of(6, Medium::kNetwork, nullptr), 6);
  EXPECT_EQ(nodes_of(6, Medium::kNetwork, &hosts), 3);
  const Rules three = rules("", "allreduce nodes=3-3: ring");
  EXPECT_EQ(chosen(three, Medium::kNetwork, &hosts), "ring: tuning file rule 1");
  EXPECT_EQ(chosen(three), by_default());
}

// The level of hosts of one rank each is left out where it says nothing.
TEST(TunedChoice, CountsNodesWhereLeavesAreTheFirstLevel) {
  const Hierarchy leaves = *Hierarchy::make(6, {{"leaf", {{0, 1, 2}, {3, 4, 5}}}});
  EXPECT_EQ(nodes_of(6, Medium::kNetwork, &leaves), 6);
  EXPECT_EQ(ppn_of(6, Medium::kNetwork, &leaves), 1);
}

// The largest node counts where they differ.
TEST(TunedChoice, CountsRanksOfANode) {
  const Hierarchy hosts = *Hierarchy::make(6, {{"host", {{0, 1}, {2, 3, 4}, {5}}}});
  EXPECT_EQ(ppn_of(6, Medium::kMemory, nullptr), 6);
  EXPECT_EQ(ppn_of(6, Medium::kNetwork, nullptr), 1);
  EXPECT_EQ(ppn_of(6, Medium::kNetwork, &hosts), 3);
  const Rules three = rules("", "allreduce ppn=2-3: ring");
  EXPECT_EQ(chosen(three, Medium::kNetwork, &hosts), "ring: tuning file rule 1");
  EXPECT_EQ(chosen(three), by_default());
}

TEST(TunedChoice, CallsHaveMemoryOfTheHost) {
  EXPECT_EQ(chosen(rules("mem=host: ring")), "ring: BANYAN_ALGO rule 1");
  EXPECT_EQ(chosen(rules("mem=cuda, host: ring")), "ring: BANYAN_ALGO rule 1");
  EXPECT_EQ(chosen(rules("mem=cuda: ring; mem=managed: ring")), by_default());
  const auto barrier = [](const Rules& by) {
    return chosen(by, Medium::kMemory, nullptr, DataType::kFloat32, Collective::kBarrier);
  };
  EXPECT_EQ(barrier(rules("mem=host: star")), barrier({}));
}

TEST(TunedChoice, LooksAtTheType) {
  const Rules floats = rules("", "dtype=float32,float64: ring; allreduce,barrier dtype=int8: star");
  EXPECT_EQ(chosen(floats), "ring: tuning file rule 1");
  EXPECT_EQ(chosen(floats, Medium::kMemory, nullptr, DataType::kFloat64),
            "ring: tuning file rule 1");
  EXPECT_EQ(chosen(floats, Medium::kMemory, nullptr, DataType::kInt32), by_default());
  for (const DataType type : {DataType::kInt8, DataType::kFloat32})  // a barrier has none
    EXPECT_EQ(chosen(floats, Medium::kMemory, nullptr, type, Collective::kBarrier),
              "direct: default table");
}

MeasuredNetwork network(const std::vector<int>& hosts, double rate) {
  MeasuredLinks links;
  links.within = MeasuredLink{.latency_us = 0.3, .busy_latency_us = 0.4, .GBps = 8, .busy_GBps = 4};
  links.between = MeasuredLink{
      .latency_us = 20, .busy_latency_us = 25, .message_us = 1, .GBps = rate, .busy_GBps = rate};
  return *measured_network(links, 4, Hierarchy::of_labels("host", hosts));
}

struct ByLinks {
  std::vector<int> hosts{0, 0, 1, 1, 2, 2};
  MeasuredNetwork measured = network(hosts, 0.12);
  Hierarchy lie = Hierarchy::of_labels("host", hosts).simplified();

  Choice choose_for(const Problem& problem, const Rules& by = {}) const {
    return choose(problem, static_cast<int>(hosts.size()), Medium::kNetwork, by, &lie, &measured);
  }
};

Problem allreduce_of(uint64_t count) {
  Problem problem;
  problem.count = count;
  return problem;
}

TEST(ChosenByLinks, IsWhatIsPredictedToBeFastest) {
  const ByLinks job;
  for (const uint64_t count : {2049, 100000, 10000000}) {
    const Problem problem = allreduce_of(count);
    const Choice choice = job.choose_for(problem);
    EXPECT_EQ(choice.because, "measured links");
    EXPECT_EQ(choice.rule, -1);
    const double us =
        predict(problem, choice.algorithm, 6, job.measured.model, &job.measured.levels);
    for (int other = 0; other < static_cast<int>(algorithms().size()); ++other)
      if (fits(other, problem.collective)) {
        EXPECT_LE(us, predict(problem, other, 6, job.measured.model, &job.measured.levels));
      }
  }
}

// A table that was measured says more of these.
TEST(ChosenByLinks, IsNotShortNorOfCollectivesThatNobodyCompared) {
  const ByLinks job;
  for (const uint64_t count : {0, 1, 2048})
    EXPECT_EQ(job.choose_for(allreduce_of(count)).because, "default table") << count;
  for (const Collective collective :
       {Collective::kAlltoall, Collective::kGather, Collective::kReduce, Collective::kBarrier}) {
    Problem problem = allreduce_of(1 << 20);
    problem.collective = collective;
    EXPECT_EQ(job.choose_for(problem).because, "default table");
  }
}

// Where links between hosts are not much slower than those inside, segments of the length by the
// closed form keep both busy; where they are, it would gain nothing that counts.
TEST(ChosenByLinks, SaysHowLongSegmentsAre) {
  ByLinks job;
  const int hierarchical = find_algorithm("hierarchical");
  const Problem problem = allreduce_of(512 << 10);
  const Choice slow = job.choose_for(problem);
  EXPECT_EQ(slow.algorithm, hierarchical);
  EXPECT_EQ(slow.parameters, Parameters());
  job.measured = network(job.hosts, 4);
  const Choice fast = job.choose_for(problem, rules("allreduce: ^ring,circulant,torus", ""));
  ASSERT_EQ(fast.algorithm, hierarchical);
  ASSERT_NE(fast.parameters.segment, 0U);
  const auto us = [&](const Parameters& parameters) {
    return predict(problem, hierarchical, 6, job.measured.model, &job.measured.levels, parameters);
  };
  EXPECT_LT(us(fast.parameters), 0.95 * us({}));
}

TEST(ChosenByLinks, ComesAfterRulesAndBeforeTheTable) {
  const ByLinks job;
  const Problem problem = allreduce_of(1 << 20);
  EXPECT_EQ(job.choose_for(problem, rules("ring", "")).because, "BANYAN_ALGO rule 1");
  EXPECT_EQ(job.choose_for(problem, rules("", "ring")).because, "tuning file rule 1");
  EXPECT_EQ(job.choose_for(problem, rules("barrier: star", "barrier: star")).because,
            "measured links");
  const Choice first = job.choose_for(problem);
  std::string excluding = "^";
  excluding += algorithms()[static_cast<size_t>(first.algorithm)].name;
  const Choice other = job.choose_for(problem, rules(excluding, ""));
  EXPECT_NE(other.algorithm, first.algorithm);
  EXPECT_EQ(other.because, "BANYAN_ALGO rule 1, measured links");
  EXPECT_EQ(job.choose_for(problem, rules(excluding, "ring")).because,
            "BANYAN_ALGO rule 1, tuning file rule 1");
}

TEST(ChosenByLinks, IsNotInMemoryNorByLevelsThatAreNone) {
  const ByLinks job;
  const Problem problem = allreduce_of(1 << 20);
  for (const Medium medium : {Medium::kMemory, Medium::kSharedCores, Medium::kCrowdedCores})
    EXPECT_EQ(choose(problem, 6, medium, {}, nullptr, &job.measured).because, "default table");
  const std::vector<int> each{0, 1, 2, 3};
  const MeasuredNetwork alone = network(each, 0.12);
  for (const uint64_t count : {2049, 100000, 10000000}) {
    const Choice choice = choose(allreduce_of(count), 4, Medium::kNetwork, {}, nullptr, &alone);
    EXPECT_EQ(choice.because, "measured links");
    EXPECT_FALSE(algorithms()[static_cast<size_t>(choice.algorithm)].by_levels);
  }
}

// Whatever only some ranks know must not count: they would choose differently.
TEST(ChosenByLinks, IsTheSameOnAllRanks) {
  const ByLinks job;
  for (const Collective collective :
       {Collective::kAllreduce, Collective::kAllgather, Collective::kReduceScatter})
    for (const uint64_t count : {1, 2049, 10000, 1000000}) {
      Problem here = allreduce_of(count);
      here.collective = collective;
      Problem there = here;
      there.in_place = true;
      EXPECT_EQ(job.choose_for(here).algorithm, job.choose_for(there).algorithm);
    }
  Problem exchange;
  exchange.collective = Collective::kAlltoallv;
  exchange.send_counts = exchange.recv_counts = {1, 2, 3, 4, 5, 6};
  EXPECT_FALSE(links_decide(exchange));
  EXPECT_EQ(job.choose_for(exchange).because, "default table");
}

}  // namespace
}  // namespace banyan::tuned_choice_test
