// Tells what the tuning that ranks share says of the network between them. Pure, and the same on
// all.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <optional>
#include <span>
#include <vector>

#include "algorithms/choice/measured_choice.h"
#include "algorithms/choice/select.h"
#include "src/liveness/links.h"
#include "src/tuning/tuning_file.h"

namespace banyan {

// For each rank the number of its host; hosts are numbered as they are met.
std::vector<int> host_numbers(std::span<const LinkPeer> peers);

// Tells whether it was tuned with as many ranks on as many hosts over the transports that rank 0
// uses of those `offered` (indices into transport_kinds(), preferred first). Then links are those
// that were measured. Processors may differ. Ranks that are threads of one process do not count as
// such.
bool tuned_for(const Fingerprint& tuned_on, std::span<const LinkPeer> peers,
               std::span<const int> offered);

// Gives nothing where no network connects the ranks, or links were not measured, or the ranks of a
// host do not share its memory. Those that were probed did share it.
std::optional<MeasuredNetwork> network_of(const MeasuredLinks& links, int cores,
                                          std::span<const int> host_of_rank, Medium medium,
                                          const Hierarchy& hierarchy);

}  // namespace banyan
