// What a kernel is told that combines what several ranks have, and how its work is divided: both
// sides see it.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <cstdint>

#include "compression/cuda/spans.h"

namespace banyan {

inline constexpr unsigned kCudaFoldMost = 16;  // sources

struct CudaFoldCall {
  std::byte* dst = nullptr;
  const std::byte* sources[kCudaFoldMost] = {};
  uint64_t count = 0;
  uint64_t operand = 0;  // of what becomes of the sum, as bits
  // By source, as bits of the accumulator; of those that scale what they add.
  uint64_t factors[kCudaFoldMost] = {};
  uint32_t ranks = 0;  // that many sources are there
};

// Packs where all begin at a multiple of one; 0 where some do not, and single elements are taken.
BANYAN_HOST_DEVICE uint64_t cuda_fold_packs(const CudaFoldCall& call, uint32_t element) {
  auto places = reinterpret_cast<uintptr_t>(call.dst);
  for (unsigned rank = 0; rank < call.ranks; rank++) {
    places |= reinterpret_cast<uintptr_t>(call.sources[rank]);
  }
  return places % kCudaPackBytes == 0 ? call.count / (kCudaPackBytes / element) : 0;
}

// A thread takes a pack, or an element, at a time.
BANYAN_HOST_DEVICE uint64_t cuda_fold_blocks(const CudaFoldCall& call, uint32_t element) {
  const uint64_t packs = cuda_fold_packs(call, element);
  const uint64_t items = packs > 0 ? packs : call.count;
  return (items + kCudaThreads - 1) / kCudaThreads;
}

}  // namespace banyan
