// By what kernels scale elements, and how they divide sums: by a factor where that is exact.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>

#include "banyan/types.h"
#include "compression/cuda/kernel_names.h"

namespace banyan {

struct CudaQuotient {
  CudaScaling by;
  uint64_t operand;  // what the kernel's function takes, as bits of the accumulator
};

// divisor >= 1
CudaQuotient cuda_quotient(DataType type, int divisor);
// The factor that an element in the memory of the host is, as bits of the accumulator; null: one.
uint64_t cuda_factor(DataType type, const void* scalar);

}  // namespace banyan
