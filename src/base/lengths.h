// Lengths, in bytes, that several layers go by which do not see each other.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>

namespace banyan {

// A buffer of so much is not in the caches of its core any more when one has gone through it.
inline constexpr uint64_t kUncachedLeast = 16 << 20;

// Messages of this length and more go the way that costs less (Flow): it is worth looking at a
// clock.
inline constexpr uint64_t kWeighedLeast = 64 << 10;

}  // namespace banyan
