// banyan.h: what would be done for a call, and why.
// SPDX-License-Identifier: Apache-2.0

#include "algorithms/choice/explain.h"

#include <algorithm>
#include <cstring>

#include "algorithms/choice/show_explanation.h"
#include "src/c_api/arguments.h"
#include "src/c_api/inspect.h"
#include "src/c_api/structs.h"
#include "src/tuning/codec_speeds.h"

using banyan::Code;
using banyan::Result;
using banyan::Status;

namespace {

// What the communicator knows of itself.
Result<banyan::CallSite> site_of(banyan_comm_t comm, const banyan::Membership& membership,
                                 const banyan::Call& call) {
  const auto model = banyan::model_of(comm);
  BANYAN_TRY(model.status());
  banyan::CallSite site{.problem = call.problem,
                        .ranks = membership.size(),
                        .medium = membership.medium(),
                        .rules = membership.settings().rules,
                        .hierarchy = membership.hierarchy(),
                        .measured = membership.settings().measured,
                        .model = *model,
                        .parameters = call.parameters,
                        .algorithm = call.algorithm,
                        .transports = membership.transport_names(),
                        .by_peers = membership.may_have_windows(),
                        .by_peers_inside = membership.may_have_windows_inside()};
  const auto times = membership.settings().codec_times();
  site.codec_times.assign(times.begin(), times.end());
  if (!site.problem.compression.is_exact())
    site.codecs = banyan::measure_codecs(banyan::explained_codecs(site.problem.compression));
  // Its own hierarchy has no hosts of one rank each. The ring is that of its schedules.
  if (site.measured) {
    site.hierarchy = site.measured->levels;
    if (membership.hierarchy().has_own_ring())
      site.hierarchy = site.hierarchy.in_ring(membership.hierarchy().ring());
  }
  return site;
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
  const Result<banyan::CallSite> site = site_of(comm, *(*found)->membership, *call);
  BANYAN_TRY(site.status());
  const std::string shown = show_explanation(*site, explain(*site));
  if (*bytes != 0) {
    const size_t copied = std::min(*bytes - 1, shown.size());
    std::memcpy(text, shown.data(), copied);
    text[copied] = '\0';
  }
  *bytes = shown.size() + 1;
  return {};
}

}  // namespace

banyan_result_t banyan_explain(banyan_comm_t comm, const banyan_call_t* call, char* text,
                               size_t* bytes) {
  return banyan::door(comm, [&] { return explain(comm, call, text, bytes); });
}
