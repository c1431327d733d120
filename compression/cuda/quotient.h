// How a kernel divides the elements of a sum: by a factor where that is exact, or it divides.
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

}  // namespace banyan
