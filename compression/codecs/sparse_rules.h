// Which values the messages of sparse codecs keep.
//
// Internal linkage for the reason that float_formats.h gives.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>

#include "compression/codecs/bars.h"
#include "src/base/codec.h"

namespace banyan {
namespace {
namespace sparse {

// D of topk and randk times `count`, rounded up: at least one of any.
inline uint64_t share_of(double density, uint64_t count) {
  const double share = density * static_cast<double>(count);
  if (!(share < static_cast<double>(count))) return count;
  auto whole = static_cast<uint64_t>(share);
  if (static_cast<double>(whole) < share || whole == 0) ++whole;
  return whole < count ? whole : count;
}

// Bits of the smallest magnitude that is at least `least`, of which a NaN is larger than all else.
inline BitsOf<float> magnitude_from(double least, float) {
  if (__builtin_isnan(least)) return Float32::kTopExponent + 1;
  if (!(least > 0)) return 0;
  const auto nearest = static_cast<float>(least);
  const auto bits = __builtin_bit_cast(uint32_t, nearest);
  return static_cast<double>(nearest) < least ? bits + 1 : bits;
}

inline BitsOf<double> magnitude_from(double least, double) {
  if (__builtin_isnan(least)) return Float64::kTopExponent + 1;
  return least > 0 ? __builtin_bit_cast(uint64_t, least) : 0;
}

// The bits of the next larger magnitude; there is none beyond NaN.
template <typename Wide>
BitsOf<Wide> magnitude_beyond(double magnitude) {
  if (__builtin_isnan(magnitude)) return static_cast<BitsOf<Wide>>(~BitsOf<Wide>{0});
  const BitsOf<Wide> from = magnitude_from(magnitude, Wide{});
  const auto there = static_cast<double>(__builtin_bit_cast(Wide, from));
  return there == magnitude ? from + 1 : from;
}

// Which values are kept: those from `split` on have a bar of their own.
template <typename Wide>
struct Rule {
  Bar<Wide> before;
  Bar<Wide> behind;
  uint64_t split = 0;
};

// Those of at least that magnitude.
template <typename Wide>
Rule<Wide> of_magnitude(double magnitude) {
  return {{}, {.least = magnitude_from(magnitude, Wide{})}};
}

template <typename Wide>
Rule<Wide> not_plus_zero() {
  using Word = BitsOf<Wide>;
  return {{}, {.mask = static_cast<Word>(~Word{0}), .least = 1}};
}

// Those that stand out, of a vector whose value at `first` is the first one here.
template <typename Wide>
Rule<Wide> selected(const Selection& selection, uint64_t first) {
  const auto magnitude = __builtin_bit_cast(double, selection.magnitude);
  return {{.least = magnitude_from(magnitude, Wide{})},
          {.least = magnitude_beyond<Wide>(magnitude)},
          selection.ties_end > first ? selection.ties_end - first : 0};
}

}  // namespace sparse
}  // namespace
}  // namespace banyan
