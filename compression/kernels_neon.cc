// Kernels for NEON, which every 64-bit ARM processor has: vectors of 128 bits.
// SPDX-License-Identifier: Apache-2.0

#include <arm_neon.h>

#include "compression/float_formats.h"
#include "compression/kernel_tables.h"
#include "compression/loops.h"

namespace banyan {
namespace {

constexpr size_t kLanes = 4;

}  // namespace
}  // namespace banyan

#include "compression/lanes.inc"

namespace banyan {
namespace {

Floats from_half(Halves halves) {
  return reinterpret_cast<Floats>(vcvt_f32_f16(reinterpret_cast<float16x4_t>(halves)));
}

Halves to_half(Floats floats) {
  return reinterpret_cast<Halves>(vcvt_f16_f32(reinterpret_cast<float32x4_t>(floats)));
}

Words load_halves(const std::byte* from) {
  return reinterpret_cast<Words>(
      vmovl_u16(vreinterpret_u16_u64(vcreate_u64(load<uint64_t>(from)))));
}

uint8x8_t load_four(const std::byte* from) {
  return vreinterpret_u8_u64(vcreate_u64(load<uint32_t>(from)));
}

Halves load_octets(const std::byte* from) {
  return reinterpret_cast<Halves>(vget_low_u16(vmovl_u8(load_four(from))));
}

Halves to_bfloat(Floats floats) {
  return reinterpret_cast<Halves>(vmovn_u32(reinterpret_cast<uint32x4_t>(round_to_bfloat(floats))));
}

Words to_bfloats(Floats even, Floats odd) {
  return round_to_bfloats(even, odd);
}

void store_octets(std::byte* to, Words below_2_8) {
  const uint16x4_t halves = vmovn_u32(reinterpret_cast<uint32x4_t>(below_2_8));
  const uint8x8_t octets = vmovn_u16(vcombine_u16(halves, halves));
  store(to, vget_lane_u32(vreinterpret_u32_u8(octets), 0));
}

Floats load_codes(const std::byte* from) {
  const int8x8_t codes = vreinterpret_s8_u8(load_four(from));
  return reinterpret_cast<Floats>(vcvtq_f32_s32(vmovl_s16(vget_low_s16(vmovl_s8(codes)))));
}

// The lower halves of each half, that is: the lowest octets of words.
OctetPairs to_octets(Words first, Words second, Words third, Words fourth) {
  const auto halves = [](Words a, Words b) {
    return vuzp1q_u16(reinterpret_cast<uint16x8_t>(a), reinterpret_cast<uint16x8_t>(b));
  };
  return reinterpret_cast<OctetPairs>(vuzp1q_u8(vreinterpretq_u8_u16(halves(first, second)),
                                                vreinterpretq_u8_u16(halves(third, fourth))));
}

OctetPairs to_octets(Floats first, Floats second, Floats third, Floats fourth) {
  const auto rounded = [](Floats floats) {
    return reinterpret_cast<Words>(vcvtnq_s32_f32(reinterpret_cast<float32x4_t>(floats)));
  };
  return to_octets(rounded(first), rounded(second), rounded(third), rounded(fourth));
}

void store_octets(std::byte* to, OctetPairs below_2_8) {
  const uint8x8_t octets = vmovn_u16(reinterpret_cast<uint16x8_t>(below_2_8));
  store(to, vget_lane_u64(vreinterpret_u64_u8(octets), 0));
}

// There are no eight lanes, so that half a word is all that is read of one.
Words load_eighths(const std::byte* from) {
  return Words{} + load<uint16_t>(from);
}

Words gather(const uint32_t* table, Words place) {
  return Words{table[place[0]], table[place[1]], table[place[2]], table[place[3]]};
}

Words multiply_high(Words words, uint32_t factor) {
  const auto all = reinterpret_cast<uint32x4_t>(words);
  const uint32x4_t low = vreinterpretq_u32_u64(vmull_n_u32(vget_low_u32(all), factor));
  const uint32x4_t high = vreinterpretq_u32_u64(vmull_n_u32(vget_high_u32(all), factor));
  return reinterpret_cast<Words>(vuzp2q_u32(low, high));
}

// A bit for each lane whose bits are all set.
uint32_t bits_of(uint32x4_t lanes) {
  constexpr Words kBits = {1, 2, 4, 8};
  return vaddvq_u32(vandq_u32(lanes, reinterpret_cast<uint32x4_t>(kBits)));
}

LaneBits below_zero(Floats floats) {
  return static_cast<LaneBits>(bits_of(vcltzq_f32(reinterpret_cast<float32x4_t>(floats))));
}

Words larger(Words a, Words b) {
  return reinterpret_cast<Words>(
      vmaxq_u32(reinterpret_cast<uint32x4_t>(a), reinterpret_cast<uint32x4_t>(b)));
}

uint32_t lanes_from(Words words, uint32_t least) {
  return bits_of(vcgeq_u32(reinterpret_cast<uint32x4_t>(words), vdupq_n_u32(least)));
}

void take(Picks<float>& picks, const std::byte* values, uint32_t lanes, size_t place) {
  take_each(picks, values, lanes, place);
}

}  // namespace
}  // namespace banyan

#include "compression/kernels.inc"

namespace banyan {

constinit const Kernels neon_table = make_kernels("neon");

}  // namespace banyan
