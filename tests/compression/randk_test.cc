// What randk promises, by every instruction set: a choice that nothing but seed, step, count and D
// decides, each as likely as the other; the values, and nothing else, on the wire.
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "compression/codecs.h"
#include "tests/support/sparse_reference.h"

namespace banyan::randk_test {
namespace {

constexpr DataType kF32 = DataType::kFloat32;

class Randk : public testing::TestWithParam<const Kernels*> {
 protected:
  static const Codec& codec() { return GetParam()->codecs[kRandk - size_t{1}]; }

  // Which of so many values are chosen, as their message says it.
  static std::vector<uint64_t> chosen(const Coding& coding, uint64_t count) {
    Memory ones(count * sizeof(float));
    const uint64_t one = rounded_bits(kF32, 1);
    for (uint64_t i = 0; i < count; i++) put_bits(kF32, &ones[i * sizeof(float)], one);
    const Message message = encoded(codec(), coding, kF32, ones);
    const Memory decoded = decode(codec(), coding, kF32, message, count);
    std::vector<uint64_t> places;
    for (uint64_t i = 0; i < count; i++) {
      if (get_bits(kF32, &decoded[i * sizeof(float)]) != 0) places.push_back(i);
    }
    EXPECT_EQ(places.size(), message.said.kept);
    return places;
  }

  // `times` out of `of` for something of probability p.
  static bool is_likely(uint64_t times, uint64_t of, double p) {
    const double mean = static_cast<double>(of) * p;
    return std::fabs(static_cast<double>(times) - mean) <= 5 * std::sqrt(mean * (1 - p));
  }
};

TEST_P(Randk, SaysTheValuesOfItsChoiceInTheirOrder) {
  for (const DataType type : kSparseTypes) {
    for (const DataType carried : {type, DataType::kFloat16, DataType::kFloat64}) {
      for (const uint64_t count : {0U, 1U, 2U, 100U, 4096U, 9000U}) {
        for (const double density : {1e-9, 0.01, 0.5, 0.51, 0.9, 1.0}) {
          SCOPED_TRACE(std::string(name_of(type)) + " as " + std::string(name_of(carried)) + " x " +
                       std::to_string(count) + " x " + std::to_string(density));
          const Coding coding = {.parameter = density, .carried = carried, .seed = 8, .step = 9};
          const Memory values = finite_values(type, count, count + 5);
          Kept kept(count);
          for (const uint64_t place : chosen(coding, count)) kept[place] = true;
          const auto share = static_cast<uint64_t>(std::ceil(density * static_cast<double>(count)));
          ASSERT_EQ(count_of(kept), std::max<uint64_t>(share, count == 0 ? 0 : 1));

          Memory wanted;
          const auto numbers = numbers_of(type, values);
          uint64_t nonfinite = 0;
          for (uint64_t i = 0; i < count; i++) {
            if (!kept[i]) continue;
            const Memory one = rounded(carried, {numbers[i]});
            wanted.insert(wanted.end(), one.begin(), one.end());
            if (!std::isfinite(numbers_of(carried, one)[0])) nonfinite++;
          }
          Memory left;
          const Message message = encoded(codec(), coding, type, values, &left);
          ASSERT_EQ(message.bytes, wanted);
          ASSERT_EQ(message.said.nonfinite, nonfinite);
          ASSERT_EQ(left, left_of(type, carried, values, kept));
          ASSERT_EQ(decode(codec(), coding, kF32, message, count),
                    sent_of(type, carried, values, kept, kF32));
          Memory sum = sparse_values(type, count, 6);
          const Memory added = added_to(type, carried, values, kept, sum);
          ASSERT_TRUE(
              codec().decode_add(coding, type, message.view(), count, sum.data(), sum.data()));
          ASSERT_EQ(sum, added);
        }
      }
    }
  }
}

TEST_P(Randk, ChoosesBySeedStepCountAndShareAlone) {
  const Coding coding = {.parameter = 0.1, .seed = 7, .step = 8};
  const auto places = chosen(coding, 20'000);
  Coding same = coding;
  same.rank = 3;
  same.tensor = 5;
  same.first = 4096;
  same.stochastic = true;
  same.carried = DataType::kFloat16;
  EXPECT_EQ(chosen(same, 20'000), places);

  const auto differs = [&](Coding other, uint64_t count) {
    const auto others = chosen(other, count);
    std::vector<uint64_t> both;
    std::set_intersection(places.begin(), places.end(), others.begin(), others.end(),
                          std::back_inserter(both));
    // A tenth of a tenth, were it by chance.
    return both.size() < places.size() / 5;
  };
  for (const uint64_t bit : {0, 1, 31, 32, 63}) {
    Coding other = coding;
    other.seed ^= uint64_t{1} << bit;
    EXPECT_TRUE(differs(other, 20'000)) << bit;
    other = coding;
    other.step ^= uint64_t{1} << bit;
    EXPECT_TRUE(differs(other, 20'000)) << bit;
  }
  EXPECT_NE(chosen(coding, 20'001), places);
}

TEST_P(Randk, ChoosesEachPlaceAsOften) {
  struct Case {
    uint64_t count, steps;
    double density;
  };
  for (const auto& [count, steps, density] :
       {Case{7, 3000, 0.4}, Case{100, 3000, 0.03}, Case{100, 2000, 0.8}, Case{5000, 300, 0.1}}) {
    std::vector<uint64_t> times(count);
    uint64_t wanted = 0;
    for (uint64_t step = 0; step < steps; step++) {
      const auto places = chosen({.parameter = density, .seed = 1, .step = step}, count);
      for (const uint64_t place : places) times[place]++;
      wanted = places.size();
    }
    const double p = static_cast<double>(wanted) / static_cast<double>(count);
    for (uint64_t i = 0; i < count; i++) {
      ASSERT_TRUE(is_likely(times[i], steps, p)) << i << " of " << count << ": " << times[i];
    }
  }
}

TEST_P(Randk, ChoosesEachSetAsOften) {
  for (const double density : {0.33, 0.5, 0.66}) {  // 2, 3 and 4 of 6
    std::map<std::vector<uint64_t>, uint64_t> times;
    constexpr uint64_t kSteps = 6000;
    for (uint64_t step = 0; step < kSteps; step++) {
      times[chosen({.parameter = density, .seed = 2, .step = step}, 6)]++;
    }
    ASSERT_EQ(times.size(), density == 0.5 ? 20U : 15U);
    for (const auto& [places, count] : times) {
      EXPECT_TRUE(is_likely(count, kSteps, 1.0 / static_cast<double>(times.size())));
    }
  }
}

// Parts of the length that is decided together, of which the last is short, have their share.
TEST_P(Randk, ChoosesEachPartAsOften) {
  constexpr uint64_t kCount = 3 * 4096 + 100;
  constexpr uint64_t kSteps = 400;
  std::vector<double> means(4);
  std::vector<double> squares(4);
  for (uint64_t step = 0; step < kSteps; step++) {
    std::vector<double> hits(4);
    for (const uint64_t place : chosen({.parameter = 0.45, .seed = 3, .step = step}, kCount)) {
      hits[place / 4096]++;
    }
    for (size_t part = 0; part < 4; part++) {
      means[part] += hits[part] / kSteps;
      squares[part] += hits[part] * hits[part] / kSteps;
    }
  }
  const double wanted = std::ceil(0.45 * kCount);
  for (size_t part = 0; part < 4; part++) {
    // The hypergeometric distribution.
    const double p = (part < 3 ? 4096.0 : 100.0) / kCount;
    const double variance = wanted * p * (1 - p) * (kCount - wanted) / (kCount - 1);
    EXPECT_NEAR(means[part], wanted * p, 5 * std::sqrt(variance / kSteps)) << part;
    EXPECT_NEAR(squares[part] - means[part] * means[part], variance,
                5 * variance * std::sqrt(2.0 / kSteps))
        << part;
  }
}

// So many places that they are cut into parts of parts.
TEST_P(Randk, ChoosesAmongMany) {
  constexpr uint64_t kCount = (uint64_t{1} << 23) + 12'345;
  const auto places = chosen({.parameter = 0.001, .seed = 4}, kCount);
  ASSERT_EQ(places.size(), 8401U);
  EXPECT_TRUE(std::is_sorted(places.begin(), places.end()));
  for (uint64_t eighth = 0; eighth < 8; eighth++) {
    const auto hits = std::count_if(places.begin(), places.end(),
                                    [&](uint64_t place) { return place * 8 / kCount == eighth; });
    EXPECT_TRUE(is_likely(static_cast<uint64_t>(hits), places.size(), 0.125)) << eighth;
  }
}

// Also where it is not chosen: else the ranks would not know of it.
TEST_P(Randk, DecodesToNanWhereAValueIsNotFinite) {
  const Coding coding = {.parameter = 0.1, .seed = 6};
  constexpr uint64_t kCount = 5000;
  const auto places = chosen(coding, kCount);
  const uint64_t unchosen = places[0] == 0 ? places[0] + 1 : 0;
  for (const DataType type : kSparseTypes) {
    for (const uint64_t place : {places[7], unchosen}) {
      Memory values = finite_values(type, kCount, 8);
      put_bits(type, &values[place * size_of(type)],
               rounded_bits(type, -std::numeric_limits<long double>::infinity()));
      Memory left;
      const Message message = encoded(codec(), coding, type, values, &left);
      EXPECT_EQ(message.said.nonfinite, 1U);
      EXPECT_EQ(message.said.flags, 4);
      EXPECT_EQ(message.said.size, 0U);
      EXPECT_EQ(left, Memory(values.size()));
      const std::vector<long double> nans(kCount, std::numeric_limits<long double>::quiet_NaN());
      EXPECT_EQ(decode(codec(), coding, type, message, kCount), rounded(type, nans));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, Randk, testing::ValuesIn(available_kernels()),
                         [](const auto& kernels) { return std::string(kernels.param->name); });

}  // namespace
}  // namespace banyan::randk_test
