// The formats by their definition, in long double.
// SPDX-License-Identifier: Apache-2.0

#include "tests/support/kernels_reference.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

namespace banyan {

uint64_t get_bits(DataType type, const std::byte* element) {
  uint64_t bits = 0;  // little-endian
  std::memcpy(&bits, element, size_of(type));
  return bits;
}

void put_bits(DataType type, std::byte* element, uint64_t bits) {
  std::memcpy(element, &bits, size_of(type));
}

namespace {

struct Layout {
  int exponent_bits;
  int mantissa_bits;
  bool has_infinity;
};

Layout layout_of(DataType type) {
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

}  // namespace

uint64_t nan_of(DataType type) {
  const auto [e, m, has_infinity] = layout_of(type);
  if (!has_infinity) return (uint64_t{1} << (e + m)) - 1;
  return ((uint64_t{1} << (e + 1)) - 1) << (m - 1);
}

long double value_of(DataType type, uint64_t bits) {
  const auto [e, m, has_infinity] = layout_of(type);
  const long double sign = (bits >> (e + m) & 1) != 0 ? -1 : 1;
  const int bias = (1 << (e - 1)) - 1;
  const int exponent = static_cast<int>(bits >> m & ((1U << e) - 1));
  const uint64_t mantissa = bits & ((uint64_t{1} << m) - 1);
  if (exponent == (1 << e) - 1) {
    if (has_infinity && mantissa == 0) return sign * std::numeric_limits<long double>::infinity();
    if (has_infinity || mantissa == (uint64_t{1} << m) - 1) return std::nanl("");
  }
  const auto fraction = static_cast<long double>(mantissa);
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - m);
  return sign *
         std::ldexp(fraction + static_cast<long double>(uint64_t{1} << m), exponent - bias - m);
}

uint64_t rounded_bits(DataType type, long double value) {
  const auto [e, m, has_infinity] = layout_of(type);
  if (std::isnan(value)) return nan_of(type);
  const uint64_t sign = std::signbit(value) ? uint64_t{1} << (e + m) : 0;
  const int bias = (1 << (e - 1)) - 1;
  const uint64_t overflow = has_infinity ? sign | ((uint64_t{1} << e) - 1) << m : nan_of(type);
  if (std::isinf(value)) return overflow;
  const long double magnitude = std::fabs(value);
  int exponent = magnitude == 0 ? 1 - bias : std::ilogb(magnitude);
  exponent = std::max(exponent, 1 - bias);
  if (exponent > bias + 1) return overflow;
  // Whole units of the last place, the rest compared with one half.
  const long double units = std::ldexp(magnitude, m - exponent);
  auto whole = static_cast<uint64_t>(units);
  const long double rest = units - static_cast<long double>(whole);
  if (rest > 0.5L || (rest == 0.5L && (whole & 1) != 0)) whole++;
  const uint64_t bits = (static_cast<uint64_t>(exponent + bias - 1) << m) + whole;
  const uint64_t largest = has_infinity ? (((uint64_t{1} << e) - 1) << m) - 1 : nan_of(type) - 1;
  return bits > largest ? overflow : sign | bits;
}

namespace {

long double extreme_of(ReduceOp op, long double a, long double b) {
  if (std::isnan(a) || std::isnan(b)) return std::nanl("");
  if (a == 0 && b == 0) {
    const bool negative = op == ReduceOp::kMin ? std::signbit(a) || std::signbit(b)
                                               : std::signbit(a) && std::signbit(b);
    return negative ? -0.0L : 0.0L;
  }
  if (op == ReduceOp::kMin) return a < b ? a : b;
  return a > b ? a : b;
}

}  // namespace

uint64_t float_result(DataType type, ReduceOp op, long double a, long double b) {
  if (op == ReduceOp::kMax || op == ReduceOp::kMin) return rounded_bits(type, extreme_of(op, a, b));
  if (type == DataType::kFloat64) {
    const auto x = static_cast<double>(a);
    const auto y = static_cast<double>(b);
    return rounded_bits(type, op == ReduceOp::kProd ? x * y : x + y);
  }
  return rounded_bits(type, op == ReduceOp::kProd ? a * b : a + b);
}

namespace {

// Narrow types: the sum in float32, then the element's rounding.
uint64_t reference_float(DataType type, ReduceOp op, uint64_t a, uint64_t b) {
  const long double x = value_of(type, a);
  const long double y = value_of(type, b);
  if (accumulator_of(type, op) == type) return float_result(type, op, x, y);
  const uint64_t wide = float_result(DataType::kFloat32, op, x, y);
  return rounded_bits(type, value_of(DataType::kFloat32, wide));
}

}  // namespace

Wide integer_of(DataType type, uint64_t bits) {
  switch (type) {
    case DataType::kInt8: return static_cast<int8_t>(bits);
    case DataType::kInt32: return static_cast<int32_t>(bits);
    case DataType::kInt64: return static_cast<int64_t>(bits);
    case DataType::kUint8:
    case DataType::kUint32:
    case DataType::kUint64:
    case DataType::kFloat16:
    case DataType::kFloat32:
    case DataType::kFloat64:
    case DataType::kBfloat16:
    case DataType::kFloat8E4m3:
    case DataType::kFloat8E5m2: break;
  }
  return bits;
}

uint64_t wrapped(DataType type, Wide value) {
  const auto bits = static_cast<uint64_t>(value);
  return size_of(type) == 8 ? bits : bits & ((uint64_t{1} << (8 * size_of(type))) - 1);
}

namespace {

uint64_t reference_integer(DataType type, ReduceOp op, uint64_t a, uint64_t b) {
  const Wide x = integer_of(type, a);
  const Wide y = integer_of(type, b);
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kAvg:
    case ReduceOp::kPreMulSum: return wrapped(type, x + y);
    case ReduceOp::kProd: return a * b & wrapped(type, -1);
    case ReduceOp::kMax: return wrapped(type, x > y ? x : y);
    case ReduceOp::kMin: return wrapped(type, x < y ? x : y);
  }
  return 0;
}

}  // namespace

uint64_t reference(DataType type, ReduceOp op, uint64_t a, uint64_t b) {
  return is_floating(type) ? reference_float(type, op, a, b) : reference_integer(type, op, a, b);
}

// Values that arithmetic trips over, for a type.
std::vector<uint64_t> special_values(DataType type) {
  const int bits = static_cast<int>(8 * size_of(type));
  const uint64_t sign = uint64_t{1} << (bits - 1);
  std::vector<uint64_t> values = {0, 1, 2, 3, sign - 1, sign - 2};
  if (is_floating(type)) {
    const auto [e, m, has_infinity] = layout_of(type);
    const uint64_t top = ((uint64_t{1} << e) - 1) << m;
    const uint64_t one = ((uint64_t{1} << (e - 1)) - 1) << m;
    const uint64_t smallest_normal = uint64_t{1} << m;
    for (const uint64_t value :
         {top, top - 1, top + 1, top | top >> 1, nan_of(type), one, one + 1, one - 1,
          smallest_normal, smallest_normal - 1, smallest_normal + 1, one + smallest_normal}) {
      values.push_back(value & (sign - 1));
    }
  }
  const size_t positive = values.size();
  for (size_t i = 0; i < positive; i++) values.push_back(values[i] | sign);
  return values;
}

Memory make_elements(DataType type, size_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto special = special_values(type);
  Memory memory(count * size_of(type));
  for (size_t i = 0; i < count; i++) {
    const uint64_t bits = random();
    put_bits(type, memory.data() + i * size_of(type),
             random() % 2 == 0 ? bits : special[bits % special.size()]);
  }
  return memory;
}

Memory make_numbers(DataType type, size_t count, uint64_t seed) {
  if (!is_floating(type)) return make_elements(type, count, seed);
  std::mt19937_64 random(seed);
  Memory memory(count * size_of(type));
  for (size_t i = 0; i < count; i++) {
    const auto fraction = static_cast<double>(random() >> 11) * 0x1p-53 + 0.5;
    const double value =
        std::ldexp(random() % 2 == 0 ? fraction : -fraction, static_cast<int>(random() % 8) - 4);
    put_bits(type, memory.data() + i * size_of(type), rounded_bits(type, value));
  }
  return memory;
}

std::string describe(DataType type, std::string_view what, const Kernels& kernels) {
  return std::string(kernels.name) + " " + std::string(name_of(type)) + " " + std::string(what);
}

Memory reduce(const Kernels& kernels, DataType type, ReduceOp op, const Memory& a,
              const Memory& b) {
  Memory result(a.size());
  kernels.reduce[index_of(type)][index_of(op)](result.data(), a.data(), b.data(),
                                               a.size() / size_of(type));
  return result;
}

}  // namespace banyan
