// What a rank keeps between steps, as the bytes in which it outlives the process.
//
//   at  bytes                              then each tensor, in any order
//    0  4  magic: "BNYC"                    0  8  id
//    4  2  version: 1                       8  8  elements
//    6  2  0                               16  8  step until which it is exact
//    8  4  ranks                           24  4  1 where it has a residual, and 2 where a momentum
//   12  4  rank                            28  4  0
//   16  8  steps                           32  .. the residual, then the momentum: float32
//   24  8  tensors
//   32  8  bytes of the whole
//   40  4  0
//   44  4  CRC-32C of the whole, with 0 in this place
//
// Little-endian, at any address.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "banyan/status.h"
#include "src/reducer/tensor.h"

namespace banyan {

struct TensorState {
  uint64_t id = 0;
  uint64_t count = 0;             // elements of the tensor
  uint64_t exact_until = 0;       // step
  std::vector<float> residual{};  // `count` values, or none
  std::vector<float> momentum{};  // the same

  bool operator==(const TensorState&) const = default;
};

struct Checkpoint {
  uint32_t ranks = 1;
  uint32_t rank = 0;
  uint64_t steps = 0;
  std::vector<TensorState> tensors{};

  bool operator==(const Checkpoint&) const = default;
};

// The same, whose values stay where they are: runs of them, which follow one another.
using Runs = std::vector<std::span<const float>>;

struct TensorView {
  uint64_t id = 0;
  uint64_t count = 0;
  uint64_t exact_until = 0;
  Runs residual{};
  Runs momentum{};
};

struct CheckpointView {
  uint32_t ranks = 1;
  uint32_t rank = 0;
  uint64_t steps = 0;
  std::vector<TensorView> tensors{};  // no two of one id
};

size_t checkpoint_bytes(const CheckpointView& view);
// `room` has so many bytes.
void write_checkpoint(const CheckpointView& view, std::span<std::byte> room);

// Believes nothing. What it reads is written to the same bytes again.
//
//   kCorrupt  these bytes are cut, altered, of another version or no checkpoint; the text says
//   which
Result<Checkpoint> parse_checkpoint(std::span<const std::byte> bytes);

// Whether a checkpoint is of a model of these tensors, whatever their order.
//
//   kInvalidArgument  a tensor is missing on one side, or has another count; the text names it
Status check_against(const Checkpoint& checkpoint, std::span<const Tensor> tensors);

}  // namespace banyan
