// SPDX-License-Identifier: Apache-2.0

#include "compression/cuda/quotient.h"

#include <type_traits>

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

}  // namespace

CudaQuotient cuda_quotient(DataType type, int divisor) {
  if (type == DataType::kFloat64) return divide_floats<double>(divisor);
  return is_floating(type) ? divide_floats<float>(divisor) : divide_integers(type, divisor);
}

}  // namespace banyan
