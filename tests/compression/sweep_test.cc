// What becomes of every float32: fp16, bf16, e4m3 and e5m2 say each value by itself, so all can be
// tried. Some of them are compared with an independent reference, and all of what is said of them
// has a hash. With BANYAN_TEST_LONG in the environment (tools/test --long) there are all 2^32 of
// them, by a hash of their own; that takes minutes.
//
// A scaled block begins with the largest number of its format, so that the scale is 1, or nearly,
// and the others are rounded as they are. What is larger is a zero instead.
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>
#include <tuple>

#include "compression/codecs.h"
#include "tests/support/codec_values.h"
#include "tests/support/hash.h"

namespace banyan::sweep_test {
namespace {

constexpr DataType kF32 = DataType::kFloat32;
constexpr size_t kBlock = 256;
constexpr size_t kSuperblock = 4096;
constexpr size_t kTogether = 16 * kSuperblock;
constexpr uint64_t kSample = 4099;  // from one pattern to the next
constexpr uint32_t kSign = 0x8000'0000;

struct Swept {
  std::string_view name;
  CodecId codec;
  DataType to;
  size_t scales;  // bytes of them before the codes of a superblock
  float first;    // of a block
  float largest;  // others are zeros
  const char* hash_of_sample;
  const char* hash_of_all;
};

constexpr float kAny = std::numeric_limits<float>::infinity();
constexpr Swept kSwept[] = {
    {"fp16", kFp16, DataType::kFloat16, 0, 1, kAny,
     "13cb5fb89163abfd5884c4eb262333527c18c0d362f304973f3946eabc19c5e6",
     "459a31008e279c068dcff1f60fbc2c2504e669ee519ed3bde3d4ba5415559355"},
    {"bf16", kBf16, DataType::kBfloat16, 0, 1, kAny,
     "b28958824c1bec0ab4eddd17a906ee4276a878f86ef5a7530058f42a5b8a6535",
     "b8b588e6a9de37c55f86ca309b699955dd88450435e89ccc1daf425be3c9eaa2"},
    {"e4m3", kE4m3, DataType::kFloat8E4m3, 64, 448, 448,
     "0a11220921a9eeb0a8f7e754dbe00ccc90b4f09d7f5283d456e7c9af70251d6a",
     "a702920e2311660ba1b51e1c3843b8e2c9f751ca9fdd0f53fcb4794fc678eec4"},
    {"e5m2", kE5m2, DataType::kFloat8E5m2, 64, 57344, 57344,
     "b0074c69ecf21b6cf238dda495e985c6ff614f476af00a9da4f4a5ad80b7ae54",
     "6e65ed4b9e9a1a939fd2c0e4eed58f166de6ef7b5a402dc05b4af2f668877c94"},
};

// NaN has a place among what is any.
uint32_t pattern_or_zero(const Swept& swept, uint64_t pattern) {
  const auto bits = static_cast<uint32_t>(pattern);
  const bool is_said =
      swept.largest == kAny || (bits & ~kSign) <= std::bit_cast<uint32_t>(swept.largest);
  return pattern >> 32 == 0 && is_said ? bits : 0;
}

// Writes the patterns from `next` on and returns the one after them.
uint64_t fill(const Swept& swept, uint64_t next, uint64_t stride, Memory& values) {
  for (size_t i = 0; i < kTogether; i++) {
    uint32_t bits = std::bit_cast<uint32_t>(swept.first);
    if (i % kBlock != 0) {
      bits = pattern_or_zero(swept, next);
      next += stride;
    }
    std::memcpy(&values[i * sizeof bits], &bits, sizeof bits);
  }
  return next;
}

uint64_t said(const Swept& swept, const Memory& message, size_t place) {
  const size_t scales = (place / kSuperblock + 1) * swept.scales;
  return get_bits(swept.to, &message[scales + place * size_of(swept.to)]);
}

// Calls `check(values, message)` with all parts of the sweep.
template <typename Check>
std::string hash_of(const Kernels& kernels, const Swept& swept, uint64_t stride, Check check) {
  const Codec& codec = kernels.codecs[swept.codec - size_t{1}];
  Hash hash;
  Memory values(kTogether * sizeof(float));
  Memory message(codec.capacity({}, kF32, kTogether));
  for (uint64_t next = 0; next >> 32 == 0;) {
    next = fill(swept, next, stride, values);
    codec.encode({}, kF32, values.data(), kTogether, message.data(), nullptr);
    check(values, message);
    hash.add(message);
  }
  return hash.text();
}

class Sweep : public testing::TestWithParam<std::tuple<const Kernels*, size_t>> {};

TEST_P(Sweep, RoundsASampleToNearestEven) {
  const auto& [kernels, place] = GetParam();
  const Swept& swept = kSwept[place];
  const auto check = [&swept](const Memory& values, const Memory& message) {
    for (size_t i = 0; i < kTogether; i++) {
      const long double value = value_of(kF32, get_bits(kF32, &values[i * sizeof(float)]));
      const uint64_t wanted = std::isnan(value) ? nan_of(swept.to) : rounded_bits(swept.to, value);
      ASSERT_EQ(said(swept, message, i), wanted) << static_cast<double>(value);
    }
  };
  EXPECT_EQ(hash_of(*kernels, swept, kSample, check), swept.hash_of_sample) << swept.name;
}

std::string name_of_case(const testing::TestParamInfo<Sweep::ParamType>& info) {
  const auto& [kernels, place] = info.param;
  return std::string(kSwept[place].name) + "_" + std::string(kernels->name);
}

INSTANTIATE_TEST_SUITE_P(Kernels, Sweep,
                         testing::Combine(testing::ValuesIn(available_kernels()),
                                          testing::Range(size_t{0}, std::size(kSwept))),
                         name_of_case);

TEST(EveryFloat, IsSaidAsItAlwaysWas) {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): there are no threads
  if (std::getenv("BANYAN_TEST_LONG") == nullptr) {
    GTEST_SKIP() << "BANYAN_TEST_LONG is not set: a sample of all floats is tried";
  }
  for (const Kernels* kernels : available_kernels()) {
    for (const Swept& swept : kSwept) {
      EXPECT_EQ(hash_of(*kernels, swept, 1, [](const Memory&, const Memory&) {}), swept.hash_of_all)
          << swept.name << " by " << kernels->name;
    }
  }
}

}  // namespace
}  // namespace banyan::sweep_test
