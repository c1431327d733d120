// What the lanes of a warp do for the codec sign (codecs/sign.inc), whose messages say nothing
// where a value is NaN or infinite. Values are counted as those of other sparse codecs are; its
// lists have regions of half as many values, which their pieces tell apart.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>

#include "compression/cuda/sparse_blocks.h"

namespace banyan {
namespace {

// A piece that spoils the message counts so many more. A region has too few pieces and values for
// them to meet, or to overflow.
inline constexpr uint32_t kCudaSpoilt = 1U << 20;
static_assert(kCudaRegion < kCudaSpoilt && kCudaRegionPieces < (uint64_t{1} << 32) / kCudaSpoilt);

// As CountSparse, with what is not finite of what passes the bar.
struct CountSpoilable : PiecesOfValues {
  static constexpr unsigned kSpoilShift = 32;
  BANYAN_HOST_DEVICE static uint64_t begin(const CudaSparseCall& call, uint64_t piece,
                                           unsigned lane, Lane& mine) {
    const uint64_t said = PiecesOfValues::begin(call, piece, lane, mine);
    bool spoils = false;
    BANYAN_UNROLLED
    for (unsigned i = 0; i < kCudaEach; i++) {
      const uint32_t magnitude = bits_as<uint32_t>(mine.values.values[i]) & Float32::kMagnitude;
      spoils |= (mine.said >> i & 1) != 0 && magnitude >= Float32::kTopExponent;
    }
    return said | static_cast<uint64_t>(spoils) << kSpoilShift;
  }
  BANYAN_HOST_DEVICE static void end(const CudaSparseCall& call, uint64_t piece, unsigned lane,
                                     Lane&, uint64_t, uint64_t all) {
    const uint32_t spoilt = all >> kSpoilShift != 0 ? kCudaSpoilt : 0;
    if (lane == 0) call.offsets[piece] = static_cast<uint32_t>(all) + spoilt;
  }
};

// The sums of regions, and whether any of them is spoilt.
struct SpoilableRegions : RegionsOfLane<kCudaRegion> {
  static constexpr unsigned kSpoilShift = 56;
  BANYAN_HOST_DEVICE static uint64_t begin(const CudaSparseCall& call, uint64_t, unsigned lane,
                                           Lane& mine) {
    mine = of(call, lane);
    uint64_t sum = 0;
    bool spoilt = false;
    for (uint64_t region = mine.first; region < mine.end; region++) {
      sum += call.totals[region] % kCudaSpoilt;
      spoilt |= call.totals[region] >= kCudaSpoilt;
    }
    return sum | static_cast<uint64_t>(spoilt) << kSpoilShift;
  }
  BANYAN_HOST_DEVICE static bool is_spoilt(uint64_t all) { return all >> kSpoilShift != 0; }
  BANYAN_HOST_DEVICE static void say(const CudaSparseCall& call, SparsePlan plan, uint64_t bytes) {
    *call.plan = plan;
    const bool spoilt = plan.form == SparseForm::kAllNan;
    store_anywhere<uint8_t>(call.message + bytes,
                            spoilt ? static_cast<uint8_t>(SparseForm::kAllNan) : uint8_t{0});
    *call.said = bytes + 1;
  }
};

BANYAN_HOST_DEVICE uint64_t sign_words_at(uint64_t count) {
  return sign_lists(count) * sizeof(uint32_t);
}

// A region has two lists, but for the last one.
struct ScanSigns : SpoilableRegions {
  BANYAN_HOST_DEVICE static void end(const CudaSparseCall& call, uint64_t, unsigned lane,
                                     Lane& mine, uint64_t before, uint64_t all) {
    const bool spoilt = is_spoilt(all);
    if (lane == 0 && spoilt) say(call, {0, SparseForm::kAllNan}, 0);
    if (spoilt) return;
    const uint64_t pieces = sparse_pieces(call.count);
    for (uint64_t region = mine.first; region < mine.end; region++) {
      const uint32_t here = call.totals[region];
      call.starts[region] = before;
      before += here;
      const uint64_t middle = region * kCudaRegionPieces + kCudaRegionPieces / 2;
      const uint32_t first = middle < pieces ? call.offsets[middle] : here;
      std::byte* const counts = call.message + 2 * region * sizeof(uint32_t);
      store_anywhere<uint32_t>(counts, first);
      if (middle < pieces) store_anywhere<uint32_t>(counts + sizeof(uint32_t), here - first);
    }
    if (lane == 0)
      say(call, {all, SparseForm::kList}, sign_words_at(call.count) + all * sizeof(uint16_t));
  }
};

inline constexpr uint16_t kCudaNegative = 0x8000;  // in a word of `sign`
static_assert(kCudaNegative == kCudaSignRegion);

struct WriteSigns : PiecesOfValues {
  BANYAN_HOST_DEVICE static void end(const CudaSparseCall& call, uint64_t piece, unsigned lane,
                                     Lane& mine, uint64_t before, uint64_t) {
    const uint64_t at = piece * kCudaPiece + lane * kCudaEach;
    const bool spoilt = call.plan->form == SparseForm::kAllNan;
    std::byte* const words = call.message + sign_words_at(call.count);
    uint64_t index =
        spoilt ? 0 : call.starts[piece / kCudaRegionPieces] + call.offsets[piece] + before;
    BANYAN_UNROLLED
    for (unsigned i = 0; i < kCudaEach; i++) {
      float& value = mine.values.values[i];
      if (spoilt) {
        value = 0;
      } else if ((mine.said >> i & 1) != 0) {
        const bool negative = bits_as<uint32_t>(value) >> Float32::kSignShift != 0;
        const auto place = static_cast<uint16_t>((at + i) % kCudaSignRegion);
        store_anywhere<uint16_t>(words + index * sizeof(uint16_t),
                                 static_cast<uint16_t>(negative ? place | kCudaNegative : place));
        index++;
        value = finite_or_zero(value - (negative ? -call.size : call.size));
      }
    }
    if (call.other != nullptr) store_lane<Float32>(call.other, at, call.count, mine.values);
  }
};

template <bool Adds>
struct ScatterSigns : ListOfWarp<Adds, kCudaSignRegion> {
  using typename ListOfWarp<Adds, kCudaSignRegion>::Lane;
  BANYAN_HOST_DEVICE static void end(const CudaSparseCall& call, uint64_t region, unsigned lane,
                                     Lane&, uint64_t, uint64_t) {
    const uint64_t start = call.starts[region];
    const std::byte* const words =
        call.message + sign_words_at(call.count) + start * sizeof(uint16_t);
    const uint32_t listed = call.totals[region];
    for (uint32_t i = lane; i < listed; i += kCudaLanes) {
      const auto word = load_anywhere<uint16_t>(words + i * sizeof(uint16_t));
      ListOfWarp<Adds, kCudaSignRegion>::put(call,
                                             region * kCudaSignRegion + word % kCudaSignRegion,
                                             (word & kCudaNegative) != 0 ? -call.size : call.size);
    }
  }
};

}  // namespace
}  // namespace banyan
