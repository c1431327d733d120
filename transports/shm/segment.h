// How a rank lays out its segment, and whether that of a peer can be one.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <cstdint>

#include "banyan/status.h"
#include "transports/shm/channel.h"

namespace banyan::shm {

// Few ranks get rings that are longer than the L2 cache, many get shorter slots: the segment stays
// below 8 MiB as long as slots of 512 bytes allow it. What is left is for windows of messages.
Layout choose_layout(size_t peers);
// What a segment of `bytes` bytes claims to be, if that is possible and it comes from `peer`.
// `facts` is a private copy.
Result<Layout> checked_layout(const SegmentFacts& facts, size_t bytes, int peer, uint32_t epoch);

}  // namespace banyan::shm
