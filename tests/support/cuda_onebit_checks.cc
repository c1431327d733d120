// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "compression/codecs.h"
#include "tests/support/codec_values.h"
#include "tests/support/cuda_codecs_checks.h"
#include "tests/support/on_device.h"

namespace banyan::test {

namespace {

// Addresses within a pack, as offsets.
struct OnebitOffsets {
  size_t message = 0;
  size_t values = 0;
  size_t other = 0;
};

const Codec& scalar(const TestedOnebit& tested) {
  return tested.reference.codecs[kOnebit - size_t{1}];
}

// What the scalar codec makes of values is what this one makes of them.
void check_encoding(const TestedOnebit& tested, DataType type, const Memory& values,
                    const OnebitOffsets& at) {
  const uint64_t count = values.size() / size_of(type);
  const std::string what = std::string(name_of(type)) + ", " + std::to_string(count);
  Memory left;
  Message wanted = encoded(scalar(tested), {}, type, values, &left);
  wanted.bytes.push_back(std::byte{wanted.said.flags});
  ASSERT_EQ(CudaOnebit::message_bytes(count), wanted.bytes.size());
  OnDevice given(tested.memory, values, at.values);
  OnDevice rest(tested.memory, Memory(values.size(), kCanary), at.other, kGuard);
  for (std::byte* to_left : {static_cast<std::byte*>(nullptr), rest.data(), given.data()}) {
    OnDevice message(tested.memory, Memory(wanted.bytes.size(), kCanary), at.message, kGuard);
    const Status status =
        tested.onebit.encode(type, given.data(), count, message.data(), to_left, nullptr);
    ASSERT_TRUE(status.ok()) << what << ": " << status.message();
    ASSERT_NO_FATAL_FAILURE(message.expect(wanted.bytes, what + ", message"));
    if (to_left == rest.data()) {
      ASSERT_NO_FATAL_FAILURE(rest.expect(left, what + ", left"));
      ASSERT_NO_FATAL_FAILURE(given.expect(values, what + ", values"));
    }
  }
  ASSERT_NO_FATAL_FAILURE(given.expect(left, what + ", left in place"));
}

// What the scalar codec makes of a message, likewise.
void check_decoding(const TestedOnebit& tested, DataType type, const Message& message,
                    const Memory& addend, const OnebitOffsets& at) {
  const uint64_t count = addend.size() / size_of(type);
  const std::string what = std::string(name_of(type)) + ", " + std::to_string(count);
  const Codec& codec = scalar(tested);
  const Memory decoded = decode(codec, {}, type, message, count);
  Memory sum(addend.size());
  ASSERT_TRUE(codec.decode_add({}, type, message.view(), count, addend.data(), sum.data()));
  OnDevice bytes(tested.memory, message.bytes, at.message);
  OnDevice values(tested.memory, Memory(addend.size(), kCanary), at.values, kGuard);
  OnDevice terms(tested.memory, addend, at.other);
  const CodecMessage there{bytes.data(), message.bytes.size(), message.said.flags};
  ASSERT_TRUE(CudaOnebit::is_message(there, count));
  ASSERT_TRUE(tested.onebit.decode(type, there, count, values.data(), nullptr).ok());
  ASSERT_NO_FATAL_FAILURE(values.expect(decoded, what + ", decoded"));
  for (OnDevice* to : {&values, &terms}) {
    ASSERT_TRUE(
        tested.onebit.decode_add(type, there, count, terms.data(), to->data(), nullptr).ok());
    ASSERT_NO_FATAL_FAILURE(to->expect(sum, what + ", sum"));
  }
}

void check_both(const TestedOnebit& tested, DataType type, const Memory& mixed,
                const OnebitOffsets& at) {
  for (const Memory& values : {mixed, finite_of(type, mixed)}) {
    ASSERT_NO_FATAL_FAILURE(check_encoding(tested, type, values, at));
    const Message message = encoded(scalar(tested), {}, type, values);
    ASSERT_NO_FATAL_FAILURE(check_decoding(tested, type, message, mixed, at));
  }
}

}  // namespace

void check_onebit_lengths(const TestedOnebit& tested) {
  for (const DataType type : kCodedTypes)
    for (const uint64_t count : {0, 1, 7, 31, 33, 255, 256, 257, 4095, 4096, 4097, 9001, 40000})
      ASSERT_NO_FATAL_FAILURE(check_both(tested, type, mixed_values(type, count, count), {}));
}

void check_onebit_alignments(const TestedOnebit& tested) {
  for (const DataType type : kCodedTypes) {
    const Memory& values = mixed_values(type, 5000, 3);
    for (size_t offset = 0; offset < kCudaPackBytes; ++offset) {
      ASSERT_NO_FATAL_FAILURE(check_both(tested, type, values, {.message = offset}));
      ASSERT_NO_FATAL_FAILURE(check_both(tested, type, values, {.values = offset}));
      ASSERT_NO_FATAL_FAILURE(
          check_both(tested, type, values, {.message = 1, .values = 8, .other = offset}));
    }
  }
}

void check_onebit_strangers(const TestedOnebit& tested) {
  std::mt19937_64 random(9);
  for (const DataType type : kCodedTypes)
    for (const bool spoilt : {false, true}) {
      const Memory& addend = mixed_values(type, 8193, 4);
      Message message{Memory(CudaOnebit::message_bytes(8193) - 1), {}};
      for (std::byte& byte : message.bytes) byte = static_cast<std::byte>(random());
      message.said.flags = spoilt ? 1 : 0;
      ASSERT_NO_FATAL_FAILURE(check_decoding(tested, type, message, addend, {}));
    }
  EXPECT_FALSE(CudaOnebit::is_message({nullptr, 576, 2}, 1)) << "a flag that there is not";
  EXPECT_FALSE(CudaOnebit::is_message({nullptr, 575, 0}, 1)) << "too short";
  EXPECT_FALSE(CudaOnebit::is_message({nullptr, 1152, 0}, 1)) << "too long";
}

}  // namespace banyan::test
