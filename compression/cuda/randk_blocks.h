// What the lanes of a warp do for the codec randk (codecs/randk.inc), once it is known which places
// are chosen: it is read as a bitmap that does not travel.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>

#include "compression/cuda/sign_blocks.h"

namespace banyan {
namespace {

// Counts are of what is not finite, chosen or not.
struct ScanSpoilt : SpoilableRegions {
  BANYAN_HOST_DEVICE static void end(const CudaSparseCall& call, uint64_t, unsigned lane, Lane&,
                                     uint64_t, uint64_t all) {
    if (lane != 0) return;
    if (is_spoilt(all))
      say(call, {0, SparseForm::kAllNan}, 0);
    else
      say(call, {call.wanted, SparseForm::kBitmap}, call.wanted * call.bytes);
  }
};

// Values that are not chosen are read only to be left elsewhere.
struct WriteChosen : PiecesOfMessage {
  BANYAN_HOST_DEVICE static void end(const CudaSparseCall& call, uint64_t piece, unsigned lane,
                                     Lane& mine, uint64_t before, uint64_t) {
    const uint64_t at = piece * kCudaPiece + lane * kCudaEach;
    const bool spoilt = call.plan->form == SparseForm::kAllNan;
    if (spoilt && call.other == nullptr) return;
    const bool leaves = call.other != nullptr && !spoilt;
    if (leaves) mine.values = load_lane<Float32>(call.values, at, call.count);
    uint64_t index = call.starts[piece / kCudaRegionPieces] + call.offsets[piece] + before;
    BANYAN_UNROLLED
    for (unsigned i = 0; i < kCudaEach; i++) {
      if (spoilt) {
        mine.values.values[i] = 0;
      } else if ((mine.said >> i & 1) != 0) {
        const float value = leaves ? mine.values.values[i]
                                   : load_anywhere<float>(call.values + (at + i) * sizeof(float));
        carry(call.message, index, call.bytes, value);
        index++;
        mine.values.values[i] = finite_or_zero(value - carried(value, call.bytes));
      }
    }
    if (call.other != nullptr) store_lane<Float32>(call.other, at, call.count, mine.values);
  }
};

}  // namespace
}  // namespace banyan
