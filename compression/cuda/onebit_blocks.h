// What the lanes of a warp do for the codec onebit (codecs/onebit.inc). A warp has a block, and a
// lane every 32nd value of it: so the two lanes whose values belong to one of the sixteen sums add
// them in turn, in the order of the values, and the signs of 32 neighbours are a word.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>

#include "compression/cuda/codec_blocks.h"

namespace banyan {
namespace {

struct OnebitFormat {
  static constexpr size_t kBlock = 256;
  using Codes = SignCodes;
  using StoredScale = uint32_t;
};
static_assert(OnebitFormat::kBlock == kCudaPiece);

inline constexpr unsigned kOnebitSums = 16;
inline constexpr float kOnebitPart = 1.0F / kCudaPiece;  // of a mean, so that no sum overflows

// What the lanes know together.
struct OnebitBlock {
  uint32_t largest;           // magnitude, as bits
  float sum;                  // of magnitudes, each times kOnebitPart
  uint32_t below[kCudaEach];  // zero: of 32 values each, the first in the lowest bit
};

BANYAN_HOST_DEVICE float onebit_part(float value) {
  return bits_as<float>(bits_as<uint32_t>(value) & Float32::kMagnitude) * kOnebitPart;
}

// Behind the message.
BANYAN_HOST_DEVICE std::byte* onebit_flag(const CudaCodecCall& call) {
  return call.message + cuda_pieces(call.count) * kCudaPiece / kSuperblockValues *
                            LanePlace<OnebitFormat>::kSuperblock;
}

template <class Values>
struct EncodeOnebit {
  using Storage = typename CudaValues<Values>::Storage;

  BANYAN_HOST_DEVICE static void begin(const CudaCodecCall& call, uint64_t piece, unsigned lane,
                                       CudaLane& mine) {
    BANYAN_UNROLLED
    for (unsigned i = 0; i < kCudaEach; i++) {
      const uint64_t at = piece * kCudaPiece + i * kCudaLanes + lane;
      mine.values[i] = at < call.count ? CudaValues<Values>::widened(load_anywhere<Storage>(
                                             call.values + at * sizeof(Storage)))
                                       : 0;
    }
  }

  BANYAN_HOST_DEVICE static float mean_of(const CudaCodecCall& call, uint64_t piece, float sum) {
    constexpr float kLargest = __builtin_bit_cast(float, Float32::kTopExponent - 1);
    const uint64_t rest = call.count - piece * kCudaPiece;
    const float mean =
        sum / (static_cast<float>(rest < kCudaPiece ? rest : kCudaPiece) * kOnebitPart);
    return mean < kLargest ? mean : kLargest;
  }

  BANYAN_HOST_DEVICE static void end(const CudaCodecCall& call, uint64_t piece, unsigned lane,
                                     const CudaLane& mine, const OnebitBlock& block) {
    const bool spoilt = block.largest >= Float32::kTopExponent;
    const bool tiny = bits_as<float>(block.largest) < power_of_two(-100);
    const bool has_signs = !spoilt && !tiny;
    const float scale = spoilt ? bits_as<float>(Float32::kNan)
                        : tiny ? 0
                               : mean_of(call, piece, block.sum);
    const LanePlace<OnebitFormat> place(piece, 0);
    if (lane == 0) store_anywhere<uint32_t>(call.message + place.scale, bits_as<uint32_t>(scale));
    if (lane == 0 && spoilt) store_anywhere<uint8_t>(onebit_flag(call), 1);
    BANYAN_UNROLLED
    for (unsigned i = 0; i < kCudaEach; i++)
      if (lane == i)
        store_anywhere<uint32_t>(call.message + place.codes + i * sizeof(uint32_t),
                                 has_signs ? block.below[i] : 0);
    if (call.other == nullptr) return;
    BANYAN_UNROLLED
    for (unsigned i = 0; i < kCudaEach; i++) {
      const uint64_t at = piece * kCudaPiece + i * kCudaLanes + lane;
      const uint8_t code = to_code(SignCodes{}, mine.values[i]);
      const float said = decode_one<SignCodes>(code, {scale, CudaValues<Values>::kLargest});
      const float left = spoilt ? 0 : tiny ? mine.values[i] : mine.values[i] - said;
      if (at < call.count)
        store_anywhere<Storage>(call.other + at * sizeof(Storage),
                                CudaValues<Values>::narrowed(left));
    }
  }
};

// One warp: no value has spoilt the message so far.
struct BeginOnebit {
  struct Lane {};
  BANYAN_HOST_DEVICE static uint64_t items(const CudaCodecCall&) { return 1; }
  BANYAN_HOST_DEVICE static uint64_t begin(const CudaCodecCall&, uint64_t, unsigned, Lane&) {
    return 0;
  }
  BANYAN_HOST_DEVICE static void end(const CudaCodecCall& call, uint64_t, unsigned lane, Lane&,
                                     uint64_t, uint64_t) {
    if (lane == 0) store_anywhere<uint8_t>(onebit_flag(call), 0);
  }
};

// What is spoilt leaves nothing.
template <class Values>
struct SpoilOnebit : BeginOnebit {
  using Storage = typename CudaValues<Values>::Storage;
  BANYAN_HOST_DEVICE static uint64_t items(const CudaCodecCall& call) {
    return cuda_pieces(call.count);
  }
  BANYAN_HOST_DEVICE static void end(const CudaCodecCall& call, uint64_t piece, unsigned lane,
                                     Lane&, uint64_t, uint64_t) {
    if (load_anywhere<uint8_t>(onebit_flag(call)) == 0) return;
    store_lane<Values>(call.other, piece * kCudaPiece + lane * kCudaEach, call.count, {});
  }
};

// A message that is spoilt decodes, and adds up, to NaN.
template <class Decode>
BANYAN_HOST_DEVICE uint32_t begin_unless_spoilt(const CudaCodecCall& call, uint64_t piece,
                                                unsigned lane, CudaLane& mine) {
  if (call.spoilt == 0) return Decode::begin(call, piece, lane, mine);
  BANYAN_UNROLLED
  for (unsigned i = 0; i < kCudaEach; i++) mine.values[i] = bits_as<float>(Float32::kNan);
  return 0;
}

template <class Format, class Values>
struct DecodeOnebit : StoreBlocks<Values> {
  BANYAN_HOST_DEVICE static uint32_t begin(const CudaCodecCall& call, uint64_t piece, unsigned lane,
                                           CudaLane& mine) {
    return begin_unless_spoilt<DecodeBlocks<Format, Values>>(call, piece, lane, mine);
  }
};

template <class Format, class Values>
struct DecodeAddOnebit : StoreBlocks<Values> {
  BANYAN_HOST_DEVICE static uint32_t begin(const CudaCodecCall& call, uint64_t piece, unsigned lane,
                                           CudaLane& mine) {
    return begin_unless_spoilt<DecodeAddBlocks<Format, Values>>(call, piece, lane, mine);
  }
};

#ifdef __CUDACC__
// All lanes of a warp are here, or none.
template <class Function>
__device__ void run_onebit(const CudaCodecCall& call, CudaThread thread) {
  constexpr unsigned kAll = 0xffffffff;
  const unsigned lane = thread.index % kCudaLanes;
  const uint64_t stride = static_cast<uint64_t>(thread.blocks) * kCudaWarps;
  const uint64_t pieces = pieces_of(call);
  for (uint64_t piece =
           static_cast<uint64_t>(thread.block) * kCudaWarps + thread.index / kCudaLanes;
       piece < pieces; piece += stride) {
    CudaLane mine;
    Function::begin(call, piece, lane, mine);
    OnebitBlock block;
    block.largest = largest_of_lanes<kCudaLanes>(largest_magnitude(mine));
    float sum = 0;  // the first lanes have those of the block
    BANYAN_UNROLLED
    for (unsigned i = 0; i < kCudaEach; i++) {
      const float part = onebit_part(mine.values[i]);
      sum += part;
      sum += __shfl_down_sync(kAll, part, kOnebitSums);
      block.below[i] = __ballot_sync(kAll, mine.values[i] < 0);
    }
    for (unsigned half = kOnebitSums / 2; half > 0; half /= 2)
      sum += __shfl_down_sync(kAll, sum, half);
    block.sum = __shfl_sync(kAll, sum, 0);
    Function::end(call, piece, lane, mine, block);
  }
}
#endif

BANYAN_HOST_DEVICE OnebitBlock onebit_of(const CudaLane* lanes) {
  OnebitBlock block{};
  float sums[kOnebitSums] = {};
  for (unsigned i = 0; i < kCudaEach; ++i)
    for (unsigned lane = 0; lane < kCudaLanes; ++lane) {
      sums[lane % kOnebitSums] += onebit_part(lanes[lane].values[i]);
      block.below[i] |= lanes[lane].values[i] < 0 ? 1U << lane : 0;
      const uint32_t largest = largest_magnitude(lanes[lane]);
      block.largest = largest > block.largest ? largest : block.largest;
    }
  for (unsigned half = kOnebitSums / 2; half > 0; half /= 2)
    for (unsigned j = 0; j < half; ++j) sums[j] += sums[j + half];
  block.sum = sums[0];
  return block;
}

// The same for all threads of a launch, one after another.
template <class Function>
void run_all_onebit(const CudaCodecCall& call, unsigned blocks) {
  const uint64_t stride = static_cast<uint64_t>(blocks) * kCudaWarps;
  for (uint64_t warp = 0; warp < stride; ++warp)
    for (uint64_t piece = warp; piece < pieces_of(call); piece += stride) {
      CudaLane lanes[kCudaLanes];
      for (unsigned lane = 0; lane < kCudaLanes; ++lane)
        Function::begin(call, piece, lane, lanes[lane]);
      const OnebitBlock block = onebit_of(lanes);
      for (unsigned lane = 0; lane < kCudaLanes; ++lane)
        Function::end(call, piece, lane, lanes[lane], block);
    }
}

}  // namespace
}  // namespace banyan
