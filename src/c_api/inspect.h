// Tells the programs of this project what a call uses and what this build has.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "algorithms/choice/compression.h"
#include "algorithms/cost/cost.h"
#include "banyan/banyan.h"
#include "banyan/status.h"
#include "src/base/message_times.h"
#include "src/tuning/tuning_file.h"
#include "topology/hierarchy.h"

namespace banyan {

// What a call on a communicator uses.
struct CallPlan {
  std::string algorithm;  // its name
  std::string transports;
  // Bytes that this rank sends for one such call; at most, where the values decide how long codecs'
  // messages are and none was made yet.
  uint64_t bytes_sent;
};
Result<CallPlan> plan_of(banyan_comm_t comm, const banyan_call_t& call);

// For each rank, the lowest rank of its host.
Result<std::vector<int>> hosts_of(banyan_comm_t comm);

// Tells how ranks lie: on which host, also where each has one rank, and above that the parts of the
// network that are known.
Result<Hierarchy> hosts_and_tiers_of(banyan_comm_t comm);

// For each rank, the name of its host.
Result<std::vector<std::string>> host_names_of(banyan_comm_t comm);

// Where this communicator runs, and how many nodes, and ranks of a node, rules count in it.
Result<Fingerprint> fingerprint_of(banyan_comm_t comm);
Result<int> nodes_of(banyan_comm_t comm);
Result<int> ppn_of(banyan_comm_t comm);
// Tells whether its ranks lie in levels, so that what goes by them is another algorithm than the
// flat ones.
Result<bool> has_levels(banyan_comm_t comm);

// What messages between ranks of this host took when they met; empty: nobody measured it.
Result<MessageTimes> message_times_of(banyan_comm_t comm);
// What predictions for its calls go by; nothing: of the network between its hosts nothing is known.
Result<std::optional<CostModel>> model_of(banyan_comm_t comm);

// Puts these rules in the place of the variable's and the tuning file's, from the next call on. All
// ranks do this between the same two calls, while nothing is under way (kInvalidUsage).
Status use_rules(banyan_comm_t comm, const Rules& rules);

// Likewise what calls go by that ask for nothing else, in place of BANYAN_COMPRESS.
Status use_compression(banyan_comm_t comm, const Compression& compression);

// Puts calls into the log, from the next one on, as its levels have it, or only where they fail. A
// program whose own calls would hide those that it measures asks for the latter. plan_of() tells
// the plan of a call that was made while it was not in the log.
Status log_calls(banyan_comm_t comm, bool wanted);
// Whether calls that end well are in the log at all.
Result<bool> logs_calls(banyan_comm_t comm);

// Counts the calls of this rank that went by windows of GPUs (algorithms/peers.h).
Result<uint64_t> calls_by_windows(banyan_comm_t comm);

// One line each: name, whether this build and machine have it, and why not.
struct TransportState {
  std::string name;
  std::string missing;  // empty: it is there
};
std::vector<TransportState> transport_states();

}  // namespace banyan
