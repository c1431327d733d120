// What one value becomes, and one code: the specification of the codecs of scaled blocks, value by
// value. Kernels for GPUs are made of the same functions.
//
// Internal linkage for the reason that float_formats.h gives.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>

#include "compression/codecs/blocks.h"
#include "compression/codecs/dyn8_map.h"
#include "compression/float_formats.h"

namespace banyan {
namespace {

// From 0 to below 1. A word has more bits than float32 holds exactly.
constexpr float share_of(uint32_t chance) {
  return static_cast<float>(chance >> 8) * power_of_two(-24);
}

template <size_t kBits>
constexpr uint8_t to_code(IntegerCodes<kBits>, float product) {
  return static_cast<uint8_t>(__builtin_bit_cast(uint32_t, product + kIntegerAnchor));
}

template <size_t kBits>
constexpr uint8_t to_code(IntegerCodes<kBits> codes, float product, uint32_t chance) {
  return to_code(codes, clamp(round_down(product + share_of(chance)), codes.kLargest));
}

template <size_t kBits>
constexpr float from_code(IntegerCodes<kBits>, uint8_t code) {
  return static_cast<float>(static_cast<int8_t>(code << (8 - kBits)) >> (8 - kBits));
}

template <class Format>
constexpr uint8_t to_code(FloatCodes<Format>, float product) {
  return narrow<Format>(product);
}

// Adds chance below the bits that stay.
template <class Format>
constexpr uint8_t to_code(FloatCodes<Format> codes, float product, uint32_t chance) {
  using Step = Narrowing<Format>;
  const auto bits = __builtin_bit_cast(uint32_t, product);
  const uint32_t magnitude = bits & Float32::kMagnitude;
  const float steps = __builtin_bit_cast(float, magnitude) * (1 / Step::kSmallestSubnormal);
  const uint32_t rounded =
      magnitude < Step::kSmallestNormal
          ? static_cast<uint32_t>(round_down(steps + share_of(chance)))
          : ((magnitude + (chance >> (32 - Step::kShift))) >> Step::kShift) - Step::kRebias;
  const uint32_t sign = bits >> Float32::kSignShift << Format::kSignShift;
  return static_cast<uint8_t>(sign | (rounded > codes.kLargest ? codes.kLargest : rounded));
}

template <class Format>
constexpr float from_code(FloatCodes<Format>, uint8_t code) {
  return widen<Format>(code);
}

constexpr uint8_t to_code(MapCodes, float product) {
  return nearest_in_map(product);
}

constexpr float from_code(MapCodes, uint8_t code) {
  return value_in_map(code);
}

constexpr uint8_t to_code(SignCodes, float product) {
  return product < 0 ? 1 : 0;
}

constexpr float from_code(SignCodes, uint8_t code) {
  return code == 0 ? 1 : -1;
}

template <class Codes>
constexpr float decode_one(uint8_t code, Scale scale) {
  const float value = clamp(from_code(Codes{}, code) * scale.factor, scale.largest);
  return Codes::kAnyNan ? canonical(value) : value;
}

}  // namespace
}  // namespace banyan
