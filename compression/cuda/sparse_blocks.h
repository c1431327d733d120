// What the lanes of a warp do for sparse codecs. A message is made in two goes over the values: the
// first one counts what is kept, piece by piece, and the second writes it where the counts before
// it say. In between they are summed, first those of the pieces of a region, then those of regions.
//
// Blelloch, "Prefix sums and their applications", CMU-CS-90-190, section 1.4, compacts vectors so.
// As in codec_blocks.h, the source is compiled for both sides.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#ifdef __CUDACC__
#include <cub/warp/warp_scan.cuh>
#endif

#include <cstdint>

#include "compression/cuda/codec_blocks.h"
#include "compression/cuda/sparse_call.h"

namespace banyan {
namespace {

inline constexpr uint32_t kAllOfLane = (1U << kCudaEach) - 1;

BANYAN_HOST_DEVICE unsigned ones_in(uint32_t bits) {
#ifdef __CUDA_ARCH__
  return static_cast<unsigned>(__popc(bits));
#else
  return static_cast<unsigned>(__builtin_popcount(bits));
#endif
}

// The lane's values of this piece that there are.
BANYAN_HOST_DEVICE unsigned values_here(uint64_t at, uint64_t count) {
  return at >= count ? 0 : count - at < kCudaEach ? static_cast<unsigned>(count - at) : kCudaEach;
}

// As a message carries it, and as a receiver then reads it.
BANYAN_HOST_DEVICE float carried(float value, uint32_t bytes) {
  return bytes == sizeof(float) ? canonical(value) : widen<Float16>(narrow<Float16>(value));
}
BANYAN_HOST_DEVICE float carried_at(const std::byte* values, uint64_t index, uint32_t bytes) {
  return bytes == sizeof(float)
             ? canonical(load_anywhere<float>(values + index * sizeof(float)))
             : widen<Float16>(load_anywhere<uint16_t>(values + index * sizeof(uint16_t)));
}
BANYAN_HOST_DEVICE void carry(std::byte* values, uint64_t index, uint32_t bytes, float value) {
  if (bytes == sizeof(float)) {
    store_anywhere<float>(values + index * sizeof(float), canonical(value));
  } else {
    store_anywhere<uint16_t>(values + index * sizeof(uint16_t), narrow<Float16>(value));
  }
}

// What is not finite leaves nothing.
BANYAN_HOST_DEVICE float finite_or_zero(float rest) {
  const bool finite = (bits_as<uint32_t>(rest) & Float32::kMagnitude) < Float32::kTopExponent;
  return finite ? rest : 0;
}

// A lane's values, and one bit for each that the message says.
struct SparseLane {
  CudaLane values;
  uint32_t said;
};

// A kernel is a type. Its warps take one item after the other:
//
//   Lane                what a lane knows between the two
//   items(call)
//   begin(...)          how much the lane counts of the item
//   end(..., before, all)  `before`: what the lanes before it have counted
template <class Call>
struct Pieces {
  using Lane = SparseLane;
  BANYAN_HOST_DEVICE static uint64_t items(const Call& call) { return sparse_pieces(call.count); }
};

// Pieces of values, of which a bar lets pass some.
struct PiecesOfValues : Pieces<CudaSparseCall> {
  BANYAN_HOST_DEVICE static uint64_t begin(const CudaSparseCall& call, uint64_t piece,
                                           unsigned lane, Lane& mine) {
    const uint64_t at = piece * kCudaPiece + lane * kCudaEach;
    mine.values = load_lane<Float32>(call.values, at, call.count);
    const unsigned here = values_here(at, call.count);
    mine.said = 0;
    BANYAN_UNROLLED
    for (unsigned i = 0; i < kCudaEach; i++) {
      const uint32_t least = at + i < call.bars.split ? call.bars.before : call.bars.behind;
      const bool passes = (bits_as<uint32_t>(mine.values.values[i]) & call.bars.mask) >= least;
      mine.said |= passes && i < here ? 1U << i : 0;
    }
    return ones_in(mine.said);
  }
};

template <class Of>
struct CountSparse : Of {
  BANYAN_HOST_DEVICE static void end(const CudaSparseCall& call, uint64_t piece, unsigned lane,
                                     SparseLane&, uint64_t, uint64_t all) {
    if (lane == 0) call.offsets[piece] = static_cast<uint32_t>(all);
  }
};

// Those of a region become where each of its pieces begins.
struct ScanPieces {
  struct Lane {
    uint32_t counts[kCudaEach];
  };
  BANYAN_HOST_DEVICE static uint64_t items(const CudaSparseCall& call) {
    return sparse_regions(call.count);
  }
  BANYAN_HOST_DEVICE static uint64_t begin(const CudaSparseCall& call, uint64_t region,
                                           unsigned lane, Lane& mine) {
    const uint64_t first = region * kCudaRegionPieces + lane * kCudaEach;
    const uint64_t pieces = sparse_pieces(call.count);
    uint32_t sum = 0;
    BANYAN_UNROLLED
    for (unsigned i = 0; i < kCudaEach; i++) {
      mine.counts[i] = first + i < pieces ? call.offsets[first + i] : 0;
      sum += mine.counts[i];
    }
    return sum;
  }
  BANYAN_HOST_DEVICE static void end(const CudaSparseCall& call, uint64_t region, unsigned lane,
                                     Lane& mine, uint64_t before, uint64_t all) {
    const uint64_t first = region * kCudaRegionPieces + lane * kCudaEach;
    const uint64_t pieces = sparse_pieces(call.count);
    auto offset = static_cast<uint32_t>(before);
    BANYAN_UNROLLED
    for (unsigned i = 0; i < kCudaEach; i++) {
      if (first + i < pieces) call.offsets[first + i] = offset;
      offset += mine.counts[i];
    }
    if (lane == 0) call.totals[region] = static_cast<uint32_t>(all);
  }
};

// One warp: each lane has some regions of so many values, one after the other.
template <uint64_t kValues>
struct RegionsOfLane {
  struct Lane {
    uint64_t first;
    uint64_t end;
  };
  BANYAN_HOST_DEVICE static uint64_t items(const CudaSparseCall&) { return 1; }
  BANYAN_HOST_DEVICE static Lane of(const CudaSparseCall& call, unsigned lane) {
    const uint64_t regions = sparse_lists(call.count, kValues);
    const uint64_t each = (regions + kCudaLanes - 1) / kCudaLanes;
    const uint64_t first = lane * each < regions ? lane * each : regions;
    return {first, first + each < regions ? first + each : regions};
  }
};

// An encoder knows then how its message is formed, and how long it is.
struct ScanRegions : RegionsOfLane<kCudaRegion> {
  BANYAN_HOST_DEVICE static uint64_t begin(const CudaSparseCall& call, uint64_t, unsigned lane,
                                           Lane& mine) {
    mine = of(call, lane);
    uint64_t sum = 0;
    for (uint64_t region = mine.first; region < mine.end; region++) sum += call.totals[region];
    return sum;
  }
  BANYAN_HOST_DEVICE static void end(const CudaSparseCall& call, uint64_t, unsigned lane,
                                     Lane& mine, uint64_t before, uint64_t all) {
    const SparseForm form = shortest_form(call.count, all, call.bytes);
    for (uint64_t region = mine.first; region < mine.end; region++) {
      const uint32_t here = call.totals[region];
      call.starts[region] = before;
      before += here;
      if (form == SparseForm::kList)
        store_anywhere<uint32_t>(call.message + region * sizeof(uint32_t), here);
    }
    if (lane != 0) return;
    *call.plan = {all, form};
    const uint64_t values = form == SparseForm::kDense ? call.count : all;
    const uint64_t bytes = sparse_values_at(form, call.count, all) + values * call.bytes;
    store_anywhere<uint8_t>(call.message + bytes, static_cast<uint8_t>(form));
    *call.said = bytes + 1;
  }
};

// A decoder has them in the message, or has counted the bits there.
template <uint64_t kValues>
struct ScanLists : RegionsOfLane<kValues> {
  using typename RegionsOfLane<kValues>::Lane;
  BANYAN_HOST_DEVICE static uint32_t in_region(const CudaSparseCall& call, uint64_t region) {
    return call.form == static_cast<uint32_t>(SparseForm::kList)
               ? load_anywhere<uint32_t>(call.message + region * sizeof(uint32_t))
               : call.totals[region];
  }
  BANYAN_HOST_DEVICE static uint64_t begin(const CudaSparseCall& call, uint64_t, unsigned lane,
                                           Lane& mine) {
    mine = RegionsOfLane<kValues>::of(call, lane);
    uint64_t sum = 0;
    for (uint64_t region = mine.first; region < mine.end; region++) sum += in_region(call, region);
    return sum;
  }
  BANYAN_HOST_DEVICE static void end(const CudaSparseCall& call, uint64_t, unsigned lane,
                                     Lane& mine, uint64_t before, uint64_t all) {
    for (uint64_t region = mine.first; region < mine.end; region++) {
      const uint32_t here = in_region(call, region);
      call.totals[region] = here;
      call.starts[region] = before;
      before += here;
    }
    if (lane == 0) *call.plan = {all, static_cast<SparseForm>(call.form)};
  }
};

struct WriteSparse : PiecesOfValues {
  BANYAN_HOST_DEVICE static void end(const CudaSparseCall& call, uint64_t piece, unsigned lane,
                                     Lane& mine, uint64_t before, uint64_t) {
    const uint64_t at = piece * kCudaPiece + lane * kCudaEach;
    const unsigned here = values_here(at, call.count);
    const SparsePlan plan = *call.plan;
    std::byte* const values = call.message + sparse_values_at(plan.form, call.count, plan.kept);
    const uint64_t region = piece / kCudaRegionPieces;
    uint64_t index = call.starts[region] + call.offsets[piece] + before;
    if (plan.form == SparseForm::kBitmap && here > 0)
      store_anywhere<uint8_t>(call.message + at / kCudaEach, static_cast<uint8_t>(mine.said));
    CudaLane row;
    BANYAN_UNROLLED
    for (unsigned i = 0; i < kCudaEach; i++) {
      const bool is_said = (mine.said >> i & 1) != 0;
      const float value = mine.values.values[i];
      row.values[i] = is_said ? canonical(value) : 0;
      if (is_said && plan.form != SparseForm::kDense) {
        if (plan.form == SparseForm::kList)
          store_anywhere<uint16_t>(
              call.message + sparse_words_at(call.count) + index * sizeof(uint16_t),
              static_cast<uint16_t>((at + i) % kCudaRegion));
        carry(values, index, call.bytes, value);
        index++;
      }
      // What is left of what is said is what rounding lost.
      mine.values.values[i] = finite_or_zero(is_said ? value - carried(value, call.bytes) : value);
    }
    if (plan.form == SparseForm::kDense) {
      if (call.bytes == sizeof(float))
        store_lane<Float32>(values, at, call.count, row);
      else
        store_lane<Float16>(values, at, call.count, row);
    }
    if (call.other != nullptr) store_lane<Float32>(call.other, at, call.count, mine.values);
  }
};

// Pieces of a bitmap, or of values one after the other. Of other forms nothing is said here.
struct PiecesOfMessage : Pieces<CudaSparseCall> {
  BANYAN_HOST_DEVICE static uint64_t begin(const CudaSparseCall& call, uint64_t piece,
                                           unsigned lane, Lane& mine) {
    const uint64_t at = piece * kCudaPiece + lane * kCudaEach;
    const unsigned here = values_here(at, call.count);
    const uint32_t there = kAllOfLane >> (kCudaEach - here);
    const auto form = static_cast<SparseForm>(call.form);
    mine.said = form == SparseForm::kDense ? there : 0;
    if (form == SparseForm::kBitmap && here > 0)
      mine.said = there & load_anywhere<uint8_t>(call.bits + at / kCudaEach);
    return ones_in(mine.said);
  }
};

// What a sum becomes where a value is said. +0 is as good as nothing.
BANYAN_HOST_DEVICE float sum_with(float addend, float value) {
  return bits_as<uint32_t>(value) == 0 ? addend : canonical(addend + value);
}

template <bool Adds>
struct ReadSparse : PiecesOfMessage {
  BANYAN_HOST_DEVICE static void end(const CudaSparseCall& call, uint64_t piece, unsigned lane,
                                     Lane& mine, uint64_t before, uint64_t) {
    const uint64_t at = piece * kCudaPiece + lane * kCudaEach;
    const auto form = static_cast<SparseForm>(call.form);
    uint64_t index = at;
    const std::byte* values = call.message;
    if (form == SparseForm::kBitmap) {
      values += call.values_at;
      index = call.starts[piece / kCudaRegionPieces] + call.offsets[piece] + before;
    }
    const float unsaid = form == SparseForm::kAllNan ? bits_as<float>(Float32::kNan) : 0;
    CudaLane terms;
    if constexpr (Adds) terms = load_lane<Float32>(call.other, at, call.count);
    BANYAN_UNROLLED
    for (unsigned i = 0; i < kCudaEach; i++) {
      const float term = Adds ? terms.values[i] : unsaid;
      mine.values.values[i] = term;
      if ((mine.said >> i & 1) == 0) continue;
      const float value = carried_at(values, index++, call.bytes);
      mine.values.values[i] = Adds ? sum_with(term, value) : value;
    }
    store_lane<Float32>(call.values, at, call.count, mine.values);
  }
};

// A warp has a list, of a region of so many values. Its lanes have nothing to count.
template <bool Adds, uint64_t kValues>
struct ListOfWarp {
  struct Lane {};
  BANYAN_HOST_DEVICE static uint64_t items(const CudaSparseCall& call) {
    return sparse_lists(call.count, kValues);
  }
  BANYAN_HOST_DEVICE static uint64_t begin(const CudaSparseCall&, uint64_t, unsigned, Lane&) {
    return 0;
  }
  BANYAN_HOST_DEVICE static void put(const CudaSparseCall& call, uint64_t index, float value) {
    std::byte* const to = call.values + index * sizeof(float);
    if constexpr (Adds) {
      store_anywhere<float>(to, sum_with(load_anywhere<float>(to), value));
    } else {
      store_anywhere<float>(to, value);
    }
  }
};

template <bool Adds>
struct ScatterSparse : ListOfWarp<Adds, kCudaRegion> {
  using typename ListOfWarp<Adds, kCudaRegion>::Lane;
  BANYAN_HOST_DEVICE static void end(const CudaSparseCall& call, uint64_t region, unsigned lane,
                                     Lane&, uint64_t, uint64_t) {
    const SparsePlan plan = *call.plan;
    const std::byte* const words = call.message + sparse_words_at(call.count);
    const std::byte* const values =
        call.message + sparse_values_at(SparseForm::kList, call.count, plan.kept);
    const uint64_t start = call.starts[region];
    const uint32_t listed = call.totals[region];
    for (uint32_t i = lane; i < listed; i += kCudaLanes) {
      const uint64_t place =
          region * kCudaRegion + load_anywhere<uint16_t>(words + (start + i) * sizeof(uint16_t));
      ListOfWarp<Adds, kCudaRegion>::put(call, place, carried_at(values, start + i, call.bytes));
    }
  }
};

#ifdef __CUDACC__
// All lanes of a warp are here, or none.
template <class Function, class Call>
__device__ void run_counting(const Call& call, CudaThread thread) {
  using Scan = cub::WarpScan<uint64_t>;
  typename Scan::TempStorage room;  // of a whole warp it has no bytes: lanes have shuffles
  const unsigned lane = thread.index % kCudaLanes;
  const uint64_t stride = static_cast<uint64_t>(thread.blocks) * kCudaWarps;
  const uint64_t items = Function::items(call);
  for (uint64_t item = static_cast<uint64_t>(thread.block) * kCudaWarps + thread.index / kCudaLanes;
       item < items; item += stride) {
    typename Function::Lane mine;
    const uint64_t own = Function::begin(call, item, lane, mine);
    uint64_t before = 0, all = 0;
    Scan(room).ExclusiveSum(own, before, all);
    Function::end(call, item, lane, mine, before, all);
  }
}
#endif

// The same for all threads of a launch, one after another.
template <class Function, class Call>
void run_all_counting(const Call& call, unsigned blocks) {
  const uint64_t items = Function::items(call);
  const uint64_t stride = static_cast<uint64_t>(blocks) * kCudaWarps;
  for (uint64_t warp = 0; warp < stride; ++warp)
    for (uint64_t item = warp; item < items; item += stride) {
      typename Function::Lane lanes[kCudaLanes];
      uint64_t before[kCudaLanes + 1] = {};
      for (unsigned lane = 0; lane < kCudaLanes; ++lane)
        before[lane + 1] = before[lane] + Function::begin(call, item, lane, lanes[lane]);
      for (unsigned lane = 0; lane < kCudaLanes; ++lane)
        Function::end(call, item, lane, lanes[lane], before[lane], before[kCudaLanes]);
    }
}

}  // namespace
}  // namespace banyan
