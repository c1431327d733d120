// Puts the parts of the verifier together.
// SPDX-License-Identifier: Apache-2.0

#include "algorithms/verify/verify.h"

#include <algorithm>
#include <numeric>
#include <thread>
#include <utility>
#include <vector>

#include "algorithms/verify/verify_parts.h"

namespace banyan {
namespace {

// The lists that a `v` call needs have an entry for each rank.
ScheduleFault check_lists(const Problem& problem, size_t ranks) {
  const bool receives =
      problem.collective == Collective::kAllgatherv || problem.collective == Collective::kAlltoallv;
  const bool sends = problem.collective == Collective::kAlltoallv;
  const bool counts = receives || problem.collective == Collective::kReduceScatterv;
  if ((counts && problem.recv_counts.size() != ranks) ||
      (receives && problem.recv_displacements.size() != ranks) ||
      (sends &&
       (problem.send_counts.size() != ranks || problem.send_displacements.size() != ranks)))
    return "a list has no entry for each rank";
  return {};
}

ScheduleFault check_problems(const VerifiedCall& call) {
  if (call.ranks == 0 || call.schedules.size() != call.problems.size())
    return "there is not one schedule and one problem for each rank";
  if (is_message(call.collective)) return "a single message is no collective";
  const Problem& first = call.problems.front();
  if (first.keeps_left && !may_keep_left(first)) return "it keeps what it cannot leave";
  if (first.root < 0 || first.root >= call.ranks)
    return "there is no rank " + std::to_string(first.root);
  for (int rank = 0; rank < call.ranks; ++rank) {
    const Problem& problem = call.problems[static_cast<size_t>(rank)];
    if (problem.collective != first.collective || problem.type != first.type ||
        problem.op != first.op || problem.count != first.count || problem.root != first.root ||
        problem.check != first.check || problem.keeps_left != first.keeps_left)
      return "rank " + std::to_string(rank) + " has another call than rank 0";
    ScheduleFault fault = check_lists(problem, static_cast<size_t>(call.ranks));
    if (!fault.empty()) return "rank " + std::to_string(rank) + ": " + fault;
  }
  return {};
}

ScheduleFault verify_call(const VerifiedCall& call, const VerifyOptions& options) {
  ScheduleFault fault = check_problems(call);
  if (!fault.empty()) return fault;
  Symbols symbols(call.ranks,
                  call.reduces && !call.needs_decode ? SymbolStage::kPartial : SymbolStage::kRaw,
                  options.by_content);
  std::vector<Layout> layouts;
  layouts.reserve(call.schedules.size());
  for (int rank = 0; rank < call.ranks; ++rank) layouts.push_back(layout_of(call, symbols, rank));
  fault = check_structure(call, layouts);
  if (fault.empty()) fault = check_races(call, options.seed);
  if (fault.empty()) fault = execute(call, std::move(layouts), symbols, options);
  return fault;
}

}  // namespace

ScheduleFault check_each(int ranks, const std::function<ScheduleFault(int)>& check) {
  constexpr int kMany = 4096;
  const auto cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  std::vector<ScheduleFault> faults(ranks < kMany ? 1 : static_cast<size_t>(cores));
  const auto look = [&](size_t share) {
    const Part part = part_of(static_cast<uint64_t>(ranks), static_cast<int>(faults.size()),
                              static_cast<int>(share));
    for (uint64_t rank = part.begin; rank < part.begin + part.count; ++rank) {
      faults[share] = check(static_cast<int>(rank));
      if (!faults[share].empty()) return;
    }
  };
  std::vector<std::thread> others;
  for (size_t share = 1; share < faults.size(); ++share) others.emplace_back(look, share);
  look(0);
  for (std::thread& other : others) other.join();
  const auto found = std::find_if(faults.begin(), faults.end(),
                                  [](const ScheduleFault& fault) { return !fault.empty(); });
  return found == faults.end() ? ScheduleFault{} : *found;
}

std::vector<int32_t> VerifiedCall::window_ranks(int rank) const {
  std::vector<int32_t> listed = schedules[static_cast<size_t>(rank)].window_ranks;
  if (!listed.empty()) return listed;
  listed.resize(static_cast<size_t>(ranks));
  std::iota(listed.begin(), listed.end(), 0);
  return listed;
}

VerifiedCall::VerifiedCall(std::span<const Schedule> all_schedules,
                           std::span<const Problem> all_problems, bool messages_are_direct)
    : schedules(all_schedules),
      problems(all_problems),
      direct(messages_are_direct),
      ranks(static_cast<int>(schedules.size())) {
  if (problems.empty()) return;
  const Problem& problem = problems.front();
  collective = problem.collective;
  type = problem.type;
  op = problem.op;
  reduces = banyan::reduces(collective);
  accumulator = reduces ? problem.accumulator() : type;
  needs_decode = reduces && (accumulator != type || op == ReduceOp::kPreMulSum);
  needs_encode = reduces && (accumulator != type || op == ReduceOp::kAvg);
}

Verification verify(std::span<const Schedule> schedules, std::span<const Problem> problems,
                    const VerifyOptions& options) {
  ScheduleFault fault = verify_call(VerifiedCall(schedules, problems, options.direct), options);
  return {fault.empty(), std::move(fault)};
}

}  // namespace banyan
