// SPDX-License-Identifier: Apache-2.0

#include "topology/processors.h"

#include <fmt/core.h>

#include <utility>

namespace banyan {

namespace {

int cores_of(const Processors& processors, const CpuSet& cpus) {
  int count = 0;
  for (CpuSet core : processors.cores) {
    core &= cpus;
    count += core.empty() ? 0 : 1;
  }
  return count;
}

// Finds the smallest part that holds all of the set. Among equals it is a NUMA domain, and the
// first, since hwloc gives memory without processors those that it is near to. No domain is in
// another.
int holder_of(const Topology& topology, int node,
              const std::vector<std::pair<int, CpuSet>>& holders, VertexKind kind,
              const CpuSet& cpus) {
  const auto is_numa = [&](int vertex) {
    return topology.vertices[static_cast<size_t>(vertex)].kind == VertexKind::kNuma;
  };
  int holder = node;
  int least = kMostCpus + 1;
  for (const auto& [vertex, held] : holders) {
    if (cpus.empty() || !held.contains(cpus)) continue;
    if (kind == VertexKind::kNuma && is_numa(vertex)) continue;
    const bool inner = is_numa(vertex) && !is_numa(holder);
    if (held.count() > least || (held.count() == least && !inner)) continue;
    holder = vertex;
    least = held.count();
  }
  return holder;
}

}  // namespace

void add_processors(Topology& topology, int node, const Processors& processors) {
  const auto describe = [&](int vertex, CpuSet cpus) {
    Vertex& each = topology.vertices[static_cast<size_t>(vertex)];
    cpus &= processors.allowed;
    each.cores = cores_of(processors, cpus);
    each.cpus = std::move(cpus);
  };
  describe(node, processors.allowed);
  std::vector<std::pair<int, CpuSet>> holders;
  const auto usable = [&](CpuSet cpus) {
    cpus &= processors.allowed;
    return !cpus.empty();
  };
  const auto add = [&](VertexKind kind, std::string name, const ProcessorPart& part) {
    const int vertex =
        add_vertex(topology, {.kind = kind,
                              .name = std::move(name),
                              .parent = holder_of(topology, node, holders, kind, part.cpus),
                              .index = part.index,
                              .memory = part.memory});
    describe(vertex, part.cpus);
    return vertex;
  };
  std::vector<std::pair<int, CpuSet>> added;
  for (const ProcessorPart& package : processors.packages) {
    if (!usable(package.cpus)) continue;
    const int vertex = add(VertexKind::kPackage, fmt::format("package{}", package.index), package);
    topology.vertices[static_cast<size_t>(vertex)].vendor = processors.vendor;
    topology.vertices[static_cast<size_t>(vertex)].model = processors.model;
    added.emplace_back(vertex, package.cpus);
  }
  holders.insert(holders.end(), added.begin(), added.end());
  std::vector<int> numas;
  for (const ProcessorPart& numa : processors.numas) {
    numas.push_back(add(VertexKind::kNuma, fmt::format("numa{}", numa.index), numa));
    holders.emplace_back(numas.back(), numa.cpus);
  }
  int caches = 0;
  for (const ProcessorPart& cache : processors.caches)
    if (usable(cache.cpus)) add(VertexKind::kCache, fmt::format("l3-{}", caches++), cache);
  const Figure bandwidth =
      interconnect_bandwidth(processors.vendor, processors.family, processors.model_number);
  for (size_t a = 0; a < numas.size(); ++a) {
    for (size_t b = a + 1; b < numas.size(); ++b) {
      const bool same = ancestor(topology, numas[a], VertexKind::kPackage) >= 0 &&
                        ancestor(topology, numas[a], VertexKind::kPackage) ==
                            ancestor(topology, numas[b], VertexKind::kPackage);
      // The table is of what joins packages; inside one nobody says.
      topology.edges.push_back(
          {.from = numas[a],
           .to = numas[b],
           .kind = EdgeKind::kCpuInterconnect,
           .bandwidth = same ? Figure{std::nullopt, Source::kTable} : bandwidth,
           .text = processors.distances.empty()
                       ? std::string()
                       : fmt::format("distance {}", processors.distances[a][b])});
    }
  }
}

int numa_vertex(const Topology& topology, int node, int index) {
  for (size_t i = 0; index >= 0 && i < topology.vertices.size(); ++i)
    if (topology.vertices[i].kind == VertexKind::kNuma && topology.vertices[i].index == index &&
        ancestor(topology, static_cast<int>(i), VertexKind::kNode) == node)
      return static_cast<int>(i);
  return node;
}

Figure interconnect_bandwidth(const std::string& vendor, int family, int model) {
  if (vendor == "AuthenticAMD") return {16, Source::kTable};
  if (vendor == "ARM") return {6, Source::kTable};
  if (vendor != "GenuineIntel" || family != 6) return {std::nullopt, Source::kTable};
  if (model >= 207) return {40, Source::kTable};  // Emerald Rapids
  if (model >= 143) return {22, Source::kTable};  // Sapphire Rapids
  if (model >= 85) return {10, Source::kTable};   // Skylake
  return {6, Source::kTable};                     // Broadwell
}

}  // namespace banyan
