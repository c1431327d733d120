// banyan.h: what would be done for a call, and why.
// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "algorithms/cost/cost.h"
#include "src/c_api/arguments.h"
#include "src/c_api/inspect.h"
#include "src/c_api/structs.h"

using banyan::Code;
using banyan::Result;
using banyan::Status;

namespace {

// Predicts by what was measured of a network, and by nothing else of it.
std::string predicted(const banyan::Problem& problem, const banyan::Candidate& candidate,
                      const banyan::Membership& membership,
                      const std::optional<banyan::CostModel>& model) {
  if (!model) return "-";
  const banyan::MeasuredNetwork* network = membership.measured();
  return fmt::format(
      "{:.2f}", predict(problem, candidate.algorithm, membership.size(), *model,
                        network == nullptr ? nullptr : &network->levels, candidate.parameters));
}

// Where the figures come from that predictions go by.
std::string sources_of(const std::optional<banyan::CostModel>& model) {
  if (!model) return "no predictions: the network between the hosts was not measured";
  if (model->within.long_byte.source == banyan::Source::kMeasured ||
      model->wire_byte.source == banyan::Source::kMeasured)
    return "predictions by what messages took when these ranks met, or a tuning file has, and by a "
           "table";
  return "predictions by a table, unchecked here: nothing was measured when these ranks met";
}

Result<std::string> table_of(banyan_comm_t comm, const banyan::Problem& problem,
                             const banyan::Membership& membership) {
  const auto model = banyan::model_of(comm);
  BANYAN_TRY(model.status());
  std::string text = fmt::format("{:<20} {:>7} {:>7} {:>14} {:>14}  {}\n", "algorithm", "rounds",
                                 "steps", "bytes sent", "predicted us", "why");
  for (const banyan::Candidate& each :
       candidates(problem, membership.size(), membership.medium(), membership.settings().rules,
                  &membership.hierarchy(), membership.measured())) {
    const std::string_view name = banyan::algorithms()[static_cast<size_t>(each.algorithm)].name;
    text += each.excluded ? fmt::format("{:<20} {:>7} {:>7} {:>14} {:>14}  left out: {}\n", name,
                                        "-", "-", "-", "-", each.why)
                          : fmt::format("{:<20} {:>7} {:>7} {:>14} {:>14}  {}\n", name, each.rounds,
                                        each.steps, each.bytes_sent,
                                        predicted(problem, each, membership, *model), each.why);
  }
  return text + fmt::format("(rounds, steps and bytes of rank 0; measured times: none; {})\n",
                            sources_of(*model));
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
  const std::string parameters =
      plan->parameters.empty() ? std::string() : fmt::format("({})", plan->parameters);
  std::string whole_text =
      fmt::format("{} of {} {} on {} ranks ({}) over {}: {}{}\n", name_of(problem.collective),
                  problem.count, name_of(problem.type), membership.size(),
                  membership.hierarchy().text(), plan->transports, plan->algorithm, parameters);
  if (membership.size() > 1 && !is_message(problem.collective)) {
    const Result<std::string> table = table_of(comm, problem, membership);
    BANYAN_TRY(table.status());
    whole_text += *table;
  }
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
