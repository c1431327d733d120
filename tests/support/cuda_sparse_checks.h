// The sparse codecs for GPUs are compared here with the scalar ones, wherever they run, as
// cuda_kernels_checks.h does it with the kernels.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "compression/cuda/sparse.h"
#include "compression/cuda/topk.h"
#include "tests/support/cuda_kernels_checks.h"

namespace banyan::test {

struct TestedSparse {
  const CudaSparse& sparse;
  const CudaTopk& topk;
  DeviceMemory& memory;
  const Kernels& reference = *available_kernels().front();  // scalar
};

// Messages in every form, of awkward counts and of several regions, with and without what is left,
// apart and in place.
void check_sparse_lengths(const TestedSparse& tested);
// Places that are chosen of so many that their spans are cut twice.
void check_long_choice(const TestedSparse& tested);
// Every address of each pointer within a pack.
void check_sparse_alignments(const TestedSparse& tested);
// What is selected, of values that are all different or all alike, or of no size.
void check_topk(const TestedSparse& tested);
// `count` values of every kind.
void check_sparse_values(const TestedSparse& tested, uint64_t count, uint64_t seed);

}  // namespace banyan::test
