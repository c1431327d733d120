// What the kernels of sparse codecs are told, and how their work is divided: both sides see it.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <cstdint>

#include "compression/cuda/codec_call.h"

namespace banyan {

inline constexpr uint64_t kCudaRegion = 65'536;                          // values of a list
inline constexpr uint64_t kCudaRegionPieces = kCudaRegion / kCudaPiece;  // as many as a warp counts
inline constexpr uint64_t kCudaSignRegion = kCudaRegion / 2;             // of a list of `sign`

// The forms of messages (codecs/sparse_forms.h), by their flags. One of kAllNan has no bytes.
enum class SparseForm : uint8_t { kList, kBitmap, kDense, kAllNan = 4 };

// What is known of a message once its values are counted.
struct SparsePlan {
  uint64_t kept = 0;  // values in it
  SparseForm form = SparseForm::kList;
};

// Bars that the bits of values pass: those from `split` on have their own.
struct SparseBars {
  uint32_t mask = 0;
  uint32_t before = 0;
  uint32_t behind = 0;
  uint64_t split = 0;
};

struct CudaSparseCall {
  std::byte* message = nullptr;
  std::byte* values = nullptr;
  std::byte* other = nullptr;  // of an encoder what is left, or null; of a sum its addend
  uint64_t count = 0;
  uint64_t message_bytes = 0;  // of an encoder's message the most, with its flags
  SparseBars bars{};           // of an encoder
  float size = 0;              // of `sign`: what it says, or the negative of it
  uint32_t bytes = 4;          // of a value in a message: 4 or 2, float32 or float16
  uint32_t form = 0;           // of a decoder: SparseForm
  uint64_t wanted = 0;         // of an encoder of randk: values in the message
  // Where a bitmap is, and where in the message its values begin. That of randk is in the room.
  const std::byte* bits = nullptr;
  uint64_t values_at = 0;
  // Room in the memory of the GPU.
  uint32_t* offsets =
      nullptr;  // by piece: its values before sparse_scan_pieces, then where it begins
  uint32_t* totals = nullptr;  // by region, or by list: its values
  uint64_t* starts = nullptr;  // likewise: how many values are in those before
  SparsePlan* plan = nullptr;
  // The bytes of the message and of the flags behind it, once they are known; of an encoder.
  uint64_t* said = nullptr;
};

BANYAN_HOST_DEVICE uint64_t sparse_pieces(uint64_t count) {
  return (count + kCudaPiece - 1) / kCudaPiece;
}
BANYAN_HOST_DEVICE uint64_t sparse_lists(uint64_t count, uint64_t region) {
  return (count + region - 1) / region;
}
BANYAN_HOST_DEVICE uint64_t sparse_regions(uint64_t count) {
  return sparse_lists(count, kCudaRegion);
}
BANYAN_HOST_DEVICE uint64_t sign_lists(uint64_t count) {
  return sparse_lists(count, kCudaSignRegion);
}

// Where the lists' words, and behind them or behind the bits the values, begin in a message.
BANYAN_HOST_DEVICE uint64_t sparse_words_at(uint64_t count) {
  return sparse_regions(count) * sizeof(uint32_t);
}
BANYAN_HOST_DEVICE uint64_t sparse_values_at(SparseForm form, uint64_t count, uint64_t kept) {
  switch (form) {
    case SparseForm::kList: return sparse_words_at(count) + kept * sizeof(uint16_t);
    case SparseForm::kBitmap: return (count + 7) / 8;
    case SparseForm::kDense:
    case SparseForm::kAllNan: break;
  }
  return 0;
}

// The shortest, of two that are equally long the first one.
BANYAN_HOST_DEVICE SparseForm shortest_form(uint64_t count, uint64_t kept, uint32_t bytes) {
  const uint64_t bits = (count + 7) / 8;
  const uint64_t lists = sparse_words_at(count);
  if (bits >= lists && kept <= (bits - lists) / sizeof(uint16_t)) return SparseForm::kList;
  const bool has_bits = count * bytes >= bits && kept <= (count * bytes - bits) / bytes;
  return has_bits ? SparseForm::kBitmap : SparseForm::kDense;
}

// Room for the counts of so many values, and itself a multiple of 8, as it begins at one. The most
// lists are those of `sign`.
inline size_t sparse_room(uint64_t count) {
  const uint64_t bytes = sizeof(SparsePlan) +
                         sign_lists(count) * (sizeof(uint64_t) + sizeof(uint32_t)) +
                         sparse_pieces(count) * sizeof(uint32_t);
  return (bytes + sizeof(uint64_t) - 1) / sizeof(uint64_t) * sizeof(uint64_t);
}

// A call that has that room, the widest parts first.
inline CudaSparseCall sparse_call_in(std::byte* room, uint64_t count, SparseForm form) {
  const uint64_t lists = sign_lists(count);
  CudaSparseCall call{.count = count, .form = static_cast<uint32_t>(form)};
  call.plan = reinterpret_cast<SparsePlan*>(room);
  call.starts = reinterpret_cast<uint64_t*>(room + sizeof(SparsePlan));
  call.totals = reinterpret_cast<uint32_t*>(call.starts + lists);
  call.offsets = call.totals + lists;
  return call;
}

// Blocks of a launch where each warp takes an item.
inline unsigned cuda_blocks_of_warps(uint64_t items) {
  const uint64_t blocks = (items + kCudaWarps - 1) / kCudaWarps;
  return static_cast<unsigned>(blocks == 0                ? 1
                               : blocks < kMostCudaBlocks ? blocks
                                                          : kMostCudaBlocks);
}

}  // namespace banyan
