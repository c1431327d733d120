// What the edges across the cut around a part of a node carry.
// SPDX-License-Identifier: Apache-2.0

#include "topology/cuts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "tests/support/machines.h"
#include "topology/compose.h"
#include "topology/paths.h"

namespace banyan::cuts_test {
namespace {

using test::Box;
using test::machine;

std::vector<int> gpus_of(const Topology& topology) {
  return vertices_of(topology, VertexKind::kGpu);
}

// By the kinds of parts: GB/s of the last.
std::map<VertexKind, double> cuts_of(const Topology& topology, const std::vector<int>& seats) {
  std::map<VertexKind, double> found;
  for (const PartCut& cut : part_cuts(topology, seats))
    found[topology.vertices[static_cast<size_t>(cut.vertex)].kind] = *cut.bandwidth.value;
  return found;
}

bool holds(const Topology& topology, int part, int vertex) {
  for (; vertex >= 0; vertex = topology.vertices[static_cast<size_t>(vertex)].parent)
    if (vertex == part) return true;
  return false;
}

// A path from inside to outside is part of what crosses the cut.
TEST(PartCuts, CarryWhatAnyPathAcrossThemDoes) {
  int crossing = 0;
  for (const Box& box : test::boxes())
    for (const int nodes : {1, 2}) {
      const Result<Topology> many = multiply(machine(box), nodes);
      ASSERT_TRUE(many.ok()) << many.status().message();
      const Paths paths(*many);
      std::vector<int> seats = gpus_of(*many);
      if (seats.empty()) seats = vertices_of(*many, VertexKind::kNuma);
      for (const PartCut& cut : part_cuts(*many, seats)) {
        const int node = ancestor(*many, cut.vertex, VertexKind::kNode);
        int inside = 0;
        for (const int from : seats) {
          if (!holds(*many, cut.vertex, from)) continue;
          ++inside;
          for (const int to : seats) {
            if (holds(*many, cut.vertex, to) || !holds(*many, node, to)) continue;
            ++crossing;
            const Figure path = paths.between(from, to).bandwidth;
            if (path.known()) {
              EXPECT_LE(*path.value, *cut.bandwidth.value * 1.000001) << box.name;
            }
          }
        }
        EXPECT_EQ(inside, cut.seats);
      }
    }
  EXPECT_GT(crossing, 100);
}

TEST(PartCuts, AreThoseOfPackagesNumaDomainsAndPciSwitches) {
  Box box;
  const Topology topology = machine(box);
  const std::vector<int> gpus = gpus_of(topology);
  EXPECT_EQ(cuts_of(topology, gpus), (std::map<VertexKind, double>{{VertexKind::kPackage, 22},
                                                                   {VertexKind::kNuma, 22},
                                                                   {VertexKind::kPciSwitch, 31.5},
                                                                   {VertexKind::kGpu, 31.5}}));
  const auto cuts = part_cuts(topology, gpus);
  EXPECT_EQ(cuts.size(), 2U + 2U + 4U + 8U);
  // Ranks that are all in one part cross no cut around it.
  EXPECT_EQ(cuts_of(topology, {gpus[0], gpus[1]}),
            (std::map<VertexKind, double>{{VertexKind::kGpu, 31.5}}));
  EXPECT_TRUE(part_cuts(topology, {}).empty());

  box.numas_per_package = 2;  // two domains on each side, each linked to all others
  EXPECT_EQ(cuts_of(machine(box), gpus_of(machine(box)))[VertexKind::kPackage], 88);
  EXPECT_EQ(cuts_of(machine(box), gpus_of(machine(box)))[VertexKind::kNuma], 66);
}

// GPUs reach each other through NVSwitches, wherever those hang.
TEST(PartCuts, HaveTheEdgesToNvswitches) {
  Box box;
  box.nvswitches = 6;
  const Topology topology = machine(box);
  auto cuts = cuts_of(topology, gpus_of(topology));
  EXPECT_EQ(cuts[VertexKind::kPackage], 22 + 4 * 6 * 50);
  EXPECT_EQ(cuts[VertexKind::kPciSwitch], 31.5 + 2 * 6 * 50);
  EXPECT_EQ(cuts[VertexKind::kGpu], 31.5 + 6 * 50);
  // But processors do not.
  cuts = cuts_of(topology, vertices_of(topology, VertexKind::kNuma));
  EXPECT_EQ(cuts[VertexKind::kPackage], 22);
}

TEST(PartCuts, AreUnknownWhereAnEdgeIs) {
  Topology topology = machine({});
  for (Edge& edge : topology.edges)
    if (edge.kind == EdgeKind::kCpuInterconnect) edge.bandwidth = {};
  EXPECT_EQ(
      cuts_of(topology, gpus_of(topology)),
      (std::map<VertexKind, double>{{VertexKind::kPciSwitch, 31.5}, {VertexKind::kGpu, 31.5}}));
  std::erase_if(topology.edges,
                [](const Edge& edge) { return edge.kind == EdgeKind::kCpuInterconnect; });
  EXPECT_EQ(cuts_of(topology, gpus_of(topology)).count(VertexKind::kPackage), 0U);
}

// Nobody says how fast a GPU is to the processor whose edge there is missing.
TEST(PartCuts, OfGpusNeedTheWayToTheProcessor) {
  Box box;
  box.nvswitches = 6;
  Topology topology = machine(box);
  const int gpu = gpus_of(topology).front();
  const auto has_edge = [&] {
    const auto cuts = part_cuts(topology, gpus_of(topology));
    return std::any_of(cuts.begin(), cuts.end(),
                       [&](const PartCut& cut) { return cut.vertex == gpu; });
  };
  EXPECT_TRUE(has_edge());
  std::erase_if(topology.edges,
                [&](const Edge& edge) { return edge.kind == EdgeKind::kPcie && edge.from == gpu; });
  EXPECT_FALSE(has_edge());
}

}  // namespace
}  // namespace banyan::cuts_test
