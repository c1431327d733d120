// Who talks with whom while links are probed.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <vector>

#include "topology/hierarchy.h"

namespace banyan::tune {

// What every rank with a partner does with it, so many times.
struct Probe {
  enum class Kind : uint32_t {
    kRoundTrip,  // a message there, and one back
    kWindow,     // perf::kWindow messages from the lower rank, and an answer
    kExchange,   // a message in each direction at the same time
  };

  Kind kind = Kind::kRoundTrip;
  // Says where pairs are. 0: they share a host. Else it is the lowest level of the hierarchy at
  // which they share a part, or its depth where they share none: 1 between hosts, 2 beyond what is
  // above hosts.
  uint32_t level = 0;
  uint32_t busy = 0;   // 0: one pair of each part; 1: all ranks that find a partner
  uint32_t round = 0;  // less than rounds_of()
  uint64_t bytes = 0;
  uint64_t iterations = 1;
};

// Gives each rank its partner; -1: none. `lie`: how ranks lie, hosts first.
//
// Within a host ranks are partners in the order of their numbers. Else the parts of the level below
// (hosts, leaves) that share one of the probe's level play a tournament of all against all, by
// turning the table: in a round each has another one for a partner, or none. Between hosts the i-th
// rank of one talks with the i-th of the other. Between other parts it talks with one that moves on
// by a host from one meeting to the next.
std::vector<int> partners_of(const Hierarchy& lie, const Probe& probe);
// Gives enough rounds that every two hosts of that level meet where parts are equal, but no more
// than 16; within hosts 1. 0: nobody has a partner at that level.
uint32_t rounds_of(const Hierarchy& lie, uint32_t level);

}  // namespace banyan::tune
