// A length, in bytes, that several layers go by which do not see each other.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>

namespace banyan {

// A buffer of so much is not in the caches of its core any more when one has gone through it.
inline constexpr uint64_t kUncachedLeast = 16 << 20;

}  // namespace banyan
