// What sparse codecs go by: how many values they look at together, and what these have to pass.
//
// Internal linkage for the reason that float_formats.h gives.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <type_traits>

#include "compression/float_formats.h"

namespace banyan {
namespace {

inline constexpr size_t kTogether = 4096;  // the most values that are looked at together
inline constexpr size_t kRegion = 65'536;  // whose places have 16 bits

template <typename Wide>
using FormatOf = std::conditional_t<std::is_same_v<Wide, double>, Float64, Float32>;
template <typename Wide>
using BitsOf = typename FormatOf<Wide>::Storage;

// It is passed by values whose bits under `mask` are at least `least`.
template <typename Wide>
struct Bar {
  BitsOf<Wide> mask = FormatOf<Wide>::kMagnitude;
  BitsOf<Wide> least = 0;
};

}  // namespace
}  // namespace banyan
