// What the formats of scaled blocks promise, by every instruction set: their bytes against an
// independent reference, their errors, their edges, strangers' bytes, and a hash of everything they
// make of a million values. chance_test.cc has what is rounded by chance.
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

#include "tests/compression/scaled_formats.h"
#include "tests/support/hash.h"

namespace banyan::scaled_test {
namespace {

constexpr DataType kF32 = DataType::kFloat32;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kLargest = std::numeric_limits<float>::max();

uint32_t bits_of(float value) {
  return std::bit_cast<uint32_t>(value);
}

class Scaled : public testing::TestWithParam<std::tuple<const Kernels*, size_t>> {
 protected:
  static const ScaledFormat& format() { return scaled_formats()[std::get<1>(GetParam())]; }
  static const Codec& codec() { return format().by(*std::get<0>(GetParam())); }

  static Said said_of(const std::vector<float>& values) {
    return read(format(), encoded(codec(), {}, kF32, memory_of(values)).bytes);
  }
  static std::vector<float> through(const std::vector<float>& values) {
    const Message message = encoded(codec(), {}, kF32, memory_of(values));
    return wide(kF32, decode(codec(), {}, kF32, message, values.size()));
  }
  static std::vector<float> left_of(const std::vector<float>& values) {
    Memory left;
    encoded(codec(), {}, kF32, memory_of(values), &left);
    return wide(kF32, left);
  }
};

TEST_P(Scaled, HasWholeSuperblocks) {
  const uint64_t superblock = format().codec == kInt4 ? 2304 : 4160;
  EXPECT_EQ(codec().capacity({}, kF32, 0), 0U);
  EXPECT_EQ(codec().capacity({}, kF32, 1), superblock);
  EXPECT_EQ(codec().capacity({}, kF32, 4096), superblock);
  EXPECT_EQ(codec().capacity({}, DataType::kBfloat16, 4097), 2 * superblock);
  EXPECT_EQ(codec().capacity({}, kF32, uint64_t{1} << 40), (uint64_t{1} << 28) * superblock);
  EXPECT_EQ(codec().unit, 4096U);
}

TEST_P(Scaled, SaysWhatItsDefinitionSays) {
  for (const DataType type : kCodedTypes) {
    for (const uint64_t count : {1U, 255U, 4097U, 30'021U}) {
      const Memory values = mixed_values(type, count, count + 5);
      const Message message = encoded(codec(), {}, type, values);
      const Said got = read(format(), message.bytes);
      const Said wanted = expected(format(), wide(type, values));
      ASSERT_EQ(got.codes, wanted.codes) << name_of(type) << " x " << count;
      ASSERT_EQ(got.scales.size(), wanted.scales.size());
      for (size_t i = 0; i < got.scales.size(); i++) {
        ASSERT_EQ(bits_of(got.scales[i]), bits_of(wanted.scales[i])) << i;
      }
      EXPECT_EQ(message.said.kept, count);
      const auto numbers = wide(type, values);
      EXPECT_EQ(message.said.nonfinite,
                std::count_if(numbers.begin(), numbers.end(),
                              [](float number) { return !std::isfinite(number); }));
    }
  }
}

// A block with the largest number is divided by one. The edge is where two are equally near.
TEST_P(Scaled, DecidesAtEveryEdge) {
  const auto numbers = numbers_of(format());
  std::vector<float> values;
  for (size_t i = 1; i < numbers.size(); i++) {
    const auto edge = static_cast<float>((double{numbers[i - 1]} + double{numbers[i]}) / 2);
    for (const float value :
         {std::nextafter(edge, -kInfinity), edge, std::nextafter(edge, kInfinity), numbers[i]}) {
      if (values.size() % format().block == 0) values.push_back(numbers.back());
      values.push_back(value);
    }
  }
  EXPECT_EQ(said_of(values).codes, expected(format(), values).codes);
}

TEST_P(Scaled, ErrsWithinItsBound) {
  for (const DataType type : kCodedTypes) {
    constexpr uint64_t kCount = 50'000;
    const Memory values = mixed_values(type, kCount, 2);
    const Message message = encoded(codec(), {}, type, values);
    const Said said = read(format(), message.bytes);
    const auto before = wide(type, values);
    const auto after = wide(type, decode(codec(), {}, type, message, kCount));
    for (size_t i = 0; i < kCount; i++) {
      const double scale = said.scales[i / format().block];
      if (std::isnan(scale)) {
        ASSERT_TRUE(std::isnan(after[i])) << i;
        continue;
      }
      ASSERT_TRUE(std::isfinite(after[i])) << i;
      const double most = scale == 0 ? 0x1p-100 : format().bound(before[i] / scale) * scale;
      const double rounding = unit_of(type, std::fabs(double{after[i]})) / 2;
      ASSERT_LE(std::fabs(double{before[i]} - double{after[i]}), most + rounding)
          << name_of(type) << ' ' << before[i] << " of a scale " << scale;
      ASSERT_GE(before[i] * after[i], 0) << "the sign is lost";
      ASSERT_TRUE(before[i] != 0 || after[i] == 0);
    }
  }
}

// A larger value never becomes a smaller one, and no two of a code's neighbours are passed over.
TEST_P(Scaled, IsMonotonic) {
  const size_t block = format().block;
  std::vector<float> values;
  for (int i = -40'000; i <= 40'000; i++) {
    if (values.size() % block == 0) values.push_back(2);
    const float x = static_cast<float>(i) / 20'000;
    values.push_back(x * x * x / 4);
  }
  const auto after = through(values);
  float last = -kInfinity;
  for (size_t i = 0; i < values.size(); i++) {
    if (i % block == 0) continue;
    ASSERT_LE(last, after[i]) << i;
    last = after[i];
  }
}

TEST_P(Scaled, MovesCodesWithTheValuesOfABlock) {
  auto values = wide(kF32, mixed_values(kF32, format().block, 0));
  auto codes = said_of(values).codes;
  std::reverse(values.begin(), values.end());
  std::reverse(codes.begin(), codes.begin() + static_cast<ptrdiff_t>(format().block));
  EXPECT_EQ(said_of(values).codes, codes);
}

// The scale of int4 is rounded up, and the map of dyn8 has no -1.
TEST_P(Scaled, SaysTheLargestNearlyExactly) {
  std::mt19937 random(1);
  for (int i = 0; i < 1000; i++) {
    const auto m =
        std::bit_cast<float>(0x3f80'0000U + static_cast<uint32_t>(random()) % 0x0080'0000);
    std::vector<float> values(256, 0.3F);
    for (size_t at = 0; at < values.size(); at += 32) {
      values[at + 3] = m;
      values[at + 4] = -m;
    }
    const auto after = through(values);
    const bool is_int4 = format().codec == kInt4;
    ASSERT_NEAR(after[3] / m, 1, is_int4 ? 0x1p-7 : 0x1p-22);
    ASSERT_NEAR(after[4] / -m, 1, is_int4 || format().codec == kDyn8 ? 0x1p-7 : 0x1p-22);
  }
}

// The largest of a block is positive, because dyn8 has no -1 and so no negative one.
TEST_P(Scaled, SaysAgainWhatWasDecoded) {
  auto values = wide(kF32, mixed_values(kF32, 40 * 256, 0));
  for (size_t first = 0; first < values.size(); first += format().block) {
    float extreme = 0;
    for (size_t i = first; i < first + format().block; i++) {
      if (std::fabs(values[i]) > std::fabs(extreme)) extreme = values[i];
    }
    for (size_t i = first; i < first + format().block && extreme < 0; i++) values[i] = -values[i];
  }
  const auto once = through(values);
  EXPECT_EQ(said_of(once).codes, said_of(values).codes);
  EXPECT_EQ(said_of(through(once)).codes, said_of(values).codes);
}

TEST_P(Scaled, SaysABlockWithNanOrInfinityByItsScale) {
  const size_t block = format().block;
  const unsigned zero = format().code_of(0);
  for (const float bad :
       {kNan, -kNan, kInfinity, -kInfinity, std::numeric_limits<float>::signaling_NaN()}) {
    for (size_t place = 0; place < block; place += 5) {
      std::vector<float> values(3 * block, 1.5F);
      values[block + place] = bad;
      const Said said = said_of(values);
      ASSERT_EQ(bits_of(said.scales[0]), bits_of(format().scale_of(1.5F)));
      ASSERT_EQ(bits_of(said.scales[1]), 0x7fc0'0000U) << bad << " at " << place;
      for (size_t i = block; i < 2 * block; i++) ASSERT_EQ(said.codes[i], zero);
      EXPECT_EQ(encoded(codec(), {}, kF32, memory_of(values)).said.nonfinite, 1U);
      const auto after = through(values);
      const auto left = left_of(values);
      for (size_t i = 0; i < values.size(); i++) {
        const bool inside = i / block == 1;
        ASSERT_EQ(bits_of(after[i]) == 0x7fc0'0000U, inside) << i;
        ASSERT_EQ(bits_of(left[i]), inside ? 0U : bits_of(values[i] - after[i])) << i;
      }
    }
  }
}

TEST_P(Scaled, TakesTinyBlocksForZero) {
  const float small = 0x1p-100F;
  const float below = std::nextafter(small, 0.0F);
  for (const float value : {below, -below, 0x1p-149F, -0.0F}) {
    const std::vector<float> values(256, value);
    EXPECT_EQ(bits_of(said_of(values).scales[0]), 0U);
    EXPECT_EQ(bits_of(through(values)[17]), 0U);
    EXPECT_EQ(bits_of(left_of(values)[17]), bits_of(value)) << "all of it is left";
  }
  const Said said = said_of(std::vector<float>(256, small));
  EXPECT_EQ(said.scales[0], format().scale_of(small));
  EXPECT_NEAR(through(std::vector<float>(256, small))[17] / small, 1, 0x1p-7);
}

TEST_P(Scaled, DecodesWhatIsFiniteToWhatIsFinite) {
  for (float largest = kLargest; largest > kLargest * 0.9999F;
       largest = std::nextafter(largest, 0.0F) - kLargest * 0x1p-20F) {
    std::vector<float> values(256, largest / 3);
    values[5] = largest;
    values[6] = -largest;
    const auto after = through(values);
    for (const float value : after) ASSERT_TRUE(std::isfinite(value)) << largest;
    ASSERT_NEAR(double{after[5]} / double{largest}, 1, 0x1p-7);
    ASSERT_NEAR(double{after[6]} / double{largest}, -1, 0x1p-7);
  }
  for (const DataType type : {DataType::kFloat16, DataType::kBfloat16}) {
    const uint64_t largest = type == DataType::kFloat16 ? 0x7bff : 0x7f7f;
    Memory values(256 * size_of(type));
    for (size_t i = 0; i < 256; i++) put_bits(type, &values[i * size_of(type)], largest);
    // A message of float32 may say more than the type holds.
    const Message beyond = encoded(codec(), {}, kF32, memory_of(std::vector<float>(256, kLargest)));
    EXPECT_EQ(decode(codec(), {}, type, beyond, 256), values);
  }
}

// What nobody encodes, but anybody may send: any scale, any code.
TEST_P(Scaled, DecodesTheBytesOfStrangers) {
  constexpr uint32_t kScales[] = {0x7f80'0000, 0xff80'0000, 0x7f81'0000, 0xffff'0000,
                                  0x7f7f'0000, 0xff7f'0000, 0x0001'0000, 0x8000'0000,
                                  0xbf80'0000, 0x0000'0000, 0x3f80'0000};
  const size_t size = size_of(format().scale);
  for (const uint32_t scale : kScales) {
    Message message;
    message.bytes.resize(format().superblock());
    for (size_t i = 0; i < format().blocks(); i++) {
      put_bits(format().scale, &message.bytes[i * size], scale >> (32 - 8 * size));
    }
    for (size_t i = format().scales(); i < message.bytes.size(); i++) {
      message.bytes[i] = static_cast<std::byte>(i);
    }
    const Said said = read(format(), message.bytes);
    const auto values = wide(kF32, decode(codec(), {}, kF32, message, kValuesOfSuperblock));
    const auto number = std::bit_cast<float>(scale);
    for (size_t i = 0; i < kValuesOfSuperblock; i++) {
      float wanted = format().value_of_code(said.codes[i]) * number;
      wanted = std::isnan(wanted) || !std::isfinite(number)
                   ? kNan
                   : std::clamp(wanted, -kLargest, kLargest);
      ASSERT_EQ(bits_of(values[i]), bits_of(wanted)) << std::hex << scale << " x " << said.codes[i];
    }
  }
}

struct Golden {
  CodecId codec;
  const char* hashes[3];  // of each of kCodedTypes
};

constexpr Golden kGolden[] = {
    {kInt8,
     {"0669cd67bebc94aa804149d9f2502aa47809409838975c7ab90508b78556e7be",
      "f77f3de7a4106be742a95e395240223f4c2be0ba6a5eb8ba889a7f9b4871ca0f",
      "e60ed40c32f17c37097f7f4919f445f7aa6660accd5373ba8a006e6ae5b9e053"}},
    {kInt4,
     {"9bf5299475a9bf1e5bc9fbfe8c89372784586e92545ef027001f1ef887a55589",
      "1969400bc4eeea01d7ac2ef621f180738b5353e3a930c65bf794b355621cb693",
      "ba9ef8a1b8309a42b0dd0000a77b8ac6d9e6c42c1d352829a1bc039629f69b4f"}},
    {kDyn8,
     {"08dff46381d98152a353df1561c14a0ab00ace7d968445f95f457a854d3ff0a0",
      "4b964fac269a6d17584715877616c53f1dc85654b1ad1b634f36122752bdd10a",
      "db749ad6304733e3122620f6bf353d995030aee610e1c8b0ebc148df02c7dc91"}},
    {kE4m3,
     {"0f814fb93ef2d1f7c5cfd640d5d5c22e29814324e8fc0adbc5c2bebf6ecba6de",
      "c59a3dd294706cabc49dc14d6ccd7b32f6529389bb7cda353a11ed93dbd9c0a9",
      "de070652aef7f3e7b95cd94a92bdd641b9679362836aa5ce8e6301b4440a9dd9"}},
    {kE5m2,
     {"2b2592136002c0ff20adc4df442be9e6a2732d32be4dbcdbe8701530e94d466c",
      "2a43377411c8e481a895de9e60b6ffcd011583887d15cbb6fb3809524615758c",
      "f2e737577614e0f04793b3fcca4ed6cc6c45674c741ec00f373e9213b0cd782f"}},
};

// Messages are read by other builds and other machines, so their bytes never change.
TEST_P(Scaled, MakesTheBytesItAlwaysMade) {
  const Golden& golden = kGolden[std::get<1>(GetParam())];
  ASSERT_EQ(golden.codec, format().codec);
  for (size_t t = 0; t < std::size(kCodedTypes); t++) {
    const Memory values = mixed_values(kCodedTypes[t], 1'000'003, 29);
    Hash hash;
    for (const Memory& part : all_made_of(codec(), {}, kCodedTypes[t], values)) hash.add(part);
    EXPECT_EQ(hash.text(), golden.hashes[t]) << format().name << ' ' << name_of(kCodedTypes[t]);
  }
}

std::string name_of_case(const testing::TestParamInfo<Scaled::ParamType>& info) {
  const auto& [kernels, place] = info.param;
  return std::string(scaled_formats()[place].name) + "_" + std::string(kernels->name);
}

INSTANTIATE_TEST_SUITE_P(Kernels, Scaled,
                         testing::Combine(testing::ValuesIn(available_kernels()),
                                          testing::Range(size_t{0}, scaled_formats().size())),
                         name_of_case);

}  // namespace
}  // namespace banyan::scaled_test
