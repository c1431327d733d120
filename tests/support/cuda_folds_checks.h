// The kernels that combine what several ranks have are compared here with the scalar table,
// wherever they run, as cuda_kernels_checks.h does it with the others.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <cstdint>

#include "compression/cuda/folds.h"
#include "tests/support/cuda_kernels_checks.h"

namespace banyan::test {

struct TestedFolds {
  const CudaFolds& folds;
  DeviceMemory& memory;
  const Kernels& reference = *available_kernels().front();  // scalar
};

// All types and operations, 1 to 16 ranks: awkward counts, apart and in place of a source.
void check_fold_lengths(const TestedFolds& tested);
// Every address of the result, and of a source, within a pack.
void check_fold_alignments(const TestedFolds& tested);
// `count` elements of any bits.
void check_fold_values(const TestedFolds& tested, uint64_t count, uint64_t seed);

}  // namespace banyan::test
