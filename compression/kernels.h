// The arithmetic of the library on host memory is one table of function pointers per instruction
// set.
//
// The scalar table is the specification; the others give the same bits. A NaN result is always the
// type's canonical quiet NaN (positive, only the top mantissa bit set; e4m3: 0x7F), so that the
// order of operands never shows.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "banyan/types.h"
#include "src/base/codec.h"
#include "src/base/kernel_types.h"

namespace banyan {

// Elements become accumulators: dst[i] = scalar * src[i], in accumulator_of(type, kSum).
// `scalar` points to one element of the *element* type, or is null for a plain widening.
// Where both types are the same, dst may equal src.
using DecodeKernel = void (*)(void* dst, const void* src, size_t count, const void* scalar);

// Accumulators become elements: dst[i] = round(src[i] / divisor), to nearest even; overflow becomes
// infinity, in e4m3 NaN. Integers: the wrapped sum, divided truncating towards zero. divisor >= 1.
// dst may equal src where both types are the same.
using EncodeKernel = void (*)(void* dst, const void* src, size_t count, int divisor);

struct Kernels {
  std::string_view name;  // "scalar", "avx2", "avx512", "avx512_bf16", "neon"
  // Computes dst = local (+) incoming, all of one type; ReduceOp kAvg and kPreMulSum add. Integers
  // wrap. Minimum and maximum are those of IEEE 754-2019: NaN wins, -0 < +0. A 16- or 8-bit float
  // type here rounds once per call of the operator: schedules sum in accumulators instead and use
  // this for kMin and kMax.
  CombineKernel reduce[kDataTypeCount][kReduceOpCount];
  // Computes dst = local (+) widened incoming: dst and local are accumulators, incoming are
  // elements. It equals `reduce` where accumulator and element type are the same.
  CombineKernel decode_reduce[kDataTypeCount][kReduceOpCount];
  DecodeKernel decode[kDataTypeCount];
  EncodeKernel encode[kDataTypeCount];
  std::span<const Codec> codecs;  // what codecs() lists, by this instruction set
};

// What this machine can run, scalar first, the best one last.
std::span<const Kernels* const> available_kernels();
const Kernels& best_kernels();

}  // namespace banyan
