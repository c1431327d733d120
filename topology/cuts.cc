// SPDX-License-Identifier: Apache-2.0

#include "topology/cuts.h"

#include <algorithm>
#include <map>

#include "topology/pci.h"

namespace banyan {
namespace {

struct Sum {
  int seats = 0;
  int numas = 0;          // inside, of a node in all of it
  int interconnects = 0;  // that cross the cut
  bool hangs = false;     // a GPU: one of them is its way to the processor
  double bandwidth = 0;   // of the edges that do
  bool known = true;
  bool doubtful = false;
  Source source = Source::kMeasured;
};
using Sums = std::map<int, Sum>;  // by vertex

bool is_part(VertexKind kind) {
  return kind == VertexKind::kPackage || kind == VertexKind::kNuma ||
         kind == VertexKind::kPciSwitch || kind == VertexKind::kGpu;
}

// No data of ranks goes there.
bool manages_nvswitch(const Topology& topology, const Edge& edge) {
  const auto is_one = [&](int vertex) {
    return topology.vertices[static_cast<size_t>(vertex)].kind == VertexKind::kNvSwitch;
  };
  return edge.kind == EdgeKind::kPcie && (is_one(edge.from) || is_one(edge.to));
}

bool stays_in_node(EdgeKind kind) {
  return kind != EdgeKind::kMemory && kind != EdgeKind::kShm && kind != EdgeKind::kNetwork;
}

// Gives the vertex and what holds it, up to its node. NVSwitches are joined to each other, which no
// edge may say, so that they are in no part, wherever they hang.
std::vector<int> holders_of(const Topology& topology, int vertex) {
  std::vector<int> holders;
  if (topology.vertices[static_cast<size_t>(vertex)].kind == VertexKind::kNvSwitch) return holders;
  for (int at = vertex; at >= 0; at = topology.vertices[static_cast<size_t>(at)].parent) {
    const VertexKind kind = topology.vertices[static_cast<size_t>(at)].kind;
    if (is_part(kind) || kind == VertexKind::kNode) holders.push_back(at);
    if (kind == VertexKind::kNode) break;
  }
  return holders;
}

void cross(const Edge& edge, const std::vector<int>& inside, const std::vector<int>& outside,
           Sums& sums) {
  for (const int holder : inside) {
    if (std::find(outside.begin(), outside.end(), holder) != outside.end()) continue;
    Sum& sum = sums[holder];
    sum.interconnects += edge.kind == EdgeKind::kCpuInterconnect ? 1 : 0;
    sum.hangs = sum.hangs || edge.kind == EdgeKind::kPcie || edge.kind == EdgeKind::kC2c;
    const Figure bandwidth = bandwidth_of(edge);
    sum.known = sum.known && bandwidth.known();
    sum.doubtful = sum.doubtful || bandwidth.doubtful;
    sum.bandwidth += bandwidth.value.value_or(0);
    sum.source = std::max(sum.source, bandwidth.source);
  }
}

}  // namespace

std::vector<PartCut> part_cuts(const Topology& topology, std::span<const int> seats) {
  Sums sums;
  for (const int seat : seats)
    for (const int holder : holders_of(topology, seat)) ++sums[holder].seats;
  for (const int numa : vertices_of(topology, VertexKind::kNuma))
    for (const int holder : holders_of(topology, numa)) ++sums[holder].numas;
  const bool processors = std::all_of(seats.begin(), seats.end(), [&](int seat) {
    return topology.vertices[static_cast<size_t>(seat)].kind == VertexKind::kNuma;
  });
  for (const Edge& edge : topology.edges) {
    if (processors && edge.kind != EdgeKind::kCpuInterconnect) continue;
    if (!stays_in_node(edge.kind) || manages_nvswitch(topology, edge)) continue;
    const std::vector<int> from = holders_of(topology, edge.from);
    const std::vector<int> to = holders_of(topology, edge.to);
    cross(edge, from, to, sums);
    cross(edge, to, from, sums);
  }
  std::vector<PartCut> cuts;
  for (const auto& [vertex, sum] : sums) {
    const VertexKind kind = topology.vertices[static_cast<size_t>(vertex)].kind;
    if (!is_part(kind) || !sum.known || !(sum.bandwidth > 0)) continue;
    const Sum& node = sums[ancestor(topology, vertex, VertexKind::kNode)];
    if (sum.seats == 0 || sum.seats == node.seats) continue;
    const bool processors_inside = kind == VertexKind::kPackage || kind == VertexKind::kNuma;
    if (processors_inside && sum.interconnects < std::max(node.numas - sum.numas, 1)) continue;
    if (kind == VertexKind::kGpu && !sum.hangs) continue;
    cuts.push_back({vertex, sum.seats, {sum.bandwidth, sum.source, sum.doubtful}});
  }
  return cuts;
}

}  // namespace banyan
