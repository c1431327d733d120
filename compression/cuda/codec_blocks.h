// What the lanes of a warp do for the codecs of scaled blocks (codecs/superblocks.inc). A warp
// takes 256 values, a piece, and each of its lanes eight of them: so a block's largest magnitude is
// known to its lanes while its values are still in registers, and each value is read once.
//
// The same source is compiled for the device and for the host, where a piece is two loops over the
// lanes: what is before the lanes agree, and what is behind.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>

#include "compression/codecs/block_formats.h"
#include "compression/codecs/codes.h"
#include "compression/cuda/blocks.h"
#include "compression/cuda/codec_call.h"
#include "compression/philox.h"

namespace banyan {
namespace {

// Values of float16 or bfloat16 in memory, eight at a time.
template <class Format>
struct CudaValues {
  using Storage = typename Format::Storage;
  static constexpr float kLargest =
      widen<Format>(static_cast<typename Format::Storage>(Format::kTopExponent - 1));
  BANYAN_HOST_DEVICE static float widened(Storage bits) { return widen<Format>(bits); }
  BANYAN_HOST_DEVICE static Storage narrowed(float value) { return narrow<Format>(value); }
};

template <>
struct CudaValues<Float32> {
  using Storage = float;
  static constexpr float kLargest = __builtin_bit_cast(float, Float32::kTopExponent - 1);
  BANYAN_HOST_DEVICE static float widened(float value) { return value; }
  BANYAN_HOST_DEVICE static float narrowed(float value) { return value; }
};

struct CudaLane {
  float values[kCudaEach];
};

// The lane's values, and zeros behind the last one.
template <class Format>
BANYAN_HOST_DEVICE CudaLane load_lane(const std::byte* values, uint64_t at, uint64_t count) {
  using Values = CudaValues<Format>;
  using Storage = typename Values::Storage;
  constexpr unsigned kInPack = kCudaPackBytes / sizeof(Storage);
  const std::byte* from = values + at * sizeof(Storage);
  CudaLane lane;
  if (at + kCudaEach <= count && reinterpret_cast<uintptr_t>(from) % kCudaPackBytes == 0) {
    CudaPack<kCudaPackBytes> packs[kCudaEach / kInPack];
    BANYAN_UNROLLED
    for (unsigned p = 0; p < kCudaEach / kInPack; p++)
      packs[p] = load_pack<kCudaPackBytes>(from + p * kCudaPackBytes);
    BANYAN_UNROLLED
    for (unsigned i = 0; i < kCudaEach; i++)
      lane.values[i] = Values::widened(element_of<Storage>(packs[i / kInPack], i % kInPack));
    return lane;
  }
  BANYAN_UNROLLED
  for (unsigned i = 0; i < kCudaEach; i++) {
    const bool there = at + i < count;
    lane.values[i] =
        there ? Values::widened(load_anywhere<Storage>(from + i * sizeof(Storage))) : 0;
  }
  return lane;
}

template <class Format>
BANYAN_HOST_DEVICE void store_lane(std::byte* values, uint64_t at, uint64_t count,
                                   const CudaLane& lane) {
  using Values = CudaValues<Format>;
  using Storage = typename Values::Storage;
  constexpr unsigned kInPack = kCudaPackBytes / sizeof(Storage);
  std::byte* to = values + at * sizeof(Storage);
  if (at + kCudaEach <= count && reinterpret_cast<uintptr_t>(to) % kCudaPackBytes == 0) {
    BANYAN_UNROLLED
    for (unsigned p = 0; p < kCudaEach / kInPack; p++) {
      CudaPack<kCudaPackBytes> pack;
      BANYAN_UNROLLED
      for (unsigned i = 0; i < kInPack; i++)
        set_element(pack, i, Values::narrowed(lane.values[p * kInPack + i]));
      store_pack(to + p * kCudaPackBytes, pack);
    }
    return;
  }
  BANYAN_UNROLLED
  for (unsigned i = 0; i < kCudaEach; i++)
    if (at + i < count)
      store_anywhere<Storage>(to + i * sizeof(Storage), Values::narrowed(lane.values[i]));
}

// Where a lane's part of a message is.
template <class Format>
struct LanePlace {
  using StoredScale = typename Format::StoredScale;
  static constexpr unsigned kLanes = Format::kBlock / kCudaEach;  // that share a scale
  static constexpr unsigned kBits = Format::Codes::kBits;
  static constexpr uint64_t kScales = kSuperblockValues / Format::kBlock * sizeof(StoredScale);
  static constexpr uint64_t kSuperblock = kScales + kSuperblockValues * kBits / 8;
  using Codes = typename UnsignedOf<kCudaEach * kBits / 8>::Type;

  uint64_t scale;
  uint64_t codes;

  BANYAN_HOST_DEVICE LanePlace(uint64_t piece, unsigned lane) {
    constexpr uint64_t kPieces = kSuperblockValues / kCudaPiece;
    const uint64_t superblock = piece / kPieces * kSuperblock;
    const uint64_t first = piece % kPieces * kCudaPiece + lane * kCudaEach;  // value of it
    scale = superblock + first / Format::kBlock * sizeof(StoredScale);
    codes = superblock + kScales + first * kBits / 8;
  }
};

// The words of chance of a lane's values, as codecs/chance.h has them.
struct LaneChance {
  uint32_t words[kCudaEach + 4];

  BANYAN_HOST_DEVICE LaneChance(const CudaCodecCall& call, uint64_t at) {
    const uint64_t element = call.first + at;
    BANYAN_UNROLLED
    for (unsigned four = 0; four < kCudaEach / 4 + 1; four++) {
      const uint64_t counter = element / 4 + four;
      const PhiloxCounter random =
          philox({{static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32), call.step,
                   call.tensor}},
                 {call.key[0], call.key[1]});
      BANYAN_UNROLLED
      for (unsigned i = 0; i < 4; i++) words[four * 4 + i] = random.word[i];
    }
    // By indices that are known at compile time, so that the words stay in registers.
    move_down<1>(element % 2 != 0);
    move_down<2>(element / 2 % 2 != 0);
  }
  BANYAN_HOST_DEVICE uint32_t operator[](unsigned i) const { return words[i]; }

 private:
  template <unsigned By>
  BANYAN_HOST_DEVICE void move_down(bool wanted) {
    BANYAN_UNROLLED
    for (unsigned i = 0; i + By < kCudaEach + 4; i++) words[i] = wanted ? words[i + By] : words[i];
  }
};

BANYAN_HOST_DEVICE uint32_t largest_magnitude(const CudaLane& lane) {
  uint32_t largest = 0;
  BANYAN_UNROLLED
  for (unsigned i = 0; i < kCudaEach; i++) {
    const uint32_t magnitude = bits_as<uint32_t>(lane.values[i]) & Float32::kMagnitude;
    largest = magnitude > largest ? magnitude : largest;
  }
  return largest;
}

template <class Format, class Values>
struct EncodeBlocks {
  static constexpr unsigned kLanes = LanePlace<Format>::kLanes;

  // The largest magnitude of the lane's values, as bits.
  BANYAN_HOST_DEVICE static uint32_t begin(const CudaCodecCall& call, uint64_t piece, unsigned lane,
                                           CudaLane& mine) {
    mine = load_lane<Values>(call.values, piece * kCudaPiece + lane * kCudaEach, call.count);
    return largest_magnitude(mine);
  }

  BANYAN_HOST_DEVICE static void find_codes(const CudaCodecCall& call, uint64_t at,
                                            const CudaLane& mine, float factor, uint8_t* codes) {
    using Codes = typename Format::Codes;
    if constexpr (Codes::kHaveChance) {
      if (call.by_chance != 0) {
        const LaneChance chance(call, at);
        BANYAN_UNROLLED
        for (unsigned i = 0; i < kCudaEach; i++)
          codes[i] = to_code(Codes{}, mine.values[i] * factor, chance[i]);
        return;
      }
    }
    BANYAN_UNROLLED
    for (unsigned i = 0; i < kCudaEach; i++) codes[i] = to_code(Codes{}, mine.values[i] * factor);
  }

  // `largest` is that of the block.
  BANYAN_HOST_DEVICE static void end(const CudaCodecCall& call, uint64_t piece, unsigned lane,
                                     CudaLane& mine, uint32_t largest) {
    using Place = LanePlace<Format>;
    using Codes = typename Format::Codes;
    using Stored = typename Format::StoredScale;
    const uint64_t at = piece * kCudaPiece + lane * kCudaEach;
    const Place place(piece, lane);
    const bool spoilt = largest >= Float32::kTopExponent;
    const bool tiny = bits_as<float>(largest) < power_of_two(-100);
    const Scaling own = Format::scaling(bits_as<float>(largest), nullptr, 0);
    const float scale = spoilt ? bits_as<float>(Float32::kNan) : tiny ? 0 : own.scale;
    const float factor = spoilt || tiny ? 0 : own.factor;
    if (lane % kLanes == 0)
      store_anywhere<Stored>(
          call.message + place.scale,
          static_cast<Stored>(bits_as<uint32_t>(scale) >> (32 - 8 * sizeof(Stored))));
    uint8_t codes[kCudaEach];
    find_codes(call, at, mine, factor, codes);
    constexpr uint8_t kOfOne = (1U << Codes::kBits) - 1;
    typename Place::Codes packed = 0;
    BANYAN_UNROLLED
    for (unsigned i = 0; i < kCudaEach; i++) {
      if (factor == 0) codes[i] = Codes::kZero;
      packed |= static_cast<typename Place::Codes>(codes[i] & kOfOne) << (i * Codes::kBits);
    }
    store_anywhere<typename Place::Codes>(call.message + place.codes, packed);
    if (call.other == nullptr) return;
    BANYAN_UNROLLED
    for (unsigned i = 0; i < kCudaEach; i++) {
      if (spoilt)
        mine.values[i] = 0;
      else if (factor != 0)
        mine.values[i] -= decode_one<Codes>(codes[i], {scale, CudaValues<Values>::kLargest});
    }
    store_lane<Values>(call.other, at, call.count, mine);
  }
};

template <class Format, class Values>
BANYAN_HOST_DEVICE CudaLane decode_lane(const std::byte* message, uint64_t piece, unsigned lane) {
  using Place = LanePlace<Format>;
  using Codes = typename Format::Codes;
  using Stored = typename Format::StoredScale;
  const Place place(piece, lane);
  const uint32_t bits = static_cast<uint32_t>(load_anywhere<Stored>(message + place.scale))
                        << (32 - 8 * sizeof(Stored));
  const bool finite = (bits & Float32::kMagnitude) < Float32::kTopExponent;
  const Scale scale = {bits_as<float>(finite ? bits : Float32::kNan), CudaValues<Values>::kLargest};
  const auto packed = load_anywhere<typename Place::Codes>(message + place.codes);
  constexpr uint8_t kOfOne = (1U << Codes::kBits) - 1;
  CudaLane lane_values;
  BANYAN_UNROLLED
  for (unsigned i = 0; i < kCudaEach; i++) {
    const auto code = static_cast<uint8_t>(packed >> (i * Codes::kBits) & kOfOne);
    lane_values.values[i] = decode_one<Codes>(code, scale);
  }
  return lane_values;
}

// What decoders end with. Their lanes have nothing to agree on.
template <class Values>
struct StoreBlocks {
  static constexpr unsigned kLanes = 1;
  BANYAN_HOST_DEVICE static void end(const CudaCodecCall& call, uint64_t piece, unsigned lane,
                                     CudaLane& mine, uint32_t) {
    store_lane<Values>(call.values, piece * kCudaPiece + lane * kCudaEach, call.count, mine);
  }
};

template <class Format, class Values>
struct DecodeBlocks : StoreBlocks<Values> {
  BANYAN_HOST_DEVICE static uint32_t begin(const CudaCodecCall& call, uint64_t piece, unsigned lane,
                                           CudaLane& mine) {
    mine = decode_lane<Format, Values>(call.message, piece, lane);
    return 0;
  }
};

template <class Format, class Values>
struct DecodeAddBlocks : StoreBlocks<Values> {
  BANYAN_HOST_DEVICE static uint32_t begin(const CudaCodecCall& call, uint64_t piece, unsigned lane,
                                           CudaLane& mine) {
    mine = decode_lane<Format, Values>(call.message, piece, lane);
    const uint64_t at = piece * kCudaPiece + lane * kCudaEach;
    const CudaLane addend = load_lane<Values>(call.other, at, call.count);
    BANYAN_UNROLLED
    for (unsigned i = 0; i < kCudaEach; i++)
      mine.values[i] = canonical(addend.values[i] + mine.values[i]);
    return 0;
  }
};

// Sums what the messages say, in the order of ranks, and encodes that: each value is in registers
// between the two.
template <class Format, class Values>
struct FoldMessages {
  static constexpr unsigned kLanes = LanePlace<Format>::kLanes;

  BANYAN_HOST_DEVICE static uint32_t begin(const CudaCodedFold& call, uint64_t piece, unsigned lane,
                                           CudaLane& mine) {
    mine = decode_lane<Format, Values>(call.sources[0], piece, lane);
    for (unsigned rank = 1; rank < call.ranks; rank++) {
      const CudaLane more = decode_lane<Format, Values>(call.sources[rank], piece, lane);
      BANYAN_UNROLLED
      for (unsigned i = 0; i < kCudaEach; i++)
        mine.values[i] = canonical(mine.values[i] + more.values[i]);
    }
    // A message has codes for values behind the last one, which are no values.
    const uint64_t at = piece * kCudaPiece + lane * kCudaEach;
    BANYAN_UNROLLED
    for (unsigned i = 0; i < kCudaEach; i++)
      if (at + i >= call.encode.count) mine.values[i] = 0;
    return largest_magnitude(mine);
  }

  BANYAN_HOST_DEVICE static void end(const CudaCodedFold& call, uint64_t piece, unsigned lane,
                                     CudaLane& mine, uint32_t largest) {
    EncodeBlocks<Format, Values>::end(call.encode, piece, lane, mine, largest);
  }
};

BANYAN_HOST_DEVICE uint64_t pieces_of(const CudaCodecCall& call) {
  return cuda_pieces(call.count);
}
BANYAN_HOST_DEVICE uint64_t pieces_of(const CudaCodedFold& call) {
  return cuda_pieces(call.encode.count);
}

#ifdef __CUDACC__
template <unsigned Lanes>
__device__ uint32_t largest_of_lanes(uint32_t largest) {
  for (unsigned apart = Lanes / 2; apart > 0; apart /= 2) {
    const uint32_t other = __shfl_xor_sync(0xffffffff, largest, apart);
    largest = other > largest ? other : largest;
  }
  return largest;
}

// All lanes of a warp are here, or none.
template <class Function, class Call>
__device__ void run_warp(const Call& call, CudaThread thread) {
  const unsigned lane = thread.index % kCudaLanes;
  const uint64_t stride = static_cast<uint64_t>(thread.blocks) * kCudaWarps;
  const uint64_t pieces = pieces_of(call);
  for (uint64_t piece =
           static_cast<uint64_t>(thread.block) * kCudaWarps + thread.index / kCudaLanes;
       piece < pieces; piece += stride) {
    CudaLane mine;
    const uint32_t largest = Function::begin(call, piece, lane, mine);
    Function::end(call, piece, lane, mine, largest_of_lanes<Function::kLanes>(largest));
  }
}
#endif

// The same for all threads of a launch, one after another.
template <class Function, class Call>
void run_warps(const Call& call, unsigned blocks) {
  const uint64_t pieces = pieces_of(call);
  const uint64_t stride = static_cast<uint64_t>(blocks) * kCudaWarps;
  for (uint64_t warp = 0; warp < stride; ++warp)
    for (uint64_t piece = warp; piece < pieces; piece += stride) {
      CudaLane lanes[kCudaLanes];
      uint32_t largest[kCudaLanes];
      for (unsigned lane = 0; lane < kCudaLanes; ++lane)
        largest[lane] = Function::begin(call, piece, lane, lanes[lane]);
      for (unsigned lane = 0; lane < kCudaLanes; ++lane) {
        const unsigned first = lane / Function::kLanes * Function::kLanes;
        uint32_t of_block = 0;
        for (unsigned other = first; other < first + Function::kLanes; ++other)
          of_block = largest[other] > of_block ? largest[other] : of_block;
        Function::end(call, piece, lane, lanes[lane], of_block);
      }
    }
}

}  // namespace
}  // namespace banyan
