// SPDX-License-Identifier: Apache-2.0

#include "topology/processors.h"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <memory>
#include <utility>

#include "src/base/parse.h"

namespace banyan {

namespace {

constexpr std::string_view kCpus = "/sys/devices/system/cpu";
constexpr std::string_view kNodes = "/sys/devices/system/node";

// The number that a text begins with; -1: none.
int64_t leading_number(std::string_view text) {
  int64_t value = -1;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

// The set that a list holds; empty where it is none.
CpuSet set_of(const std::string& list) {
  const auto set = parse_cpu_list(list);
  return set.ok() ? *set : CpuSet();
}

// "KEY : value" of /proc files.
std::string field(const std::string& text, std::string_view key) {
  for (const std::string_view line : split(text, '\n')) {
    const size_t colon = line.find(':');
    if (colon != std::string_view::npos && trim(line.substr(0, colon)) == key)
      return printable(trim(line.substr(colon + 1)));
  }
  return {};
}

CpuSet affinity() {
  // Machines with more processors than a cpu_set_t holds need a larger set.
  for (size_t most = CPU_SETSIZE; most <= size_t{kMostCpus}; most *= 2) {
    const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> set(
        CPU_ALLOC(most), [](cpu_set_t* held) { CPU_FREE(held); });
    const size_t bytes = CPU_ALLOC_SIZE(most);
    if (set == nullptr) break;
    if (::sched_getaffinity(0, bytes, set.get()) != 0) continue;
    CpuSet cpus;
    for (size_t cpu = 0; cpu < most; ++cpu)
      if (CPU_ISSET_S(cpu, bytes, set.get())) cpus.add(static_cast<int>(cpu));
    return cpus;
  }
  return {};
}

// Parts by their number, as they are found processor by processor.
std::vector<ProcessorPart> parts_of(const std::map<int64_t, CpuSet>& sets) {
  std::vector<ProcessorPart> parts;
  for (const auto& [number, cpus] : sets)
    parts.push_back({.index = static_cast<int>(parts.size()), .cpus = cpus});
  return parts;
}

void read_cpus(const SysRoot& root, const CpuSet& online, Processors& found) {
  std::map<int64_t, CpuSet> packages;
  std::map<std::string, CpuSet> cores;
  std::map<std::string, std::pair<CpuSet, uint64_t>> caches;
  for (const int cpu : online.numbers()) {
    const std::string folder = fmt::format("{}/cpu{}", kCpus, cpu);
    const int64_t package = leading_number(root.line(folder + "/topology/physical_package_id"));
    if (package >= 0) packages[package].add(cpu);
    const std::string siblings = root.line(folder + "/topology/thread_siblings_list");
    cores[siblings.empty() ? fmt::format("{}", cpu) : siblings].add(cpu);
    for (const std::string& index : root.list(folder + "/cache")) {
      const std::string cache = fmt::format("{}/cache/{}", folder, index);
      if (root.line(cache + "/level") != "3") continue;
      const std::string shared = root.line(cache + "/shared_cpu_list");
      const auto bytes = parse_size(root.line(cache + "/size"));
      caches[shared] = {set_of(shared), bytes.ok() ? *bytes : 0};
    }
  }
  found.packages = parts_of(packages);
  for (const auto& [siblings, cpus] : cores) found.cores.push_back(cpus);
  for (const auto& [shared, cache] : caches)
    found.caches.push_back({.cpus = cache.first, .memory = cache.second});
}

void read_numas(const SysRoot& root, Processors& found) {
  for (const std::string& name : root.list(kNodes)) {
    const auto number = parse_integer(
        std::string_view(name).substr(std::min<size_t>(4, name.size())), 0, kMostCpus);
    if (!name.starts_with("node") || !number.ok()) continue;
    const std::string folder = fmt::format("{}/{}", kNodes, name);
    ProcessorPart numa{.index = static_cast<int>(*number),
                       .cpus = set_of(root.line(folder + "/cpulist"))};
    const std::string kib =
        field(root.text(folder + "/meminfo"), fmt::format("Node {} MemTotal", *number));
    numa.memory = static_cast<uint64_t>(std::max<int64_t>(0, leading_number(kib))) * 1024;
    found.numas.push_back(std::move(numa));
  }
  std::sort(found.numas.begin(), found.numas.end(),
            [](const auto& a, const auto& b) { return a.index < b.index; });
  for (const ProcessorPart& numa : found.numas) {
    auto& row = found.distances.emplace_back();
    const std::string line = root.line(fmt::format("{}/node{}/distance", kNodes, numa.index));
    for (const std::string_view word : split(line, ' '))
      row.push_back(static_cast<double>(leading_number(word)));
  }
  const bool square =
      std::all_of(found.distances.begin(), found.distances.end(),
                  [&](const auto& row) { return row.size() == found.numas.size(); });
  if (!square) found.distances.clear();
}

int cores_of(const Processors& processors, const CpuSet& cpus) {
  int count = 0;
  for (CpuSet core : processors.cores) {
    core &= cpus;
    count += core.empty() ? 0 : 1;
  }
  return count;
}

// Of parts, the smallest that holds all of the set; among equals a NUMA domain, and the first,
// since hwloc gives memory without processors those that it is near to. No domain is in another.
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

Processors read_processors(const SysRoot& root) {
  Processors found;
  CpuSet online = set_of(root.line(fmt::format("{}/online", kCpus)));
  const std::string status = root.text("/proc/self/status");
  found.allowed = root.real() ? affinity() : set_of(field(status, "Cpus_allowed_list"));
  if (online.empty()) online = found.allowed;
  if (found.allowed.empty()) found.allowed = online;
  found.allowed &= online;
  read_cpus(root, online, found);
  read_numas(root, found);
  const std::string cpuinfo = root.text("/proc/cpuinfo");
  found.vendor = field(cpuinfo, "vendor_id");
  found.model = field(cpuinfo, "model name");
  found.family = static_cast<int>(leading_number(field(cpuinfo, "cpu family")));
  found.model_number = static_cast<int>(leading_number(field(cpuinfo, "model")));
  return found;
}

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
      topology.links.push_back(
          {.from = numas[a],
           .to = numas[b],
           .kind = LinkKind::kCpuInterconnect,
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
