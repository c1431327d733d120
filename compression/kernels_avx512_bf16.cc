// These kernels are for AVX-512 with BF16, whose instructions round to bfloat16.
//
// They round to nearest even as the specification does, but take subnormals for zeros and leave a
// NaN its payload. Vectors with either are rounded as without them.
// SPDX-License-Identifier: Apache-2.0

#if !defined(__AVX512BF16__)
#error "compile this file with -mavx512bf16"
#endif

#include "compression/lanes_avx512.inc"

namespace banyan {
namespace {

__mmask16 nan_or_subnormal(Floats floats) {
  constexpr int kQuietNan = 0x01;
  constexpr int kSubnormal = 0x20;
  constexpr int kSignallingNan = 0x80;
  return _mm512_fpclass_ps_mask(floats, kQuietNan | kSubnormal | kSignallingNan);
}

Halves to_bfloat(Floats floats) {
  if (nan_or_subnormal(floats) != 0) [[unlikely]]
    return shorten(round_to_bfloat(floats));
  return reinterpret_cast<Halves>(_mm512_cvtneps_pbh(floats));
}

Words to_bfloats(Floats even, Floats odd) {
  if ((nan_or_subnormal(even) | nan_or_subnormal(odd)) != 0) [[unlikely]] {
    return round_to_bfloats(even, odd);
  }
  using Pairs [[gnu::vector_size(4 * kLanes)]] = uint16_t;
  const auto halves = reinterpret_cast<Pairs>(_mm512_cvtne2ps_pbh(odd, even));
  return reinterpret_cast<Words>(
      __builtin_shufflevector(halves, halves, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7,
                              23, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31));
}

}  // namespace
}  // namespace banyan

#include "compression/kernels.inc"

namespace banyan {

constinit const Kernels avx512_bf16_table = make_kernels("avx512_bf16");

}  // namespace banyan
