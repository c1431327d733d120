// What sign promises, by every instruction set: its words, to the byte; plus and minus T; what is
// left; and NaN for all where one value is not finite.
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "compression/codecs.h"
#include "tests/support/sparse_reference.h"

namespace banyan::sign_test {
namespace {

constexpr DataType kF32 = DataType::kFloat32;
constexpr uint64_t kRegion = 32'768;

void append(Memory& to, uint64_t value, size_t size) {
  for (size_t i = 0; i < size; i++) to.push_back(static_cast<std::byte>(value >> 8 * i));
}

class Sign : public testing::TestWithParam<const Kernels*> {
 protected:
  static const Codec& codec() { return GetParam()->codecs[kSign - size_t{1}]; }

  static Memory words_of(DataType type, const Memory& values, const Kept& kept) {
    std::vector<uint32_t> counts((kept.size() + kRegion - 1) / kRegion);
    Memory words;
    const auto numbers = numbers_of(type, values);
    for (uint64_t i = 0; i < kept.size(); i++) {
      if (!kept[i]) continue;
      counts[i / kRegion]++;
      append(words, i % kRegion | (std::signbit(numbers[i]) ? 0x8000U : 0U), 2);
    }
    Memory message;
    for (const uint32_t count : counts) append(message, count, 4);
    message.insert(message.end(), words.begin(), words.end());
    return message;
  }

  // T, in float32 unless the values are float64.
  static long double sent_size(DataType type, double threshold) {
    return type == DataType::kFloat64 ? static_cast<long double>(threshold)
                                      : static_cast<long double>(static_cast<float>(threshold));
  }
};

TEST_P(Sign, SaysWhatItsDefinitionSays) {
  for (const DataType type : kSparseTypes) {
    for (const uint64_t count : {1U, 2U, 300U, 4097U, 32'768U, 32'769U, 100'001U}) {
      const Memory values = finite_values(type, count, count + 3);
      const auto numbers = numbers_of(type, values);
      for (const double threshold : {0.0, 0.1, 0.24, 1e30}) {
        if (count > 5000 && type != kF32) continue;
        SCOPED_TRACE(std::string(name_of(type)) + " x " + std::to_string(count) + " from " +
                     std::to_string(threshold));
        const Coding coding = {.parameter = threshold};
        const Kept kept = kept_from(type, values, threshold);
        Memory left;
        const Message message = encoded(codec(), coding, type, values, &left);
        ASSERT_EQ(message.said.flags, 0);
        ASSERT_EQ(message.said.nonfinite, 0U);
        ASSERT_EQ(message.said.kept, count_of(kept));
        ASSERT_EQ(message.bytes, words_of(type, values, kept));
        ASSERT_LE(message.bytes.size(), codec().capacity(coding, type, count));
        const auto decoded = decode(codec(), coding, type, message, count);
        const auto rest = numbers_of(type, left);
        for (uint64_t i = 0; i < count; i++) {
          const long double sent =
              kept[i] ? std::copysign(sent_size(type, threshold), numbers[i]) : 0;
          ASSERT_EQ(get_bits(type, &decoded[i * size_of(type)]), rounded_bits(type, sent)) << i;
          const DataType wide = type == DataType::kFloat64 ? type : kF32;
          const long double difference =
              value_of(wide, float_result(wide, ReduceOp::kSum, numbers[i], -sent));
          ASSERT_EQ(rest[i], value_of(type, rounded_bits(type, difference))) << i;
          ASSERT_TRUE(kept[i] || std::fabs(rest[i]) < static_cast<long double>(threshold)) << i;
        }
      }
    }
  }
}

TEST_P(Sign, DecodesToNanWhereAValueIsNotFinite) {
  for (const DataType type : kSparseTypes) {
    constexpr uint64_t kCount = 5000;
    for (const long double bad : {std::numeric_limits<long double>::quiet_NaN(),
                                  -std::numeric_limits<long double>::infinity()}) {
      Memory values = finite_values(type, kCount, 8);
      put_bits(type, &values[4999 * size_of(type)], rounded_bits(type, bad));
      const Coding coding = {.parameter = 0.1};
      Memory left;
      const Message message = encoded(codec(), coding, type, values, &left);
      EXPECT_EQ(message.said.nonfinite, 1U);
      EXPECT_EQ(message.said.flags, 4);
      EXPECT_EQ(message.said.size, 0U);
      EXPECT_EQ(left, Memory(values.size()));
      const std::vector<long double> nans(kCount, std::numeric_limits<long double>::quiet_NaN());
      EXPECT_EQ(decode(codec(), coding, type, message, kCount), rounded(type, nans));
      Memory sum = values;
      EXPECT_TRUE(codec().decode_add(coding, type, message.view(), kCount, sum.data(), sum.data()));
      EXPECT_EQ(sum, rounded(type, nans));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, Sign, testing::ValuesIn(available_kernels()),
                         [](const auto& kernels) { return std::string(kernels.param->name); });

}  // namespace
}  // namespace banyan::sign_test
