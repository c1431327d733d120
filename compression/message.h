// Messages that describe themselves: a header, and behind it what a codec writes.
//
//   at  bytes                         at  bytes
//    0  4  magic: "BNYM"              24  8  values that it says something of
//    4  2  version: 1                 32  8  seed
//    6  2  codec                      40  8  step
//    8  1  type of the source         48  8  T or D, a float64; 0 where the codec has none
//    9  1  type that values travel in 56  4  0
//   10  2  flags: the codec's         60  4  CRC-32C of the whole message, with 0 in this place
//   12  4  0                          64  .. the codec's blocks
//   16  8  count of values
//
// Little-endian, at any address. Whoever reads a message believes nothing.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "banyan/status.h"
#include "banyan/types.h"
#include "src/base/codec.h"

namespace banyan {

inline constexpr size_t kMessageHeader = 64;  // bytes

struct MessageHeader {
  CodecId codec = kNoCodec;
  DataType source = DataType::kFloat32;
  DataType carried = DataType::kFloat32;  // as Coding has it
  uint8_t flags = 0;
  uint64_t count = 0, kept = 0, seed = 0, step = 0;
  double parameter = 0;

  bool operator==(const MessageHeader&) const = default;
};

// Writes the header and the checksum of a message whose blocks are there.
void put_header(const MessageHeader& header, std::span<std::byte> message);
// kCorrupt: a checksum or a field that no encoder of this version writes.
Result<MessageHeader> read_header(std::span<const std::byte> message);

// Whether a codec encodes values of that type: float32, float16, bfloat16, and float64 where it
// keeps values.
bool encodes(CodecId codec, DataType type);

struct MessageSource {
  DataType type = DataType::kFloat32;
  const std::byte* values = nullptr;
  uint64_t count = 0;
  uint64_t seed = 0, step = 0;
};

struct EncodedMessage {
  uint64_t size = 0;
  uint64_t kept = 0;
  uint64_t nonfinite = 0;
};

// The longest that a message of so many values can be.
uint64_t message_bound(const CodecChoice& choice, DataType type, uint64_t count);
// Writes a message. A size beyond the room says that nothing was written. `residual` is null, or
// that many floats: they are added to the values in float32 (float64 values in float64, rounded to
// float32 once), and become what the message does not say of the sum. They stay as they are where
// a value is not finite.
EncodedMessage encode_message(const CodecChoice& choice, const MessageSource& source,
                              std::byte* residual, std::span<std::byte> room);

// kCorrupt: these bytes are no message of so many values, and nothing was written.
Status decode_message(std::span<const std::byte> message, DataType type, uint64_t count,
                      std::byte* target);
// The same, added to what is there.
Status decode_add_message(std::span<const std::byte> message, DataType type, uint64_t count,
                          std::byte* target);

}  // namespace banyan
