// What kernels for a GPU compute of one element, or of the four bytes of a word. The same source is
// compiled for the device and for the host, where tests compare it with the scalar table.
//
// Everything gives the bits of float_formats.h, by fewer instructions: a GPU that adds 8-bit
// elements at the speed of its memory has about ten for each. Internal linkage for the reason that
// is given there.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <type_traits>

#include "compression/cuda/spans.h"
#include "compression/float_formats.h"
#include "compression/loops.h"

// Devices of capability 8.9 and later convert 8-bit floats themselves.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
#define BANYAN_CUDA_FLOAT8
#endif

namespace banyan {
namespace {

template <typename To, typename From>
BANYAN_HOST_DEVICE To bits_as(From from) {
  return __builtin_bit_cast(To, from);
}

template <typename Float>
BANYAN_HOST_DEVICE Float operand_as(uint64_t operand) {
  using Bits = std::conditional_t<sizeof(Float) == 4, uint32_t, uint64_t>;
  return bits_as<Float>(static_cast<Bits>(operand));
}

BANYAN_HOST_DEVICE float float_of_half(uint16_t bits) {
#ifdef __CUDA_ARCH__
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
#else
  return widen<Float16>(bits);
#endif
}

BANYAN_HOST_DEVICE uint16_t half_of_float(float value) {
#ifdef __CUDA_ARCH__
  uint16_t bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return value == value ? bits : Float16::kNan;
#else
  return narrow<Float16>(value);
#endif
}

// As widen(), but a NaN is any NaN: who calls this makes the result canonical.
template <class Format>
BANYAN_HOST_DEVICE float widen_any(typename Format::Storage bits) {
  if constexpr (std::is_same_v<Format, Float16>) {
    return float_of_half(bits);
  } else if constexpr (std::is_same_v<Format, Bfloat16>) {
    return bits_as<float>(static_cast<uint32_t>(bits) << 16);
  } else if constexpr (std::is_same_v<Format, Float8E5m2>) {
    return float_of_half(static_cast<uint16_t>(bits << 8));  // the upper half of one
  } else {
#ifdef BANYAN_CUDA_FLOAT8
    uint32_t halves;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"(static_cast<uint16_t>(bits)));
    return float_of_half(static_cast<uint16_t>(halves));
#else
    // As a float32 with the same exponent bits, whose bias is another. Subnormals are no exception.
    const auto top = static_cast<uint32_t>(bits) << 24;
    const auto scaled = static_cast<uint32_t>(static_cast<int32_t>(top) >> 4) & 0x87f00000U;
    const float value = bits_as<float>(scaled) * power_of_two(Float32::kBias - Format::kBias);
    return (top & 0x7f000000U) == 0x7f000000U ? bits_as<float>(Float32::kNan) : value;
#endif
  }
}

#ifdef BANYAN_CUDA_FLOAT8
// narrow() of the 8-bit formats. The instruction takes the largest number for what is too large,
// which is what would round beyond it. That begins half a step above: at 61440, a tie that goes up,
// and behind 464, a tie that goes down.
template <class Format>
BANYAN_HOST_DEVICE uint8_t narrow_to_8(float value) {
  const auto magnitude = bits_as<float>(bits_as<uint32_t>(value) & Float32::kMagnitude);
  uint16_t pair;
  if constexpr (Format::kHasInfinity) {
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0F), "f"(value));
    if (magnitude >= 61440) pair = static_cast<uint16_t>((pair & 0x80) | Format::kOverflow);
    return static_cast<uint8_t>(magnitude == magnitude ? pair : Format::kNan);
  } else {
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0F), "f"(value));
    return static_cast<uint8_t>(magnitude <= 464 ? pair : Format::kNan);
  }
}
#else
// narrow() of the 8-bit formats. Adding a power of two rounds a magnitude to the last bit that the
// format has at that exponent, and subtracting it is exact.
template <class Format>
BANYAN_HOST_DEVICE uint8_t narrow_to_8(float value) {
  using Step = Narrowing<Format>;
  constexpr uint32_t kExponent = Float32::kTopExponent;
  // The number that the bits of an overflow would be: all that is larger rounds to it, too.
  constexpr uint32_t kTooLarge = (static_cast<uint32_t>(Format::kOverflow) + Step::kRebias)
                                 << Step::kShift;
  const auto bits = bits_as<uint32_t>(value);
  const uint32_t all = bits & Float32::kMagnitude;
  const uint32_t magnitude = all < kTooLarge ? all : kTooLarge;
  const uint32_t own = magnitude & kExponent;
  const uint32_t exponent = own > Step::kSmallestNormal ? own : Step::kSmallestNormal;
  const auto anchor =
      bits_as<float>(exponent + (static_cast<uint32_t>(Step::kShift) << Float32::kMantissaBits));
  const float rounded = (bits_as<float>(magnitude) + anchor) - anchor;
  const float rebiased = rounded * power_of_two(Format::kBias - Float32::kBias);
  const uint32_t element = bits_as<uint32_t>(rebiased) >> Step::kShift;
  const uint32_t sign = bits >> Float32::kSignShift << Format::kSignShift;
  const bool nan = Format::kHasInfinity ? all > kExponent : element == Format::kNan;
  return static_cast<uint8_t>(nan ? Format::kNan : sign | element);
}
#endif

template <class Format>
BANYAN_HOST_DEVICE typename Format::Storage narrow_quickly(float value) {
  if constexpr (sizeof(typename Format::Storage) == 1) {
    return narrow_to_8<Format>(value);
  } else if constexpr (std::is_same_v<Format, Float16>) {
    return half_of_float(value);
  } else {
    return narrow<Format>(value);
  }
}

// The functions of the kernels. Local is the type of dst and local, Incoming that of the other
// source. One that does not combine has no local.

template <typename Unsigned, class Operator>
struct CombineIntegers {
  using Local = Unsigned;
  using Incoming = Unsigned;
  static constexpr bool kCombines = true;
  BANYAN_HOST_DEVICE static Local apply(Local a, Incoming b, uint64_t) {
    return Operator::template apply<Unsigned>(a, b);
  }
};

struct Maximum {
  template <typename Integer>
  static constexpr Integer apply(Integer a, Integer b) {
    return a > b ? a : b;
  }
  template <class Format>
  static constexpr auto apply_narrow(typename Format::Storage a, typename Format::Storage b) {
    return maximum<Format>(a, b);
  }
  template <class Format, typename Float>
  static constexpr Float apply_float(Float a, Float b) {
    return maximum_of<Format>(a, b);
  }
};

struct Minimum {
  template <typename Integer>
  static constexpr Integer apply(Integer a, Integer b) {
    return a < b ? a : b;
  }
  template <class Format>
  static constexpr auto apply_narrow(typename Format::Storage a, typename Format::Storage b) {
    return minimum<Format>(a, b);
  }
  template <class Format, typename Float>
  static constexpr Float apply_float(Float a, Float b) {
    return minimum_of<Format>(a, b);
  }
};

template <typename Float, class Operator>
struct CombineFloats {
  using Local = Float;
  using Incoming = Float;
  static constexpr bool kCombines = true;
  BANYAN_HOST_DEVICE static Local apply(Local a, Incoming b, uint64_t) {
    return canonical(Operator::template apply<Float>(a, b));
  }
};

template <class Format, typename Float, class Extreme>
struct ExtremeFloats {
  using Local = Float;
  using Incoming = Float;
  static constexpr bool kCombines = true;
  BANYAN_HOST_DEVICE static Local apply(Local a, Incoming b, uint64_t) {
    return Extreme::template apply_float<Format, Float>(a, b);
  }
};

template <class Format, class Operator>
struct CombineNarrow {
  using Local = typename Format::Storage;
  using Incoming = Local;
  static constexpr bool kCombines = true;
  BANYAN_HOST_DEVICE static Local apply(Local a, Incoming b, uint64_t) {
    return narrow_quickly<Format>(
        Operator::template apply<float>(widen_any<Format>(a), widen_any<Format>(b)));
  }
};

// The sign bits of four bytes are what words are compared by.
inline constexpr uint32_t kSigns = 0x80808080;

// All bits of each byte whose sign bit is set in `signs`, which has no others.
BANYAN_HOST_DEVICE uint32_t whole_bytes(uint32_t signs) {
  return signs | (signs - (signs >> 7));
}

// Unsigned bytes in the order of the numbers, -0 below +0.
BANYAN_HOST_DEVICE uint32_t order_of_bytes(uint32_t floats) {
  const uint32_t negative = floats & kSigns;
  return floats ^ (negative - (negative >> 7)) ^ kSigns;
}

// The sign bit of each byte of a that is at least that of b, unsigned.
BANYAN_HOST_DEVICE uint32_t bytes_at_least(uint32_t a, uint32_t b) {
  const uint32_t low_at_least = (a | kSigns) - (b & ~kSigns);
  return ((a & ~b) | (~(a ^ b) & low_at_least)) & kSigns;
}

template <class Format>
BANYAN_HOST_DEVICE uint32_t nan_bytes(uint32_t floats) {
  constexpr uint32_t kBeyond = (0x7fU - Format::kLargest) * 0x01010101U;
  return ((floats & ~kSigns) + kBeyond) & kSigns;
}

template <class Format, class Extreme>
struct ExtremeNarrow {
  using Local = typename Format::Storage;
  using Incoming = Local;
  static constexpr bool kCombines = true;
  BANYAN_HOST_DEVICE static Local apply(Local a, Incoming b, uint64_t) {
    return Extreme::template apply_narrow<Format>(a, b);
  }
  // Four at a time, where there are four in a word.
  BANYAN_HOST_DEVICE static uint32_t apply_word(uint32_t a,
                                                uint32_t b) requires(sizeof(Local) == 1) {
    const uint32_t at_least = whole_bytes(bytes_at_least(order_of_bytes(a), order_of_bytes(b)));
    const uint32_t greater = (a & at_least) | (b & ~at_least);
    const uint32_t number = std::is_same_v<Extreme, Maximum> ? greater : a ^ b ^ greater;
    const uint32_t nan = whole_bytes(nan_bytes<Format>(a) | nan_bytes<Format>(b));
    return (number & ~nan) | (nan & (Format::kNan * 0x01010101U));
  }
};

template <class Format, class Operator>
struct CombineDecoded {
  using Local = float;
  using Incoming = typename Format::Storage;
  static constexpr bool kCombines = true;
  BANYAN_HOST_DEVICE static Local apply(Local a, Incoming b, uint64_t) {
    return canonical(Operator::template apply<float>(a, widen_any<Format>(b)));
  }
};

// The operand of those that scale is the factor in the accumulator's type.
template <typename Unsigned>
struct ScaleIntegers {
  using Local = Unsigned;
  using Incoming = Unsigned;
  static constexpr bool kCombines = false;
  BANYAN_HOST_DEVICE static Local apply(Incoming value, uint64_t factor) {
    return Product::apply<Unsigned>(value, static_cast<Unsigned>(factor));
  }
};

template <typename Float>
struct ScaleFloats {
  using Local = Float;
  using Incoming = Float;
  static constexpr bool kCombines = false;
  BANYAN_HOST_DEVICE static Local apply(Incoming value, uint64_t factor) {
    return canonical(value * operand_as<Float>(factor));
  }
};

template <typename Float>
struct DivideFloats {
  using Local = Float;
  using Incoming = Float;
  static constexpr bool kCombines = false;
  BANYAN_HOST_DEVICE static Local apply(Incoming value, uint64_t divisor) {
    return canonical(value / operand_as<Float>(divisor));
  }
};

template <class Format>
struct DecodeNarrow {
  using Local = float;
  using Incoming = typename Format::Storage;
  static constexpr bool kCombines = false;
  BANYAN_HOST_DEVICE static Local apply(Incoming value, uint64_t factor) {
    return canonical(widen_any<Format>(value) * operand_as<float>(factor));
  }
};

template <class Format>
struct EncodeScaled {
  using Local = typename Format::Storage;
  using Incoming = float;
  static constexpr bool kCombines = false;
  BANYAN_HOST_DEVICE static Local apply(Incoming value, uint64_t factor) {
    return narrow_quickly<Format>(value * operand_as<float>(factor));
  }
};

template <class Format>
struct EncodeDivided {
  using Local = typename Format::Storage;
  using Incoming = float;
  static constexpr bool kCombines = false;
  BANYAN_HOST_DEVICE static Local apply(Incoming value, uint64_t divisor) {
    return narrow_quickly<Format>(value / operand_as<float>(divisor));
  }
};

// What a value loses when it is narrowed, or +0 where that is not finite.
template <class Format>
struct LeaveNarrow {
  using Local = float;
  using Incoming = float;
  static constexpr bool kCombines = false;
  BANYAN_HOST_DEVICE static Local apply(Incoming value, uint64_t) {
    const float lost = value - widen_any<Format>(narrow_quickly<Format>(value));
    const bool is_finite = (bits_as<uint32_t>(lost) & Float32::kMagnitude) < Float32::kTopExponent;
    return is_finite ? lost : 0;
  }
};

// Divides by what cuda_divisor() has made of a divisor of at least 2: a reciprocal, rounded up,
// with so many bits that the product is exact in its upper half (Lemire, Kaser, Kurz: Faster
// remainder by direct computation, 2019). With 64 bits it is the divisor.
template <typename Integer>
struct DivideIntegers {
  using Local = Integer;
  using Incoming = Integer;
  static constexpr bool kCombines = false;

  BANYAN_HOST_DEVICE static Local apply(Incoming value, uint64_t operand) {
    if constexpr (sizeof(Integer) == 8) {
      return static_cast<Integer>(value / static_cast<Integer>(operand));
    } else {
      const bool negative = value < 0;
      const auto bits = static_cast<uint32_t>(+value);  // with its sign
      const uint32_t quotient = divide(negative ? 0 - bits : bits, operand);
      return static_cast<Integer>(negative ? 0 - quotient : quotient);
    }
  }

 private:
  BANYAN_HOST_DEVICE static uint32_t divide(uint32_t magnitude, uint64_t reciprocal) {
    if constexpr (sizeof(Integer) == 1) {
      return magnitude * static_cast<uint32_t>(reciprocal) >> 16;
    } else {
      const uint64_t low = (reciprocal & 0xffffffffU) * magnitude >> 32;
      return static_cast<uint32_t>(((reciprocal >> 32) * magnitude + low) >> 32);
    }
  }
};

}  // namespace
}  // namespace banyan
