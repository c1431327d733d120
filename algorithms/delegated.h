// Calls on memory of GPUs whose bytes something else moves between the ranks of a host, as NCCL
// does: what goes by windows (peers.h), where ranks need not read each other's. Private to this
// folder.
//
// A rank gives from where its elements are, and takes others' blocks to where they belong, or its
// own contributions to a sum to its window, where a kernel folds them. Only a block that would be
// written before it has gone is copied there first.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>

#include "algorithms/builder.h"
#include "algorithms/problem.h"

namespace banyan {

// The round in which ranks agree, and the branch kPeers. `window`: bytes of a window, where this
// many ranks have room for a portion each (delegated_room()).
void add_delegated(ScheduleBuilder& builder, const Problem& problem, const Group& group,
                   uint64_t window);

}  // namespace banyan
