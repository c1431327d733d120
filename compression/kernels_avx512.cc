// Kernels for AVX-512 F, BW, VL and DQ.
// SPDX-License-Identifier: Apache-2.0

#include "compression/lanes_avx512.inc"

namespace banyan {
namespace {

Halves to_bfloat(Floats floats) {
  return shorten(round_to_bfloat(floats));
}

Words to_bfloats(Floats even, Floats odd) {
  return round_to_bfloats(even, odd);
}

}  // namespace
}  // namespace banyan

#include "compression/kernels.inc"

namespace banyan {

constinit const Kernels avx512_table = make_kernels("avx512");

}  // namespace banyan
