// SPDX-License-Identifier: Apache-2.0

#include "tests/support/cuda_codecs_checks.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "compression/codecs.h"
#include "tests/support/codec_values.h"
#include "tests/support/on_device.h"

namespace banyan::test {

namespace {

constexpr CodecId kTested[] = {kInt8, kInt4, kDyn8, kE4m3, kE5m2};

struct Sort {
  CodecId codec;
  DataType type;
  bool by_chance;
};

// Addresses within a pack, as offsets.
struct CodecOffsets {
  size_t message = 0;
  size_t values = 0;
  size_t other = 0;
};

template <typename Check>
void for_every_sort(const Check& check) {
  for (const CodecId codec : kTested)
    for (const DataType type : kCodedTypes)
      for (const bool by_chance : {false, true}) {
        check(Sort{codec, type, by_chance});
        if (testing::Test::HasFatalFailure()) return;
      }
}

Coding coding_of(const Sort& sort, uint64_t first) {
  Coding coding;
  coding.stochastic = sort.by_chance;
  coding.seed = 0x1234'5678'9abc'def0;
  coding.step = (uint64_t{7} << 32) + 3;
  coding.tensor = 11;
  coding.rank = 5;
  coding.first = first;
  return coding;
}

std::string text_of(const Sort& sort, uint64_t count) {
  return std::string(codecs()[sort.codec - size_t{1}].name) + (sort.by_chance ? "+sr" : "") + " " +
         std::string(name_of(sort.type)) + ", " + std::to_string(count);
}

// What the scalar codec makes of values is what this one makes of them.
void check_codec(const TestedCodecs& tested, const Sort& sort, const Memory& values, uint64_t first,
                 const CodecOffsets& at) {
  const Codec& codec = tested.reference.codecs[sort.codec - size_t{1}];
  const Coding coding = coding_of(sort, first);
  const uint64_t count = values.size() / size_of(sort.type);
  const std::string what = text_of(sort, count);
  Memory left;
  const Message wanted = encoded(codec, coding, sort.type, values, &left);
  const Memory blank(wanted.bytes.size(), kCanary);

  OnDevice given(tested.memory, values, at.values);
  OnDevice message(tested.memory, blank, at.message, kGuard);
  OnDevice rest(tested.memory, Memory(values.size(), kCanary), at.other, kGuard);
  const auto encode = [&](std::byte* to_left) {
    const Status status = tested.codecs.encode(sort.codec, coding, sort.type, given.data(), count,
                                               message.data(), to_left, nullptr);
    ASSERT_TRUE(status.ok()) << what << ": " << status.message();
    ASSERT_NO_FATAL_FAILURE(message.expect(wanted.bytes, what + ", message"));
  };
  ASSERT_NO_FATAL_FAILURE(encode(nullptr));
  ASSERT_NO_FATAL_FAILURE(encode(rest.data()));
  ASSERT_NO_FATAL_FAILURE(rest.expect(left, what + ", left"));
  ASSERT_NO_FATAL_FAILURE(given.expect(values, what + ", values"));
  ASSERT_NO_FATAL_FAILURE(encode(given.data()));
  ASSERT_NO_FATAL_FAILURE(given.expect(left, what + ", left in place"));
}

// What the scalar codec makes of a message, likewise.
void check_message(const TestedCodecs& tested, const Sort& sort, const Message& message,
                   const Memory& addend, const CodecOffsets& at) {
  const Codec& codec = tested.reference.codecs[sort.codec - size_t{1}];
  const uint64_t count = addend.size() / size_of(sort.type);
  const std::string what = text_of(sort, count);
  const Memory decoded = decode(codec, {}, sort.type, message, count);
  Memory sum(addend.size());
  ASSERT_TRUE(codec.decode_add({}, sort.type, message.view(), count, addend.data(), sum.data()));

  OnDevice bytes(tested.memory, message.bytes, at.message);
  OnDevice values(tested.memory, Memory(addend.size(), kCanary), at.values, kGuard);
  OnDevice terms(tested.memory, addend, at.other);
  ASSERT_TRUE(
      tested.codecs.decode(sort.codec, sort.type, bytes.data(), count, values.data(), nullptr)
          .ok());
  ASSERT_NO_FATAL_FAILURE(values.expect(decoded, what + ", decoded"));
  for (OnDevice* to : {&values, &terms}) {
    ASSERT_TRUE(tested.codecs
                    .decode_add(sort.codec, sort.type, bytes.data(), count, terms.data(),
                                to->data(), nullptr)
                    .ok());
    ASSERT_NO_FATAL_FAILURE(to->expect(sum, what + ", sum"));
  }
}

void check_both(const TestedCodecs& tested, const Sort& sort, const Memory& values, uint64_t first,
                const CodecOffsets& at) {
  ASSERT_NO_FATAL_FAILURE(check_codec(tested, sort, values, first, at));
  const Codec& codec = tested.reference.codecs[sort.codec - size_t{1}];
  const Message message = encoded(codec, coding_of(sort, first), sort.type, values);
  ASSERT_NO_FATAL_FAILURE(check_message(tested, sort, message, values, at));
}

}  // namespace

void check_codec_lengths(const TestedCodecs& tested) {
  for_every_sort([&](const Sort& sort) {
    for (const uint64_t count : {0, 1, 7, 8, 9, 31, 255, 256, 257, 4095, 4096, 4097, 9001})
      for (const uint64_t first : {uint64_t{0}, (uint64_t{3} << 32) + 6})
        ASSERT_NO_FATAL_FAILURE(
            check_both(tested, sort, mixed_values(sort.type, count, count), first, {}));
  });
}

void check_codec_alignments(const TestedCodecs& tested) {
  for_every_sort([&](const Sort& sort) {
    const Memory& values = mixed_values(sort.type, 5000, 3);
    for (size_t offset = 0; offset < kCudaPackBytes; ++offset) {
      ASSERT_NO_FATAL_FAILURE(check_both(tested, sort, values, 0, {.message = offset}));
      ASSERT_NO_FATAL_FAILURE(check_both(tested, sort, values, 0, {.values = offset}));
      ASSERT_NO_FATAL_FAILURE(
          check_both(tested, sort, values, 0, {.message = 1, .values = 8, .other = offset}));
    }
  });
}

void check_codec_strangers(const TestedCodecs& tested) {
  std::mt19937_64 random(9);
  for_every_sort([&](const Sort& sort) {
    const Memory& addend = mixed_values(sort.type, 8193, 4);
    Message message{Memory(codecs()[sort.codec - size_t{1}].capacity({}, sort.type, 8193)), {}};
    for (std::byte& byte : message.bytes) byte = static_cast<std::byte>(random());
    ASSERT_NO_FATAL_FAILURE(check_message(tested, sort, message, addend, {}));
  });
}

void check_coded_folds(const TestedCodecs& tested) {
  size_t draw = 0;
  for (const CodecId id : kTested)
    for (const uint64_t count : {0, 1, 8, 31, 257, 4095, 4096, 4097, 9001, 20000})
      for (const bool in_place : {false, true}) {
        const size_t ranks = 1 + draw++ % kCudaFoldMost;
        const Sort sort{id, DataType::kFloat32, draw % 3 == 0};
        const Codec& codec = tested.reference.codecs[id - size_t{1}];
        std::vector<std::unique_ptr<OnDevice>> there;
        std::vector<const std::byte*> sources;
        Memory sum(count * sizeof(float));
        for (size_t rank = 0; rank < ranks; ++rank) {
          const Message said = encoded(codec, coding_of(sort, rank), sort.type,
                                       mixed_values(sort.type, count, count + 31 * rank + draw));
          ASSERT_TRUE(rank == 0 ? codec.decode({}, sort.type, said.view(), count, sum.data())
                                : codec.decode_add({}, sort.type, said.view(), count, sum.data(),
                                                   sum.data()));
          there.push_back(std::make_unique<OnDevice>(tested.memory, said.bytes, 0, kGuard));
          sources.push_back(there.back()->data());
        }
        const Coding coding = coding_of(sort, 4096);
        const Message wanted = encoded(codec, coding, sort.type, sum);
        OnDevice apart(tested.memory, Memory(wanted.bytes.size(), kCanary), 0, kGuard);
        OnDevice& message = in_place ? *there[draw % ranks] : apart;
        const std::string what = text_of(sort, count) + " of " + std::to_string(ranks) + " ranks";
        const Status status =
            tested.codecs.fold(id, coding, sort.type, sources, count, message.data(), nullptr);
        ASSERT_TRUE(status.ok()) << what << ": " << status.message();
        ASSERT_NO_FATAL_FAILURE(message.expect(wanted.bytes, what));
      }
}

void check_codec_values(const TestedCodecs& tested, uint64_t count, uint64_t seed) {
  for_every_sort([&](const Sort& sort) {
    ASSERT_NO_FATAL_FAILURE(
        check_both(tested, sort, mixed_values(sort.type, count, seed), 4096, {}));
  });
}

}  // namespace banyan::test
