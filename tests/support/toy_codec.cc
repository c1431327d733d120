// SPDX-License-Identifier: Apache-2.0

#include "tests/support/toy_codec.h"

#include <array>
#include <bit>
#include <cstring>

namespace banyan::test {
namespace {

float value_at(const std::byte* values, uint64_t index) {
  float value = 0;
  std::memcpy(&value, values + index * sizeof value, sizeof value);
  return value;
}

void put_value(std::byte* values, uint64_t index, float value) {
  std::memcpy(values + index * sizeof value, &value, sizeof value);
}

uint64_t capacity(const Coding&, DataType, uint64_t count) {
  return count * sizeof(uint16_t);
}

// FNV-1a of the values' bits.
uint64_t kept_of(const std::byte* values, uint64_t count) {
  uint64_t hash = 0xcbf29ce484222325;
  for (uint64_t i = 0; i < count * sizeof(float); ++i)
    hash = (hash ^ static_cast<uint64_t>(values[i])) * 0x100000001b3;
  return count - (hash >> 32) % (count / 2 + 1);
}

float said(const std::byte* message, uint64_t bytes, uint64_t index) {
  if (index * sizeof(uint16_t) >= bytes) return 0;
  uint16_t half = 0;
  std::memcpy(&half, message + index * sizeof half, sizeof half);
  return std::bit_cast<float>(uint32_t{half} << 16);
}

Encoded encode_first(uint64_t kept, const std::byte* values, uint64_t count, std::byte* message,
                     std::byte* left) {
  for (uint64_t i = 0; i < count; ++i) {
    const float value = value_at(values, i);
    const auto half = static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16);
    if (i < kept) std::memcpy(message + i * sizeof half, &half, sizeof half);
    if (left != nullptr) put_value(left, i, value - said(message, kept * sizeof half, i));
  }
  return {kept * sizeof(uint16_t), 0, kept, 0};
}

Encoded encode(const Coding&, DataType, const std::byte* values, uint64_t count, std::byte* message,
               std::byte* left) {
  return encode_first(kept_of(values, count), values, count, message, left);
}

Encoded encode_whole(const Coding&, DataType, const std::byte* values, uint64_t count,
                     std::byte* message, std::byte* left) {
  return encode_first(count, values, count, message, left);
}

bool is_message(CodecMessage message, uint64_t count) {
  return message.size % sizeof(uint16_t) == 0 && message.size <= count * sizeof(uint16_t);
}

bool decode(const Coding&, DataType, CodecMessage message, uint64_t count, std::byte* values) {
  if (!is_message(message, count)) return false;
  for (uint64_t i = 0; i < count; ++i) put_value(values, i, said(message.bytes, message.size, i));
  return true;
}

bool decode_add(const Coding&, DataType, CodecMessage message, uint64_t count,
                const std::byte* addend, std::byte* sum) {
  if (!is_message(message, count)) return false;
  for (uint64_t i = 0; i < count; ++i)
    put_value(sum, i, value_at(addend, i) + said(message.bytes, message.size, i));
  return true;
}

}  // namespace

std::span<const Codec> toy_codecs() {
  static constexpr std::array<Codec, 2> kCodecs = {
      {{"toy", capacity, encode, decode, decode_add},
       {"toy_whole", capacity, encode_whole, decode, decode_add}}};
  return kCodecs;
}

}  // namespace banyan::test
