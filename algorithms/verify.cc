// Puts the parts of the verifier together.
// SPDX-License-Identifier: Apache-2.0

#include "algorithms/verify.h"

#include <utility>

#include "algorithms/verify_parts.h"

namespace banyan {
namespace {

bool is_reduction(Collective collective) {
  return collective == Collective::kAllreduce || collective == Collective::kReduce ||
         collective == Collective::kReduceScatter || collective == Collective::kReduceScatterv;
}

// The lists that a `v` call needs have an entry for each rank.
Fault check_lists(const Problem& problem, size_t ranks) {
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

Fault check_problems(const VerifiedCall& call) {
  if (call.ranks == 0 || call.schedules.size() != call.problems.size())
    return "there is not one schedule and one problem for each rank";
  if (call.collective == Collective::kSend || call.collective == Collective::kRecv)
    return "a single message is no collective";
  const Problem& first = call.problems.front();
  if (first.root < 0 || first.root >= call.ranks)
    return "there is no rank " + std::to_string(first.root);
  for (int rank = 0; rank < call.ranks; ++rank) {
    const Problem& problem = call.problems[static_cast<size_t>(rank)];
    if (problem.collective != first.collective || problem.type != first.type ||
        problem.op != first.op || problem.count != first.count || problem.root != first.root ||
        problem.check != first.check)
      return "rank " + std::to_string(rank) + " has another call than rank 0";
    Fault fault = check_lists(problem, static_cast<size_t>(call.ranks));
    if (!fault.empty()) return "rank " + std::to_string(rank) + ": " + fault;
  }
  return {};
}

Fault verify_call(const VerifiedCall& call, const VerifyOptions& options) {
  Fault fault = check_problems(call);
  if (!fault.empty()) return fault;
  Symbols symbols(call.ranks,
                  call.reduces && !call.needs_decode ? SymbolStage::kPartial : SymbolStage::kRaw);
  std::vector<Layout> layouts;
  layouts.reserve(call.schedules.size());
  for (int rank = 0; rank < call.ranks; ++rank) layouts.push_back(layout_of(call, symbols, rank));
  fault = check_structure(call, layouts);
  if (fault.empty()) fault = check_races(call, options.seed);
  if (fault.empty()) fault = execute(call, std::move(layouts), symbols, options);
  return fault;
}

}  // namespace

VerifiedCall::VerifiedCall(std::span<const Schedule> all_schedules,
                           std::span<const Problem> all_problems)
    : schedules(all_schedules), problems(all_problems), ranks(static_cast<int>(schedules.size())) {
  if (problems.empty()) return;
  const Problem& problem = problems.front();
  collective = problem.collective;
  type = problem.type;
  op = problem.op;
  reduces = is_reduction(collective);
  accumulator = reduces ? problem.accumulator() : type;
  needs_decode = reduces && (accumulator != type || op == ReduceOp::kPreMulSum);
  needs_encode = reduces && (accumulator != type || op == ReduceOp::kAvg);
}

Verification verify(std::span<const Schedule> schedules, std::span<const Problem> problems,
                    const VerifyOptions& options) {
  Fault fault = verify_call(VerifiedCall(schedules, problems), options);
  return {fault.empty(), std::move(fault)};
}

}  // namespace banyan
