// SPDX-License-Identifier: Apache-2.0

#include "src/c_api/inspect.h"

#include <algorithm>

#include "algorithms/choice/machine_cost.h"
#include "src/base/parse.h"
#include "src/c_api/arguments.h"
#include "src/c_api/handles.h"
#include "src/communicator/assembly.h"
#include "src/communicator/cluster.h"
#include "src/communicator/tuned_network.h"
#include "topology/discovery/sysfs.h"
#include "transports/transport.h"

namespace banyan {

namespace {

// Linux says it so: "32768K".
uint64_t last_cache_bytes() {
  const auto bytes = parse_size(SysRoot().line("/sys/devices/system/cpu/cpu0/cache/index3/size"));
  return bytes.ok() ? *bytes : 0;
}

}  // namespace

Result<CallPlan> plan_of(banyan_comm_t comm, const banyan_call_t& call) {
  const Result<OpenCommunicator*> found = find_communicator(comm);
  BANYAN_TRY(found.status());
  const Result<Call> checked = check_call(**found, call);
  BANYAN_TRY(checked.status());
  Membership& membership = *(*found)->membership;
  const std::shared_ptr<Plan> plan = Driver(membership)->plan(*checked);
  CallPlan result;
  result.bytes_sent =
      plan->idle.empty() ? plan->schedule.bytes_sent() : plan->idle.back()->execution.bytes_sent();
  result.transports = membership.transport_names();
  if (is_message(checked->problem.collective)) {
    result.algorithm = "message";
  } else if (membership.size() == 1) {
    result.algorithm = "copy";
  } else {
    Parameters codecs;  // of the parameters, only these change what comes out
    codecs.intra_codec = plan->choice.parameters.intra_codec;
    codecs.inter_codec = plan->choice.parameters.inter_codec;
    result.algorithm = text_of(plan->choice.algorithm, codecs);
  }
  return result;
}

Result<std::vector<int>> hosts_of(banyan_comm_t comm) {
  const Result<OpenCommunicator*> found = find_communicator(comm);
  BANYAN_TRY(found.status());
  const auto& peers = (*found)->membership->links().peers;
  std::vector<int> lowest;
  for (const LinkPeer& peer : peers) {
    const auto first = std::find_if(peers.begin(), peers.end(),
                                    [&](const LinkPeer& other) { return other.host == peer.host; });
    lowest.push_back(static_cast<int>(first - peers.begin()));
  }
  return lowest;
}

Result<Hierarchy> hosts_and_tiers_of(banyan_comm_t comm) {
  const Result<OpenCommunicator*> found = find_communicator(comm);
  BANYAN_TRY(found.status());
  const Membership& membership = *(*found)->membership;
  return with_hosts(membership.hierarchy(), host_numbers(membership.links().peers));
}

Result<std::vector<std::string>> host_names_of(banyan_comm_t comm) {
  const Result<OpenCommunicator*> found = find_communicator(comm);
  BANYAN_TRY(found.status());
  std::vector<std::string> names;
  for (const LinkPeer& peer : (*found)->membership->links().peers) names.push_back(peer.host.name);
  return names;
}

Result<Fingerprint> fingerprint_of(banyan_comm_t comm) {
  const Result<OpenCommunicator*> found = find_communicator(comm);
  BANYAN_TRY(found.status());
  return fingerprint_of(*(*found)->membership);
}

Result<int> nodes_of(banyan_comm_t comm) {
  const Result<OpenCommunicator*> found = find_communicator(comm);
  BANYAN_TRY(found.status());
  const Membership& membership = *(*found)->membership;
  return nodes_of(membership.size(), membership.medium(), &membership.hierarchy());
}

Result<int> ppn_of(banyan_comm_t comm) {
  const Result<OpenCommunicator*> found = find_communicator(comm);
  BANYAN_TRY(found.status());
  const Membership& membership = *(*found)->membership;
  return ppn_of(membership.size(), membership.medium(), &membership.hierarchy());
}

Result<bool> has_levels(banyan_comm_t comm) {
  const Result<OpenCommunicator*> found = find_communicator(comm);
  BANYAN_TRY(found.status());
  return (*found)->membership->hierarchy().depth() > 0;
}

Result<MessageTimes> message_times_of(banyan_comm_t comm) {
  const Result<OpenCommunicator*> found = find_communicator(comm);
  BANYAN_TRY(found.status());
  MessageTimes times = (*found)->membership->message_times();
  if (!times.messages.empty()) times.cache_bytes = last_cache_bytes();
  return times;
}

Result<std::optional<CostModel>> model_of(banyan_comm_t comm) {
  const auto times = message_times_of(comm);
  BANYAN_TRY(times.status());
  const Result<OpenCommunicator*> found = find_communicator(comm);
  BANYAN_TRY(found.status());
  const Membership& membership = *(*found)->membership;
  if (const MeasuredNetwork* network = membership.measured(); network != nullptr)
    return std::optional(network->model);
  const Medium medium = membership.medium();
  if (is_network(medium)) return std::optional<CostModel>();
  return std::optional(
      with_message_times(memory_model(membership.size(), medium), *times, membership.size()));
}

namespace {

// Changes what calls go by, where nothing is under way.
template <typename Change>
Status change_calls(banyan_comm_t comm, const Change& change) {
  const Result<OpenCommunicator*> found = find_communicator(comm);
  BANYAN_TRY(found.status());
  OpenCommunicator& communicator = **found;
  Driver driver(*communicator.membership);
  if (driver->busy())
    return {Code::kInvalidUsage, "what calls go by changes only while nothing is under way"};
  communicator.known = KnownCalls();
  change(driver);
  return {};
}

}  // namespace

Status use_rules(banyan_comm_t comm, const Rules& rules) {
  return change_calls(comm, [&](Driver& driver) { driver->use_rules(rules); });
}

Status use_compression(banyan_comm_t comm, const Compression& compression) {
  return change_calls(comm, [&](Driver& driver) { driver->use_compression(compression); });
}

Status log_calls(banyan_comm_t comm, bool wanted) {
  const Result<OpenCommunicator*> found = find_communicator(comm);
  BANYAN_TRY(found.status());
  Driver(*(*found)->membership)->log_calls(wanted);
  return {};
}

Result<bool> logs_calls(banyan_comm_t comm) {
  const Result<OpenCommunicator*> found = find_communicator(comm);
  BANYAN_TRY(found.status());
  return Driver(*(*found)->membership)->logs_calls();
}

Result<uint64_t> calls_by_windows(banyan_comm_t comm) {
  const Result<OpenCommunicator*> found = find_communicator(comm);
  BANYAN_TRY(found.status());
  return Driver(*(*found)->membership)->calls_by_windows();
}

std::vector<TransportState> transport_states() {
  std::vector<TransportState> states;
  for (const TransportKind& kind : transport_kinds())
    states.push_back({std::string(kind.name), kind.missing()});
  return states;
}

}  // namespace banyan
