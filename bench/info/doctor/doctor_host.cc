// Processors and memory.
// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include <limits>
#include <string>
#include <utility>

#include "bench/info/doctor/doctor.h"
#include "src/base/parse.h"
#include "topology/cpu_set.h"

namespace banyan {

namespace {

constexpr std::string_view kGroups = "/sys/fs/cgroup";

// The folder of this process there, version 2: "0::/user.slice".
std::string cgroup_folder(const SysRoot& root) {
  const std::string all = root.text("/proc/self/cgroup");
  for (const std::string_view line : split(all, '\n')) {
    if (!line.starts_with("0::/")) continue;
    const std::string_view path = trim(line.substr(3));
    if (path == "/" || path.find("..") != std::string_view::npos) break;
    return fmt::format("{}{}", kGroups, path);
  }
  return std::string(kGroups);
}

struct Limit {
  std::string path{}, text{};
  double value = std::numeric_limits<double>::infinity();
};
// Finds the least of the limits of its group and of the groups above it, which all hold. Infinite:
// there is none. `value_of` reads a text; infinite where it says none.
template <typename ValueOf>
Limit limit_of(const SysRoot& root, std::string_view file, const ValueOf& value_of) {
  Limit least;
  for (std::string folder = cgroup_folder(root);; folder.resize(folder.rfind('/'))) {
    Limit limit{.path = fmt::format("{}/{}", folder, file)};
    limit.text = root.line(limit.path);
    limit.value = value_of(limit.text);
    if (limit.value < least.value) least = std::move(limit);
    if (folder.size() <= kGroups.size()) return least;
  }
}

constexpr double kNone = std::numeric_limits<double>::infinity();

double number_in(std::string_view text) {
  const auto number = parse_integer(text, 1, std::numeric_limits<int64_t>::max());
  return number.ok() ? static_cast<double>(*number) : kNone;
}

// "150000 100000": of microseconds, so many.
double cores_in(std::string_view text) {
  const auto words = split(text, ' ');
  return words.size() == 2 ? number_in(words[0]) / number_in(words[1]) : kNone;
}

const Vertex& node_of(const Topology& topology) {
  for (const Vertex& vertex : topology.vertices)
    if (vertex.kind == VertexKind::kNode) return vertex;
  return topology.vertices.front();
}

void examine_quota(const Patient& patient, std::vector<Finding>& findings) {
  const Limit limit = limit_of(patient.root, "cpu.max", cores_in);
  const double cores = limit.value;
  const auto usable = static_cast<double>(node_of(patient.topology).cpus.count());
  if (usable == 0 || cores >= usable) return;
  findings.push_back(
      {.id = "processors.quota",
       .severity = Severity::kWarning,
       .seen = fmt::format("all ranks here together get the time of {:.3g} of {} processors; one "
                           "that has used it up stops, and all others wait for it",
                           cores, usable),
       .evidence = fmt::format("{}: {}", limit.path, limit.text),
       .fix = "bind the container to whole processors (cpuset) in place of a quota"});
}

// What scales with load says "powersave", too; only these drivers stay slow by it.
void examine_governor(const Patient& patient, std::vector<Finding>& findings) {
  const std::string folder = "/sys/devices/system/cpu/cpu0/cpufreq";
  const std::string governor = patient.root.line(folder + "/scaling_governor");
  const std::string driver = patient.root.line(folder + "/scaling_driver");
  if (governor != "powersave" || driver.empty() || driver == "intel_pstate" ||
      driver.starts_with("amd-pstate") || driver.starts_with("amd_pstate"))
    return;
  findings.push_back(
      {.id = "processors.governor",
       .severity = Severity::kWarning,
       .seen = "processors stay at their lowest frequency",
       .evidence = fmt::format("{}/scaling_governor: {} ({})", folder, governor, driver),
       .fix = "cpupower frequency-set -g performance"});
}

// Whether ranks reach each other by ucx where they share no memory.
bool has_network(const Patient& patient) {
  if (!patient.process.no_ucx.empty()) return false;
  for (const Patient::Missing& each : patient.missing)
    if (each.transport == "ucx") return false;
  const std::string* chosen = patient.raw.find("BANYAN_TRANSPORTS");
  if (chosen == nullptr || chosen->empty()) return true;
  return (chosen->find("ucx") != std::string::npos) != chosen->starts_with('^');
}

size_t numa_domains(const Topology& topology) {
  return vertices_of(topology, VertexKind::kNuma).size();
}

}  // namespace

void examine_processors(const Patient& patient, std::vector<Finding>& findings) {
  constexpr std::string_view kOnline = "/sys/devices/system/cpu/online";
  const auto online = parse_cpu_list(patient.root.line(kOnline));
  const CpuSet& allowed = node_of(patient.topology).cpus;
  if (online.ok() && allowed.count() > 0 && allowed.count() < online->count())
    findings.push_back({.id = "processors.bound",
                        .seen = fmt::format("{} of {} processors may be used: {}", allowed.count(),
                                            online->count(), allowed.list()),
                        .evidence = fmt::format("{}: {}, and the affinity of this process", kOnline,
                                                online->list())});
  examine_quota(patient, findings);
  examine_governor(patient, findings);
  constexpr std::string_view kBalancing = "/proc/sys/kernel/numa_balancing";
  const std::string balancing = patient.root.line(kBalancing);
  if (numa_domains(patient.topology) > 1 && !balancing.empty() && balancing != "0")
    findings.push_back({.id = "memory.balancing",
                        .seen = "the kernel moves pages between NUMA domains while ranks use them",
                        .evidence = fmt::format("{}: {}", kBalancing, balancing),
                        .fix = "bind ranks, and sysctl kernel.numa_balancing=0"});
}

void examine_memory(const Patient& patient, std::vector<Finding>& findings) {
  const bool network = has_network(patient);
  if (!patient.process.no_shared_memory.empty())
    findings.push_back({.id = "memory.share",
                        .severity = network ? Severity::kWarning : Severity::kError,
                        .seen = fmt::format("ranks of this host cannot share memory{}",
                                            network ? "; the network is used in its place" : ""),
                        .evidence = patient.process.no_shared_memory,
                        .fix = patient.process.interrupted
                                   ? "find what sends signals all the time, as timers of profilers "
                                     "do, and have it send fewer"
                                   : "allow memfd_create in the container's seccomp profile"});
  if (!patient.process.no_reading.empty()) {
    constexpr std::string_view kScope = "/proc/sys/kernel/yama/ptrace_scope";
    const std::string scope = patient.root.line(kScope);
    const bool yama = !scope.empty() && scope != "0";
    findings.push_back(
        {.id = "memory.read",
         .severity = Severity::kWarning,
         .seen = "ranks may not read each other's memory: long messages are copied twice",
         .evidence = fmt::format("{}{}", patient.process.no_reading,
                                 yama ? fmt::format("; {}: {}", kScope, scope) : std::string()),
         .fix = yama ? "sysctl kernel.yama.ptrace_scope=0"
                     : "allow process_vm_readv (CAP_SYS_PTRACE, the same user) in the container"});
  }
  if (const Limit limit = limit_of(patient.root, "memory.max", number_in); limit.value < kNone)
    findings.push_back({.id = "memory.limit",
                        .seen = "all ranks here together have a limit of memory, and what they "
                                "share counts",
                        .evidence = fmt::format("{}: {}", limit.path, limit.text)});
}

}  // namespace banyan
