// SPDX-License-Identifier: Apache-2.0

#include "topology/discovery/read_processors.h"

#include <fmt/core.h>
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

constexpr std::string_view kCpuFolder = "/sys/devices/system/cpu";
constexpr std::string_view kNodeFolder = "/sys/devices/system/node";

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
    const std::string folder = fmt::format("{}/cpu{}", kCpuFolder, cpu);
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
  for (const std::string& name : root.list(kNodeFolder)) {
    const auto number = parse_integer(
        std::string_view(name).substr(std::min<size_t>(4, name.size())), 0, kMostCpus);
    if (!name.starts_with("node") || !number.ok()) continue;
    const std::string folder = fmt::format("{}/{}", kNodeFolder, name);
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
    const std::string line = root.line(fmt::format("{}/node{}/distance", kNodeFolder, numa.index));
    for (const std::string_view word : split(line, ' '))
      row.push_back(static_cast<double>(leading_number(word)));
  }
  const bool square =
      std::all_of(found.distances.begin(), found.distances.end(),
                  [&](const auto& row) { return row.size() == found.numas.size(); });
  if (!square) found.distances.clear();
}

}  // namespace

void complete_memory(const SysRoot& root, Processors& processors) {
  if (processors.numas.size() != 1) return;
  const int64_t kib = leading_number(field(root.text("/proc/meminfo"), "MemTotal"));
  uint64_t& memory = processors.numas.front().memory;
  memory = std::max(memory, static_cast<uint64_t>(std::max<int64_t>(0, kib)) * 1024);
}

Processors read_processors(const SysRoot& root) {
  Processors found;
  CpuSet online = set_of(root.line(fmt::format("{}/online", kCpuFolder)));
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

}  // namespace banyan
