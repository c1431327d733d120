// What the codecs of scaled blocks share: the kinds of codes there are, and what every instruction
// set does to a whole block of them. A value is a code times the scale of its block.
//
// Internal linkage for the reason that float_formats.h gives.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <cstring>

#include "compression/float_formats.h"
#include "compression/loops.h"

namespace banyan {
namespace {

// A kind has the bits of a code, the code of zero, the largest magnitude that any code says,
// whether a code may be chosen by chance, and whether a code times a scale may be a NaN that is not
// the canonical one.
//
// Two's complement. What encoders write has a magnitude of at most kLargest.
template <size_t kWidth>
struct IntegerCodes {
  static constexpr size_t kBits = kWidth;
  static constexpr uint8_t kZero = 0;
  static constexpr float kMost = 1 << (kBits - 1);
  static constexpr float kLargest = kMost - 1;
  static constexpr bool kHaveChance = true;
  static constexpr bool kAnyNan = false;
};

// Floats of 8 bits. Encoders write what is finite.
template <class Format>
struct FloatCodes {
  static constexpr size_t kBits = 8;
  static constexpr uint8_t kZero = 0;
  static constexpr float kMost = widen<Format>(Format::kLargest);
  static constexpr uint32_t kLargest = Format::kOverflow - 1;  // as bits
  static constexpr bool kHaveChance = true;
  static constexpr bool kAnyNan = true;
};

// A place in the map of dyn8_map.h.
struct MapCodes {
  static constexpr size_t kBits = 8;
  static constexpr uint8_t kZero = 127;
  static constexpr float kMost = 1;
  static constexpr bool kHaveChance = false;
  static constexpr bool kAnyNan = false;
};

// One bit is 1 for -1 and 0 for 1. Compilers take the product for a change of sign.
struct SignCodes {
  static constexpr size_t kBits = 1;
  static constexpr uint8_t kZero = 0;
  static constexpr float kMost = 1;
  static constexpr bool kHaveChance = false;
  static constexpr bool kAnyNan = true;
};

// What a code is multiplied by, and the largest magnitude that comes out. Or NaN, and NaN comes
// out.
struct Scale {
  float factor;
  float largest;
};

// Every instruction set has these, for whole blocks at any address. Only `left` may be `values`,
// and `sum` may be `addend`.
//
// The largest magnitude of each block, as bits, in whose order NaN is the largest. kBlocks is a
// power of two.
template <size_t kBlock, size_t kBlocks>
void largest_magnitudes(uint32_t* largest, const std::byte* values);
// Products of finite values and the factor of their block are within what encoders write, but for
// rounding. Values that are not finite become any code.
template <class Codes, size_t kBlock, size_t kBlocks>
void to_codes(std::byte* codes, const std::byte* values, const float* factors);
// The same, but a product becomes either of its neighbours, by its word of chance.
template <class Codes, size_t kBlock, size_t kBlocks>
void to_codes_by_chance(std::byte* codes, const std::byte* values, const float* factors,
                        const uint32_t* chance);
template <class Codes, size_t kBlock>
void from_codes(std::byte* values, const std::byte* codes, Scale scale);
template <class Codes, size_t kBlock>
void subtract_codes(std::byte* left, const std::byte* values, const std::byte* codes, Scale scale);
template <class Codes, size_t kBlock>
void add_codes(std::byte* sum, const std::byte* addend, const std::byte* codes, Scale scale);

// At this sum float32 has no bits below one, so that it is rounded to an integer, to nearest even,
// and the integer's lowest bits are the sum's.
inline constexpr float kIntegerAnchor = 1.5F * power_of_two(Float32::kMantissaBits);

// The largest integer that is not above it. `Float` is float, or a vector of them.
template <typename Float>
constexpr Float round_down(Float below_2_22) {
  const Float nearest = below_2_22 + kIntegerAnchor - kIntegerAnchor;
  return nearest > below_2_22 ? nearest - 1.0F : nearest;
}

template <typename Float>
constexpr Float clamp(Float value, Float largest) {
  value = value > largest ? largest : value;
  return value < -largest ? -largest : value;
}

// Codes of a block, a byte each, become what a message has: the first one in the lowest bits.
template <class Codes, size_t kBlock>
void pack(std::byte* codes, const std::byte* bytes) {
  constexpr size_t kTogether = 8 / Codes::kBits;
  for (size_t i = 0; i < kBlock / kTogether; ++i) {
    unsigned byte = 0;
    for (size_t j = 0; j < kTogether; ++j) {
      const unsigned code = load<uint8_t>(bytes + i * kTogether + j);
      byte |= (code & ((1U << Codes::kBits) - 1)) << (j * Codes::kBits);
    }
    store(codes + i, static_cast<uint8_t>(byte));
  }
}

}  // namespace
}  // namespace banyan
