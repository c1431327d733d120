// A floating format is three numbers: exponent bits, mantissa bits, and whether there is an
// infinity.
// SPDX-License-Identifier: Apache-2.0

#include "bench/perf/elements.h"

#include <fmt/core.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace banyan::perf {

namespace {

struct Format {
  int exponent_bits;
  int mantissa_bits;
  bool has_infinity;

  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  uint64_t exponent_mask() const { return (uint64_t{1} << exponent_bits) - 1; }
  uint64_t mantissa_mask() const { return (uint64_t{1} << mantissa_bits) - 1; }
};

Format format_of(DataType type) {
  switch (type) {
    case DataType::kFloat16: return {5, 10, true};
    case DataType::kBfloat16: return {8, 7, true};
    case DataType::kFloat8E4m3: return {4, 3, false};
    case DataType::kFloat8E5m2: return {5, 2, true};
    case DataType::kFloat32: return {8, 23, true};
    case DataType::kFloat64: return {11, 52, true};
    case DataType::kInt8:
    case DataType::kUint8:
    case DataType::kInt32:
    case DataType::kUint32:
    case DataType::kInt64:
    case DataType::kUint64: break;
  }
  return {0, 0, false};
}

// Gives the exponent that the leading bit of a finite magnitude has in this format; the smallest
// one for zero and subnormal numbers.
int exponent_at(const Format& format, long double magnitude) {
  const int smallest = 1 - format.bias();
  if (magnitude == 0) return smallest;
  int exponent = 0;
  std::frexp(magnitude, &exponent);
  return exponent - 1 < smallest ? smallest : exponent - 1;
}

int width_of(DataType type) {
  return static_cast<int>(8 * size_of(type));
}

}  // namespace

uint64_t load_bits(DataType type, const std::byte* element) {
  uint64_t bits = 0;
  std::memcpy(&bits, element, size_of(type));
  return bits;
}

void store_bits(DataType type, uint64_t bits, std::byte* element) {
  std::memcpy(element, &bits, size_of(type));
}

long double value_of(DataType type, uint64_t bits) {
  if (type == DataType::kFloat32) return std::bit_cast<float>(static_cast<uint32_t>(bits));
  if (type == DataType::kFloat64) return std::bit_cast<double>(bits);
  const Format format = format_of(type);
  const uint64_t exponent = bits >> format.mantissa_bits & format.exponent_mask();
  const uint64_t mantissa = bits & format.mantissa_mask();
  const bool negative = (bits >> (format.exponent_bits + format.mantissa_bits) & 1) != 0;
  long double magnitude = 0;
  const bool top = exponent == format.exponent_mask();
  if (top && format.has_infinity) {
    magnitude = mantissa == 0 ? std::numeric_limits<long double>::infinity()
                              : std::numeric_limits<long double>::quiet_NaN();
  } else if (top && mantissa == format.mantissa_mask()) {
    magnitude = std::numeric_limits<long double>::quiet_NaN();
  } else {
    const uint64_t leading = exponent == 0 ? 0 : format.mantissa_mask() + 1;
    const int scale = static_cast<int>(exponent == 0 ? 1 : exponent) - format.bias();
    magnitude =
        std::ldexp(static_cast<long double>(leading + mantissa), scale - format.mantissa_bits);
  }
  return negative ? -magnitude : magnitude;
}

uint64_t bits_of(DataType type, long double value) {
  const Format format = format_of(type);
  const uint64_t top = format.exponent_mask() << format.mantissa_bits;
  const uint64_t quiet_nan = format.has_infinity ? top | uint64_t{1} << (format.mantissa_bits - 1)
                                                 : top | format.mantissa_mask();
  if (std::isnan(value)) return quiet_nan;
  const uint64_t overflow = format.has_infinity ? top : quiet_nan;
  const uint64_t sign = std::signbit(value) ? uint64_t{1} << (width_of(type) - 1) : 0;
  const long double magnitude = std::fabs(value);
  if (std::isinf(magnitude)) return sign | overflow;
  const int exponent = exponent_at(format, magnitude);
  if (exponent > format.bias() + 1) return sign | overflow;
  // In units of the last place; a carry out of the mantissa moves into the exponent by itself.
  const auto units =
      static_cast<uint64_t>(std::nearbyint(std::ldexp(magnitude, format.mantissa_bits - exponent)));
  const auto stored = static_cast<uint64_t>(exponent + format.bias() - 1);
  const uint64_t bits = (stored << format.mantissa_bits) + units;
  return sign | (bits > overflow ? overflow : bits);
}

long double unit_at(DataType type, long double value) {
  const Format format = format_of(type);
  return std::ldexp(1.0L, exponent_at(format, std::fabs(value)) - format.mantissa_bits);
}

bool is_signed(DataType type) {
  return type == DataType::kInt8 || type == DataType::kInt32 || type == DataType::kInt64;
}

uint64_t narrow(DataType type, uint64_t wide) {
  const int unused = 64 - width_of(type);
  return wide << unused >> unused;
}

uint64_t widen(DataType type, uint64_t bits) {
  if (!is_signed(type)) return bits;
  const int unused = 64 - width_of(type);
  return static_cast<uint64_t>(static_cast<int64_t>(bits << unused) >> unused);
}

std::string to_text(DataType type, uint64_t bits) {
  if (is_floating(type))
    return fmt::format("{} (0x{:0{}x})", static_cast<double>(value_of(type, bits)), bits,
                       2 * size_of(type));
  if (is_signed(type)) return fmt::format("{}", static_cast<int64_t>(widen(type, bits)));
  return fmt::format("{}", bits);
}

}  // namespace banyan::perf
