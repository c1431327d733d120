// What sparse codecs share: which values of a block a message keeps.
//
// Internal linkage for the reason that float_formats.h gives.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>

#include "compression/codecs/bars.h"
#include "compression/loops.h"

namespace banyan {
namespace {

inline constexpr size_t kBeyond = 16;  // that instruction sets may write behind what they pick

// Values that were picked, and their places in the region, ascending.
template <typename Wide>
struct Picks {
  size_t count = 0;
  uint16_t places[kTogether + kBeyond];
  Wide values[kTogether + kBeyond];
};

// Adds to `picks` which of `count` values pass `bar`. The first one's place is `place`, and all
// that are picked are at most kTogether. Every instruction set has the one of float32.
void pick(Picks<float>& picks, const std::byte* values, size_t count, size_t place, Bar<float> bar);

template <typename Wide>
void pick_plainly(Picks<Wide>& picks, const std::byte* values, size_t count, size_t place,
                  Bar<Wide> bar) {
  size_t picked = picks.count;
  for (size_t i = 0; i < count; ++i) {
    const auto bits = load<BitsOf<Wide>>(values + i * sizeof(Wide));
    picks.places[picked] = static_cast<uint16_t>(place + i);
    picks.values[picked] = __builtin_bit_cast(Wide, bits);
    picked += (bits & bar.mask) >= bar.least ? 1 : 0;
  }
  picks.count = picked;
}

inline void pick(Picks<double>& picks, const std::byte* values, size_t count, size_t place,
                 Bar<double> bar) {
  pick_plainly(picks, values, count, place, bar);
}

}  // namespace
}  // namespace banyan
