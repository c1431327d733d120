// The shape of a codec, which says floating-point values in fewer bytes: generators ask it for room
// and the engine calls it, and neither knows what it computes.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "banyan/types.h"

namespace banyan {

// Its place in a list of codecs, counted from 1. All ranks of a communicator have the same list.
using CodecId = uint8_t;
inline constexpr CodecId kNoCodec = 0;

// Functions without state, for any thread. `type` is that of the values, which are `count`. A
// message has no alignment, and may be a peer's: whoever decodes it believes nothing.
struct Codec {
  std::string_view name;
  // The most bytes that a message of so many values has.
  uint64_t (*capacity)(DataType type, uint64_t count);
  // Writes a message and returns its length, the same for the same values. What the message does
  // not say of the values goes to `left`, which may be null, may be `values`, and overlaps them in
  // no other way.
  uint64_t (*encode)(DataType type, const std::byte* values, uint64_t count, std::byte* message,
                     std::byte* left);
  // False: these bytes are no message of so many values; what was written then has no meaning.
  bool (*decode)(DataType type, const std::byte* message, uint64_t bytes, uint64_t count,
                 std::byte* values);
  // The same, added to `addend`. `sum` may be `addend`.
  bool (*decode_add)(DataType type, const std::byte* message, uint64_t bytes, uint64_t count,
                     const std::byte* addend, std::byte* sum);
};

}  // namespace banyan
