// The codecs for GPUs are compared here with the scalar ones, wherever they run, as
// cuda_kernels_checks.h does it with the kernels.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>

#include "compression/cuda/codecs.h"
#include "compression/cuda/onebit.h"
#include "tests/support/cuda_kernels_checks.h"

namespace banyan::test {

struct TestedCodecs {
  const CudaCodecs& codecs;
  DeviceMemory& memory;
  const Kernels& reference = *available_kernels().front();  // scalar
};

struct TestedOnebit {
  const CudaOnebit& onebit;
  DeviceMemory& memory;
  const Kernels& reference = *available_kernels().front();  // scalar
};

// All types, with and without NaN and infinity, as what follows does it with the other codecs.
void check_onebit_lengths(const TestedOnebit& tested);
void check_onebit_alignments(const TestedOnebit& tested);
// Messages that nobody has encoded.
void check_onebit_strangers(const TestedOnebit& tested);

// All codecs and types, by nearest and by chance: awkward counts, with and without what is left,
// apart and in place.
void check_codec_lengths(const TestedCodecs& tested);
// Every address of each pointer within a pack.
void check_codec_alignments(const TestedCodecs& tested);
// Messages that nobody has encoded.
void check_codec_strangers(const TestedCodecs& tested);
// Sums of what 1 to 16 ranks say, of awkward counts, apart and in place of a message.
void check_coded_folds(const TestedCodecs& tested);
// `count` values of every kind.
void check_codec_values(const TestedCodecs& tested, uint64_t count, uint64_t seed);

}  // namespace banyan::test
