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

// A codec as a caller names it: "int8", "int4+sr", "threshold:0.001:fp16".
struct CodecChoice {
  CodecId codec = kNoCodec;
  bool stochastic = false;    // +sr
  bool half = false;          // :fp16, values of 16 bits
  bool reselects = false;     // :resel
  CodecId within = kNoCodec;  // of a bound: the only codec that it may take
  double parameter = 0;       // T, D or the bound

  bool operator==(const CodecChoice&) const = default;
  bool is_exact() const { return codec == kNoCodec; }
};

// Tells which values of a vector stand out: those of a larger magnitude, and of this magnitude the
// first ones.
struct Selection {
  uint64_t magnitude = 0;  // bits of a float64, without its sign
  uint64_t ties_end = 0;   // place in the vector behind the last one of this magnitude
};

// What a codec goes by beside the values. Who decodes has the same as who encoded, but for rank and
// selection, by which nothing is decoded.
struct Coding {
  double parameter = 0;                     // T of threshold and sign, D of topk and randk, a bound
  CodecId within = kNoCodec;                // of a bound: the only codec that it may take
  DataType carried = DataType::kFloat32;    // as which values travel that travel as themselves
  bool stochastic = false;                  // rounds by chance, decided by the numbers below
  uint64_t seed = 0, step = 0, tensor = 0;  // for the choice of randk, too
  uint32_t rank = 0;
  uint64_t first = 0;  // place of the first value in its vector
  // For topk; null: it selects among the values it is given. For a bound: what was chosen.
  const Selection* selection = nullptr;

  bool operator==(const Coding&) const = default;
};

// A message says how many values it has by nobody's word but the receiver's, and what its flags
// mean is the codec's business. A byte of them travels beside it if the codec has any.
struct CodecMessage {
  const std::byte* bytes = nullptr;
  uint64_t size = 0;
  uint8_t flags = 0;
};

struct Encoded {
  uint64_t size = 0;  // of the message
  uint8_t flags = 0;
  uint64_t kept = 0;       // values that the message says something of
  uint64_t nonfinite = 0;  // values that are NaN or infinite, or become infinite by rounding
};

// Functions without state, for any thread. `type` is that of the values, which are `count`. A
// message has no alignment, and may be a peer's: whoever decodes it believes nothing.
struct Codec {
  std::string_view name;
  // The most bytes that a message of so many values has.
  uint64_t (*capacity)(const Coding& coding, DataType type, uint64_t count);
  // Writes a message, the same for the same values. What the message does not say of the values
  // goes to `left`, which may be null, may be `values`, and overlaps them in no other way.
  Encoded (*encode)(const Coding& coding, DataType type, const std::byte* values, uint64_t count,
                    std::byte* message, std::byte* left);
  // False: these bytes are no message of so many values, and nothing was written.
  bool (*decode)(const Coding& coding, DataType type, CodecMessage message, uint64_t count,
                 std::byte* values);
  // The same, added to `addend`. `sum` may be `addend`.
  bool (*decode_add)(const Coding& coding, DataType type, CodecMessage message, uint64_t count,
                     const std::byte* addend, std::byte* sum);
  // Shares of a vector begin at multiples of so many values. Cut there, it is encoded as it would
  // be whole, but for what selects or goes by chance.
  uint64_t unit = 1;
  bool has_flags = false;
  // The codec by which the sum of its messages goes on; kNoCodec: itself.
  CodecId of_sums = kNoCodec;
  // Looks at a whole vector before its parts are encoded; null: this codec need not.
  Selection (*select)(const Coding& coding, DataType type, const std::byte* values,
                      uint64_t count) = nullptr;
  // All ranks must know something of all vectors first. Then each of them writes a look of its own,
  // of so many bytes, and select() takes those of all ranks, in their order, for values.
  uint64_t look_size = 0;
  void (*look)(const Coding& coding, DataType type, const std::byte* values, uint64_t count,
               std::byte* look) = nullptr;
};

}  // namespace banyan
