// What rounding by chance promises, by every instruction set: a value becomes either of its
// neighbours, the nearer one the more often, so that its mean is the value; which one is decided by
// seed, rank, step, tensor and place alone, and not alike for any two of them.
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "compression/philox.h"
#include "tests/compression/scaled_formats.h"
#include "tests/support/hash.h"

namespace banyan::chance_test {
namespace {

constexpr DataType kF32 = DataType::kFloat32;
constexpr CodecId kByChance[] = {kInt8, kInt4, kE4m3, kE5m2};

// The word of chance of an element, once more.
uint32_t word_of(const Coding& coding, uint64_t element) {
  const auto fold = [](uint64_t value) { return static_cast<uint32_t>(value ^ value >> 32); };
  const PhiloxKey key = {static_cast<uint32_t>(coding.seed),
                         static_cast<uint32_t>(coding.seed >> 32) ^ coding.rank};
  const uint64_t four = element / 4;
  const PhiloxCounter counter = {{static_cast<uint32_t>(four), static_cast<uint32_t>(four >> 32),
                                  fold(coding.step), fold(coding.tensor)}};
  return philox(counter, key).word[element % 4];
}

class ByChance : public testing::TestWithParam<std::tuple<const Kernels*, size_t>> {
 protected:
  static const ScaledFormat& format() {
    const CodecId codec = kByChance[std::get<1>(GetParam())];
    return *std::find_if(scaled_formats().begin(), scaled_formats().end(),
                         [codec](const ScaledFormat& one) { return one.codec == codec; });
  }
  static const Codec& codec() { return format().by(*std::get<0>(GetParam())); }

  static Coding coding(uint64_t step) {
    return {.stochastic = true, .seed = 0x0102'0304'0506'0708, .step = step, .rank = 1};
  }
  static std::vector<float> through(const Coding& coding, const std::vector<float>& values) {
    const Message message = encoded(codec(), coding, kF32, memory_of(values));
    return wide(kF32, decode(codec(), coding, kF32, message, values.size()));
  }
  // The largest of each block decides that its scale is 1, or nearly.
  static std::vector<float> random_values(size_t count, unsigned seed) {
    std::mt19937 random(seed);
    std::vector<float> values(count);
    const float top = numbers_of(format()).back();
    for (size_t i = 0; i < count; i++) {
      const float share = static_cast<float>(static_cast<int32_t>(random())) * 0x1p-31F;
      values[i] = i % 32 == 5 ? top : share * (i % 3 == 0 ? top : 4);
    }
    return values;
  }
  // In units of the step that a value lies in.
  static std::vector<double> errors(const Coding& coding, const std::vector<float>& values) {
    const auto numbers = numbers_of(format());
    const auto after = through(coding, values);
    std::vector<double> result(values.size());
    for (size_t i = 0; i < values.size(); i++) {
      const auto above = std::upper_bound(numbers.begin() + 1, numbers.end() - 1, values[i]);
      result[i] = (double{after[i]} - double{values[i]}) / (double{*above} - double{*(above - 1)});
    }
    return result;
  }
};

TEST_P(ByChance, ChoosesANeighbourByItsWord) {
  const Coding how = {
      .stochastic = true, .seed = 99, .step = 4, .tensor = 5, .rank = 6, .first = 0x1'0000'0002};
  const auto numbers = numbers_of(format());
  for (const uint64_t count : {100U, 9000U}) {
    const Memory values = mixed_values(kF32, count, 4);
    const Said said = read(format(), encoded(codec(), how, kF32, values).bytes);
    const Said nearest = expected(format(), wide(kF32, values));
    ASSERT_EQ(said.scales.size(), nearest.scales.size());
    const auto before = wide(kF32, values);
    for (size_t first = 0; first < count; first += format().block) {
      const size_t end = std::min<size_t>(first + format().block, count);
      ASSERT_EQ(std::bit_cast<uint32_t>(said.scales[first / format().block]),
                std::bit_cast<uint32_t>(nearest.scales[first / format().block]));
      float m = 0;
      bool finite = true;
      for (size_t i = first; i < end; i++) {
        m = std::fmax(m, std::fabs(before[i]));
        finite = finite && std::isfinite(before[i]);
      }
      if (!finite || m < 0x1p-100F) continue;
      for (size_t i = first; i < end; i++) {
        const float product = before[i] * format().factor_of(m);
        const bool is_integer = format().codec == kInt8 || format().codec == kInt4;
        // Floats are rounded by their magnitude, integers downwards.
        const float q = is_integer ? product : std::fabs(product);
        const auto above = std::upper_bound(numbers.begin(), numbers.end(), q);
        const float low = above == numbers.begin() ? *above : *(above - 1);
        const float high = above == numbers.end() ? low : *above;
        const double share = high == low ? 0 : (double{q} - double{low}) / (double{high} - low);
        const double chance = word_of(how, how.first + i) * 0x1p-32;
        const float got = format().value_of_code(said.codes[i]) *
                          (is_integer || !std::signbit(product) ? 1.0F : -1.0F);
        // Where they nearly add up to one, the last bits of the sum decide.
        if (std::fabs(share + chance - 1) < 0x1p-15) {
          ASSERT_TRUE(got == low || got == high);
        } else {
          ASSERT_EQ(got, share + chance > 1 ? high : low) << product << ' ' << chance;
        }
      }
    }
  }
}

TEST_P(ByChance, IsWithinOneStep) {
  for (uint64_t step = 0; step < 20; step++) {
    for (const double error : errors(coding(step), random_values(4096, 3))) {
      ASSERT_LT(std::fabs(error), 1 + 0x1p-10);
    }
  }
}

TEST_P(ByChance, KeepsZerosSignsAndTheLargest) {
  auto values = random_values(4096, 8);
  for (size_t i = 0; i < values.size(); i += 7) values[i] = i % 2 == 0 ? 0.0F : -0.0F;
  for (size_t i = 5; i < values.size(); i += 32) values[i] = numbers_of(format()).back();
  for (uint64_t step = 0; step < 20; step++) {
    const auto after = through(coding(step), values);
    for (size_t i = 0; i < values.size(); i++) {
      ASSERT_GE(values[i] * after[i], 0) << i;
      ASSERT_TRUE(values[i] != 0 || after[i] == 0);
      const bool is_largest = i % 32 == 5;
      ASSERT_NEAR(is_largest ? after[i] / values[i] : 1, 1, 0x1p-22);
    }
  }
}

// Five standard deviations; that of a step is half of it at most.
TEST_P(ByChance, HasNoBias) {
  constexpr size_t kCount = 4096;
  constexpr int kSteps = 400;
  const auto values = random_values(kCount, 1);
  std::vector<double> mean(kCount);
  for (int step = 0; step < kSteps; step++) {
    const auto off = errors(coding(static_cast<uint64_t>(step)), values);
    for (size_t i = 0; i < kCount; i++) mean[i] += off[i] / kSteps;
  }
  double all = 0;
  for (size_t i = 0; i < kCount; i++) {
    ASSERT_LE(std::fabs(mean[i]), 5 * 0.5 / std::sqrt(kSteps)) << values[i];
    all += mean[i] / kCount;
  }
  EXPECT_LE(std::fabs(all), 5 * 0.5 / std::sqrt(double{kSteps} * kCount));
}

double correlation(const std::vector<double>& a, const std::vector<double>& b) {
  double product = 0;
  double power_a = 0;
  double power_b = 0;
  for (size_t i = 0; i < a.size(); i++) {
    product += a[i] * b[i];
    power_a += a[i] * a[i];
    power_b += b[i] * b[i];
  }
  return product / std::sqrt(power_a * power_b);
}

TEST_P(ByChance, HasNothingInCommonWithAnyOther) {
  constexpr size_t kCount = 65536;
  const auto values = random_values(kCount, 2);
  const double most = 5 / std::sqrt(double{kCount});
  const Coding one = coding(3);
  const auto own = errors(one, values);
  const auto compare = [&](const char* what, const Coding& other) {
    EXPECT_LE(std::fabs(correlation(own, errors(other, values))), most) << what;
  };
  Coding other = one;
  other.rank++;
  compare("rank", other);
  other = one;
  other.step++;
  compare("step", other);
  other = one;
  other.tensor++;
  compare("tensor", other);
  other = one;
  other.seed++;
  compare("seed", other);
  other = one;
  other.first += kCount;
  compare("place", other);
  for (const size_t away : {1U, 2U, 3U, 4U, 8U, 16U, 32U, 256U, 4096U}) {
    const std::vector<double> front(own.begin(), own.end() - static_cast<ptrdiff_t>(away));
    const std::vector<double> back(own.begin() + static_cast<ptrdiff_t>(away), own.end());
    EXPECT_LE(std::fabs(correlation(front, back)), most * 1.05) << away << " away";
  }
  EXPECT_EQ(own, errors(one, values)) << "the same is the same";
}

// A vector cut between superblocks is encoded as it would be whole.
TEST_P(ByChance, GoesByThePlaceInTheVector) {
  const auto values = random_values(3 * 4096 + 100, 6);
  Coding how = coding(1);
  const Message whole = encoded(codec(), how, kF32, memory_of(values));
  how.first = 2 * 4096;
  const Message tail =
      encoded(codec(), how, kF32, memory_of({values.begin() + 2 * 4096, values.end()}));
  const Memory end(whole.bytes.begin() + static_cast<ptrdiff_t>(2 * format().superblock()),
                   whole.bytes.end());
  EXPECT_EQ(tail.bytes, end);
}

struct Golden {
  CodecId codec;
  const char* hashes[3];  // of each of kCodedTypes
};

constexpr Golden kGolden[] = {
    {kInt8,
     {"2cdf75a7183f6cdacd872306635ea27aa33ad8c2b063bcb107ea36d6dc07e451",
      "1d87aad742c0b10851d2333bfef263c1b2e526be9813e1ddd30f885bc263c943",
      "767495b24c2fffe1600efa9b00daed1184643023c219f4053157af67413963fd"}},
    {kInt4,
     {"a002d4a95c689e1e88f44f893f14d9c54ab2b23d58048749fcfa17e90c84670f",
      "75edae8db03bf291e91f4abc049dd4e4c9ad0f1c576651fcd4cffa86ba28e5be",
      "802b256a0a77fff4089e95a46960a40e26363c2751e2273b3e9400ddd07936b2"}},
    {kE4m3,
     {"5f66754f23879e48c0095cfccfbb220c059ef088563e9be340ffd6fef7d1122d",
      "05bf16d156bead75711c7202842a395872a66baf16e47755d6f8e1deea1adc1f",
      "014312829b74d78a58743930ae484805da30707565715f191cedab7edea40626"}},
    {kE5m2,
     {"6a99e5e0658a1cf2e65e60de8cebe89e812e3f98cfbf02883bf159de28372e99",
      "0150b7850e9703467868e342369f25c1c7428d7c50740c505e0390a98a6d6ca0",
      "b9b55847aa79526b7dc24c189a257f5f40aecc9b409a545a73a584bde5032fcf"}},
};

// Other builds and other machines make the same choices, for ever.
TEST_P(ByChance, MakesTheBytesItAlwaysMade) {
  const Golden& golden = kGolden[std::get<1>(GetParam())];
  ASSERT_EQ(golden.codec, format().codec);
  for (size_t t = 0; t < std::size(kCodedTypes); t++) {
    const Memory values = mixed_values(kCodedTypes[t], 1'000'003, 29);
    Hash hash;
    for (const Memory& part : all_made_of(codec(), coding(7), kCodedTypes[t], values)) {
      hash.add(part);
    }
    EXPECT_EQ(hash.text(), golden.hashes[t]) << format().name << ' ' << name_of(kCodedTypes[t]);
  }
}

std::string name_of_case(const testing::TestParamInfo<ByChance::ParamType>& info) {
  const auto& [kernels, place] = info.param;
  return std::string(kernels->codecs[kByChance[place] - size_t{1}].name) + "_" +
         std::string(kernels->name);
}

INSTANTIATE_TEST_SUITE_P(Kernels, ByChance,
                         testing::Combine(testing::ValuesIn(available_kernels()),
                                          testing::Range(size_t{0}, std::size(kByChance))),
                         name_of_case);

}  // namespace
}  // namespace banyan::chance_test
