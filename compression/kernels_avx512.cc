// Kernels for AVX-512 F, BW, VL and DQ: vectors of 512 bits.
// SPDX-License-Identifier: Apache-2.0

#if !defined(__AVX512F__) || !defined(__AVX512BW__) || !defined(__AVX512VL__) || \
    !defined(__AVX512DQ__)
#error "compile this file with -mavx512f -mavx512bw -mavx512vl -mavx512dq"
#endif

#include <immintrin.h>

#include "compression/float_formats.h"
#include "compression/kernel_tables.h"
#include "compression/loops.h"

namespace banyan {
namespace {

constexpr size_t kLanes = 16;

}  // namespace
}  // namespace banyan

#include "compression/lanes.inc"

namespace banyan {
namespace {

// g++ 12 warns of the unmasked intrinsics, which begin with an undefined vector.
constexpr __mmask16 kAll = 0xffff;

Floats from_half(Halves halves) {
  return _mm512_maskz_cvtph_ps(kAll, reinterpret_cast<__m256i>(halves));
}

Halves to_half(Floats floats) {
  return reinterpret_cast<Halves>(_mm512_maskz_cvtps_ph(kAll, floats, _MM_FROUND_TO_NEAREST_INT));
}

Words load_halves(const std::byte* from) {
  return reinterpret_cast<Words>(_mm512_maskz_cvtepu16_epi32(kAll, load<__m256i>(from)));
}

Halves load_octets(const std::byte* from) {
  return reinterpret_cast<Halves>(_mm256_cvtepu8_epi16(load<__m128i>(from)));
}

void store_halves(std::byte* to, Words below_2_16) {
  store(to, _mm512_maskz_cvtepi32_epi16(kAll, reinterpret_cast<__m512i>(below_2_16)));
}

void store_octets(std::byte* to, Words below_2_8) {
  store(to, _mm512_maskz_cvtepi32_epi8(kAll, reinterpret_cast<__m512i>(below_2_8)));
}

}  // namespace
}  // namespace banyan

#include "compression/kernels.inc"

namespace banyan {

constinit const Kernels avx512_table = make_kernels("avx512");

}  // namespace banyan
