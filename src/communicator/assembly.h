// Makes a communicator out of ranks that can exchange bytes: settings compared, links, verdict
// board, transports, and a last round in which all agree that it worked.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <memory>

#include "banyan/status.h"
#include "src/base/clock.h"
#include "src/bootstrap/exchange.h"
#include "src/communicator/membership.h"
#include "src/tuning/tuning_file.h"

namespace banyan {

// All ranks of the exchange take part. What goes wrong on one rank is returned on all of them
// (kMismatch where settings differ). Where a rank disappears it is kPeerLost or kTimeout.
Result<std::unique_ptr<Membership>> assemble(Exchange& exchange, Settings settings,
                                             TimePoint deadline);

// Where this communicator runs, as a tuning file says it.
Fingerprint fingerprint_of(const Membership& membership);

// Chooses which of `offered` (indices into transport_kinds(), preferred first) carries bytes to
// each rank. Pure. kUnsupported names two ranks that no transport connects, and what is missing.
Result<std::vector<int>> choose_routes(std::span<const LinkPeer> peers, int rank,
                                       std::span<const int> offered);

// Tells how the ranks lie: which share a host, and memory for their messages. Pure, and the same on
// all ranks: it goes by what they have told each other, and leaves out what only some of them can
// see (pids). Flat where `offered` has no transport in memory.
Hierarchy hierarchy_of(std::span<const LinkPeer> peers, std::span<const int> offered);

}  // namespace banyan
