// banyan.h: what would be done for a call, and why.
// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "src/c_api/arguments.h"
#include "src/c_api/inspect.h"
#include "src/c_api/structs.h"

using banyan::Code;
using banyan::Result;
using banyan::Status;

namespace {

// Times come with the cost model; until then a candidate shows what they will be made of.
std::string table_of(const std::vector<banyan::Candidate>& candidates) {
  std::string text = fmt::format("{:<20} {:>7} {:>7} {:>14}  {}\n", "algorithm", "rounds", "steps",
                                 "bytes sent", "why");
  for (const banyan::Candidate& each : candidates) {
    const std::string_view name = banyan::algorithms()[static_cast<size_t>(each.algorithm)].name;
    text += each.excluded ? fmt::format("{:<20} {:>7} {:>7} {:>14}  left out: {}\n", name, "-", "-",
                                        "-", each.why)
                          : fmt::format("{:<20} {:>7} {:>7} {:>14}  {}\n", name, each.rounds,
                                        each.steps, each.bytes_sent, each.why);
  }
  return text + "(of rank 0; predicted times: not modelled in this version; measured: none)\n";
}

Status explain(banyan_comm_t comm, const banyan_call_t* given, char* text, size_t* bytes) {
  if (bytes == nullptr) return {Code::kInvalidArgument, "bytes is NULL"};
  if (given == nullptr) return {Code::kInvalidArgument, "call is NULL"};
  if (text == nullptr && *bytes != 0)
    return {Code::kInvalidArgument, "text is NULL and *bytes is not 0"};
  const Result<banyan::OpenCommunicator*> found = banyan::find_communicator(comm);
  BANYAN_TRY(found.status());
  const banyan_call_t defaults = BANYAN_CALL_INIT;
  const Result<banyan_call_t> whole = banyan::complete_struct(given, defaults, "call");
  BANYAN_TRY(whole.status());
  const Result<banyan::Call> call = banyan::check_call(**found, *whole);
  BANYAN_TRY(call.status());
  const Result<banyan::CallPlan> plan = banyan::plan_of(comm, *whole);
  BANYAN_TRY(plan.status());

  const banyan::Membership& membership = *(*found)->membership;
  const banyan::Problem& problem = call->problem;
  std::string whole_text = fmt::format(
      "{} of {} {} on {} ranks over {}: {}\n", name_of(problem.collective), problem.count,
      name_of(problem.type), membership.size(), plan->transports, plan->algorithm);
  if (membership.size() > 1 && !is_message(problem.collective))
    whole_text += table_of(
        candidates(problem, membership.size(), membership.medium(), membership.settings().rules));
  if (*bytes != 0) {
    const size_t copied = std::min(*bytes - 1, whole_text.size());
    std::memcpy(text, whole_text.data(), copied);
    text[copied] = '\0';
  }
  *bytes = whole_text.size() + 1;
  return {};
}

}  // namespace

banyan_result_t banyan_explain(banyan_comm_t comm, const banyan_call_t* call, char* text,
                               size_t* bytes) {
  return banyan::door(comm, [&] { return explain(comm, call, text, bytes); });
}
