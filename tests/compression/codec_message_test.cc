// Messages that describe themselves, of every codec by its name: what they hold, what is left, and
// that nobody's bytes are believed.
// SPDX-License-Identifier: Apache-2.0

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "compression/codecs.h"
#include "compression/crc32c.h"
#include "compression/grammar.h"
#include "compression/message.h"
#include "tests/support/codec_names.h"
#include "tests/support/codec_values.h"

namespace banyan::codec_message_test {
namespace {

using testing::HasSubstr;

constexpr DataType kF32 = DataType::kFloat32;
constexpr DataType kF64 = DataType::kFloat64;
constexpr DataType kTargets[] = {kF32, DataType::kFloat16, DataType::kBfloat16, kF64};

Memory memory_of(DataType type, const std::vector<double>& values) {
  Memory memory(values.size() * size_of(type));
  for (size_t i = 0; i < values.size(); i++)
    put_bits(type, &memory[i * size_of(type)], rounded_bits(type, values[i]));
  return memory;
}

std::vector<double> values_of(DataType type, const Memory& memory) {
  std::vector<double> values;
  for (size_t at = 0; at < memory.size(); at += size_of(type))
    values.push_back(static_cast<double>(value_of(type, get_bits(type, &memory[at]))));
  return values;
}

std::vector<double> gradients(uint64_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<double> values;
  // Not std::normal_distribution, whose numbers differ between standard libraries.
  for (uint64_t i = 0; i < count; i++) {
    double sum = -6;
    for (int term = 0; term < 12; term++) sum += static_cast<double>(random() >> 11) * 0x1p-53;
    values.push_back(sum);
  }
  return values;
}

struct Sent {
  Memory message;
  EncodedMessage said;
};

class EveryName : public testing::TestWithParam<std::string_view> {
 protected:
  static CodecChoice choice() { return *parse_codec(GetParam()); }
  static const Codec& codec() { return codecs()[choice().codec - size_t{1}]; }
  static std::vector<DataType> types() {
    std::vector<DataType> types(std::begin(kCodedTypes), std::end(kCodedTypes));
    if (encodes(choice().codec, kF64)) types.push_back(kF64);
    return types;
  }

  static MessageSource source_of(DataType type, const Memory& values) {
    return {.type = type,
            .values = values.data(),
            .count = values.size() / size_of(type),
            .seed = 7,
            .step = 1'000'000'000'003};
  }

  static Sent send(DataType type, const Memory& values, std::vector<float>* residual = nullptr) {
    const MessageSource source = source_of(type, values);
    Memory message(message_bound(choice(), type, source.count));
    auto* const left =
        residual == nullptr ? nullptr : reinterpret_cast<std::byte*>(residual->data());
    const EncodedMessage said = encode_message(choice(), source, left, message);
    EXPECT_LE(said.size, message.size());
    message.resize(said.size);
    return {message, said};
  }

  static Memory received(const Memory& message, DataType type, uint64_t count) {
    Memory target(count * size_of(type));
    const Status status = decode_message(message, type, count, target.data());
    EXPECT_TRUE(status.ok()) << status.message();
    return target;
  }

  // Neither decoder takes it, or writes.
  static void refused(const Memory& message, uint64_t count, std::string_view what) {
    for (const DataType type : {kF32, kF64}) {
      const Memory before(count * size_of(type), std::byte{0x5a});
      Memory target = before;
      for (const auto decode : {decode_message, decode_add_message}) {
        const Status status = decode(message, type, count, target.data());
        ASSERT_EQ(status.code(), Code::kCorrupt) << what;
        ASSERT_FALSE(status.message().empty());
        ASSERT_EQ(target, before) << what;
      }
    }
  }
};

TEST_P(EveryName, BringsWhatTheCodecSays) {
  for (const DataType type : types()) {
    for (const uint64_t count : {0U, 1U, 255U, 256U, 4097U, 70'001U}) {
      const Memory values = type == kF64 ? memory_of(type, gradients(count, count))
                                         : mixed_values(type, count, count);
      const Sent sent = send(type, values);
      const Result<MessageHeader> header = read_header(sent.message);
      ASSERT_TRUE(header.ok()) << header.status().message();
      Coding coding = coding_of(choice(), type);
      coding.seed = 7;
      coding.step = 1'000'000'000'003;
      const Message alone = encoded(codec(), coding, type, values);
      EXPECT_EQ(*header, (MessageHeader{.codec = choice().codec,
                                        .source = type,
                                        .carried = coding.carried,
                                        .flags = alone.said.flags,
                                        .count = count,
                                        .kept = alone.said.kept,
                                        .seed = 7,
                                        .step = 1'000'000'000'003,
                                        .parameter = choice().parameter}));
      EXPECT_EQ(sent.said.size, kMessageHeader + alone.said.size);
      EXPECT_EQ(sent.said.kept, alone.said.kept);
      EXPECT_EQ(sent.said.nonfinite, alone.said.nonfinite);
      EXPECT_TRUE(std::equal(alone.bytes.begin(), alone.bytes.end(),
                             sent.message.begin() + kMessageHeader));
      for (const DataType target : kCodedTypes)
        EXPECT_EQ(received(sent.message, target, count),
                  decode(codec(), coding, target, alone, count))
            << name_of(type) << " x " << count << " into " << name_of(target);
    }
  }
}

TEST_P(EveryName, IsReadIntoFloat64) {
  constexpr uint64_t kCount = 5000;
  const Memory values = memory_of(kF32, gradients(kCount, 3));
  const Sent sent = send(kF32, values);
  const auto wide = values_of(kF64, received(sent.message, kF64, kCount));
  const auto narrow = values_of(kF32, received(sent.message, kF32, kCount));
  EXPECT_EQ(wide, narrow);

  const std::vector<double> start = gradients(kCount, 4);
  Memory sum = memory_of(kF64, start);
  ASSERT_TRUE(decode_add_message(sent.message, kF64, kCount, sum.data()).ok());
  const auto sums = values_of(kF64, sum);
  for (size_t i = 0; i < kCount; i++) ASSERT_EQ(sums[i], start[i] + wide[i]) << i;
}

TEST_P(EveryName, IsAdded) {
  constexpr uint64_t kCount = 5000;
  for (const DataType type : kCodedTypes) {
    const Sent sent = send(type, memory_of(type, gradients(kCount, 5)));
    Memory sum = memory_of(type, gradients(kCount, 6));
    const auto start = values_of(type, sum);
    const auto wide = values_of(kF32, received(sent.message, kF32, kCount));
    ASSERT_TRUE(decode_add_message(sent.message, type, kCount, sum.data()).ok());
    const auto sums = values_of(type, sum);
    for (size_t i = 0; i < kCount; i++) {
      const float exact = static_cast<float>(start[i]) + static_cast<float>(wide[i]);
      ASSERT_NEAR(sums[i], exact, type == kF32 ? 0 : unit_of(type, std::abs(exact))) << i;
    }
  }
}

TEST_P(EveryName, IsReadAtAnyAddress) {
  const uint64_t count = 300;
  const Memory values = memory_of(kF32, gradients(count, 8));
  const Sent sent = send(kF32, values);
  const Memory wanted = received(sent.message, kF32, count);
  for (size_t shift = 1; shift < 8; shift++) {
    Memory from(shift + values.size()), into(shift + wanted.size()),
        message(shift + message_bound(choice(), kF32, count));
    std::copy(values.begin(), values.end(), from.begin() + shift);
    MessageSource source = source_of(kF32, values);
    source.values = from.data() + shift;
    const EncodedMessage said =
        encode_message(choice(), source, nullptr, std::span(message).subspan(shift));
    ASSERT_EQ(said.size, sent.said.size);
    ASSERT_TRUE(std::equal(sent.message.begin(), sent.message.end(), message.begin() + shift));
    ASSERT_TRUE(decode_message(std::span(message).subspan(shift, said.size), kF32, count,
                               into.data() + shift)
                    .ok());
    ASSERT_TRUE(std::equal(wanted.begin(), wanted.end(), into.begin() + shift));
  }
}

// A room that the bound is too large for is large enough where the message fits.
TEST_P(EveryName, IsWrittenWhereItFits) {
  constexpr uint64_t kCount = 3000;
  const Memory values = memory_of(kF32, gradients(kCount, 9));
  std::vector<float> residual(kCount, 0.25F);
  const std::vector<float> before = residual;
  const Sent sent = send(kF32, values, &residual);
  const std::vector<float> after = residual;
  ASSERT_NE(after, before);
  for (const size_t room : {size_t{0}, size_t{1}, kMessageHeader, sent.message.size() - 1}) {
    Memory message(sent.message.size() + 64, std::byte{0xa5});
    const Memory untouched = message;
    residual = before;
    const EncodedMessage said = encode_message(choice(), source_of(kF32, values),
                                               reinterpret_cast<std::byte*>(residual.data()),
                                               std::span(message.data(), room));
    EXPECT_EQ(said.size, sent.message.size());
    EXPECT_EQ(message, untouched);
    EXPECT_EQ(residual, before);
  }
  Memory message(sent.message.size() + 64, std::byte{0xa5});
  residual = before;
  encode_message(choice(), source_of(kF32, values), reinterpret_cast<std::byte*>(residual.data()),
                 std::span(message).first(sent.message.size()));
  EXPECT_EQ(residual, after);
  EXPECT_TRUE(std::equal(sent.message.begin(), sent.message.end(), message.begin()));
  for (size_t i = sent.message.size(); i < message.size(); i++)
    ASSERT_EQ(message[i], std::byte{0xa5});
}

TEST_P(EveryName, LosesNothingOverSteps) {
  constexpr uint64_t kCount = 1000;
  const CodecId id = choice().codec;
  const bool exact = id == kThreshold || id == kTopk || id == kRandk;
  for (const DataType type : types()) {
    std::vector<float> residual(kCount);
    std::vector<double> into(kCount), out(kCount);
    double slack = 0;
    for (uint64_t step = 0; step < 50; step++) {
      const Memory values = memory_of(type, gradients(kCount, 100 + step));
      const std::vector<float> before = residual;
      MessageSource source = source_of(type, values);
      source.step = step;
      Memory message(message_bound(choice(), type, kCount));
      const EncodedMessage said =
          encode_message(choice(), source, reinterpret_cast<std::byte*>(residual.data()), message);
      ASSERT_EQ(said.nonfinite, 0U);
      message.resize(said.size);
      const auto sent = values_of(kF32, received(message, kF32, kCount));
      const auto wide = values_of(type, values);
      double largest = 0;
      for (size_t i = 0; i < kCount; i++) {
        const auto sum = type == kF64 ? static_cast<float>(wide[i] + static_cast<double>(before[i]))
                                      : static_cast<float>(wide[i]) + before[i];
        const double unit =
            exact ? 0 : unit_of(kF32, std::max(std::abs(double{sum}), std::abs(sent[i])));
        ASSERT_NEAR(sent[i] + double{residual[i]}, sum, unit)
            << name_of(type) << ", step " << step << ", value " << i;
        into[i] += wide[i];
        out[i] += sent[i];
        largest = std::max({largest, std::abs(double{sum}), std::abs(sent[i])});
      }
      slack += 2 * unit_of(kF32, largest);  // of the sum, and of what is left of it
    }
    for (size_t i = 0; i < kCount; i++)
      ASSERT_NEAR(out[i] + double{residual[i]}, into[i], slack) << name_of(type) << ' ' << i;
  }
}

TEST_P(EveryName, LeavesTheResidualOfWhatIsNotFinite) {
  for (const DataType type : kCodedTypes) {
    for (const double odd : {std::nan(""), HUGE_VAL, -HUGE_VAL}) {
      Memory values = memory_of(type, gradients(3000, 10));
      put_bits(type, &values[1234 * size_of(type)],
               std::isnan(odd) ? nan_of(type) : rounded_bits(type, odd));
      std::vector<float> residual(3000, 0.125F);
      const std::vector<float> before = residual;
      EXPECT_EQ(send(type, values, &residual).said.nonfinite, 1U);
      EXPECT_EQ(residual, before);
    }
  }
  // Finite values, whose sum is not.
  std::vector<float> residual(10, 3e38F);
  const std::vector<float> before = residual;
  EXPECT_GT(send(kF32, memory_of(kF32, std::vector<double>(10, 3e38)), &residual).said.nonfinite,
            0U);
  EXPECT_EQ(residual, before);
}

TEST_P(EveryName, IsRefusedWithOneBitTurned) {
  constexpr uint64_t kCount = 100;
  Memory message = send(kF32, memory_of(kF32, gradients(kCount, 11))).message;
  for (size_t bit = 0; bit < 8 * message.size(); bit++) {
    const std::byte turned{static_cast<unsigned char>(1U << bit % 8)};
    message[bit / 8] ^= turned;
    ASSERT_NO_FATAL_FAILURE(refused(message, kCount, "bit " + std::to_string(bit)));
    message[bit / 8] ^= turned;
  }
}

TEST_P(EveryName, IsRefusedAtAnyOtherLength) {
  constexpr uint64_t kCount = 100;
  const Memory whole = send(kF32, memory_of(kF32, gradients(kCount, 12))).message;
  for (size_t length = 0; length < whole.size() + 9; length++) {
    if (length == whole.size()) continue;
    Memory message = whole;
    message.resize(length);
    message.shrink_to_fit();
    const std::string what = std::to_string(length) + " bytes of " + std::to_string(whole.size());
    ASSERT_NO_FATAL_FAILURE(refused(message, kCount, what));
    if (length < kMessageHeader) continue;
    put_header(*read_header(whole), message);
    ASSERT_NO_FATAL_FAILURE(refused(message, kCount, what + ", with their checksum"));
  }
}

TEST_P(EveryName, IsRefusedForAnotherCount) {
  const Memory message = send(kF32, memory_of(kF32, gradients(100, 13))).message;
  for (const uint64_t count : {0U, 1U, 99U, 101U, 200U, 4096U})
    ASSERT_NO_FATAL_FAILURE(refused(message, count, std::to_string(count)));
  // Said by the header, too: then the blocks do not fit it. Some of few values would fit counts
  // that are nearer.
  for (const uint64_t count : {0U, 70'000U}) {
    Memory other = message;
    MessageHeader header = *read_header(message);
    header.count = count;
    header.kept = header.parameter == 0 ? count : std::min(header.kept, count);
    put_header(header, other);
    ASSERT_NO_FATAL_FAILURE(refused(other, count, std::to_string(count) + " by its header"));
  }
}

// Whoever makes messages by hand can make their checksum, too.
TEST_P(EveryName, IsRefusedOrReadWithinBounds) {
  std::mt19937_64 random(14);
  int taken = 0;
  for (const uint64_t count : {100U, 5000U, 70'000U}) {
    const Memory whole = send(kF32, memory_of(kF32, gradients(count, 14))).message;
    const MessageHeader header = *read_header(whole);
    for (int turn = 0; turn < 300; turn++) {
      Memory message = whole;
      const size_t blocks = message.size() - kMessageHeader;
      for (uint64_t changes = random() % 8; changes > 0 && blocks > 0; changes--) {
        // Counts and scales come first.
        const size_t place =
            random() % (random() % 2 == 0 ? std::min<size_t>(blocks, 200) : blocks);
        message[kMessageHeader + place] =
            static_cast<std::byte>(random() % 3 == 0 ? 0xff : random());
      }
      MessageHeader other = header;
      if (codec().has_flags)
        other.flags = static_cast<uint8_t>(random() % (turn % 4 == 0 ? 256 : 4));
      put_header(other, message);
      const DataType type = kTargets[random() % std::size(kTargets)];
      const size_t guard = 4096, bytes = count * size_of(type);
      Memory target(2 * guard + bytes, std::byte{0x5a});
      const auto decode = turn % 2 == 0 ? decode_message : decode_add_message;
      const Memory before = target;
      if (decode(message, type, count, target.data() + guard).ok()) {
        taken++;
        std::fill_n(target.begin() + guard, bytes, std::byte{0x5a});
      }
      ASSERT_EQ(target, before);
    }
  }
  EXPECT_GT(taken, 0);
}

INSTANTIATE_TEST_SUITE_P(Codecs, EveryName, testing::ValuesIn(test::codec_names()),
                         [](const auto& name) { return test::as_identifier(name.param); });

Memory small_message(std::string_view name = "int8") {
  const Memory values = memory_of(kF32, {1, -2, 3});
  const CodecChoice choice = *parse_codec(name);
  const MessageSource source{.type = kF32, .values = values.data(), .count = 3};
  Memory message(message_bound(choice, kF32, 3));
  message.resize(encode_message(choice, source, nullptr, message).size);
  return message;
}

template <typename T>
Memory with_field(Memory message, size_t at, T value) {
  std::memcpy(&message[at], &value, sizeof value);
  std::memset(&message[60], 0, 4);
  const uint32_t sum = crc32c(message);
  std::memcpy(&message[60], &sum, sizeof sum);
  return message;
}

TEST(MessageHeader, HasItsFieldsWhereTheyAreDocumented) {
  const Memory values = memory_of(DataType::kBfloat16, {1, -2, 3});
  const CodecChoice choice = *parse_codec("int8");
  Memory message(message_bound(choice, DataType::kBfloat16, 3));
  ASSERT_EQ(message.size(), 64U + 4160U);
  encode_message(choice,
                 {.type = DataType::kBfloat16,
                  .values = values.data(),
                  .count = 3,
                  .seed = 0x0123456789abcdef,
                  .step = 0xfedcba9876543210},
                 nullptr, message);
  constexpr unsigned char kWanted[60] = {'B',  'N',  'Y',  'M',  1,    0,    1,    0,    9,    9,
                                         0,    0,    0,    0,    0,    0,    3,    0,    0,    0,
                                         0,    0,    0,    0,    3,    0,    0,    0,    0,    0,
                                         0,    0,    0xef, 0xcd, 0xab, 0x89, 0x67, 0x45, 0x23, 0x01,
                                         0x10, 0x32, 0x54, 0x76, 0x98, 0xba, 0xdc, 0xfe};
  EXPECT_EQ(std::memcmp(message.data(), kWanted, sizeof kWanted), 0);
  EXPECT_EQ(with_field(message, 0, kWanted[0]), message)
      << "the checksum is of all with 0 in its place";
}

TEST(MessageHeader, IsRefusedWhateverFieldIsWrong) {
  const Memory good = small_message();
  ASSERT_TRUE(read_header(with_field(good, 0, uint32_t{0x4d594e42})).ok());
  const std::pair<const char*, Memory> cases[] = {
      {"begins with", with_field(good, 0, uint32_t{0x4d594e43})},
      {"version is 0", with_field(good, 4, uint16_t{0})},
      {"version is 2", with_field(good, 4, uint16_t{2})},
      {"codec 0 ", with_field(good, 6, uint16_t{0})},
      {"codec 13 ", with_field(good, 6, uint16_t{kNonzero})},
      {"codec 14 ", with_field(good, 6, uint16_t{14})},
      {"codec 257 ", with_field(good, 6, uint16_t{0x101})},
      {"type 0", with_field(good, 8, uint8_t{0})},
      {"type 8", with_field(good, 8, uint16_t{0x808})},
      {"type 12", with_field(good, 8, uint16_t{0x0c0c})},
      {"type 255", with_field(good, 8, uint16_t{0xffff})},
      {"values of type 6", with_field(good, 9, uint8_t{6})},
      {"values of type 9", with_field(good, 9, uint8_t{9})},
      {"flags are 0x1", with_field(good, 10, uint16_t{1})},
      {"flags are 0x100", with_field(good, 10, uint16_t{0x100})},
      {"0 is not", with_field(good, 12, uint32_t{1})},
      {"keeps 3 of 2", with_field(good, 16, uint64_t{2})},
      {"keeps 4 of 3", with_field(good, 24, uint64_t{4})},
      {"keeps 2 of 3", with_field(good, 24, uint64_t{2})},
      {"keeps 18446744073709551615 of 3", with_field(good, 24, UINT64_MAX)},
      {"parameter 0.5", with_field(good, 48, 0.5)},
      {"parameter nan", with_field(good, 48, std::nan(""))},
      {"0 is not", with_field(good, 56, uint32_t{0x80000000})},
  };
  for (const auto& [what, message] : cases) {
    const Status status = read_header(message).status();
    EXPECT_EQ(status.code(), Code::kCorrupt) << what;
    EXPECT_THAT(std::string(status.message()), HasSubstr(what));
  }
}

TEST(MessageHeader, CountsAsLongAsItIs) {
  Memory message = small_message();
  message.resize(63);
  EXPECT_THAT(std::string(read_header(message).status().message()), HasSubstr("63 bytes"));
  EXPECT_EQ(read_header({}).status().code(), Code::kCorrupt);
}

}  // namespace
}  // namespace banyan::codec_message_test
