// Text forms, and what a schedule is asked of.
// SPDX-License-Identifier: Apache-2.0

#include "bench/info/show.h"

#include <fmt/format.h>

#include <numeric>
#include <utility>

#include "algorithms/algorithms.h"
#include "compression/kernels.h"
#include "src/base/parse.h"
#include "src/communicator/settings.h"

namespace banyan::info {

namespace {

constexpr uint64_t kElementsPerRank = 16;

// Packed in rank order.
std::vector<uint64_t> displacements(const std::vector<uint64_t>& counts) {
  std::vector<uint64_t> sums(counts.size());
  std::exclusive_scan(counts.begin(), counts.end(), sums.begin(), uint64_t{0});
  return sums;
}

}  // namespace

std::string show_build(const Build& build, const std::vector<TransportState>& transports,
                       const Machine& machine) {
  std::string text = fmt::format("banyan {}\n", build.version);
  text += fmt::format("build       {}; {}; arithmetic {}\n", build.compiler, build.features,
                      best_kernels().name);
  for (const TransportState& transport : transports)
    text += fmt::format("transport   {:<9} {}\n", transport.name,
                        transport.missing.empty() ? "yes" : "no: " + transport.missing);
  text += fmt::format("host        {}\n", machine.host);
  text += fmt::format("cores       {}{}{}\n", machine.cores, machine.cpu.empty() ? "" : ", ",
                      machine.cpu);
  text += fmt::format("memory      {:.1f} GiB, {:.1f} GiB available\n",
                      static_cast<double>(machine.memory_bytes) / (1 << 30),
                      static_cast<double>(machine.available_bytes) / (1 << 30));
  text += fmt::format("kernel      {}\n", machine.kernel);
  return text;
}

ShownVariable shown_variable(const Variable& variable, const RawEnvironment& raw) {
  const std::string* value = raw.find(variable.name);
  if (value != nullptr) return {variable.secret ? "(set, not shown)" : *value, "environment"};
  ShownVariable unset{std::string(variable.default_value), "default"};
  if (variable.name != "BANYAN_ALGO") return unset;
  const auto file = read_tuning(read_environment(raw).values);
  if (!file.ok() || !file->has_value() || (*file)->rules.empty()) return unset;
  return {(*file)->table(), "file"};
}

std::string show_environment(const RawEnvironment& raw) {
  std::string text;
  for (const Variable& variable : variables()) {
    const auto [value, source] = shown_variable(variable, raw);
    const std::string_view unset = variable.default_value;
    const std::string state = source == "default"
                                  ? fmt::format("{}  [default]", unset.empty() ? "(unset)" : unset)
                                  : fmt::format("{}  [{}; default {}]", printable(value), source,
                                                unset.empty() ? "unset" : unset);
    text += fmt::format("{:<22}{}\n    {}\n", variable.name, state, variable.text);
  }
  return text;
}

std::string show_wrong_variables(const RawEnvironment& raw) {
  std::vector<std::string> warnings = unknown_variables(raw);
  for (const Status& status : wrong_values(raw)) warnings.emplace_back(status.message());
  std::string lines;
  for (const std::string& warning : warnings)
    lines += fmt::format("banyan_info: {}\n", printable(warning));
  return lines;
}

Problem problem_of(const ScheduleRequest& request) {
  Problem problem;
  problem.collective = request.collective;
  const auto ranks = static_cast<size_t>(request.ranks);
  const bool blocks = request.collective != Collective::kAllreduce &&
                      request.collective != Collective::kReduce &&
                      request.collective != Collective::kBroadcast;
  problem.count = blocks ? kElementsPerRank : kElementsPerRank * ranks;
  switch (request.collective) {
    case Collective::kBarrier: problem.count = 0; break;
    case Collective::kAllgatherv:
    case Collective::kReduceScatterv:
    case Collective::kAlltoallv:
      problem.recv_counts.assign(ranks, kElementsPerRank);
      problem.recv_displacements = displacements(problem.recv_counts);
      problem.send_counts = problem.recv_counts;
      problem.send_displacements = problem.recv_displacements;
      break;
    case Collective::kAllreduce:
    case Collective::kReduce:
    case Collective::kBroadcast:
    case Collective::kAllgather:
    case Collective::kReduceScatter:
    case Collective::kAlltoall:
    case Collective::kGather:
    case Collective::kScatter:
    case Collective::kSend:
    case Collective::kRecv:
    case Collective::kFinalize:
    case Collective::kSplit: break;
  }
  return problem;
}

std::vector<int> ranks_of(const ScheduleRequest& request) {
  if (request.rank) return {*request.rank};
  std::vector<int> ranks(static_cast<size_t>(request.ranks));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

Schedule schedule_of(const ScheduleRequest& request, int rank) {
  const auto& algorithm = algorithms()[static_cast<size_t>(request.algorithm)];
  return build_schedule(
      problem_of(request),
      Group::everyone(request.ranks, rank, &request.hierarchy, request.parameters), algorithm);
}

std::string schedule_title(const ScheduleRequest& request) {
  const Problem problem = problem_of(request);
  const std::string op =
      reduces(problem.collective) ? fmt::format(" {}", name_of(problem.op)) : std::string();
  const std::string hosts = request.hierarchy.depth() == 0
                                ? std::string()
                                : fmt::format(" ({})", request.hierarchy.text());
  return fmt::format("{}, {}, {} rank{}{}: {}{}, count {} ({} bytes)", name_of(request.collective),
                     text_of(request.algorithm, request.parameters), request.ranks,
                     request.ranks == 1 ? "" : "s", hosts, name_of(problem.type), op, problem.count,
                     problem.count * problem.element());
}

std::string schedule_header(const ScheduleRequest& request) {
  return fmt::format("# {}\n", schedule_title(request));
}

}  // namespace banyan::info
