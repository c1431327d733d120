// What the links across the edge of a part of a node carry.
// SPDX-License-Identifier: Apache-2.0

#include "topology/edges.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "tests/support/machines.h"
#include "topology/compose.h"
#include "topology/paths.h"

namespace banyan {
namespace {

using test::Box;
using test::machine;

std::vector<int> gpus_of(const Topology& topology) {
  return vertices_of(topology, VertexKind::kGpu);
}

// By the kinds of parts: GB/s of the last.
std::map<VertexKind, double> edges_of(const Topology& topology, const std::vector<int>& seats) {
  std::map<VertexKind, double> found;
  for (const PartEdge& edge : part_edges(topology, seats))
    found[topology.vertices[static_cast<size_t>(edge.vertex)].kind] = *edge.bandwidth.value;
  return found;
}

bool holds(const Topology& topology, int part, int vertex) {
  for (; vertex >= 0; vertex = topology.vertices[static_cast<size_t>(vertex)].parent)
    if (vertex == part) return true;
  return false;
}

// A path from inside to outside is part of what crosses the edge.
TEST(PartEdges, CarryWhatAnyPathAcrossThemDoes) {
  int crossing = 0;
  for (const Box& box : test::boxes())
    for (const int nodes : {1, 2}) {
      const Result<Topology> many = multiply(machine(box), nodes);
      ASSERT_TRUE(many.ok()) << many.status().message();
      const Paths paths(*many);
      std::vector<int> seats = gpus_of(*many);
      if (seats.empty()) seats = vertices_of(*many, VertexKind::kNuma);
      for (const PartEdge& edge : part_edges(*many, seats)) {
        const int node = ancestor(*many, edge.vertex, VertexKind::kNode);
        int inside = 0;
        for (const int from : seats) {
          if (!holds(*many, edge.vertex, from)) continue;
          ++inside;
          for (const int to : seats) {
            if (holds(*many, edge.vertex, to) || !holds(*many, node, to)) continue;
            ++crossing;
            const Figure path = paths.between(from, to).bandwidth;
            if (path.known()) {
              EXPECT_LE(*path.value, *edge.bandwidth.value * 1.000001) << box.name;
            }
          }
        }
        EXPECT_EQ(inside, edge.seats);
      }
    }
  EXPECT_GT(crossing, 100);
}

TEST(PartEdges, AreThoseOfPackagesNumaDomainsAndPciSwitches) {
  Box box;
  const Topology topology = machine(box);
  const std::vector<int> gpus = gpus_of(topology);
  EXPECT_EQ(edges_of(topology, gpus), (std::map<VertexKind, double>{{VertexKind::kPackage, 22},
                                                                    {VertexKind::kNuma, 22},
                                                                    {VertexKind::kPciSwitch, 31.5},
                                                                    {VertexKind::kGpu, 31.5}}));
  const auto edges = part_edges(topology, gpus);
  EXPECT_EQ(edges.size(), 2U + 2U + 4U + 8U);
  // All ranks in one part cross no edge of it.
  EXPECT_EQ(edges_of(topology, {gpus[0], gpus[1]}),
            (std::map<VertexKind, double>{{VertexKind::kGpu, 31.5}}));
  EXPECT_TRUE(part_edges(topology, {}).empty());

  box.numas_per_package = 2;  // two domains on each side, each linked to all others
  EXPECT_EQ(edges_of(machine(box), gpus_of(machine(box)))[VertexKind::kPackage], 88);
  EXPECT_EQ(edges_of(machine(box), gpus_of(machine(box)))[VertexKind::kNuma], 66);
}

// GPUs reach each other through NVSwitches, wherever those hang.
TEST(PartEdges, HaveTheLinksToNvswitches) {
  Box box;
  box.nvswitches = 6;
  const Topology topology = machine(box);
  auto edges = edges_of(topology, gpus_of(topology));
  EXPECT_EQ(edges[VertexKind::kPackage], 22 + 4 * 6 * 50);
  EXPECT_EQ(edges[VertexKind::kPciSwitch], 31.5 + 2 * 6 * 50);
  EXPECT_EQ(edges[VertexKind::kGpu], 31.5 + 6 * 50);
  // But processors do not.
  edges = edges_of(topology, vertices_of(topology, VertexKind::kNuma));
  EXPECT_EQ(edges[VertexKind::kPackage], 22);
}

TEST(PartEdges, AreUnknownWhereALinkIs) {
  Topology topology = machine({});
  for (Link& link : topology.links)
    if (link.kind == LinkKind::kCpuInterconnect) link.bandwidth = {};
  EXPECT_EQ(
      edges_of(topology, gpus_of(topology)),
      (std::map<VertexKind, double>{{VertexKind::kPciSwitch, 31.5}, {VertexKind::kGpu, 31.5}}));
  std::erase_if(topology.links,
                [](const Link& link) { return link.kind == LinkKind::kCpuInterconnect; });
  EXPECT_EQ(edges_of(topology, gpus_of(topology)).count(VertexKind::kPackage), 0U);
}

// Nobody says how fast a GPU is to the processor whose link there is missing.
TEST(PartEdges, OfGpusNeedTheWayToTheProcessor) {
  Box box;
  box.nvswitches = 6;
  Topology topology = machine(box);
  const int gpu = gpus_of(topology).front();
  const auto has_edge = [&] {
    const auto edges = part_edges(topology, gpus_of(topology));
    return std::any_of(edges.begin(), edges.end(),
                       [&](const PartEdge& edge) { return edge.vertex == gpu; });
  };
  EXPECT_TRUE(has_edge());
  std::erase_if(topology.links,
                [&](const Link& link) { return link.kind == LinkKind::kPcie && link.from == gpu; });
  EXPECT_FALSE(has_edge());
}

}  // namespace
}  // namespace banyan
