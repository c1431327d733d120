// Which calls go by the memory of peers (peers.h), where ranks may read it, and by which algorithm
// otherwise.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "algorithms/choice/select.h"

namespace banyan {

// Whether a call of that choice goes by windows where all ranks have their buffers on GPUs. Sums
// must be in the order of ranks either way, so whoever names another algorithm has none.
// `wanted`: the algorithm that the call itself names; -1: none.
bool goes_by_peers(const Problem& problem, int ranks, const Rules& rules, int wanted,
                   const Choice& choice);

// What such calls get in place of what they would get elsewhere.
Choice for_peers(const Problem& problem, int ranks, const Rules& rules, int wanted, Choice choice);

// Inside hosts, of which there are several, such calls sum in the order of ranks, by windows or
// not. `levels` are simplified(), and their lowest one is that of hosts.
Choice for_peers_inside(const Problem& problem, int ranks, const Hierarchy& levels, Choice choice);

}  // namespace banyan
