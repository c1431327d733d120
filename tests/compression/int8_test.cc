// What the format of int8 promises, by every instruction set: its bytes against an independent
// reference, its error, its edges, and a hash of everything it makes of a million values.
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>
#include <openssl/evp.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "compression/codecs.h"
#include "tests/support/codec_values.h"

namespace banyan {
namespace {

constexpr DataType kF32 = DataType::kFloat32;
constexpr size_t kBlock = 256;
constexpr size_t kSuperblock = 4096;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kLargest = std::numeric_limits<float>::max();

Memory memory_of(const std::vector<float>& values) {
  Memory memory(values.size() * sizeof(float));
  if (!values.empty()) std::memcpy(memory.data(), values.data(), memory.size());
  return memory;
}

// A message of int8 as what it says.
struct Said {
  std::vector<float> scales;  // of each block
  std::vector<int> codes;     // of each value, those that fill up included
};

Said read(const Message& from) {
  const Memory& message = from.bytes;
  Said said;
  constexpr size_t kScales = kSuperblock / kBlock;
  for (size_t at = 0; at < message.size(); at += kScales * sizeof(float) + kSuperblock) {
    for (size_t i = 0; i < kScales; i++) {
      float scale = 0;
      std::memcpy(&scale, &message[at + i * sizeof scale], sizeof scale);
      said.scales.push_back(scale);
    }
    for (size_t i = 0; i < kSuperblock; i++) {
      said.codes.push_back(static_cast<int8_t>(message[at + kScales * sizeof(float) + i]));
    }
  }
  return said;
}

// The definition once more, in other words.
Said expected(const std::vector<float>& values) {
  const size_t whole = (values.size() + kSuperblock - 1) / kSuperblock * kSuperblock;
  std::vector<float> filled = values;
  filled.resize(whole);
  Said said;
  for (size_t first = 0; first < whole; first += kBlock) {
    float m = 0;
    bool finite = true;
    for (size_t i = first; i < first + kBlock; i++) {
      finite = finite && std::isfinite(filled[i]);
      m = std::fmax(m, std::fabs(filled[i]));
    }
    const bool empty = !finite || m < 0x1p-100F;
    said.scales.push_back(!finite ? kNan : empty ? 0 : m * (1.0F / 127.0F));
    for (size_t i = first; i < first + kBlock; i++) {
      const float product = empty ? 0 : filled[i] * (127.0F / m);
      said.codes.push_back(static_cast<int>(std::clamp(std::nearbyint(product), -127.0F, 127.0F)));
    }
  }
  return said;
}

float decoded(int code, float scale) {
  return std::clamp(static_cast<float>(code) * scale, -kLargest, kLargest);
}

uint32_t bits_of(float value) {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

class Int8 : public testing::TestWithParam<const Kernels*> {
 protected:
  static const Codec& codec() { return GetParam()->codecs[kInt8 - 1]; }

  static Said said_of(const std::vector<float>& values) {
    return read(encoded(codec(), {}, kF32, memory_of(values)));
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

TEST_P(Int8, HasWholeSuperblocks) {
  EXPECT_EQ(codec().capacity({}, kF32, 0), 0U);
  EXPECT_EQ(codec().capacity({}, kF32, 1), 4160U);
  EXPECT_EQ(codec().capacity({}, kF32, 4096), 4160U);
  EXPECT_EQ(codec().capacity({}, DataType::kBfloat16, 4097), 8320U);
  EXPECT_EQ(codec().capacity({}, kF32, uint64_t{1} << 40), (uint64_t{1} << 28) * 4160);
}

TEST_P(Int8, SaysWhatItsDefinitionSays) {
  for (const DataType type : kCodedTypes) {
    for (const uint64_t count : {1U, 255U, 256U, 4097U, 50'021U}) {
      const Memory values = mixed_values(type, count, count + 5);
      const Said got = read(encoded(codec(), {}, type, values));
      const Said wanted = expected(wide(type, values));
      ASSERT_EQ(got.codes, wanted.codes) << name_of(type) << " x " << count;
      ASSERT_EQ(got.scales.size(), wanted.scales.size());
      for (size_t i = 0; i < got.scales.size(); i++) {
        ASSERT_EQ(bits_of(got.scales[i]), bits_of(wanted.scales[i])) << i;
      }
    }
  }
}

// Half a step for the code, and what rounding adds; half a unit for the type of the values.
TEST_P(Int8, ErrsByHalfAStep) {
  for (const DataType type : kCodedTypes) {
    constexpr uint64_t kCount = 100'000;
    const Memory values = mixed_values(type, kCount, 2);
    const Message message = encoded(codec(), {}, type, values);
    const Said said = read(message);
    const auto before = wide(type, values);
    const auto after = wide(type, decode(codec(), {}, type, message, kCount));
    for (size_t i = 0; i < kCount; i++) {
      const float scale = said.scales[i / kBlock];
      if (std::isnan(scale)) {
        ASSERT_TRUE(std::isnan(after[i])) << i;
        continue;
      }
      ASSERT_TRUE(std::isfinite(after[i])) << i;
      const double most = scale == 0 ? 0x1p-100 : (0.5 + 0x1p-14) * double{scale};
      const double rounding = type == kF32 ? 0 : unit_of(type, std::fabs(double{after[i]})) / 2;
      ASSERT_LE(std::fabs(double{before[i]} - double{after[i]}), most + rounding) << i;
    }
  }
}

TEST_P(Int8, KeepsZerosSignsAndTheLargest) {
  std::mt19937 random(1);
  std::vector<float> values(kBlock);
  for (float& value : values) {
    value = static_cast<float>(static_cast<int32_t>(random())) * 0x1p-32F;
  }
  values[3] = 0.0F;
  values[4] = -0.0F;
  values[7] = 0.75F;
  values[9] = -0.75F;
  const auto after = through(values);
  const Said said = said_of(values);
  EXPECT_EQ(said.codes[7], 127);
  EXPECT_EQ(said.codes[9], -127);
  EXPECT_NEAR(after[7], 0.75F, 2 * unit_of(kF32, 0.75));
  EXPECT_EQ(bits_of(after[3]), 0U);
  EXPECT_EQ(bits_of(after[4]), 0U);
  for (size_t i = 0; i < kBlock; i++) EXPECT_GE(values[i] * after[i], 0) << i;
}

TEST_P(Int8, MovesCodesWithTheValuesOfABlock) {
  const Memory values = mixed_values(kF32, kBlock, 0);
  auto numbers = wide(kF32, values);
  auto codes = said_of(numbers).codes;
  std::reverse(numbers.begin(), numbers.end());
  std::reverse(codes.begin(), codes.begin() + kBlock);
  EXPECT_EQ(said_of(numbers).codes, codes);
}

TEST_P(Int8, SaysAgainWhatWasDecoded) {
  const auto once = through(wide(kF32, mixed_values(kF32, 40 * kBlock, 0)));
  const auto twice = through(once);
  const Said first = said_of(once);
  const Said second = said_of(twice);
  EXPECT_EQ(first.codes, second.codes);
}

TEST_P(Int8, SaysABlockWithNanOrInfinityByItsScale) {
  for (const float bad :
       {kNan, -kNan, kInfinity, -kInfinity, std::numeric_limits<float>::signaling_NaN()}) {
    for (size_t place = 0; place < kBlock; place++) {
      std::vector<float> values(3 * kBlock, 1.5F);
      values[kBlock + place] = bad;
      const Said said = said_of(values);
      ASSERT_EQ(bits_of(said.scales[0]), bits_of(1.5F * (1.0F / 127)));
      ASSERT_EQ(bits_of(said.scales[1]), 0x7fc0'0000U) << bad << " at " << place;
      ASSERT_EQ(std::count(said.codes.begin() + kBlock, said.codes.begin() + 2 * kBlock, 0),
                ptrdiff_t{kBlock});
      const auto after = through(values);
      const auto left = left_of(values);
      for (size_t i = 0; i < values.size(); i++) {
        const bool inside = i / kBlock == 1;
        ASSERT_EQ(bits_of(after[i]) == 0x7fc0'0000U, inside) << i;
        ASSERT_EQ(bits_of(left[i]), inside ? 0U : bits_of(values[i] - after[i])) << i;
      }
    }
  }
}

TEST_P(Int8, TakesTinyBlocksForZero) {
  const float small = 0x1p-100F;
  const float below = std::nextafter(small, 0.0F);
  for (const float value : {below, -below, 0x1p-149F, -0.0F}) {
    const std::vector<float> values(kBlock, value);
    EXPECT_EQ(bits_of(said_of(values).scales[0]), 0U);
    EXPECT_EQ(bits_of(through(values)[17]), 0U);
    EXPECT_EQ(bits_of(left_of(values)[17]), bits_of(value)) << "all of it is left";
  }
  const Said said = said_of(std::vector<float>(kBlock, -small));
  EXPECT_EQ(said.scales[0], small * (1.0F / 127));
  EXPECT_EQ(said.codes[0], -127);
}

TEST_P(Int8, DecodesWhatIsFiniteToWhatIsFinite) {
  for (float largest = kLargest; largest > kLargest * 0.9999F;
       largest = std::nextafter(largest, 0.0F) - kLargest * 0x1p-20F) {
    std::vector<float> values(kBlock, largest / 3);
    values[5] = largest;
    values[6] = -largest;
    const auto after = through(values);
    ASSERT_TRUE(std::isfinite(after[5]) && after[6] == -after[5]) << largest;
    ASSERT_NEAR(double{after[5]} / double{largest}, 1, 0x1p-21);
  }
  for (const DataType type : {DataType::kFloat16, DataType::kBfloat16}) {
    const uint64_t largest = type == DataType::kFloat16 ? 0x7bff : 0x7f7f;
    Memory values(kBlock * size_of(type));
    for (size_t i = 0; i < kBlock; i++) put_bits(type, &values[i * size_of(type)], largest);
    EXPECT_EQ(decode(codec(), {}, type, encoded(codec(), {}, type, values), kBlock), values);
    // A message of float32 may say more than the type holds.
    const Message beyond =
        encoded(codec(), {}, kF32, memory_of(std::vector<float>(kBlock, kLargest)));
    EXPECT_EQ(decode(codec(), {}, type, beyond, kBlock), values);
  }
}

// What nobody encodes, but anybody may send.
TEST_P(Int8, DecodesScalesOfStrangers) {
  constexpr uint32_t kScales[] = {0x7f80'0000, 0xff80'0000, 0x7f80'0001, 0xffff'ffff, 0x7f7f'ffff,
                                  0xff7f'ffff, 0x0000'0001, 0x8000'0000, 0xbf80'0000};
  for (const uint32_t scale : kScales) {
    Message message;
    message.bytes.resize(4160);
    for (size_t i = 0; i < 16; i++) std::memcpy(&message.bytes[4 * i], &scale, sizeof scale);
    for (size_t i = 0; i < kSuperblock; i++) message.bytes[64 + i] = static_cast<std::byte>(i);
    const auto values = wide(kF32, decode(codec(), {}, kF32, message, kSuperblock));
    float number = 0;
    std::memcpy(&number, &scale, sizeof number);
    for (size_t i = 0; i < kSuperblock; i++) {
      const float wanted = std::isfinite(number) ? decoded(static_cast<int8_t>(i), number) : kNan;
      ASSERT_EQ(bits_of(values[i]), bits_of(wanted)) << scale << " x " << i;
    }
  }
}

std::string hash_of(const std::vector<Memory>& parts) {
  Memory all;
  for (const Memory& part : parts) all.insert(all.end(), part.begin(), part.end());
  unsigned char hash[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  EXPECT_EQ(EVP_Digest(all.data(), all.size(), hash, &size, EVP_sha256(), nullptr), 1);
  std::string text;
  for (unsigned int i = 0; i < size; i++) {
    constexpr char kDigits[] = "0123456789abcdef";
    text += {kDigits[hash[i] >> 4], kDigits[hash[i] & 15]};
  }
  return text;
}

// Messages are read by other builds and other machines, so their bytes never change.
TEST_P(Int8, MakesTheBytesItAlwaysMade) {
  constexpr const char* kHashes[] = {
      "0669cd67bebc94aa804149d9f2502aa47809409838975c7ab90508b78556e7be",
      "f77f3de7a4106be742a95e395240223f4c2be0ba6a5eb8ba889a7f9b4871ca0f",
      "e60ed40c32f17c37097f7f4919f445f7aa6660accd5373ba8a006e6ae5b9e053"};
  for (size_t t = 0; t < std::size(kCodedTypes); t++) {
    const DataType type = kCodedTypes[t];
    constexpr uint64_t kCount = 1'000'003;
    const Memory values = mixed_values(type, kCount, 29);
    Memory left;
    const Message message = encoded(codec(), {}, type, values, &left);
    const Memory after = decode(codec(), {}, type, message, kCount);
    Memory sum = values;
    ASSERT_TRUE(codec().decode_add({}, type, message.view(), kCount, sum.data(), sum.data()));
    EXPECT_EQ(hash_of({message.bytes, left, after, sum}), kHashes[t]) << name_of(type);
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, Int8, testing::ValuesIn(available_kernels()),
                         [](const auto& kernels) { return std::string(kernels.param->name); });

}  // namespace
}  // namespace banyan
