// Hierarchical is predicted on hosts of one NIC, by its ways and by how many ranks of a host
// exchange with other hosts (rails), and compared with the simulator.
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "algorithms/algorithms.h"
#include "algorithms/cost/cost.h"
#include "algorithms/verify/simulate.h"

namespace banyan::cost_hosts_test {
namespace {

// Microseconds, and of one byte, on the core of the rank that receives it.
struct Network {
  double memory_byte = 1e-4;  // from another rank of its host
  double socket_byte = 0;     // from another host
  double overhead = 0;        // of a message, at each end
};
constexpr double kMemoryLatency = 2, kLatency = 20, kWireByte = 1e-3;

CostModel model_of(const Network& network) {
  const auto table = [](double value) { return Figure{value, Source::kTable}; };
  CostModel model;
  model.within.alpha = table(kMemoryLatency);
  model.between.alpha = table(kLatency);
  model.within.overhead = model.between.overhead = table(network.overhead);
  model.within.recv_byte = model.within.long_byte = table(network.memory_byte);
  model.between.recv_byte = model.between.long_byte = table(network.socket_byte);
  model.wire_byte = table(kWireByte);
  return model;
}

// A core for each rank, a wire for each host.
SimulatedMachine machine_of(const Network& network, const Hierarchy& hosts) {
  SimulatedMachine machine;
  for (int rank = 0; rank < hosts.places(); ++rank)
    machine.seats.push_back({.core = rank, .host = hosts.part_of(0, rank)});
  machine.within = {.latency = kMemoryLatency,
                    .send = network.overhead,
                    .recv = network.overhead,
                    .recv_byte = network.memory_byte};
  machine.between = {.latency = kLatency,
                     .send = network.overhead,
                     .recv = network.overhead,
                     .recv_byte = network.socket_byte,
                     .wire_byte = kWireByte};
  return machine;
}

Hierarchy hosts_of(const std::vector<int>& sizes) {
  std::vector<int> labels;
  for (size_t host = 0; host < sizes.size(); ++host)
    labels.insert(labels.end(), static_cast<size_t>(sizes[host]), static_cast<int>(host));
  return Hierarchy::of_labels("host", labels);
}

struct Times {
  double predicted, simulated;

  double ratio() const { return predicted / simulated; }
};

Problem problem_of(Collective collective, uint64_t bytes) {
  Problem problem;
  problem.collective = collective;
  problem.count = bytes / size_of(problem.type);
  problem.check = false;
  return problem;
}

Times times_of(const Problem& problem, std::string_view name, const Hierarchy& hosts,
               const Network& network, const Parameters& parameters) {
  const int algorithm = find_algorithm(name);
  std::vector<Schedule> schedules;
  for (int rank = 0; rank < hosts.places(); ++rank)
    schedules.push_back(build_schedule(problem,
                                       Group::everyone(hosts.places(), rank, &hosts, parameters),
                                       algorithms()[static_cast<size_t>(algorithm)]));
  return {
      predict(problem, algorithm, hosts.places(), model_of(network), &hosts, parameters),
      simulate(schedules, machine_of(network, hosts)).seconds,
  };
}

Times times_of(Collective collective, uint64_t bytes, const Hierarchy& hosts,
               const Network& network, const Parameters& parameters) {
  return times_of(problem_of(collective, bytes), "hierarchical", hosts, network, parameters);
}

// What is clearly faster in the simulator, so many times, is predicted to be. How many pairs are.
int expect_same_order(const std::vector<Times>& all, double clearly, const std::string& what) {
  int pairs = 0;
  for (const Times& one : all)
    for (const Times& other : all) {
      if (one.simulated * clearly >= other.simulated) continue;
      ++pairs;
      EXPECT_LT(one.predicted, other.predicted)
          << what << ": " << one.simulated << " and " << other.simulated;
    }
  return pairs;
}

// Phases of hierarchical have long segments here: in the simulator the latencies of those that are
// at the top at once are felt once, in the model each by itself.
TEST(CostOnHosts, RanksWaysOfHierarchicalAsTheSimulatorDoes) {
  for (const Hierarchy& hosts : {hosts_of({2, 2, 2, 2}), hosts_of({4, 4, 4, 4, 4, 4, 4, 4})})
    for (const uint64_t bytes : {uint64_t{256} << 10, uint64_t{4} << 20}) {
      const std::string what = hosts.text() + ", " + std::to_string(bytes);
      std::vector<Times> all;
      for (const Parameters& parameters :
           {Parameters{}, Parameters{.segment = 64 << 10}, Parameters{.inter = Phase::kRing},
            Parameters{.segment = 256 << 10, .inter = Phase::kRing},
            Parameters{.intra = Phase::kDirect, .inter = Phase::kDirect},
            Parameters{.intra = Phase::kRing, .inter = Phase::kPairwise}}) {
        all.push_back(times_of(Collective::kAllreduce, bytes, hosts, {}, parameters));
        EXPECT_GT(all.back().ratio(), 0.65) << what;
        EXPECT_LT(all.back().ratio(), 1.5) << what;
      }
      expect_same_order(all, 1.5, what);
    }
}

// A host of few ranks has as many messages to others for each of them as one of many, or more: it
// decides what a root on it takes, and the largest host what pairs do.
TEST(CostOnHosts, FlatAlgorithmsOnHostsOfDifferentSizes) {
  using enum Collective;
  struct Case {
    Collective collective;
    std::string_view algorithm;
  };
  for (const Hierarchy& hosts : {hosts_of({1, 2}), hosts_of({2, 1}), hosts_of({1, 2, 3}),
                                 hosts_of({1, 4}), hosts_of({5, 1, 1})})
    for (const auto& [collective, algorithm] :
         {Case{kBroadcast, "star"}, Case{kBroadcast, "direct"}, Case{kReduce, "star"},
          Case{kAllgather, "direct"}, Case{kAllgather, "circulant"}, Case{kAllgather, "ring"},
          Case{kReduceScatter, "direct"}, Case{kReduceScatter, "circulant"},
          Case{kAllreduce, "circulant"}, Case{kAllreduce, "recursive_doubling"}})
      for (const int root : {0, hosts.places() - 1}) {
        Problem problem = problem_of(collective, uint64_t{1} << 20);
        const bool rooted = collective == kBroadcast || collective == kReduce;
        if (rooted) problem.root = root;
        if (!rooted && root != 0) continue;
        const Times times = times_of(problem, algorithm, hosts, {}, {});
        EXPECT_GT(times.ratio(), 0.6) << algorithm << ", root " << root << ", " << hosts.text();
        EXPECT_LT(times.ratio(), 1.6) << algorithm << ", root " << root << ", " << hosts.text();
      }
}

std::vector<Hierarchy> shapes() {
  return {hosts_of({4, 4}),    hosts_of({4, 4, 4}), hosts_of({4, 4, 4, 4}), hosts_of({4, 2, 3}),
          hosts_of({1, 4, 2}), hosts_of({1, 4}),    hosts_of({4, 3, 1, 2})};
}
constexpr uint64_t kSizes[] = {1 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 64 << 20};

// The ratio of predicted to simulated is within these, and what is so many times faster in the
// simulator is predicted to be faster; 0: nothing is.
struct Agreement {
  double least, most;
  double clearly = 1.25;
};

// By one rail, two and four, for all shapes and sizes; how many pairs differ clearly.
int expect_rails(Collective collective, const Network& network, const Agreement& agreement) {
  int pairs = 0;
  for (const Hierarchy& hosts : shapes())
    for (const uint64_t bytes : kSizes) {
      const std::string what =
          std::string(name_of(collective)) + " of " + std::to_string(bytes) + " on " + hosts.text();
      std::vector<Times> all;
      for (const auto rails : {uint16_t{1}, uint16_t{2}, uint16_t{4}}) {
        all.push_back(times_of(collective, bytes, hosts, network, {.rails = rails}));
        EXPECT_GT(all.back().ratio(), agreement.least) << what << " by " << rails;
        EXPECT_LT(all.back().ratio(), agreement.most) << what << " by " << rails;
      }
      if (agreement.clearly > 0) pairs += expect_same_order(all, agreement.clearly, what);
    }
  return pairs;
}

// What is no chain, a round of blocks and those to or from the root, is predicted too fast by a
// fifth; a chain is not.
TEST(CostOnHosts, RailsWhereTheWireIsSlow) {
  using enum Collective;
  const Network memory;
  const Network sockets{.socket_byte = kWireByte / 2, .overhead = 1};
  int pairs = 0;
  for (const Network& network : {memory, sockets}) {
    pairs += expect_rails(kAllreduce, network, {0.75, 1.35});
    pairs += expect_rails(kReduce, network, {0.75, 1.3, 1.35});
    expect_rails(kBroadcast, network, {0.85, 1.4});
  }
  EXPECT_GT(pairs, 40);
}

// In the model every rail has a rank of its own; where a host has fewer ranks, they have several to
// work on. And the simulator's cores do what could begin first, though others wait for what could
// begin later.
TEST(CostOnHosts, RailsWhereCoresAreAsSlowAsTheWire) {
  using enum Collective;
  const Network sockets{.socket_byte = kWireByte};
  int pairs = expect_rails(kAllreduce, sockets, {0.6, 1.2});
  pairs += expect_rails(kReduce, sockets, {0.6, 1.2, 1.4});
  EXPECT_GT(pairs, 40);
  expect_rails(kBroadcast, sockets, {0.65, 1.3, 1.5});
}

// A broadcast of fewer owners than ranks is not in order at 64 KiB: the root's host passes nothing
// on inside, which the model does not know. Where all own, segments overlap in the model; in the
// simulator a core first does the inside of all segments, which could begin first.
TEST(CostOnHosts, RailsWhereMemoryIsAsSlowAsTheWire) {
  using enum Collective;
  const Network memory{.memory_byte = kWireByte};
  int pairs = expect_rails(kAllreduce, memory, {0.45, 1.2});
  pairs += expect_rails(kReduce, memory, {0.8, 1.6});
  EXPECT_GT(pairs, 100);
  expect_rails(kBroadcast, memory, {0.55, 2.6, 0});
}

}  // namespace
}  // namespace banyan::cost_hosts_test
