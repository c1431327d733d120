// The shape of the arithmetic that transports and the engine call without knowing what it computes.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>

namespace banyan {

// Computes dst[i] = local[i] (+) f(incoming[i]) for `count` elements. dst may equal local; incoming
// overlaps neither.
using CombineKernel = void (*)(void* dst, const void* local, const void* incoming, size_t count);

}  // namespace banyan
