// What the threads of a block do to select the largest magnitudes, as codecs/topk.inc does: a
// histogram of the topmost digit of all says in which bin the smallest one lies that is taken, the
// next one tells those of that bin apart, until all bits are known. Of those that are equal the
// first ones are taken, which are counted as what a message keeps.
//
// Alabi, Blanchard, Gordon and Steinbach, "Fast k-selection algorithms for graphics processing
// units", ACM Journal of Experimental Algorithmics 17, 2012, section 4.2, has histograms so.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>

#include "compression/cuda/count_in.h"
#include "compression/cuda/sparse_blocks.h"
#include "compression/cuda/topk_call.h"

namespace banyan {
namespace {

// All NaN are one, and the largest.
BANYAN_HOST_DEVICE uint32_t topk_key(float value) {
  const uint32_t magnitude = bits_as<uint32_t>(value) & Float32::kMagnitude;
  return magnitude > Float32::kTopExponent ? Float32::kNan : magnitude;
}

// The bins of a block, which are added to those of all.
struct TopkHistogram {
  struct Shared {
    uint32_t bins[kTopkBins];
  };

  BANYAN_HOST_DEVICE static void begin(Shared& shared, unsigned thread) {
    for (unsigned bin = thread; bin < kTopkBins; bin += kCudaThreads) shared.bins[bin] = 0;
  }
  BANYAN_HOST_DEVICE static void add(const CudaTopkCall& call, Shared& shared, CudaThread thread) {
    const TopkState state = *call.state;
    if (state.takes_all != 0) return;
    const uint64_t stride = static_cast<uint64_t>(thread.blocks) * kCudaThreads;
    const uint64_t lanes = sparse_pieces(call.count) * kCudaLanes;
    for (uint64_t lane = static_cast<uint64_t>(thread.block) * kCudaThreads + thread.index;
         lane < lanes; lane += stride) {
      const uint64_t at = lane * kCudaEach;
      const CudaLane mine = load_lane<Float32>(call.values, at, call.count);
      const unsigned here = values_here(at, call.count);
      BANYAN_UNROLLED
      for (unsigned i = 0; i < kCudaEach; i++) {
        const uint32_t digit = (topk_key(mine.values[i]) ^ state.found) >> call.shift;
        const bool belongs = digit >> (call.unknown - call.shift) == 0;
        if (belongs && i < here) count_in<uint32_t>(shared.bins[digit], 1);
      }
    }
  }
  BANYAN_HOST_DEVICE static void end(const CudaTopkCall& call, const Shared& shared,
                                     unsigned thread) {
    for (unsigned bin = thread; bin < kTopkBins; bin += kCudaThreads)
      if (shared.bins[bin] != 0)
        count_in<unsigned long long>(reinterpret_cast<unsigned long long*>(call.bins)[bin],
                                     shared.bins[bin]);
  }
};

// One warp: each lane has some bins, the first lane the topmost.
struct BinsOfLane {
  static constexpr unsigned kBins = kTopkBins / kCudaLanes;
  BANYAN_HOST_DEVICE static uint64_t items(const CudaTopkCall&) { return 1; }
  BANYAN_HOST_DEVICE static unsigned end_of(unsigned lane) { return kTopkBins - lane * kBins; }
};

struct TopkBegin : BinsOfLane {
  struct Lane {};
  BANYAN_HOST_DEVICE static uint64_t begin(const CudaTopkCall& call, uint64_t, unsigned lane,
                                           Lane&) {
    for (unsigned i = 0; i < kBins; i++) call.bins[end_of(lane) - 1 - i] = 0;
    if (lane == 0) *call.state = {call.wanted, 0, 0};
    return 0;
  }
  BANYAN_HOST_DEVICE static void end(const CudaTopkCall&, uint64_t, unsigned, Lane&, uint64_t,
                                     uint64_t) {}
};

// In which bin the smallest lies that is taken. The bins are empty afterwards.
struct TopkChoose : BinsOfLane {
  using Lane = TopkState;
  BANYAN_HOST_DEVICE static uint64_t begin(const CudaTopkCall& call, uint64_t, unsigned lane,
                                           Lane& mine) {
    mine = *call.state;
    uint64_t sum = 0;
    for (unsigned i = 0; i < kBins; i++) sum += call.bins[end_of(lane) - 1 - i];
    return sum;
  }
  BANYAN_HOST_DEVICE static void end(const CudaTopkCall& call, uint64_t, unsigned lane, Lane& mine,
                                     uint64_t before, uint64_t) {
    bool is_found = mine.takes_all != 0;
    for (unsigned i = 0; i < kBins; i++) {
      const unsigned bin = end_of(lane) - 1 - i;
      const uint64_t here = call.bins[bin];
      call.bins[bin] = 0;
      if (!is_found && before < mine.wanted && mine.wanted <= before + here) {
        const uint64_t wanted = mine.wanted - before;
        *call.state = {wanted, mine.found | bin << call.shift, wanted == here ? 1U : 0U};
        is_found = true;
      }
      before += here;
    }
  }
};

struct PiecesOfTies : Pieces<CudaTopkCall> {
  BANYAN_HOST_DEVICE static uint64_t begin(const CudaTopkCall& call, uint64_t piece, unsigned lane,
                                           Lane& mine) {
    const TopkState state = *call.state;
    const uint64_t at = piece * kCudaPiece + lane * kCudaEach;
    mine.said = 0;
    if (state.takes_all != 0) return 0;
    mine.values = load_lane<Float32>(call.values, at, call.count);
    const unsigned here = values_here(at, call.count);
    BANYAN_UNROLLED
    for (unsigned i = 0; i < kCudaEach; i++) {
      const bool ties = topk_key(mine.values.values[i]) == state.found;
      mine.said |= ties && i < here ? 1U << i : 0;
    }
    return ones_in(mine.said);
  }
};

struct CountTies : PiecesOfTies {
  BANYAN_HOST_DEVICE static void end(const CudaTopkCall& call, uint64_t piece, unsigned lane, Lane&,
                                     uint64_t, uint64_t all) {
    if (lane == 0) call.offsets[piece] = static_cast<uint32_t>(all);
  }
};

// Whoever has the last one that is taken says so.
struct TopkEnd : PiecesOfTies {
  BANYAN_HOST_DEVICE static void say(const CudaTopkCall& call, uint32_t found, uint64_t ties_end) {
    const double magnitude = bits_as<float>(found);
    *call.selection = {
        found == Float32::kNan ? uint64_t{Float64::kNan} : bits_as<uint64_t>(magnitude),
        call.first + ties_end};
  }
  BANYAN_HOST_DEVICE static void end(const CudaTopkCall& call, uint64_t piece, unsigned lane,
                                     Lane& mine, uint64_t before, uint64_t) {
    const TopkState state = *call.state;
    if (state.takes_all != 0) {
      if (piece == 0 && lane == 0) say(call, state.found, call.count);
      return;
    }
    uint64_t taken = call.starts[piece / kCudaRegionPieces] + call.offsets[piece] + before;
    BANYAN_UNROLLED
    for (unsigned i = 0; i < kCudaEach; i++) {
      taken += mine.said >> i & 1;
      if ((mine.said >> i & 1) != 0 && taken == state.wanted)
        say(call, state.found, piece * kCudaPiece + lane * kCudaEach + i + 1);
    }
  }
};

#ifdef __CUDACC__
template <class Function, class Call>
__device__ void run_block(const Call& call, CudaThread thread) {
  __shared__ typename Function::Shared shared;
  Function::begin(shared, thread.index);
  __syncthreads();
  Function::add(call, shared, thread);
  __syncthreads();
  Function::end(call, shared, thread.index);
}
#endif

// The same on the host: what is between two barriers is a loop over the threads.
template <class Function, class Call>
void run_all_blocks(const Call& call, unsigned blocks) {
  for (unsigned block = 0; block < blocks; ++block) {
    typename Function::Shared shared;
    for (unsigned i = 0; i < kCudaThreads; ++i) Function::begin(shared, i);
    for (unsigned i = 0; i < kCudaThreads; ++i) Function::add(call, shared, {block, blocks, i});
    for (unsigned i = 0; i < kCudaThreads; ++i) Function::end(call, shared, i);
  }
}

}  // namespace
}  // namespace banyan
