// What a codec's kernel is told, and how its work is divided: both sides see it.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <cstdint>

#include "compression/cuda/fold_call.h"
#include "compression/cuda/spans.h"

namespace banyan {

struct CudaCodecCall {
  std::byte* message = nullptr;
  std::byte* values = nullptr;
  std::byte* other = nullptr;  // of an encoder what is left, or null; of a sum its addend
  uint64_t count = 0;
  // What goes by chance has Coding::first, and the key and the words of codecs/chance.h.
  uint64_t first = 0;
  uint32_t key[2] = {};
  uint32_t step = 0;
  uint32_t tensor = 0;
  uint32_t by_chance = 0;  // 0: nothing does
  uint32_t spoilt = 0;     // 1: of a decoder of onebit, whose message says NaN
};

// What combines the messages of several ranks is told this, and encodes the sum: into
// `encode.message`, which may be one of the sources. Nothing else of `encode` points anywhere.
struct CudaCodedFold {
  CudaCodecCall encode{};
  const std::byte* sources[kCudaFoldMost] = {};
  uint32_t ranks = 0;  // that many sources are there
};

inline constexpr unsigned kCudaLanes = 32;  // of a warp
inline constexpr unsigned kCudaWarps = kCudaThreads / kCudaLanes;
inline constexpr unsigned kCudaEach = 8;  // values of a lane
inline constexpr unsigned kCudaPiece = kCudaLanes * kCudaEach;

// Those of all superblocks, of which the last is filled.
BANYAN_HOST_DEVICE uint64_t cuda_pieces(uint64_t count) {
  constexpr uint64_t kSuperblock = 4096;
  return (count + kSuperblock - 1) / kSuperblock * (kSuperblock / kCudaPiece);
}

}  // namespace banyan
