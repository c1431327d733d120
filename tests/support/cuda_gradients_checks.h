// The kernels that make contributions of gradients, and look at them, are compared here with plain
// code, wherever they run.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "compression/cuda/gradients.h"
#include "compression/cuda/kernels.h"
#include "tests/support/cuda_kernels_checks.h"

namespace banyan::test {

struct TestedGradients {
  const CudaGradients& gradients;
  const CudaKernels& kernels;
  DeviceMemory& memory;
};

// All types, awkward lengths and places, with and without a scale, a velocity and a residual.
void check_contributions(const TestedGradients& tested);
// Squares of all values and of a sample, and how many are not finite.
void check_looks(const TestedGradients& tested);
void check_forgetting(const TestedGradients& tested);
// What casts leave is what the codecs fp16 and bf16 leave.
void check_leaving(const TestedGradients& tested);

}  // namespace banyan::test
