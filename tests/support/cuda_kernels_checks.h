// The kernels for GPUs are compared here with the scalar table, wherever they run: on a device, or
// as the host build of the same source.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>

#include "compression/cuda/kernels.h"
#include "compression/kernels.h"

namespace banyan::test {

// Memory that the kernels reach.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;
  // A multiple of 64; null: the driver has refused.
  virtual std::byte* allocate(size_t bytes) = 0;
  virtual void release(std::byte* memory) = 0;
  virtual void write(std::byte* to, const void* from, size_t bytes) = 0;
  // After all kernels that were launched so far.
  virtual void read(void* to, const std::byte* from, size_t bytes) = 0;
};

struct Tested {
  const CudaKernels& kernels;
  DeviceMemory& memory;
  const Kernels& reference = *available_kernels().front();  // scalar
};

// All types and operations: awkward counts, in place and apart.
void check_combining_lengths(const Tested& tested);
void check_decoding_lengths(const Tested& tested);
void check_encoding_lengths(const Tested& tested);
// Every address of each pointer within a pack.
void check_alignments(const Tested& tested);
// All pairs of 8-bit elements, all 16-bit elements, special values for the rest.
void check_combining_patterns(const Tested& tested);
void check_decoding_patterns(const Tested& tested);
// Every upper half of a float32 with the lower halves where rounding turns, by every divisor.
void check_encoding_patterns(const Tested& tested);
// `count` random elements of each type.
void check_random(const Tested& tested, size_t count);

}  // namespace banyan::test
