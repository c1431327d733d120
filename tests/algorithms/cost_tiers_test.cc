// What levels above hosts cost: numbers worked out by hand, and the bound.
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "algorithms/algorithms.h"
#include "algorithms/choice/measured_choice.h"
#include "algorithms/cost/cost.h"
#include "algorithms/verify/simulate.h"
#include "tests/algorithms/cost_models.h"

namespace banyan::cost_tiers_test {
namespace {

constexpr uint64_t kLong = uint64_t{1} << 30;  // in 64 segments

// Gives each place its host and its leaf.
Hierarchy leaves_of(const std::vector<int>& hosts, const std::vector<int>& leaves) {
  std::vector<Hierarchy::Level> levels = Hierarchy::of_labels("host", hosts).written();
  levels.push_back(Hierarchy::of_labels("leaf", leaves).written().front());
  return *Hierarchy::make(static_cast<int>(hosts.size()), levels);
}

// Leaf by leaf, or one to each leaf in turn.
Hierarchy leaves_of(int leaves, int hosts_each, int ranks_each, bool dealt = false) {
  std::vector<int> host, leaf;
  for (int place = 0; place < leaves * hosts_each * ranks_each; ++place) {
    host.push_back(place / ranks_each);
    leaf.push_back(dealt ? host.back() % leaves : host.back() / hosts_each);
  }
  return leaves_of(host, leaf);
}

// A byte takes a unit on a NIC and so many on what joins a leaf to the others.
CostModel with_uplinks(double uplink, double alpha = 0, double leaf_alpha = 0) {
  CostModel model = pure(alpha, 0, 1);
  model.tiers.push_back({"leaf", table(leaf_alpha), table(uplink)});
  return model;
}

double on_two_leaves(std::string_view name, double uplink, bool dealt = false) {
  const Hierarchy levels = leaves_of(2, 4, 1, dealt);
  return predict(call(Collective::kAllreduce, kLong, 8), find_algorithm(name), 8,
                 with_uplinks(uplink), &levels) /
         static_cast<double>(kLong);
}

// Also where leaves have different sizes, and the root is in the small one or in the large one.
TEST(CostOfTiers, NoAlgorithmIsBelowTheBound) {
  const Hierarchy shapes[] = {leaves_of(2, 4, 2), leaves_of(2, 3, 1, true),
                              leaves_of({0, 1, 1, 1, 1, 1, 2, 2}, {0, 1, 1, 1, 1, 1, 1, 1}),
                              leaves_of({0, 0, 0, 0, 1, 2, 3, 4}, {0, 0, 0, 0, 0, 0, 0, 1})};
  for (const Hierarchy& levels : shapes)
    for (const double uplink : {0.25, 4.0, 50.0})
      for (const Collective collective : collectives())
        for (const bool last : {false, true}) {
          const int ranks = levels.places();
          Problem problem = call(collective, 1 << 20, ranks);
          problem.root = last ? ranks - 1 : 0;
          const CostModel model = with_uplinks(uplink, 1, 2);
          const double bound = lower_bound(problem, ranks, model, &levels);
          for (int i = 0; i < static_cast<int>(algorithms().size()); ++i) {
            if (!fits(i, collective)) continue;
            EXPECT_LE(bound, 1.000001 * predict(problem, i, ranks, model, &levels))
                << text_of(i, {}) << ' ' << name_of(collective) << " on " << levels.text();
          }
        }
}

TEST(CostOfTiers, RingsLeaveEachLeafOnce) {
  EXPECT_NEAR(on_two_leaves("ring", 0.5), 1.75, 0.01);
  EXPECT_NEAR(on_two_leaves("ring", 4), 7, 0.01);
  EXPECT_NEAR(on_two_leaves("ring", 4, true), 7, 0.01);
}

// Four ranks of a leaf at a time, in the last round or, where hosts are dealt out, in the first.
TEST(CostOfTiers, WhatAllRanksSendAtOnceSharesTheUplink) {
  EXPECT_NEAR(on_two_leaves("recursive_doubling", 1), 1 + 1 + 4, 0.01);
  EXPECT_NEAR(on_two_leaves("recursive_doubling", 1, true), 4 + 1 + 1, 0.01);
  EXPECT_NEAR(on_two_leaves("recursive_doubling", 0.1), 3, 0.01);
}

// Where the uplinks are the slowest the cut around a leaf is reached but for the first segment;
// else the NICs, which all levels share.
TEST(CostOfTiers, SegmentsGoThroughAllLevelsAtOnce) {
  const double inside = 1.5 / 64;
  EXPECT_NEAR(on_two_leaves("hierarchical", 4), 4 + inside, 0.01);
  EXPECT_NEAR(on_two_leaves("hierarchical", 4, true), 4 + inside, 0.01);
  EXPECT_NEAR(on_two_leaves("hierarchical", 1), 1.75 + (1.5 + 1 - 1.75) / 64, 0.01);
}

TEST(CostOfTiers, ThreeLevelsHaveAStageEach) {
  const Hierarchy levels = leaves_of(2, 2, 2);
  CostModel model = with_uplinks(4);
  const double n = static_cast<double>(kLong);
  const auto time = [&] {
    return predict(call(Collective::kAllreduce, kLong, 8), find_algorithm("hierarchical"), 8, model,
                   &levels) /
           n;
  };
  // A shard carries each half of a host's ranks: between hosts of a leaf 1 n on the NIC, half of it
  // between leaves, where a leaf's uplink carries n.
  EXPECT_NEAR(time(), 4 + 1.0 / 64, 0.01);
  model.tiers.front().uplink_byte = table(0.1);
  EXPECT_NEAR(time(), 1.5, 0.01);
  model.within.recv_byte = model.within.long_byte = table(10);
  EXPECT_NEAR(time(), 10 + 1.5 / 64, 0.01);
}

TEST(CostOfTiers, LatenciesAreThoseOfTheHighestLevelLeft) {
  const Hierarchy levels = leaves_of(2, 4, 1);
  CostModel model = with_uplinks(0, 10, 30);
  model.wire_byte = table(0);
  const auto time = [&](std::string_view name, Collective collective) {
    Problem problem = call(collective, 4, 8);
    problem.check = false;
    return predict(problem, find_algorithm(name), 8, model, &levels);
  };
  EXPECT_NEAR(time("recursive_doubling", Collective::kAllreduce), 10 + 10 + 30, 0.1);
  EXPECT_NEAR(time("leaders", Collective::kAllreduce), 10 + 30 + 10, 0.1);
  EXPECT_NEAR(time("leaders", Collective::kBroadcast), 30 + 10, 0.1);
  EXPECT_NEAR(time("leaders", Collective::kGather), 10 + 30, 0.1);
  EXPECT_NEAR(time("leaders", Collective::kBarrier), 10 + 30 + 10, 0.1);
  EXPECT_NEAR(time("ring", Collective::kBroadcast), 6 * 10 + 30, 0.1);
}

TEST(CostOfTiers, TheBoundIsTheTightestCut) {
  const Hierarchy levels = leaves_of(2, 4, 1);
  const Problem problem = call(Collective::kAllreduce, 1 << 20, 8);
  const auto bound = [&](double uplink) {
    return lower_bound(problem, 8, with_uplinks(uplink), &levels) / (1 << 20);
  };
  EXPECT_NEAR(bound(0.5), 1.75, 0.01);
  EXPECT_NEAR(bound(4), 4, 0.01);
}

TEST(CostOfTiers, LevelsOfWhichNothingIsKnownCostWhatHostsDo) {
  const Hierarchy hosts = Hierarchy::of_labels("host", std::vector<int>{0, 0, 1, 1, 2, 2, 3, 3});
  const Hierarchy levels = leaves_of(2, 2, 2);
  CostModel model = pure(5, 1e-4, 1e-3);
  model.tiers.push_back({"pod", table(100), table(100)});  // no level of this name
  for (const std::string_view name : {"ring", "circulant", "recursive_doubling", "pairwise"})
    for (const uint64_t bytes : {uint64_t{4}, uint64_t{1} << 20}) {
      const Problem problem = call(Collective::kAllreduce, bytes, 8);
      EXPECT_DOUBLE_EQ(predict(problem, find_algorithm(name), 8, model, &levels),
                       predict(problem, find_algorithm(name), 8, model, &hosts))
          << name << ' ' << bytes;
    }
}

// Nothing leaves the only leaf.
TEST(CostOfTiers, ALevelOfOnePartHasNoUplinks) {
  const std::vector<int> hosts{0, 1, 2, 3};
  const Hierarchy levels = leaves_of(hosts, {0, 0, 0, 0});
  const Hierarchy without = Hierarchy::of_labels("host", hosts);
  const CostModel model = with_uplinks(100, 5, 500);
  for (const Collective collective : collectives())
    for (int i = 0; i < static_cast<int>(algorithms().size()); ++i)
      if (fits(i, collective)) {
        const Problem problem = call(collective, 1 << 20, 4);
        EXPECT_DOUBLE_EQ(predict(problem, i, 4, model, &levels),
                         predict(problem, i, 4, model, &without))
            << algorithms()[static_cast<size_t>(i)].name << ' ' << name_of(collective);
      }
}

std::vector<Hierarchy> shapes() {
  return {leaves_of(2, 4, 1),
          leaves_of(2, 4, 1, true),
          leaves_of(3, 2, 2),
          leaves_of(2, 3, 2, true),
          leaves_of({0, 1, 1, 2, 3, 3, 3}, {0, 0, 0, 1, 1, 1, 1}),
          leaves_of({0, 1, 2, 3, 4, 5}, {0, 1, 1, 1, 1, 0})};
}

TEST(CostOfTiers, NothingIsFasterThanTheBound) {
  CostModel dear = with_uplinks(3e-3, 5, 12);
  dear.wire_byte = table(1e-3);
  dear.within.recv_byte = dear.within.long_byte = table(1e-4);
  for (const Hierarchy& shape : shapes())
    for (const CostModel& model : {dear, with_uplinks(0.2, 1, 1)})
      for (const Collective collective : collectives())
        for (const uint64_t bytes : {uint64_t{4}, uint64_t{4} << 10, uint64_t{4} << 20}) {
          const Problem problem = call(collective, bytes, shape.places());
          const double bound = lower_bound(problem, shape.places(), model, &shape);
          for (int i = 0; i < static_cast<int>(algorithms().size()); ++i)
            if (fits(i, collective)) {
              EXPECT_LE(bound, 1.000001 * predict(problem, i, shape.places(), model, &shape))
                  << algorithms()[static_cast<size_t>(i)].name << ' ' << name_of(collective) << ' '
                  << bytes << ' ' << shape.text();
            }
        }
}

TEST(CostOfTiers, TheBestSegmentIsBetterThanItsNeighbours) {
  CostModel model = with_uplinks(3e-3, 20, 40);
  model.wire_byte = table(1e-3);
  const int algorithm = find_algorithm("hierarchical");
  for (const Hierarchy& shape : shapes())
    for (const Collective collective : {Collective::kAllreduce, Collective::kBroadcast,
                                        Collective::kReduce, Collective::kAllgather}) {
      const Problem problem = call(collective, 8 << 20, shape.places());
      const auto time = [&](uint32_t segment) {
        return predict(problem, algorithm, shape.places(), model, &shape, {.segment = segment});
      };
      const uint32_t found = best_segment(problem, shape.places(), model, &shape);
      for (uint32_t segment = 4096; segment <= 8 << 20; segment *= 2)
        EXPECT_LE(time(found), 1.02 * time(segment))
            << name_of(collective) << ' ' << segment << " against " << found << ' ' << shape.text();
    }
}

constexpr double kLatency = 20, kLeafLatency = 30, kWireByte = 1e-3;

CostModel model_of(double uplink_byte) {
  CostModel model = pure(0, 1e-4, kWireByte);
  model.within.alpha = table(2);
  model.between.alpha = table(kLatency);
  model.between.recv_byte = model.between.long_byte = table(0);
  model.tiers.push_back({"leaf", table(kLeafLatency), table(uplink_byte)});
  return model;
}

SimulatedMachine machine_of(const Hierarchy& levels, double uplink_byte) {
  SimulatedMachine machine;
  SimulatedTier leaf{.part_of_host = {}, .latency = kLeafLatency, .wire_byte = uplink_byte};
  for (int rank = 0; rank < levels.places(); ++rank)
    machine.seats.push_back({.core = rank, .host = levels.part_of(0, rank)});
  for (int host = 0; host < levels.parts(0); ++host)
    leaf.part_of_host.push_back(levels.part_of(1, levels.members(0, host).front()));
  machine.within = {.latency = 2, .recv_byte = 1e-4};
  machine.between = {.latency = kLatency, .wire_byte = kWireByte};
  machine.tiers.push_back(leaf);
  return machine;
}

double ratio_to_simulated(Collective collective, std::string_view name, uint64_t bytes,
                          const Hierarchy& levels, double uplink_byte) {
  Problem problem = call(collective, bytes, levels.places());
  problem.check = false;
  const int algorithm = find_algorithm(name);
  const Hierarchy simple = levels.simplified();
  std::vector<Schedule> schedules;
  for (int rank = 0; rank < levels.places(); ++rank)
    schedules.push_back(build_schedule(problem, Group::everyone(levels.places(), rank, &simple),
                                       algorithms()[static_cast<size_t>(algorithm)]));
  return predict(problem, algorithm, levels.places(), model_of(uplink_byte), &levels) /
         simulate(schedules, machine_of(levels, uplink_byte)).seconds;
}

TEST(CostOfTiers, IsWhatTheSimulatorTakes) {
  using enum Collective;
  struct Row {
    std::string_view name;
    std::vector<Collective> collectives;
    double least, most;
  };
  const std::vector<Row> rows = {
      {"ring", {kAllreduce, kAllgather, kReduceScatter}, 0.6, 1.5},
      {"recursive_doubling", {kAllreduce}, 0.6, 1.75},  // as if its pairs filled leaf by leaf
      {"leaders", {kAllreduce, kBroadcast, kReduce, kBarrier, kGather, kScatter}, 0.6, 1.5},
      {"hierarchical", {kAllreduce, kAllgather, kReduceScatter, kAlltoall}, 0.6, 1.5},
      {"hierarchical", {kReduce, kBroadcast}, 0.6, 1.6}};
  for (const Hierarchy& levels :
       {leaves_of(2, 4, 1), leaves_of(2, 4, 1, true), leaves_of(3, 2, 2), leaves_of(2, 3, 2, true)})
    for (const double uplink : {0.25 * kWireByte, kWireByte, 4 * kWireByte})
      for (const Row& row : rows)
        for (const Collective collective : row.collectives)
          for (const uint64_t bytes : {uint64_t{4} << 10, uint64_t{256} << 10, uint64_t{8} << 20}) {
            const double ratio = ratio_to_simulated(collective, row.name, bytes, levels, uplink);
            EXPECT_GT(ratio, row.least) << row.name << ' ' << name_of(collective) << ' ' << bytes
                                        << ' ' << levels.text() << ' ' << uplink;
            EXPECT_LT(ratio, row.most) << row.name << ' ' << name_of(collective) << ' ' << bytes
                                       << ' ' << levels.text() << ' ' << uplink;
          }
}

MeasuredLink link_of(double us, double rate, double busy_rate, int pairs) {
  return {.latency_us = us,
          .busy_latency_us = us,
          .GBps = rate,
          .busy_GBps = busy_rate,
          .pairs = pairs};
}

TEST(CostOfTiers, MeasuredLinksAreThoseOfTheLevelOfTheirName) {
  MeasuredLinks links{.between = link_of(20, 1, 1, 1)};
  links.beyond.push_back({"leaf", link_of(50, 1, 0.25, 4)});
  const auto network = measured_network(links, 4, leaves_of(2, 4, 1));
  ASSERT_TRUE(network);
  ASSERT_EQ(network->model.tiers.size(), 1U);
  const TierCost& leaf = network->model.tiers.front();
  EXPECT_EQ(leaf.name, "leaf");
  EXPECT_NEAR(*leaf.alpha.value, 50, 1e-9);
  EXPECT_NEAR(*leaf.uplink_byte.value, 1e-3, 1e-12);
  EXPECT_EQ(leaf.uplink_byte.source, Source::kMeasured);
  EXPECT_NEAR(*network->model.wire_byte.value, 1e-3, 1e-12);
}

// Ranks that know hosts alone may have any two of them on different leaves.
TEST(CostOfTiers, ALevelThatNobodyKnowsMakesHostsAsSlow) {
  MeasuredLinks links{.between = link_of(20, 1, 1, 1)};
  links.beyond.push_back({"leaf", link_of(50, 0.5, 0.25, 4)});
  const Hierarchy hosts = Hierarchy::of_labels("host", std::vector<int>{0, 1, 2, 3});
  const auto network = measured_network(links, 4, hosts);
  ASSERT_TRUE(network);
  EXPECT_TRUE(network->model.tiers.empty());
  EXPECT_NEAR(*network->model.between.alpha.value, 50, 1e-9);
  EXPECT_NEAR(*network->model.wire_byte.value, 4e-3, 1e-12);
}

}  // namespace
}  // namespace banyan::cost_tiers_test
