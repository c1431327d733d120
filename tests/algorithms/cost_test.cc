// Predictions of algorithms are compared with the simulator (on hosts: cost_hosts_test.cc), with
// numbers worked out by hand, and with the bound.
// SPDX-License-Identifier: Apache-2.0

#include "algorithms/cost/cost.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "algorithms/algorithms.h"
#include "algorithms/choice/machine_cost.h"
#include "algorithms/verify/simulate.h"
#include "tests/algorithms/cost_models.h"

namespace banyan::cost_test {
namespace {

Hierarchy hosts_of(int hosts, int each, bool round_robin = false) {
  std::vector<int> labels;
  for (int place = 0; place < hosts * each; ++place)
    labels.push_back(round_robin ? place % hosts : place / each);
  return Hierarchy::of_labels("host", labels);
}

constexpr uint64_t kSizes[] = {4,         64,      1 << 10,  4 << 10,  16 << 10, 64 << 10,
                               256 << 10, 1 << 20, 16 << 20, 64 << 20, 1 << 30};

std::vector<CostModel> models(int ranks) {
  CostModel rails = pure(3, 1e-4, 4e-5);
  rails.nics = 4;
  rails.cores = 2;
  rails.turn = table(1);
  rails.within.overhead = rails.between.overhead = table(0.3);
  rails.reduce_byte = table(1e-4);
  rails.codec_byte = table(5e-5);
  rails.cache_bytes = 1 << 20;
  rails.within.far_byte = table(2e-4);
  CostModel sockets = pure(5, 1e-4, 1e-3);
  sockets.parts = {{"package", 4, table(5e-4)}, {"numa", 2, table(1e-3)}};
  return {memory_model(ranks, ranks), memory_model(ranks, 2), pure(5, 1e-4, 1e-3), rails, sockets};
}

// There are eight hosts of eight; a byte between hosts is ten times as dear as inside, without
// latency; in units of the vector's bytes.
double of_eight_by_eight(std::string_view name, double nics, bool round_robin = false,
                         int hosts = 8, uint64_t bytes = 1 << 20) {
  CostModel model = pure(0, 1, 10);
  model.nics = nics;
  const Hierarchy levels = hosts_of(hosts, 8, round_robin);
  return predict(call(Collective::kAllreduce, bytes, hosts * 8), find_algorithm(name), hosts * 8,
                 model, &levels) /
         static_cast<double>(bytes);
}

// However ranks are numbered: the ring enters each host once.
TEST(Cost, FlatRingsLeaveEachHostOnce) {
  EXPECT_NEAR(of_eight_by_eight("ring", 1), 19.69, 0.01);
  EXPECT_NEAR(of_eight_by_eight("ring", 8), 19.69, 0.01);  // one ring uses one NIC
  EXPECT_NEAR(of_eight_by_eight("ring", 1, true), 19.69, 0.01);
  EXPECT_NEAR(of_eight_by_eight("ring", 8, true), 19.69, 0.01);
}

TEST(Cost, HostsOfDifferentSizesAreLeftOnceToo) {
  const CostModel model = pure(0, 0, 10);
  const Hierarchy levels = Hierarchy::of_labels("host", std::vector<int>{0, 1, 1, 2, 2, 2, 2, 2});
  const double bytes = 1 << 20;
  const Problem problem = call(Collective::kAllreduce, 1 << 20, 8);
  EXPECT_NEAR(predict(problem, find_algorithm("ring"), 8, model, &levels) / bytes, 17.5, 0.01);
}

TEST(Cost, FarFirstRoundsAreDearBetweenHosts) {
  EXPECT_NEAR(of_eight_by_eight("circulant", 1), 146.6, 0.1);
}

TEST(Cost, LevelsOneAfterTheOtherAndOverlapping) {
  EXPECT_NEAR(of_eight_by_eight("hierarchical", 1), 19.25, 0.01);  // one segment
  EXPECT_NEAR(of_eight_by_eight("hierarchical", 8), 3.94, 0.01);
  const uint64_t long_vector = uint64_t{1} << 30;  // 64 segments
  const double inside = 1.75 / 64;
  EXPECT_NEAR(of_eight_by_eight("hierarchical", 1, false, 8, long_vector), 17.5 + inside, 0.01);
  EXPECT_NEAR(of_eight_by_eight("hierarchical", 8, false, 8, long_vector), 2.19 + inside, 0.01);
  EXPECT_NEAR(of_eight_by_eight("hierarchical", 1, false, 2, long_vector), 10.0 + inside, 0.01);
  EXPECT_NEAR(of_eight_by_eight("ring", 1, false, 2), 18.75, 0.01);
  EXPECT_NEAR(of_eight_by_eight("ring", 1, false, 64), 19.96, 0.01);
  EXPECT_NEAR(of_eight_by_eight("hierarchical", 1, false, 64), 21.4, 0.1);
}

TEST(Cost, FewerRailsTakeLongerWhereEachHasANic) {
  CostModel model = pure(0, 1, 10);
  model.nics = 8;
  const Hierarchy levels = hosts_of(8, 8);
  const uint64_t bytes = uint64_t{1} << 30;  // 64 segments
  const Problem problem = call(Collective::kAllreduce, bytes, 64);
  const auto by = [&](uint16_t rails) {
    return predict(problem, find_algorithm("hierarchical"), 64, model, &levels, {.rails = rails}) /
           static_cast<double>(bytes);
  };
  EXPECT_NEAR(by(8), by(0), 1e-9);
  EXPECT_GT(by(1), by(2));
  EXPECT_GT(by(2), by(4));
  EXPECT_GT(by(4), by(8));
}

TEST(Cost, TheBoundIsTheCutAroundAHost) {
  CostModel model = pure(0, 1, 10);
  const Hierarchy levels = hosts_of(8, 8);
  const Problem problem = call(Collective::kAllreduce, 1 << 20, 64);
  EXPECT_NEAR(lower_bound(problem, 64, model, &levels) / (1 << 20), 17.5, 0.01);
  model.nics = 8;
  EXPECT_NEAR(lower_bound(problem, 64, model, &levels) / (1 << 20), 2.19, 0.01);
}

double simulated(const Problem& problem, const Algorithm& algorithm, int ranks, double alpha,
                 double byte, const Parameters& parameters = {}, double overhead = 0) {
  std::vector<Schedule> schedules;
  SimulatedMachine machine;
  for (int rank = 0; rank < ranks; ++rank) {
    schedules.push_back(
        build_schedule(problem, Group::everyone(ranks, rank, nullptr, parameters), algorithm));
    machine.seats.push_back({.core = rank, .host = 0});
  }
  machine.within.latency = alpha;
  machine.within.recv_byte = byte;
  machine.within.send = machine.within.recv = overhead;
  return simulate(schedules, machine).seconds;
}

// They agree within a half: in the simulator a core that has several messages takes them as they
// come, and ranks beyond a power of two are told while others still exchange.
TEST(Cost, IsWhatTheSimulatorTakes) {
  constexpr double kAlpha = 5, kByte = 1e-3;
  const CostModel model = pure(kAlpha, kByte, 0);
  struct Row {
    Collective collective;
    std::vector<std::string_view> algorithms;
  };
  using enum Collective;
  const std::vector<Row> rows = {
      {kAllreduce, {"recursive_doubling", "circulant", "ring", "direct", "pairwise"}},
      {kReduceScatter, {"circulant", "ring", "direct", "pairwise"}},
      {kAllgather, {"ring", "bruck", "direct"}},  // circulant's blocks wait for early ones there
      {kBroadcast, {"binomial", "direct"}},
      {kBarrier, {"recursive_doubling", "dissemination", "direct", "star"}},
  };
  for (const Row& row : rows)
    for (const std::string_view name : row.algorithms)
      for (const int ranks : {2, 3, 4, 6, 7, 8, 16})
        for (const uint64_t bytes : {uint64_t{1} << 10, uint64_t{64} << 10, uint64_t{1} << 20}) {
          const int algorithm = find_algorithm(name);
          const Problem problem = call(row.collective, bytes, ranks);
          const double time = predict(problem, algorithm, ranks, model);
          const double real = simulated(problem, algorithms()[static_cast<size_t>(algorithm)],
                                        ranks, kAlpha, kByte);
          EXPECT_GT(time, 0.65 * real) << name << ' ' << name_of(row.collective) << ' ' << ranks
                                       << ' ' << bytes << ": " << time << " for " << real;
          EXPECT_LE(time, 1.5 * real) << name << ' ' << name_of(row.collective) << ' ' << ranks
                                      << ' ' << bytes << ": " << time << " for " << real;
        }
}

// The same, cut or laid out as parameters say.
TEST(Cost, IsWhatTheSimulatorTakesWithParameters) {
  constexpr double kAlpha = 5, kByte = 1e-3, kOverhead = 0.5;
  CostModel model = pure(kAlpha, kByte, 0);
  model.within.overhead = table(kOverhead);
  for (const char* text :
       {"allreduce:ring(seg=4K)", "allreduce:circulant(seg=4K)", "allreduce:pairwise(seg=4K)",
        "allreduce:torus(dims=4x4)", "allreduce:torus(dims=16)", "allreduce:torus(dims=2x8)"})
    for (const uint64_t bytes : {uint64_t{256} << 10, uint64_t{1} << 20}) {
      const auto rules = parse_rules(text);
      ASSERT_TRUE(rules.ok()) << rules.status().message();
      const Rule& rule = rules->front();
      const Problem problem = call(rule.collectives.front(), bytes, 16);
      const int algorithm = rule.algorithms.front();
      const Parameters& parameters = rule.parameters.front();
      const double time = predict(problem, algorithm, 16, model, nullptr, parameters);
      const double real = simulated(problem, algorithms()[static_cast<size_t>(algorithm)], 16,
                                    kAlpha, kByte, parameters, kOverhead);
      EXPECT_GT(time, 0.65 * real) << text << ' ' << bytes << ": " << time << " for " << real;
      EXPECT_LE(time, 1.5 * real) << text << ' ' << bytes << ": " << time << " for " << real;
      EXPECT_NE(time, predict(problem, algorithm, 16, model)) << text;
    }
}

// The network takes 0.1 of a byte, memory 1: a chain through both goes as fast as memory lets it.
TEST(Cost, PipelinesGoAsFastAsTheirDearestHop) {
  CostModel model = pure(0, 1, 0.1);
  model.between.recv_byte = model.between.long_byte = table(0);
  const Hierarchy hosts = hosts_of(2, 4);
  Problem problem = call(Collective::kBroadcast, 1 << 20, 8);
  problem.check = false;
  const double chunks = 16, hops = 7;
  for (const std::string_view name : {"ring", "double_tree"})
    EXPECT_GE(predict(problem, find_algorithm(name), 8, model, &hosts), 1 << 20) << name;
  EXPECT_NEAR(predict(problem, find_algorithm("ring"), 8, model, &hosts) / (1 << 20),
              1 + (hops - 1) / chunks, 0.01);
}

// A piece of 8 KiB from rank to rank, the next ones behind it; the copy at the root is free here.
TEST(Cost, ChunksOfBroadcastsAreAsLongAsTheySay) {
  const CostModel model = pure(5, 1e-3, 0);
  Problem problem = call(Collective::kBroadcast, 256 << 10, 16);
  problem.check = false;
  Parameters parameters;
  parameters.segment = 8192;
  EXPECT_NEAR(predict(problem, find_algorithm("ring"), 16, model, nullptr, parameters),
              15 * 5 + (14 + 32) * 8.192, 0.01);
  // Two trees of height 4, a chunk of each at a time.
  EXPECT_NEAR(predict(problem, find_algorithm("double_tree"), 16, model, nullptr, parameters),
              4 * 5 + (3 + 2 * 16) * 8.192, 0.01);
}

double with_segment(const Problem& problem, const Hierarchy& hosts, const CostModel& model,
                    Parameters parameters, uint32_t segment) {
  parameters.segment = segment;
  return predict(problem, find_algorithm("hierarchical"), hosts.places(), model, &hosts,
                 parameters);
}

std::vector<CostModel> networks() {
  std::vector<CostModel> all;
  for (const double alpha : {1.0, 10.0, 100.0})
    for (const double inside : {1e-5, 1e-4, 1e-3})
      for (const double wire : {1e-5, 1e-4, 1e-3, 1e-2}) {
        CostModel model = pure(alpha, inside, wire);
        model.within.alpha = table(alpha / 10);
        all.push_back(model);
        model.within.overhead = model.between.overhead = table(alpha / 5);
        model.reduce_byte = table(inside / 3);
        model.nics = 2;
        model.cores = 2;
        all.push_back(model);
      }
  return all;
}

// By any model: as good as whatever length of all, and never worse than the default one.
TEST(Segment, IsTheBestOfAllPowersOfTwo) {
  using enum Collective;
  const std::vector<Hierarchy> shapes = {
      hosts_of(2, 2),       hosts_of(4, 2),
      hosts_of(8, 8),       hosts_of(64, 8),
      hosts_of(4, 4, true), Hierarchy::of_labels("host", std::vector<int>{0, 1, 1, 2, 2, 2})};
  int better = 0;
  for (const Hierarchy& hosts : shapes)
    for (const CostModel& model : networks())
      for (const Collective collective :
           {kAllreduce, kReduce, kBroadcast, kAllgather, kReduceScatter})
        for (const uint64_t bytes : kSizes)
          for (const Parameters& parameters : {Parameters{}, Parameters{.inter = Phase::kRing}}) {
            const Problem problem = call(collective, bytes, hosts.places());
            const uint32_t found = best_segment(problem, hosts.places(), model, &hosts, parameters);
            const double time = with_segment(problem, hosts, model, parameters, found);
            const double by_default = with_segment(problem, hosts, model, parameters, 0);
            ASSERT_LE(time, by_default) << name_of(collective) << ' ' << bytes;
            ASSERT_EQ(time < by_default, found != 0);
            better += static_cast<int>(found != 0);
            for (uint32_t length = 1; length <= kMostSegment; length *= 2)
              ASSERT_LE(time, 1.05 * with_segment(problem, hosts, model, parameters, length))
                  << name_of(collective) << ' ' << bytes << " on " << hosts.text() << ": " << found
                  << " or " << length;
          }
  EXPECT_GT(better, 1000);
}

// The network of two hosts of two takes 1 us a segment and 1e-3 a byte. For a shard of 1 MB that is
// 1000 us; memory, for both halves, takes 100. q = sqrt(100 / 2).
TEST(Segment, FollowsTheClosedForm) {
  CostModel model = pure(0, 1e-4, 1e-3);
  model.between.alpha = table(1);
  const Hierarchy hosts = hosts_of(2, 2);
  const Problem problem = call(Collective::kAllreduce, 2 << 20, 4);
  const uint32_t found = best_segment(problem, 4, model, &hosts);
  const double count = (1 << 20) / static_cast<double>(found);
  const double inside = 2 * 0.5 * (2 << 20) * 1e-4;
  EXPECT_NEAR(std::log2(count), std::log2(std::sqrt(inside / 2)), 1);
}

TEST(Segment, IsAQuestionOfHierarchicalOnHosts) {
  const CostModel model = pure(1, 1e-4, 1e-3);
  const Hierarchy hosts = hosts_of(4, 2);
  const Hierarchy flat;
  EXPECT_GT(best_segment(call(Collective::kAllreduce, 4 << 20, 8), 8, model, &hosts), 0U);
  EXPECT_EQ(best_segment(call(Collective::kAllreduce, 4 << 20, 8), 8, model, &flat), 0U);
  EXPECT_EQ(best_segment(call(Collective::kAllreduce, 4 << 20, 8), 8, model, nullptr), 0U);
  EXPECT_EQ(best_segment(call(Collective::kAlltoall, 4 << 20, 8), 8, model, &hosts), 0U);
  EXPECT_EQ(best_segment(call(Collective::kAllreduce, 0, 8), 8, model, &hosts), 0U);
}

TEST(Cost, NoAlgorithmIsBelowTheBound) {
  const std::vector<Hierarchy> shapes = {
      Hierarchy(),
      hosts_of(4, 2),
      hosts_of(2, 8),
      hosts_of(8, 8),
      hosts_of(8, 1),
      hosts_of(4, 4, true),
      Hierarchy::of_labels("host", std::vector<int>{0, 1, 1, 2, 2, 2}),
      Hierarchy::of_labels("host", std::vector<int>{0, 1, 2, 1, 2, 2}),
      Hierarchy::of_labels("host", std::vector<int>{0, 0, 0, 0, 0, 1, 2}),
      Hierarchy::of_labels("host", std::vector<int>{0, 1, 2, 0, 1, 2, 0, 1, 0, 1, 0, 0, 0, 0})};
  for (const Hierarchy& shape : shapes)
    for (int ranks : {2, 3, 5, 6, 8, 13, 64, 1000}) {
      if (shape.depth() > 0) ranks = shape.places();
      for (const CostModel& model : models(ranks))
        for (const Collective collective : collectives())
          for (const uint64_t bytes : kSizes)
            for (const DataType type : {DataType::kFloat32, DataType::kBfloat16}) {
              Problem problem = call(collective, bytes, ranks, type);
              problem.root = type == DataType::kFloat32 ? 0 : ranks - 1;
              const double bound = lower_bound(problem, ranks, model, &shape);
              for (int i = 0; i < static_cast<int>(algorithms().size()); ++i) {
                if (!fits(i, collective)) continue;
                for (const Parameters& parameters :
                     {Parameters{},
                      Parameters{.segment = 4096, .intra = Phase::kDirect, .inter = Phase::kRing}})
                  ASSERT_LE(bound, 1.000001 * predict(problem, i, ranks, model, &shape, parameters))
                      << text_of(i, parameters) << ' ' << name_of(collective) << ' ' << bytes
                      << " on " << ranks << ", " << shape.text();
              }
            }
      if (shape.depth() > 0) break;
    }
}

// By the host whose cut has most to carry.
TEST(Cost, BoundOfHostsOfDifferentSizes) {
  const Hierarchy hosts = Hierarchy::of_labels("host", std::vector<int>{0, 1, 1, 2, 2, 2});
  const auto bound = [&](Collective collective, int root) {
    Problem problem = call(collective, 4096, 6);
    problem.root = root;
    return lower_bound(problem, 6, pure(0, 0, 1), &hosts) / 4096;
  };
  EXPECT_DOUBLE_EQ(bound(Collective::kAlltoall, 0), 9);
  EXPECT_DOUBLE_EQ(bound(Collective::kAllgather, 0), 5);
  EXPECT_DOUBLE_EQ(bound(Collective::kReduceScatter, 0), 5);
  EXPECT_DOUBLE_EQ(bound(Collective::kGather, 0), 5);
  EXPECT_DOUBLE_EQ(bound(Collective::kScatter, 5), 3);
}

// Five of eight ranks share an edge; on four such hosts what is theirs may also go over two NICs.
TEST(Cost, BoundOfTheEdgesOfParts) {
  using enum Collective;
  CostModel model = pure(0, 0, 0);
  model.parts = {{"package", 5, table(1)}, {"pci_switch", 2, table(0.1)}};
  const auto bound = [&](Collective collective, int ranks, const Hierarchy* hosts) {
    const Problem problem = call(collective, 4096, ranks);
    const double least = lower_bound(problem, ranks, model, hosts);
    for (int i = 0; i < static_cast<int>(algorithms().size()); ++i) {
      if (fits(i, collective)) {
        EXPECT_GE(predict(problem, i, ranks, model, hosts), least);
      }
    }
    return least / 4096;
  };
  EXPECT_DOUBLE_EQ(bound(kAllreduce, 8, nullptr), 1);
  EXPECT_DOUBLE_EQ(bound(kBroadcast, 8, nullptr), 1);
  EXPECT_DOUBLE_EQ(bound(kAllgather, 8, nullptr), 5);
  EXPECT_DOUBLE_EQ(bound(kAlltoall, 8, nullptr), 15);
  EXPECT_DOUBLE_EQ(bound(kGather, 8, nullptr), 3);
  EXPECT_DOUBLE_EQ(bound(kBarrier, 8, nullptr), 0);
  EXPECT_DOUBLE_EQ(bound(kAlltoall, 5, nullptr), 0.6);  // of the others
  const Hierarchy hosts = hosts_of(4, 8);
  EXPECT_DOUBLE_EQ(bound(kAllreduce, 32, &hosts), 0);  // where no NIC limits, no edge does
  model.wire_byte = table(1e-2);
  model.nics = 2;
  EXPECT_DOUBLE_EQ(bound(kAlltoall, 32, &hosts), 8 * 24 * 5e-3);
  model.wire_byte = table(2);
  EXPECT_DOUBLE_EQ(bound(kAlltoall, 32, &hosts), 8 * 24);
}

TEST(Cost, EveryAlgorithmHasAFormula) {
  for (int i = 0; i < static_cast<int>(algorithms().size()); ++i)
    EXPECT_TRUE(has_formula(i)) << algorithms()[static_cast<size_t>(i)].name;
}

TEST(Cost, IsFiniteForAnyNumberOfRanks) {
  for (int ranks = 1; ranks <= 65536; ranks = ranks < 70 ? ranks + 1 : ranks * 3 / 2 + 1)
    for (const Collective collective : collectives()) {
      const Problem problem = call(collective, 1 << 20, ranks);
      for (int i = 0; i < static_cast<int>(algorithms().size()); ++i) {
        if (!fits(i, collective)) continue;
        const double time = predict(problem, i, ranks, memory_model(ranks, 2));
        ASSERT_TRUE(std::isfinite(time) && time > 0) << ranks << ' ' << name_of(collective);
      }
    }
  const Hierarchy levels = hosts_of(8192, 8);
  for (int i = 0; i < static_cast<int>(algorithms().size()); ++i) {
    if (!fits(i, Collective::kAllreduce)) continue;
    EXPECT_TRUE(std::isfinite(predict(call(Collective::kAllreduce, 1 << 30, 65536), i, 65536,
                                      pure(5, 1e-4, 1e-3), &levels)));
  }
}

// There are exceptions where an algorithm changes how it does it: direct at 4 KiB (one shot) and 32
// KiB (staged), long vectors at 16 MiB (segments).
TEST(Cost, GrowsWithBytes) {
  for (const int ranks : {2, 3, 8, 64})
    for (const CostModel& model : models(ranks))
      for (const Collective collective :
           {Collective::kAllreduce, Collective::kAllgather, Collective::kReduceScatter,
            Collective::kBroadcast, Collective::kReduce, Collective::kAlltoall})
        for (int i = 0; i < static_cast<int>(algorithms().size()); ++i) {
          const std::string_view name = algorithms()[static_cast<size_t>(i)].name;
          if (!fits(i, collective) || name == "direct") continue;
          double before = 0;
          for (uint64_t bytes = 4; bytes < (16 << 20); bytes *= 2) {
            const double time = predict(call(collective, bytes, ranks), i, ranks, model);
            EXPECT_GE(time, before)
                << name << ' ' << name_of(collective) << ' ' << bytes << " on " << ranks;
            before = time;
          }
        }
}

}  // namespace
}  // namespace banyan::cost_test
