// What several threads of a launch do to one word in memory.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>

#include "compression/cuda/spans.h"

namespace banyan {
namespace {

template <typename Word>
BANYAN_HOST_DEVICE void count_in(Word& bin, Word more) {
#ifdef __CUDA_ARCH__
  atomicAdd(&bin, more);
#else
  bin += more;
#endif
}

// Returns what was there before.
BANYAN_HOST_DEVICE uint32_t set_in(uint32_t& word, uint32_t bits) {
#ifdef __CUDA_ARCH__
  return atomicOr(&word, bits);
#else
  const uint32_t before = word;
  word |= bits;
  return before;
#endif
}

}  // namespace
}  // namespace banyan
