// SPDX-License-Identifier: Apache-2.0

#include "compression/cuda/quotient.h"

#include <cstring>
#include <type_traits>

#include "compression/float_formats.h"

namespace banyan {

namespace {

template <typename Float>
CudaQuotient divide_floats(int divisor) {
  const bool reciprocal = (divisor & (divisor - 1)) == 0;  // which is exact then
  const auto wide = static_cast<Float>(divisor);
  const Float operand = reciprocal ? 1 / wide : wide;
  using Bits = std::conditional_t<sizeof(Float) == 4, uint32_t, uint64_t>;
  return {reciprocal ? CudaScaling::kMultiply : CudaScaling::kDivide,
          __builtin_bit_cast(Bits, operand)};
}

// What DivideIntegers expects.
CudaQuotient divide_integers(DataType type, int divisor) {
  if (divisor == 1) return {CudaScaling::kMultiply, 1};
  const auto wide = static_cast<uint64_t>(divisor);
  switch (size_of(type)) {
    case 1: return {CudaScaling::kDivide, wide > 255 ? 0 : (0x10000 + wide - 1) / wide};
    case 4: return {CudaScaling::kDivide, UINT64_MAX / wide + 1};
    default: return {CudaScaling::kDivide, wide};
  }
}

template <typename T>
T element_at(const void* address) {
  T value;
  std::memcpy(&value, address, sizeof value);
  return value;
}

uint64_t bits_of(float value) {
  return __builtin_bit_cast(uint32_t, value);
}

uint64_t bits_of(double value) {
  return __builtin_bit_cast(uint64_t, value);
}

}  // namespace

CudaQuotient cuda_quotient(DataType type, int divisor) {
  if (type == DataType::kFloat64) return divide_floats<double>(divisor);
  return is_floating(type) ? divide_floats<float>(divisor) : divide_integers(type, divisor);
}

uint64_t cuda_factor(DataType type, const void* scalar) {
  if (scalar == nullptr) {
    if (!is_floating(type)) return 1;
    return type == DataType::kFloat64 ? bits_of(1.0) : bits_of(1.0F);
  }
  switch (type) {
    case DataType::kFloat16: return bits_of(widen<Float16>(element_at<uint16_t>(scalar)));
    case DataType::kBfloat16: return bits_of(widen<Bfloat16>(element_at<uint16_t>(scalar)));
    case DataType::kFloat8E4m3: return bits_of(widen<Float8E4m3>(element_at<uint8_t>(scalar)));
    case DataType::kFloat8E5m2: return bits_of(widen<Float8E5m2>(element_at<uint8_t>(scalar)));
    default: break;
  }
  switch (size_of(type)) {
    case 1: return element_at<uint8_t>(scalar);
    case 4: return element_at<uint32_t>(scalar);
    default: return element_at<uint64_t>(scalar);
  }
}

}  // namespace banyan
