// What fp16 and bf16 promise: each value rounded to nearest even, and nothing else in a message.
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <tuple>
#include <vector>

#include "compression/codecs.h"
#include "tests/support/codec_values.h"
#include "tests/support/hash.h"

namespace banyan::casts_test {
namespace {

constexpr DataType kF32 = DataType::kFloat32;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Cast {
  std::string_view name;
  CodecId codec;
  DataType to;
  double relative;    // the most that a number loses of itself
  double smallest;    // or of this, where it is subnormal
  float rounds_down;  // to the largest number
  float becomes_infinite;
  const char* hashes[3];  // of what it makes of each of kCodedTypes
};

constexpr Cast kCasts[] = {
    {"fp16",
     kFp16,
     DataType::kFloat16,
     0x1p-11,
     0x1p-25,
     65519.996F,
     65520,
     {"b340793639498072b121f399e74a1ad2716caffcef8b0ddfd435414b0a1d5eb3",
      "3980a9616f5e0d6d5344510f05a73490f2979bb138063a7bbacdb1a2af42adb0",
      "10dfb1366873fea0065e16901d03e25ff275a16f2235ccf67964b13cbac71146"}},
    {"bf16",
     kBf16,
     DataType::kBfloat16,
     0x1p-8,
     0x1p-134,
     0x1.fefffep127F,
     0x1.ffp127F,
     {"bb485926f50b6688436cecd067618bbdd6f314f14826d9b0c04680d67c967160",
      "114935b0809e43b6383865c42172ed6da7700dce07a4f05b1928a089faa8e1a2",
      "6bb0bf71baa6804c6f717d4680ecf36da99ed33380c369f1ab6989860d9fc74b"}},
};

class Casts : public testing::TestWithParam<std::tuple<const Kernels*, size_t>> {
 protected:
  static const Cast& cast() { return kCasts[std::get<1>(GetParam())]; }
  static const Codec& codec() { return std::get<0>(GetParam())->codecs[cast().codec - size_t{1}]; }
  static uint64_t said(const Message& message, size_t place) {
    return get_bits(cast().to, &message.bytes[2 * place]);
  }
};

TEST_P(Casts, AreTwoBytesAValue) {
  EXPECT_EQ(codec().capacity({}, kF32, 0), 0U);
  EXPECT_EQ(codec().capacity({}, kF32, 3), 6U);
  EXPECT_EQ(codec().capacity({}, cast().to, uint64_t{1} << 40), uint64_t{1} << 41);
}

TEST_P(Casts, RoundToNearestEven) {
  for (const DataType type : kCodedTypes) {
    constexpr uint64_t kCount = 40'000;
    const Memory values = mixed_values(type, kCount, 12);
    const Message message = encoded(codec(), {}, type, values);
    const auto before = wide(type, values);
    uint64_t nonfinite = 0;
    for (size_t i = 0; i < kCount; i++) {
      const uint64_t wanted =
          std::isnan(before[i]) ? nan_of(cast().to) : rounded_bits(cast().to, before[i]);
      ASSERT_EQ(said(message, i), wanted) << name_of(type) << ' ' << before[i];
      const auto after = static_cast<double>(value_of(cast().to, wanted));
      nonfinite += std::isfinite(after) ? 0 : 1;
      if (!std::isfinite(after)) continue;
      const double most = std::fmax(cast().relative * std::fabs(before[i]), cast().smallest);
      ASSERT_LE(std::fabs(after - double{before[i]}), most) << before[i];
    }
    EXPECT_EQ(message.said.nonfinite, nonfinite);
    EXPECT_EQ(message.said.kept, kCount);
  }
}

// All that 16 bits can say, into all types: as a stranger may say it, and said again as it was.
TEST_P(Casts, DecodeEveryPattern) {
  constexpr uint64_t kCount = 65536;
  Message message;
  for (uint64_t i = 0; i < kCount; i++) {
    message.bytes.resize(message.bytes.size() + 2);
    put_bits(cast().to, &message.bytes[2 * i], i);
  }
  for (const DataType type : kCodedTypes) {
    const Memory values = decode(codec(), {}, type, message, kCount);
    for (uint64_t i = 0; i < kCount; i++) {
      const long double value = value_of(cast().to, i);
      const uint64_t wanted = std::isnan(value) ? nan_of(type) : rounded_bits(type, value);
      ASSERT_EQ(get_bits(type, &values[i * size_of(type)]), wanted) << name_of(type) << ' ' << i;
    }
    if (type != kF32 && type != cast().to) continue;
    const Message again = encoded(codec(), {}, type, values);
    for (uint64_t i = 0; i < kCount; i++) {
      const bool nan = std::isnan(value_of(cast().to, i));
      ASSERT_EQ(said(again, i), nan ? nan_of(cast().to) : i);
    }
  }
}

TEST_P(Casts, CountWhatBecomesInfinite) {
  const float down = cast().rounds_down;
  const float up = cast().becomes_infinite;
  ASSERT_EQ(std::nextafter(down, kInfinity), up);
  const std::vector<float> values = {1, down, -down, up, -up, kInfinity, kNan, 0, -0.0F};
  Memory rest;
  const Message message = encoded(codec(), {}, kF32, memory_of(values), &rest);
  EXPECT_EQ(message.said.nonfinite, 4U);
  const auto after = wide(kF32, decode(codec(), {}, kF32, message, values.size()));
  EXPECT_TRUE(std::isfinite(after[1]) && after[2] == -after[1]);
  EXPECT_EQ(after[3], kInfinity);
  EXPECT_EQ(after[4], -kInfinity);
  const auto left = wide(kF32, rest);
  for (size_t i = 0; i < values.size(); i++) {
    const float wanted = i == 1 || i == 2 ? values[i] - after[i] : 0;
    EXPECT_EQ(std::bit_cast<uint32_t>(left[i]), std::bit_cast<uint32_t>(wanted)) << i;
  }
}

// What the format holds and the target does not is rounded like any number.
TEST_P(Casts, DecodeToWhatTheTargetHas) {
  const bool is_half = cast().to == DataType::kFloat16;
  const DataType target = is_half ? DataType::kBfloat16 : DataType::kFloat16;
  const std::vector<float> values = is_half ? std::vector<float>{65504, 0x1.004p0F, -0x1p-24F}
                                            : std::vector<float>{0x1p16F, -0x1p100F, 0x1p-30F};
  const std::vector<float> wanted = is_half ? std::vector<float>{65536, 1, -0x1p-24F}
                                            : std::vector<float>{kInfinity, -kInfinity, 0};
  const Message message = encoded(codec(), {}, kF32, memory_of(values));
  EXPECT_EQ(message.said.nonfinite, 0U);
  EXPECT_EQ(wide(target, decode(codec(), {}, target, message, 3)), wanted);
}

// Messages are read by other builds and other machines, so their bytes never change.
TEST_P(Casts, MakeTheBytesTheyAlwaysMade) {
  for (size_t t = 0; t < std::size(kCodedTypes); t++) {
    const Memory values = mixed_values(kCodedTypes[t], 1'000'003, 29);
    Hash hash;
    for (const Memory& part : all_made_of(codec(), {}, kCodedTypes[t], values)) hash.add(part);
    EXPECT_EQ(hash.text(), cast().hashes[t]) << name_of(kCodedTypes[t]);
  }
}

std::string name_of_case(const testing::TestParamInfo<Casts::ParamType>& info) {
  const auto& [kernels, place] = info.param;
  return std::string(kCasts[place].name) + "_" + std::string(kernels->name);
}

INSTANTIATE_TEST_SUITE_P(Kernels, Casts,
                         testing::Combine(testing::ValuesIn(available_kernels()),
                                          testing::Range(size_t{0}, std::size(kCasts))),
                         name_of_case);

}  // namespace
}  // namespace banyan::casts_test
