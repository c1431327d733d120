// Makes a communicator out of ranks that can exchange bytes: settings compared, links, verdict
// board, transports, and a last round in which all agree that it worked.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <memory>

#include "banyan/status.h"
#include "src/base/clock.h"
#include "src/exchange.h"
#include "src/membership.h"

namespace banyan {

// Collective over the ranks of the exchange. What goes wrong on one rank is returned on all of them
// (kMismatch where settings differ), unless a rank disappears: then kPeerLost or kTimeout.
Result<std::unique_ptr<Membership>> assemble(Exchange& exchange, Settings settings,
                                             TimePoint deadline);

// Which of `offered` (indices into transport_kinds(), preferred first) carries bytes to each rank.
// Pure. kUnsupported names two ranks that no transport connects, and what is missing.
Result<std::vector<int>> choose_routes(std::span<const LinkPeer> peers, int rank,
                                       std::span<const int> offered);

}  // namespace banyan
