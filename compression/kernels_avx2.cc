// Kernels for AVX2 and F16C: vectors of 256 bits.
// SPDX-License-Identifier: Apache-2.0

#if !defined(__AVX2__) || !defined(__F16C__)
#error "compile this file with -mavx2 -mf16c"
#endif

#include <immintrin.h>

#include "compression/float_formats.h"
#include "compression/kernel_tables.h"
#include "compression/loops.h"

namespace banyan {
namespace {

constexpr size_t kLanes = 8;

}  // namespace
}  // namespace banyan

#include "compression/lanes.inc"

namespace banyan {
namespace {

Floats from_half(Halves halves) {
  return _mm256_cvtph_ps(reinterpret_cast<__m128i>(halves));
}

Halves to_half(Floats floats) {
  return reinterpret_cast<Halves>(_mm256_cvtps_ph(floats, _MM_FROUND_TO_NEAREST_INT));
}

Words load_halves(const std::byte* from) {
  return reinterpret_cast<Words>(_mm256_cvtepu16_epi32(load<__m128i>(from)));
}

Halves load_octets(const std::byte* from) {
  return reinterpret_cast<Halves>(_mm_cvtepu8_epi16(_mm_cvtsi64_si128(load<int64_t>(from))));
}

__m128i shorten(Words below_2_16) {
  const auto words = reinterpret_cast<__m256i>(below_2_16);
  return _mm_packus_epi32(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
}

Halves to_bfloat(Floats floats) {
  return reinterpret_cast<Halves>(shorten(round_to_bfloat(floats)));
}

Words to_bfloats(Floats even, Floats odd) {
  return round_to_bfloats(even, odd);
}

void store_octets(std::byte* to, Words below_2_8) {
  const __m128i halves = shorten(below_2_8);
  store(to, _mm_cvtsi128_si64(_mm_packus_epi16(halves, halves)));
}

}  // namespace
}  // namespace banyan

#include "compression/kernels.inc"

namespace banyan {

constinit const Kernels avx2_table = make_kernels("avx2");

}  // namespace banyan
