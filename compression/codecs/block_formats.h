// How the scale of a block comes of its largest magnitude, for the codecs that go by nothing else
// of the block. Their files say what their messages are.
//
// Internal linkage for the reason that float_formats.h gives.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <cstdint>

#include "compression/codecs/blocks.h"
#include "compression/float_formats.h"

namespace banyan {
namespace {

inline constexpr size_t kSuperblockValues = 4096;

struct Scaling {
  float scale;
  float factor;  // that makes values codes
};

struct Int8Format {
  static constexpr size_t kBlock = 256;
  using Codes = IntegerCodes<8>;
  using StoredScale = uint32_t;
  static constexpr bool kSpoilsAll = false;
  static constexpr Scaling scaling(float m, const std::byte*, size_t) {
    return {m * (1.0F / 127), 127 / m};
  }
};

struct Int4Format {
  static constexpr size_t kBlock = 32;
  using Codes = IntegerCodes<4>;
  using StoredScale = uint16_t;
  static constexpr bool kSpoilsAll = false;
  static constexpr Scaling scaling(float m, const std::byte*, size_t) {
    constexpr uint32_t kBelow = 0xffff;  // the bits that bfloat16 has not
    const auto seventh = __builtin_bit_cast(uint32_t, m / 7);
    const auto s = __builtin_bit_cast(float, (seventh + kBelow) & ~kBelow);
    return {s, 1 / s};
  }
};

struct Dyn8Format {
  static constexpr size_t kBlock = 256;
  using Codes = MapCodes;
  using StoredScale = uint32_t;
  static constexpr bool kSpoilsAll = false;
  static constexpr Scaling scaling(float m, const std::byte*, size_t) { return {m, 1 / m}; }
};

template <class Narrow>
struct Float8Format {
  static constexpr size_t kBlock = 256;
  using Codes = FloatCodes<Narrow>;
  using StoredScale = uint32_t;
  static constexpr bool kSpoilsAll = false;
  static constexpr float kTop = widen<Narrow>(Codes::kLargest);
  static constexpr Scaling scaling(float m, const std::byte*, size_t) {
    return {m * (1 / kTop), kTop / m};
  }
};

}  // namespace
}  // namespace banyan
