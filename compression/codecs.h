// The codecs of the library, in a list whose places are their numbers. compression/codecs/list.inc
// is where one is added.
//
// They take float32, float16 and bfloat16. The scalar ones are the specification, and those of
// other instruction sets (Kernels::codecs) write the same bytes.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <span>

#include "src/base/codec.h"

namespace banyan {

inline constexpr CodecId kInt8 = 1;
inline constexpr CodecId kFp16 = 2;
inline constexpr CodecId kBf16 = 3;
inline constexpr CodecId kInt4 = 4;
inline constexpr CodecId kDyn8 = 5;
inline constexpr CodecId kE4m3 = 6;
inline constexpr CodecId kE5m2 = 7;
inline constexpr CodecId kOnebit = 8;
inline constexpr CodecId kThreshold = 9;
inline constexpr CodecId kSign = 10;
inline constexpr CodecId kTopk = 11;
inline constexpr CodecId kRandk = 12;
inline constexpr CodecId kNonzero = 13;  // sums of sparse messages; no caller names it
// Whatever keeps a bound, absolute or relative to the largest sum; no caller names them.
inline constexpr CodecId kAbsoluteBound = 14;
inline constexpr CodecId kRelativeBound = 15;

std::span<const Codec> codecs();

}  // namespace banyan
