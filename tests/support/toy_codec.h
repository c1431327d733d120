// A codec for tests that has all that a codec may have: fewer bytes, a length that the values
// decide, and something left over.
//
// A message is the upper halves of the first float32 values, as many of them as the values' bits
// happen to say. The others are taken for zero.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <span>

#include "src/base/codec.h"

namespace banyan::test {

// Two of them, so that one may be taken for the other: the second keeps all of the values.
std::span<const Codec> toy_codecs();
inline constexpr CodecId kToy = 1;
inline constexpr CodecId kToyWhole = 2;

}  // namespace banyan::test
