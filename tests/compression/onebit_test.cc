// What onebit promises: signs and means of magnitudes, and that NaN and infinity take all.
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "compression/codecs.h"
#include "tests/support/codec_values.h"
#include "tests/support/hash.h"

namespace banyan::onebit_test {
namespace {

constexpr DataType kF32 = DataType::kFloat32;
constexpr size_t kBlock = 256;
constexpr size_t kSuperblock = 4096;
constexpr size_t kBlocks = kSuperblock / kBlock;
constexpr size_t kBytes = kBlocks * sizeof(float) + kSuperblock / 8;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kLargest = std::numeric_limits<float>::max();

uint32_t bits_of(float value) {
  return std::bit_cast<uint32_t>(value);
}

float mean_in(const Memory& message, size_t block) {
  float mean = 0;
  std::memcpy(&mean, &message[block / kBlocks * kBytes + block % kBlocks * sizeof mean],
              sizeof mean);
  return mean;
}

bool is_negative_in(const Memory& message, size_t place) {
  const size_t bit = place % kSuperblock;
  const size_t codes = place / kSuperblock * kBytes + kBlocks * sizeof(float);
  return (static_cast<unsigned>(message[codes + bit / 8]) >> bit % 8 & 1) != 0;
}

// Finite ones.
std::vector<float> numbers(uint64_t count, uint64_t seed) {
  auto values = wide(kF32, mixed_values(kF32, count, seed));
  for (float& value : values) value = std::isfinite(value) ? value : -1;
  return values;
}

class Onebit : public testing::TestWithParam<const Kernels*> {
 protected:
  static const Codec& codec() { return GetParam()->codecs[kOnebit - 1]; }
};

TEST_P(Onebit, HasWholeSuperblocks) {
  EXPECT_EQ(codec().capacity({}, kF32, 0), 0U);
  EXPECT_EQ(codec().capacity({}, kF32, 1), 576U);
  EXPECT_EQ(codec().capacity({}, DataType::kFloat16, 4097), 1152U);
  EXPECT_EQ(codec().unit, 4096U);
  EXPECT_TRUE(codec().has_flags);
}

// The mean is a sum of up to 256 in float32, in any order that it likes but always the same.
TEST_P(Onebit, SaysSignsAndMeans) {
  for (const uint64_t count : {1U, 17U, 256U, 300U, 4097U, 20'100U}) {
    const auto values = numbers(count, count);
    const Message message = encoded(codec(), {}, kF32, memory_of(values));
    ASSERT_EQ(message.said.flags, 0);
    ASSERT_EQ(message.said.nonfinite, 0U);
    ASSERT_EQ(message.bytes.size() % kBytes, 0U);
    const auto after = wide(kF32, decode(codec(), {}, kF32, message, count));
    for (size_t first = 0; first < count; first += kBlock) {
      const size_t end = std::min<size_t>(first + kBlock, count);
      double sum = 0;
      double m = 0;
      for (size_t i = first; i < end; i++) {
        sum += std::fabs(values[i]);
        m = std::fmax(m, std::fabs(values[i]));
      }
      const double mean = m < 0x1p-100 ? 0 : sum / static_cast<double>(end - first);
      const float said = mean_in(message.bytes, first / kBlock);
      ASSERT_NEAR(said, mean, mean * 0x1p-19) << count << " at " << first;
      for (size_t i = first; i < end; i++) {
        const bool negative = said != 0 && values[i] < 0;
        ASSERT_EQ(is_negative_in(message.bytes, i), negative) << i;
        ASSERT_EQ(bits_of(after[i]), bits_of(negative ? -said : said)) << i;
      }
    }
    for (size_t i = count; i < message.bytes.size() / kBytes * kSuperblock; i++) {
      ASSERT_FALSE(is_negative_in(message.bytes, i));
      if (i % kBlock == 0) {
        ASSERT_EQ(bits_of(mean_in(message.bytes, i / kBlock)), 0U);
      }
    }
  }
}

TEST_P(Onebit, TakesZerosForPositive) {
  std::vector<float> values(kBlock, -0.0F);
  EXPECT_EQ(encoded(codec(), {}, kF32, memory_of(values)).bytes, Memory(kBytes));
  values[9] = 256;
  values[10] = 0;
  const Message message = encoded(codec(), {}, kF32, memory_of(values));
  const auto after = wide(kF32, decode(codec(), {}, kF32, message, kBlock));
  EXPECT_EQ(after, std::vector<float>(kBlock, 1));
}

TEST_P(Onebit, TakesTinyBlocksForZero) {
  const float below = std::nextafter(0x1p-100F, 0.0F);
  const Memory values = memory_of(std::vector<float>(kBlock, -below));
  Memory left;
  const Message message = encoded(codec(), {}, kF32, values, &left);
  EXPECT_EQ(message.bytes, Memory(kBytes));
  EXPECT_EQ(left, values);
  const Memory small = memory_of(std::vector<float>(kBlock, -0x1p-100F));
  EXPECT_EQ(decode(codec(), {}, kF32, encoded(codec(), {}, kF32, small), kBlock), small);
}

// Sums of the largest numbers do not become infinite.
TEST_P(Onebit, DecodesWhatIsFiniteToWhatIsFinite) {
  for (const uint64_t count : {1U, 3U, 100U, 255U, 256U}) {
    std::vector<float> values(count, kLargest);
    values.back() = -kLargest;
    const Message message = encoded(codec(), {}, kF32, memory_of(values));
    const auto after = wide(kF32, decode(codec(), {}, kF32, message, count));
    ASSERT_NEAR(after.back() / -kLargest, 1, 0x1p-19);
    for (const DataType type : {DataType::kFloat16, DataType::kBfloat16}) {
      for (const float value : wide(type, decode(codec(), {}, type, message, count))) {
        ASSERT_TRUE(std::isfinite(value));
      }
    }
  }
}

TEST_P(Onebit, IsSpoiltByNanAndInfinity) {
  for (const DataType type : kCodedTypes) {
    for (const float bad : {kNan, kInfinity, -kInfinity}) {
      constexpr uint64_t kCount = 9001;
      Memory values(kCount * size_of(type));
      for (uint64_t i = 0; i < kCount; i++) {
        put_bits(type, &values[i * size_of(type)], rounded_bits(type, i % 2 == 0 ? 1 : -2));
      }
      for (const uint64_t place : {0U, 8999U}) {
        put_bits(type, &values[place * size_of(type)],
                 std::isnan(bad) ? nan_of(type) : rounded_bits(type, bad));
      }
      Memory left;
      const Message message = encoded(codec(), {}, type, values, &left);
      EXPECT_EQ(message.said.flags, 1);
      EXPECT_EQ(message.said.nonfinite, 2U);
      EXPECT_EQ(left, Memory(left.size())) << "a message of NaN leaves nothing";
      for (const DataType to : kCodedTypes) {
        Memory sum(kCount * size_of(to));
        ASSERT_TRUE(codec().decode_add({}, to, message.view(), kCount, sum.data(), sum.data()));
        ASSERT_EQ(sum, decode(codec(), {}, to, message, kCount));
        for (uint64_t i = 0; i < kCount; i++) {
          ASSERT_EQ(get_bits(to, &sum[i * size_of(to)]), nan_of(to)) << i;
        }
      }
    }
  }
}

TEST_P(Onebit, RefusesFlagsThatItHasNot) {
  const Memory values = memory_of({1, 2, 3});
  Message message = encoded(codec(), {}, kF32, values);
  Memory sum = values;
  for (const int flags : {2, 3, 128, 255}) {
    message.said.flags = static_cast<uint8_t>(flags);
    EXPECT_FALSE(codec().decode({}, kF32, message.view(), 3, sum.data()));
    EXPECT_FALSE(codec().decode_add({}, kF32, message.view(), 3, sum.data(), sum.data()));
  }
  EXPECT_EQ(sum, values);
}

// ||x - C(x)||^2 <= (1 - d) ||x||^2 with d = ||x||_1^2 / (n ||x||^2), in every block but those that
// are taken for zero.
TEST_P(Onebit, Contracts) {
  const auto values = numbers(40 * kBlock, 5);
  const Message message = encoded(codec(), {}, kF32, memory_of(values));
  const auto after = wide(kF32, decode(codec(), {}, kF32, message, values.size()));
  for (size_t first = 0; first < values.size(); first += kBlock) {
    double off = 0;
    double sum = 0;
    double power = 0;
    for (size_t i = first; i < first + kBlock; i++) {
      off += std::pow(double{values[i]} - double{after[i]}, 2);
      sum += std::fabs(values[i]);
      power += std::pow(double{values[i]}, 2);
    }
    if (mean_in(message.bytes, first / kBlock) == 0) continue;
    EXPECT_LE(off, (power - sum * sum / kBlock) + power * 0x1p-18);
  }
}

// Messages are read by other builds and other machines, so their bytes never change.
TEST_P(Onebit, MakesTheBytesItAlwaysMade) {
  constexpr const char* kHashes[] = {
      "f2c6c1edc4ebcbad0ae4b2061ccb4e309b7146c2ffdb9098d1ec7504f4fbe140",
      "aaab3723f4b992da1d0d650d3c7b648ef244bcc5f3f595551d1c51a6423d4601",
      "a3136ebe1e2d8a1c902edcc92e3a38bf275ef918d155dd95595bf0005a8326ab"};
  for (size_t t = 0; t < std::size(kCodedTypes); t++) {
    const DataType type = kCodedTypes[t];
    Memory values = mixed_values(type, 1'000'003, 29);
    const auto numbers = wide(type, values);
    for (size_t i = 0; i < numbers.size(); i++) {
      if (!std::isfinite(numbers[i])) put_bits(type, &values[i * size_of(type)], 0);
    }
    Hash hash;
    for (const Memory& part : all_made_of(codec(), {}, type, values)) hash.add(part);
    EXPECT_EQ(hash.text(), kHashes[t]) << name_of(type);
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, Onebit, testing::ValuesIn(available_kernels()),
                         [](const auto& kernels) { return std::string(kernels.param->name); });

}  // namespace
}  // namespace banyan::onebit_test
