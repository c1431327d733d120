// SPDX-License-Identifier: Apache-2.0

#include "bench/info/part_costs.h"

#include <algorithm>
#include <cstdint>

#include "topology/cuts.h"

namespace banyan::info {
namespace {

Figure byte_of(const Figure& rate, double times = 1) {
  Figure byte{std::nullopt, rate.source};
  if (rate.value.value_or(0) > 0) byte.value = kMicrosecondsPerGB / (*rate.value * times);
  return byte;
}

}  // namespace

void PartCosts::add(const std::string& kind, int ranks, const Figure& rate, bool leaves_by_nics) {
  const auto [place, fresh] = alike_.emplace(std::pair(kind, ranks), Alike());
  Alike& alike = place->second;
  alike.leaves_by_nics = leaves_by_nics;
  if (!rate.known()) {
    alike.all_known = false;
    if (fresh) alike.narrowest = rate;
    return;
  }
  ++alike.count;
  if (!alike.narrowest.known() || *rate.value < *alike.narrowest.value) alike.narrowest = rate;
  if (!alike.widest.known() || *rate.value > *alike.widest.value) alike.widest = rate;
  alike.together = alike.together.known() ? sum(alike.together, rate) : rate;
}

std::vector<PartCost> PartCosts::costs(int times) const {
  std::vector<PartCost> costs;
  for (const auto& [key, alike] : alike_) {
    PartCost cost{.name = key.first,
                  .ranks = key.second,
                  .cut_byte = byte_of(alike.narrowest),
                  .leaves_by_nics = alike.leaves_by_nics};
    if (alike.all_known) {
      cost.count = alike.count * times;
      cost.widest_byte = byte_of(alike.widest);
      cost.together_byte = byte_of(alike.together, times);
    }
    costs.push_back(std::move(cost));
  }
  return costs;
}

std::vector<int> seats_of(const Topology& topology, const std::vector<Seated>& nodes) {
  struct Domains {
    std::vector<int> numas;
    std::vector<int64_t> cores;  // of each and those before it
  };
  std::vector<int> seats;
  std::map<int, Domains> domains_of;  // by node
  for (const int numa : vertices_of(topology, VertexKind::kNuma)) {
    const Vertex& vertex = topology.vertices[static_cast<size_t>(numa)];
    const int cores = vertex.cores > 0 ? vertex.cores : static_cast<int>(vertex.cpus.count());
    Domains& all = domains_of[ancestor(topology, numa, VertexKind::kNode)];
    all.numas.push_back(numa);
    all.cores.push_back((all.cores.empty() ? 0 : all.cores.back()) + cores);
  }
  for (const Seated& node : nodes) {
    const auto& [numas, cores] = domains_of[node.vertex];
    const int64_t total = cores.empty() ? 0 : cores.back();
    for (int rank = 0; rank < node.ranks; ++rank)
      if (!node.gpus.empty()) {
        seats.push_back(node.gpus[static_cast<size_t>(rank)]);
      } else if (total > 0) {
        const auto place = std::upper_bound(cores.begin(), cores.end(), rank * total / node.ranks);
        seats.push_back(numas[static_cast<size_t>(place - cores.begin())]);
      }
  }
  return seats;
}

void add_parts_of_nodes(const Topology& topology, const std::vector<Seated>& nodes,
                        PartCosts& costs, std::map<VertexKind, Figure>& shown) {
  for (const auto& [vertex, ranks, bandwidth] : part_cuts(topology, seats_of(topology, nodes))) {
    const VertexKind kind = topology.vertices[static_cast<size_t>(vertex)].kind;
    // No NIC is within a GPU.
    costs.add(std::string(name_of(kind)), ranks, bandwidth, kind != VertexKind::kGpu);
    Figure& narrowest = shown[kind];
    if (!narrowest.known() || *bandwidth.value < *narrowest.value) narrowest = bandwidth;
  }
}

void add_parts_of_tier(const NodeTier& tier, const std::vector<int>& ranks, PartCosts& costs) {
  std::vector<int> seated(tier.uplink.size());
  for (size_t node = 0; node < tier.part.size(); ++node)
    seated[static_cast<size_t>(tier.part[node])] += ranks[node];
  for (size_t part = 0; part < tier.uplink.size(); ++part)
    costs.add(tier.name, seated[part], tier.uplink[part], false);
}

}  // namespace banyan::info
