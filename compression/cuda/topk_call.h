// What the kernels that select the largest magnitudes are told: both sides see it.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <cstdint>

#include "compression/cuda/sparse_call.h"
#include "src/base/codec.h"

namespace banyan {

// Magnitudes are told apart digit by digit, the topmost first.
inline constexpr unsigned kTopkDigit = 11;  // bits
inline constexpr unsigned kTopkBins = 1U << kTopkDigit;

struct TopkState {
  uint64_t wanted = 0;     // of those that are as large as is known so far
  uint32_t found = 0;      // the smallest magnitude that is taken, as far as it is known
  uint32_t takes_all = 0;  // 1: of those
};

struct CudaTopkCall {
  std::byte* values = nullptr;  // float32
  uint64_t count = 0;
  uint64_t wanted = 0;   // values, at least one
  uint64_t first = 0;    // place of the first value in its vector
  uint32_t unknown = 0;  // bits of the smallest magnitude that is taken
  uint32_t shift = 0;    // of the digit that becomes known: bits below it
  // Room in the memory of the GPU; the last two as CudaSparseCall has them, for ties.
  TopkState* state = nullptr;
  uint64_t* bins = nullptr;  // kTopkBins
  uint32_t* offsets = nullptr;
  uint64_t* starts = nullptr;
  Selection* selection = nullptr;  // what comes of it
};

}  // namespace banyan
