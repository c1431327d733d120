// No prediction of --explain is below its bound, on machines whose parts are joined in many ways;
// nor is what an algorithm could reach that uses their edges as well as can be.
// SPDX-License-Identifier: Apache-2.0

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "algorithms/algorithms.h"
#include "algorithms/choice/show_explanation.h"
#include "bench/info/described.h"
#include "bench/info/show.h"
#include "tests/algorithms/cost_models.h"
#include "tests/support/machines.h"
#include "tests/support/real_machines.h"
#include "topology/formats/import.h"

namespace banyan::info::info_bound_test {
namespace {

using enum Collective;
using ::testing::HasSubstr;

// The edges between them are for the caller to add.
Topology gpus(int count, const std::string& name = "gpus", int per_switch = 2) {
  test::Box box;
  box.name = name;
  box.gpus = count;
  box.gpus_per_switch = per_switch;
  box.nics = {};
  return test::machine(box);
}

void join(Topology& topology, size_t from, size_t to, double rate) {
  const std::vector<int> all = vertices_of(topology, VertexKind::kGpu);
  topology.edges.push_back({.from = all[from],
                            .to = all[to],
                            .kind = EdgeKind::kXgmi,
                            .bandwidth = {rate, Source::kTable}});
}

constexpr double kEdge = 48;  // GB/s

Topology mesh(size_t count = 8) {
  Topology topology = gpus(static_cast<int>(count), "mesh");
  for (size_t from = 0; from < count; ++from)
    for (size_t to = from + 1; to < count; ++to) join(topology, from, to, kEdge);
  return topology;
}

Topology ring() {
  Topology topology = gpus(8, "ring");
  for (size_t from = 0; from < 8; ++from) join(topology, from, (from + 1) % 8, kEdge);
  return topology;
}

// Every GPU has an edge to every other of its island; only PCI joins the two.
Topology two_islands() {
  Topology topology = gpus(8, "islands");
  for (const size_t first : {0U, 4U})
    for (size_t from = first; from < first + 4; ++from)
      for (size_t to = from + 1; to < first + 4; ++to) join(topology, from, to, kEdge);
  return topology;
}

// One GPU has a wide edge and another one a narrow one.
Topology irregular() {
  Topology topology = gpus(5, "irregular", 3);
  for (size_t to = 1; to < 5; ++to) join(topology, 0, to, 40.0 * static_cast<double>(to));
  join(topology, 1, 2, 10);
  join(topology, 3, 4, 200);
  return topology;
}

Topology switched() {
  test::Box box;
  box.name = "switched";
  box.nvswitches = 6;
  return test::machine(box);
}

std::vector<Topology> machines() {
  test::Box tree;
  tree.name = "tree";
  test::Box processors;
  processors.name = "processors";
  processors.gpus = processors.gpus_per_switch = 0;
  processors.numas_per_package = 2;
  // A node with one more NIC, and a narrow one: cables of eight, of four, and none.
  Topology unequal = test::fabric(2, 3);
  for (Vertex& vertex : unequal.vertices)
    if (vertex.kind == VertexKind::kPort && vertex.parent % 3 == 0) vertex.rate.value = 3;
  return {mesh(),
          mesh(2),
          ring(),
          two_islands(),
          irregular(),
          switched(),
          machine(tree),
          machine(processors),
          test::fabric(2, 4),
          unequal};
}

void expect_no_prediction_below(const DescribedMachine& machine, const std::string& name) {
  const int ranks = machine.hierarchy.places();
  for (const Collective collective : collectives())
    for (const uint64_t bytes : {uint64_t{4}, uint64_t{16} << 10, uint64_t{64} << 20}) {
      const Problem problem = call(collective, bytes, ranks);
      const Bound bound = bound_of(problem, ranks, machine.model, &machine.hierarchy);
      for (int i = 0; i < static_cast<int>(algorithms().size()); ++i) {
        if (!fits(i, collective)) continue;
        EXPECT_GE(1.000001 * predict(problem, i, ranks, machine.model, &machine.hierarchy),
                  bound.us)
            << name << ": " << name_of(collective) << ' ' << bytes << " by "
            << algorithms()[static_cast<size_t>(i)].name << ", " << bound.by;
      }
    }
}

TEST(Bound, IsAboveNoPrediction) {
  for (const Topology& topology : machines())
    for (const int nodes : {1, 2, 16}) {
      const auto machine = describe_machine(topology, nodes, 0);
      ASSERT_TRUE(machine.ok()) << machine.status().message();
      const std::string name = topology.vertices.back().name + " of " + std::to_string(nodes);
      expect_no_prediction_below(*machine, name);
    }
}

TEST(Bound, IsAboveNoPredictionOnRealMachines) {
  const auto folder = test::real_machines();
  if (!folder) GTEST_SKIP() << test::kNoRealMachines;
  int machines = 0;
  for (const auto& entry : std::filesystem::directory_iterator(*folder)) {
    const auto topology = import_topology(test::content_of(entry.path()));
    if (!topology.ok()) continue;
    ++machines;
    for (const int nodes : {1, 2, 16}) {
      const auto machine = describe_machine(*topology, nodes, 8);
      ASSERT_TRUE(machine.ok()) << entry.path() << ": " << machine.status().message();
      expect_no_prediction_below(*machine, entry.path().filename().string());
    }
  }
  EXPECT_GE(machines, 7);
}

// GB/s for which `bytes` would be the bound, without what begins a call.
double rate_of(const Topology& topology, Collective collective, double bytes, int nodes = 1) {
  const auto machine = describe_machine(topology, nodes, 0);
  EXPECT_TRUE(machine.ok()) << machine.status().message();
  const int ranks = machine->hierarchy.places();
  const Problem problem = call(collective, uint64_t{1} << 30, ranks);
  const Bound bound = bound_of(problem, ranks, machine->model, &machine->hierarchy);
  return bytes * (uint64_t{1} << 30) * 1e-3 / (bound.us - *machine->model.call.value);
}

constexpr double kPci = 31.5;  // GB/s

// A GPU uses seven edges and the way to the processor at once. An algorithm that sends to all
// others reaches what the seven carry.
TEST(Bound, OfAMeshIsByAllEdgesOfAGpu) {
  EXPECT_NEAR(rate_of(mesh(), kAllreduce, 2 * 7.0 / 8), 7 * kEdge + kPci, 0.1);
  EXPECT_NEAR(rate_of(mesh(), kAllgather, 7), 7 * kEdge + kPci, 0.1);
  EXPECT_NEAR(rate_of(mesh(), kBroadcast, 1), 7 * kEdge + kPci, 0.1);
  EXPECT_NEAR(rate_of(mesh(), kGather, 7), 7 * kEdge + kPci, 0.1);
  EXPECT_NEAR(rate_of(mesh(), kScatter, 7), 7 * kEdge + kPci, 0.1);
  // Between the packages are 16 edges, and 16 blocks for them.
  EXPECT_NEAR(rate_of(mesh(), kAlltoall, 16), 16 * kEdge + 22, 0.1);
}

// What could be reached: all rings that the edges are.
TEST(Bound, OfOtherMachinesIsWithinReach) {
  const double ring_of_all = 2 * 7.0 / 8;
  EXPECT_GE(rate_of(ring(), kAllreduce, ring_of_all), 2 * kEdge);
  EXPECT_LE(rate_of(ring(), kAllreduce, ring_of_all), 2 * kEdge + kPci + 0.1);
  EXPECT_GE(rate_of(switched(), kAllreduce, ring_of_all), 6 * 50);
  EXPECT_LE(rate_of(switched(), kAllreduce, ring_of_all), 6 * 50 + kPci + 0.1);
  // The processors' edge is narrower than what leads to it.
  EXPECT_NEAR(rate_of(two_islands(), kAllgather, 4), 22, 0.1);
  test::Box tree;
  EXPECT_NEAR(rate_of(machine(tree), kAllgather, 7), kPci, 0.1);
  EXPECT_NEAR(rate_of(machine(tree), kAlltoall, 16), 22, 0.1);
}

// The narrowest NIC must carry all of the vector, but not what would leave if all were like it.
TEST(Bound, OfHostsThatDifferIsByWhatEachHas) {
  Topology topology = test::fabric(1, 4);
  const std::vector<int> nics = vertices_of(topology, VertexKind::kNic);
  double narrow = 0, all = 0;
  for (size_t index = 0; index < nics.size(); ++index)
    for (Vertex& port : topology.vertices) {
      if (port.kind != VertexKind::kPort || port.parent != nics[index]) continue;
      port.rate = {index == 0 ? 5.0 : 20.0, Source::kHardware};
    }
  const int first = ancestor(topology, nics.front(), VertexKind::kNode);
  for (const int nic : nics) {
    const double rate = nic == nics.front() ? 5 : 20;
    all += rate;
    if (ancestor(topology, nic, VertexKind::kNode) == first) narrow += rate;
  }
  const auto machine = describe_machine(topology, 1, 1);
  ASSERT_TRUE(machine.ok()) << machine.status().message();
  const double bytes = uint64_t{1} << 30;
  const Problem problem = call(kAllreduce, uint64_t{1} << 30, 4);
  const double network = std::max(bytes * 1e-3 / narrow, 2 * 3 * bytes * 1e-3 / all);
  CostModel wires = machine->model;  // and nothing else
  wires.reduce_byte = wires.reduce_far_byte = wires.codec_byte = table(0);
  EXPECT_NEAR(lower_bound(problem, 4, wires, &machine->hierarchy), network, 0.001 * network);
}

// A machine of which an edge is not known has no such bound, and says so.
TEST(Bound, SaysWhereEdgesAreNotKnown) {
  Topology topology = mesh();
  for (Edge& edge : topology.edges)
    if (edge.kind != EdgeKind::kXgmi) edge.bandwidth = {};
  const auto machine = describe_machine(topology, 1, 0);
  ASSERT_TRUE(machine.ok()) << machine.status().message();
  const Problem problem = call(kAllreduce, 64 << 20, 8);
  const Bound bound = bound_of(problem, 8, machine->model, &machine->hierarchy);
  EXPECT_FALSE(bound.cuts);
  EXPECT_THAT(text_of(bound), HasSubstr("of no part is it known what all its links carry"));
  const auto known = describe_machine(mesh(), 1, 0);
  EXPECT_EQ(text_of(bound_of(problem, 8, known->model, &known->hierarchy)), "edge of a gpu, table");
}

// Whoever sends to all others at once has all edges of a mesh, a ring one.
TEST(Bound, AlgorithmsUseTheEdgesThatTheyHaveMessagesFor) {
  const auto machine = describe_machine(mesh(), 1, 0);
  ASSERT_TRUE(machine.ok());
  const double bytes = uint64_t{1} << 30, block = bytes / 8 * 1e-3;
  CostModel edges = machine->model;
  edges.reduce_byte = edges.codec_byte = edges.copy_byte = edges.within.overhead = table(0);
  const Problem problem = call(kAllreduce, uint64_t{1} << 30, 8);
  const auto takes = [&](std::string_view name) {
    return predict(problem, find_algorithm(name), 8, edges, &machine->hierarchy);
  };
  EXPECT_NEAR(takes("direct"), 2 * block / kEdge, 50);
  EXPECT_NEAR(takes("pairwise"), 2 * block / kEdge, 50);
  EXPECT_NEAR(takes("ring"), 2 * 7 * block / kEdge, 200);
  // A root that sends to all at once has its seven edges for that, too.
  const Problem rooted = call(kBroadcast, uint64_t{1} << 30, 8);
  EXPECT_NEAR(predict(rooted, find_algorithm("direct"), 8, edges, &machine->hierarchy),
              bytes * 1e-3 / kEdge, 100);
  const auto one_edge = describe_machine(switched(), 1, 0);
  CostModel wide = one_edge->model;
  wide.copy_byte = table(0);
  EXPECT_NEAR(predict(rooted, find_algorithm("direct"), 8, wide, &one_edge->hierarchy),
              7 * bytes * 1e-3 / 300, 100);
}

}  // namespace
}  // namespace banyan::info::info_bound_test
