// What topk promises, by every instruction set: exactly the largest magnitudes, of equal ones the
// first, from one look at the whole vector, however it is cut.
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "compression/codecs.h"
#include "tests/support/sparse_reference.h"

namespace banyan::topk_test {
namespace {

constexpr DataType kF32 = DataType::kFloat32;
constexpr long double kNan = std::numeric_limits<long double>::quiet_NaN();
constexpr long double kInfinity = std::numeric_limits<long double>::infinity();

uint64_t share(double density, uint64_t count) {
  const auto wanted = static_cast<uint64_t>(std::ceil(density * static_cast<double>(count)));
  return std::clamp<uint64_t>(wanted, count == 0 ? 0 : 1, count);
}

class Topk : public testing::TestWithParam<const Kernels*> {
 protected:
  static const Codec& codec() { return GetParam()->codecs[kTopk - size_t{1}]; }

  static void expect_largest(DataType type, const Memory& values, const Coding& coding) {
    const uint64_t count = values.size() / size_of(type);
    const Kept kept = kept_largest(type, values, share(coding.parameter, count));
    const Message wanted = said_in_forms(type, coding.carried, values, kept);
    Memory left;
    const Message got = encoded(codec(), coding, type, values, &left);
    ASSERT_EQ(got.said.kept, share(coding.parameter, count));
    ASSERT_EQ(got.said.flags, wanted.said.flags);
    ASSERT_EQ(got.bytes, wanted.bytes);
    ASSERT_EQ(left, left_of(type, coding.carried, values, kept));
    ASSERT_EQ(decode(codec(), coding, type, got, count),
              sent_of(type, coding.carried, values, kept, type));
  }

  // What a vector decodes to that is cut before these places, and the same with what is left.
  static Memory in_parts(DataType type, const Memory& values, Coding coding,
                         std::vector<uint64_t> cuts, Memory* left) {
    const uint64_t count = values.size() / size_of(type);
    const Selection selection = codec().select(coding, type, values.data(), count);
    coding.selection = &selection;
    cuts.push_back(count);
    Memory whole;
    for (const uint64_t cut : cuts) {
      const auto at = [&](uint64_t place) {
        return values.begin() + static_cast<ptrdiff_t>(place * size_of(type));
      };
      Memory rest;
      const Memory part(at(coding.first), at(cut));
      const Message message = encoded(codec(), coding, type, part, &rest);
      const Memory decoded = decode(codec(), coding, type, message, cut - coding.first);
      whole.insert(whole.end(), decoded.begin(), decoded.end());
      left->insert(left->end(), rest.begin(), rest.end());
      coding.first = cut;
    }
    return whole;
  }
};

TEST_P(Topk, SaysWhatItsDefinitionSays) {
  for (const DataType type : kSparseTypes) {
    for (const uint64_t count : {0U, 1U, 2U, 100U, 4096U, 4097U, 70'001U}) {
      const Memory values = sparse_values(type, count, count + 7);
      for (const double density : {1e-9, 0.001, 0.01, 0.1, 0.5, 0.999, 1.0}) {
        for (const DataType carried : {type, DataType::kFloat16}) {
          if (count > 5000 && (type != kF32 || carried != kF32)) continue;
          SCOPED_TRACE(std::string(name_of(type)) + " x " + std::to_string(count) + " x " +
                       std::to_string(density));
          expect_largest(type, values, {.parameter = density, .carried = carried});
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST_P(Topk, TakesTheFirstOfEqualMagnitudes) {
  std::vector<long double> numbers(10'000);
  for (size_t i = 0; i < numbers.size(); i++) numbers[i] = i % 2 == 0 ? 1 : -1;
  numbers.back() = 2;
  const Coding coding = {.parameter = 0.01};
  const Message message = encoded(codec(), coding, kF32, rounded(kF32, numbers));
  const auto sent = numbers_of(kF32, decode(codec(), coding, kF32, message, numbers.size()));
  for (size_t i = 0; i < sent.size(); i++) {
    ASSERT_EQ(sent[i] != 0, i < 99 || i + 1 == sent.size()) << i;
  }
}

// No other set of as many leaves less.
TEST_P(Topk, LeavesTheLeast) {
  std::mt19937 random(11);
  for (int round = 0; round < 300; round++) {
    const auto count = 1 + random() % 10;
    const auto wanted = 1 + random() % count;
    std::vector<long double> numbers(count);
    for (auto& number : numbers) number = static_cast<int>(random() % 41) - 20;
    const Coding coding = {.parameter = static_cast<double>(wanted) / static_cast<double>(count)};
    const Memory values = rounded(kF32, numbers);
    Memory left;
    const Message message = encoded(codec(), coding, kF32, values, &left);
    long double least = kInfinity;
    for (uint32_t set = 0; set < 1U << count; set++) {
      if (static_cast<uint64_t>(__builtin_popcount(set)) != message.said.kept) continue;
      long double sum = 0;
      for (size_t i = 0; i < count; i++) {
        if ((set >> i & 1) == 0) sum += numbers[i] * numbers[i];
      }
      least = std::min(least, sum);
    }
    long double rest = 0;
    for (const long double number : numbers_of(kF32, left)) rest += number * number;
    ASSERT_EQ(rest, least) << count << " " << wanted;
  }
}

// ||x - C(x)||^2 <= (1 - k/n) ||x||^2
TEST_P(Topk, Contracts) {
  for (const uint64_t count : {10U, 1000U, 30'000U}) {
    for (const double density : {0.001, 0.1, 0.7}) {
      const Memory values = finite_values(kF32, count, 2 * count + 1);
      Memory left;
      const Message message = encoded(codec(), {.parameter = density}, kF32, values, &left);
      long double all = 0;
      long double rest = 0;
      for (const long double number : numbers_of(kF32, values)) all += number * number;
      for (const long double number : numbers_of(kF32, left)) rest += number * number;
      const long double share_kept =
          static_cast<long double>(message.said.kept) / static_cast<long double>(count);
      ASSERT_LE(rest, (1 - share_kept) * all) << count << " " << density;
    }
  }
}

TEST_P(Topk, SelectsTheSameHoweverTheVectorIsCut) {
  std::mt19937 random(12);
  for (const DataType type : kSparseTypes) {
    for (int round = 0; round < 40; round++) {
      const uint64_t count = 1 + random() % 20'000;
      std::vector<long double> numbers(count);
      const uint32_t levels = round % 2 == 0 ? 5 : 30'000;  // many ties, and few
      for (auto& number : numbers) number = static_cast<int>(random() % levels) - 2;
      const Memory values = rounded(type, numbers);
      const Coding coding = {.parameter = static_cast<double>(1 + random() % 99) / 100,
                             .carried = type};
      std::vector<uint64_t> cuts(random() % 6);
      for (uint64_t& cut : cuts) cut = random() % (count + 1);
      std::sort(cuts.begin(), cuts.end());
      Memory left_whole;
      const Message message = encoded(codec(), coding, type, values, &left_whole);
      Memory left;
      ASSERT_EQ(in_parts(type, values, coding, cuts, &left),
                decode(codec(), coding, type, message, count));
      ASSERT_EQ(left, left_whole);
    }
  }
}

// A part of a vector may have none of the largest, or nothing else.
TEST_P(Topk, KeepsWhatTheSelectionSaysOfAPart) {
  const Memory values = rounded(kF32, {3, -2, 2, 1, -3, 2});
  Selection selection = codec().select({.parameter = 0.5}, kF32, values.data(), 6);
  Coding coding = {.parameter = 0.5, .selection = &selection};
  EXPECT_EQ(encoded(codec(), coding, kF32, rounded(kF32, {1, 0, -1})).said.kept, 0U);
  EXPECT_EQ(encoded(codec(), coding, kF32, rounded(kF32, {9, 9, -9, 4})).said.kept, 4U);
  // 3, the first 2 and -3 are the largest.
  EXPECT_EQ(encoded(codec(), coding, kF32, rounded(kF32, {3, -2, 2})).said.kept, 2U);
  coding.first = 2;
  EXPECT_EQ(encoded(codec(), coding, kF32, rounded(kF32, {2, 1, -3, 2})).said.kept, 1U);
}

TEST_P(Topk, TakesNanForTheLargestAndInfinityForTheNext) {
  for (const DataType type : kSparseTypes) {
    const std::vector<long double> numbers = {1, kInfinity, 5, kNan, -kInfinity,
                                              7, kNan,      2, kNan, 3};
    Memory values = rounded(type, numbers);
    // Any NaN is as large as the other.
    put_bits(type, &values[8 * size_of(type)], nan_of(type) | 1);
    for (const double density : {0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 1.0}) {
      SCOPED_TRACE(std::string(name_of(type)) + " " + std::to_string(density));
      const Coding coding = {.parameter = density, .carried = type};
      expect_largest(type, values, coding);
      EXPECT_EQ(encoded(codec(), coding, type, values).said.nonfinite, 5U);
      Memory left;
      in_parts(type, values, coding, {4, 7}, &left);
      for (const long double rest : numbers_of(type, left)) ASSERT_TRUE(std::isfinite(rest));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, Topk, testing::ValuesIn(available_kernels()),
                         [](const auto& kernels) { return std::string(kernels.param->name); });

}  // namespace
}  // namespace banyan::topk_test
