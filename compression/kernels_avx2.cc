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

Floats load_codes(const std::byte* from) {
  return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_cvtsi64_si128(load<int64_t>(from))));
}

// Packing works within halves of a vector.
OctetPairs in_order(__m256i packed) {
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  return reinterpret_cast<OctetPairs>(_mm256_permutevar8x32_epi32(packed, order));
}

OctetPairs to_octets(Floats first, Floats second, Floats third, Floats fourth) {
  const auto pack = [](Floats a, Floats b) {
    return _mm256_packs_epi32(_mm256_cvtps_epi32(a), _mm256_cvtps_epi32(b));
  };
  return in_order(_mm256_packs_epi16(pack(first, second), pack(third, fourth)));
}

OctetPairs to_octets(Words first, Words second, Words third, Words fourth) {
  const auto pack = [](Words a, Words b) {
    return _mm256_packs_epi32(reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(b));
  };
  return in_order(_mm256_packus_epi16(pack(first, second), pack(third, fourth)));
}

void store_octets(std::byte* to, OctetPairs below_2_8) {
  const auto pairs = reinterpret_cast<__m256i>(below_2_8);
  store(to, _mm_packus_epi16(_mm256_castsi256_si128(pairs), _mm256_extracti128_si256(pairs, 1)));
}

Words load_eighths(const std::byte* from) {
  return reinterpret_cast<Words>(_mm256_set1_epi32(load<int32_t>(from)));
}

Words gather(const uint32_t* table, Words place) {
  return reinterpret_cast<Words>(_mm256_i32gather_epi32(reinterpret_cast<const int*>(table),
                                                        reinterpret_cast<__m256i>(place), 4));
}

Words multiply_high(Words words, uint32_t factor) {
  const auto even = reinterpret_cast<__m256i>(words);
  const __m256i factors = _mm256_set1_epi64x(factor);
  const __m256i high = _mm256_srli_epi64(_mm256_mul_epu32(even, factors), 32);
  const __m256i odd = _mm256_mul_epu32(_mm256_srli_epi64(even, 32), factors);
  return reinterpret_cast<Words>(_mm256_blend_epi32(high, odd, 0b10101010));
}

LaneBits below_zero(Floats floats) {
  const __m256 below = _mm256_cmp_ps(floats, _mm256_setzero_ps(), _CMP_LT_OQ);
  return static_cast<LaneBits>(_mm256_movemask_ps(below));
}

Words larger(Words a, Words b) {
  return reinterpret_cast<Words>(
      _mm256_max_epu32(reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(b)));
}

uint32_t lanes_from(Words words, uint32_t least) {
  const auto is_least = reinterpret_cast<Floats>(larger(words, Words{} + least) == words);
  return static_cast<uint32_t>(_mm256_movemask_ps(is_least));
}

void take(Picks<float>& picks, const std::byte* values, uint32_t lanes, size_t place) {
  take_each(picks, values, lanes, place);
}

}  // namespace
}  // namespace banyan

#include "compression/kernels.inc"

namespace banyan {

constinit const Kernels avx2_table = make_kernels("avx2");

}  // namespace banyan
