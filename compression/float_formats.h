// Shows the floating-point formats as bits: what a NaN is, how elements are ordered, how the
// formats of 8 and 16 bits become float32 and back. This is the specification that every kernel is
// tested against; it prefers being plain to being fast.
//
// Everything has internal linkage on purpose: files compiled for different instruction sets include
// it, and the linker must never give one of them the copy that was compiled for another.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <type_traits>

namespace banyan {
namespace {

// A format has sign, exponent and mantissa from the top. Without infinity (e4m3) the topmost
// exponent holds numbers too, and the one NaN of each sign has all bits set.
template <typename Bits, int ExponentBits, int MantissaBits, bool HasInfinity>
struct FloatFormat {
  using Storage = Bits;
  static constexpr int kMantissaBits = MantissaBits;
  static constexpr int kSignShift = ExponentBits + MantissaBits;
  static constexpr int kBias = (1 << (ExponentBits - 1)) - 1;
  static constexpr bool kHasInfinity = HasInfinity;
  static constexpr Bits kMagnitude = static_cast<Bits>((Bits{1} << kSignShift) - 1);
  static constexpr Bits kTopExponent =
      static_cast<Bits>(kMagnitude & ~((Bits{1} << MantissaBits) - 1));
  static constexpr Bits kTopMantissaBit = Bits{1} << (MantissaBits - 1);
  // The largest magnitude that is not a NaN.
  static constexpr Bits kLargest = HasInfinity ? kTopExponent : static_cast<Bits>(kMagnitude - 1);
  static constexpr Bits kNan =
      HasInfinity ? static_cast<Bits>(kTopExponent | kTopMantissaBit) : kMagnitude;
  static constexpr Bits kOverflow = HasInfinity ? kTopExponent : kNan;
};

using Float64 = FloatFormat<uint64_t, 11, 52, true>;
using Float32 = FloatFormat<uint32_t, 8, 23, true>;
using Float16 = FloatFormat<uint16_t, 5, 10, true>;
using Bfloat16 = FloatFormat<uint16_t, 8, 7, true>;
using Float8E4m3 = FloatFormat<uint8_t, 4, 3, false>;
using Float8E5m2 = FloatFormat<uint8_t, 5, 2, true>;

// One comparison instead of two: of two magnitudes the larger tells.
template <class Format>
constexpr bool any_nan(typename Format::Storage a, typename Format::Storage b) {
  const auto x = static_cast<typename Format::Storage>(a & Format::kMagnitude);
  const auto y = static_cast<typename Format::Storage>(b & Format::kMagnitude);
  return (x > y ? x : y) > Format::kLargest;
}

// Integers in the order of the numbers, -0 below +0. NaN has no place in it.
template <class Format>
constexpr auto order_of(typename Format::Storage bits) {
  using Signed = std::make_signed_t<typename Format::Storage>;
  const auto negative = static_cast<Signed>(static_cast<Signed>(bits) >> Format::kSignShift);
  return static_cast<Signed>(static_cast<Signed>(bits) ^
                             (negative & static_cast<Signed>(Format::kMagnitude)));
}

// IEEE 754-2019 maximum and minimum: a NaN wins.
template <class Format>
constexpr typename Format::Storage maximum(typename Format::Storage a, typename Format::Storage b) {
  const auto greater = order_of<Format>(a) > order_of<Format>(b) ? a : b;
  return any_nan<Format>(a, b) ? Format::kNan : greater;
}

template <class Format>
constexpr typename Format::Storage minimum(typename Format::Storage a, typename Format::Storage b) {
  const auto smaller = order_of<Format>(a) < order_of<Format>(b) ? a : b;
  return any_nan<Format>(a, b) ? Format::kNan : smaller;
}

constexpr float canonical(float value) {
  return value == value ? value : __builtin_bit_cast(float, Float32::kNan);
}

constexpr double canonical(double value) {
  return value == value ? value : __builtin_bit_cast(double, Float64::kNan);
}

template <typename Float>
constexpr bool unordered(Float a, Float b) {
#ifdef __CUDA_ARCH__  // where that builtin does not exist
  return a != a || b != b;
#else
  return __builtin_isunordered(a, b);
#endif
}

// For float32 and float64 the processor's comparisons are faster. Numbers that are equal but not
// the same are zeros, of which only one has a sign bit.
template <class Format, typename Float>
constexpr Float maximum_of(Float a, Float b) {
  using Bits = typename Format::Storage;
  const auto common = __builtin_bit_cast(
      Float, static_cast<Bits>(__builtin_bit_cast(Bits, a) & __builtin_bit_cast(Bits, b)));
  const Float number = a == b ? common : a > b ? a : b;
  return unordered(a, b) ? __builtin_bit_cast(Float, Format::kNan) : number;
}

template <class Format, typename Float>
constexpr Float minimum_of(Float a, Float b) {
  using Bits = typename Format::Storage;
  const auto either = __builtin_bit_cast(
      Float, static_cast<Bits>(__builtin_bit_cast(Bits, a) | __builtin_bit_cast(Bits, b)));
  const Float number = a == b ? either : a < b ? a : b;
  return unordered(a, b) ? __builtin_bit_cast(Float, Format::kNan) : number;
}

constexpr float power_of_two(int exponent) {
  return __builtin_bit_cast(float, static_cast<uint32_t>(exponent + Float32::kBias)
                                       << Float32::kMantissaBits);
}

// What the conversions between float32 and a narrow format need to know.
template <class Format>
struct Narrowing {
  static constexpr int kShift = Float32::kMantissaBits - Format::kMantissaBits;
  // In units of the narrow format's last mantissa bit.
  static constexpr uint32_t kRebias = static_cast<uint32_t>(Float32::kBias - Format::kBias)
                                      << Format::kMantissaBits;
  // bfloat16 has the subnormals of float32, so they need no treatment of their own.
  static constexpr bool kHasOwnSubnormals = Format::kBias != Float32::kBias;
  static constexpr float kSmallestSubnormal =
      kHasOwnSubnormals ? power_of_two(1 - Format::kBias - Format::kMantissaBits) : 0;
  static constexpr uint32_t kSmallestNormal =
      kHasOwnSubnormals
          ? static_cast<uint32_t>(Float32::kBias - Format::kBias + 1) << Float32::kMantissaBits
          : 0;
  // Here one step of float32 is one smallest subnormal: adding it rounds a small number to whole
  // steps, to nearest even.
  static constexpr float kAnchor =
      kHasOwnSubnormals ? kSmallestSubnormal * power_of_two(Float32::kMantissaBits) : 0;
};

// Exact. A NaN becomes float32's canonical one.
template <class Format>
constexpr float widen(typename Format::Storage bits) {
  using Step = Narrowing<Format>;
  const uint32_t magnitude = bits & Format::kMagnitude;
  const uint32_t sign = static_cast<uint32_t>(bits >> Format::kSignShift) << Float32::kSignShift;
  if (magnitude > Format::kLargest) return __builtin_bit_cast(float, Float32::kNan);
  if (Format::kHasInfinity && magnitude == Format::kTopExponent) {
    return __builtin_bit_cast(float, sign | Float32::kTopExponent);
  }
  if (Step::kHasOwnSubnormals && magnitude >> Format::kMantissaBits == 0) {
    const float value = static_cast<float>(magnitude) * Step::kSmallestSubnormal;
    return __builtin_bit_cast(float, sign | __builtin_bit_cast(uint32_t, value));
  }
  return __builtin_bit_cast(float, sign | (magnitude + Step::kRebias) << Step::kShift);
}

// Rounded to nearest even; too large becomes infinity, or NaN where there is none.
template <class Format>
constexpr typename Format::Storage narrow(float value) {
  using Step = Narrowing<Format>;
  const auto bits = __builtin_bit_cast(uint32_t, value);
  const uint32_t magnitude = bits & Float32::kMagnitude;
  const uint32_t sign = bits >> Float32::kSignShift << Format::kSignShift;
  if (magnitude > Float32::kLargest) return Format::kNan;
  uint32_t rounded = 0;
  if (magnitude < Step::kSmallestNormal) {
    const float steps = __builtin_bit_cast(float, magnitude) + Step::kAnchor;
    rounded = __builtin_bit_cast(uint32_t, steps) - __builtin_bit_cast(uint32_t, Step::kAnchor);
  } else {
    const uint32_t odd = magnitude >> Step::kShift & 1;
    const uint32_t below_half = (uint32_t{1} << (Step::kShift - 1)) - 1;
    // A carry out of the mantissa raises the exponent, as it should.
    rounded = ((magnitude + below_half + odd) >> Step::kShift) - Step::kRebias;
  }
  if (rounded > Format::kLargest) {
    return static_cast<typename Format::Storage>(Format::kHasInfinity ? sign | Format::kOverflow
                                                                      : Format::kNan);
  }
  return static_cast<typename Format::Storage>(sign | rounded);
}

}  // namespace
}  // namespace banyan
