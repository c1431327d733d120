// SPDX-License-Identifier: Apache-2.0

#include "tests/support/codec_values.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <map>
#include <random>
#include <tuple>

#include "compression/codecs.h"

namespace banyan {
namespace {

constexpr uint32_t kSignBit = 0x8000'0000;

uint32_t bits_of(float value) {
  return std::bit_cast<uint32_t>(value);
}

// A random mantissa and sign under an exponent of float32.
uint32_t with_exponent(uint32_t random, uint32_t exponent) {
  return (random & (kSignBit | 0x007f'ffff)) | exponent << 23;
}

uint32_t value_of_kind(uint64_t kind, uint32_t random, uint32_t other) {
  switch (kind) {
    case 0:  // gradients
    case 1: return bits_of(static_cast<float>(static_cast<int32_t>(random)) * 0x1p-33F);
    case 2:  // ties, where the largest is 127
      return bits_of(static_cast<float>(static_cast<int>(random % 509) - 254) / 2);
    case 3: return random % 8 == 0 ? with_exponent(other, 120) : random & kSignBit;
    case 4: return with_exponent(random, 26 + other % 2);  // around 2^-100
    case 5: return random & (kSignBit | 0x007f'ffff);      // subnormal
    case 6: return with_exponent(random, other % 16 == 0 ? 254 : 100 + other % 154);
    case 7: return other % 64 == 0 ? random : with_exponent(random, 127);
    case 8: return random;
    default: return with_exponent(random, 127 - other % 20);
  }
}

Memory make_mixed_values(DataType type, uint64_t count, uint64_t seed) {
  std::mt19937 random(static_cast<uint32_t>(seed));
  Memory memory(count * size_of(type));
  for (uint64_t i = 0; i < count; i++) {
    // A value of another type is its float32, rounded; of random bits, some of those.
    const uint64_t kind = (i / 256 + seed) % 10;
    const uint32_t first = static_cast<uint32_t>(random());
    const uint32_t bits = value_of_kind(kind, first, static_cast<uint32_t>(random()));
    std::byte* to = &memory[i * size_of(type)];
    if (kind == 8 || type == DataType::kFloat32) {
      put_bits(type, to, bits >> (32 - 8 * size_of(type)));
    } else {
      const long double value = value_of(DataType::kFloat32, bits);
      put_bits(type, to, std::isnan(value) ? nan_of(type) : rounded_bits(type, value));
    }
  }
  return memory;
}

}  // namespace

const Memory& mixed_values(DataType type, uint64_t count, uint64_t seed) {
  static std::map<std::tuple<DataType, uint64_t, uint64_t>, Memory> made;
  Memory& values = made[{type, count, seed}];
  if (values.empty()) values = make_mixed_values(type, count, seed);
  return values;
}

Memory memory_of(const std::vector<float>& values) {
  Memory memory(values.size() * sizeof(float));
  if (!values.empty()) std::memcpy(memory.data(), values.data(), memory.size());
  return memory;
}

Memory finite_of(DataType type, Memory values) {
  for (size_t i = 0; i < values.size(); i += size_of(type))
    if (!std::isfinite(value_of(type, get_bits(type, &values[i]))))
      put_bits(type, &values[i], rounded_bits(type, 1));
  return values;
}

std::span<const CodecCase> codec_cases() {
  static constexpr Selection kTakesInt8{kInt8, 0}, kTakesFp16{kFp16, 0};
  static constexpr Coding kByChance = {
      .stochastic = true, .seed = 0x1234'5678'9abc'def0, .step = 0x1'0000'0007, .rank = 3};
  static constexpr Coding kFromOnePlace = {
      .stochastic = true, .seed = 7, .step = 1, .tensor = 2, .first = 0x3'ffff'fffd};
  static constexpr CodecCase kCases[] = {
      {"int8", kInt8},
      {"int8_sr", kInt8, kByChance},
      {"int8_sr_from", kInt8, kFromOnePlace},
      {"fp16", kFp16},
      {"bf16", kBf16},
      {"int4", kInt4},
      {"int4_sr", kInt4, kByChance},
      {"int4_sr_from", kInt4, kFromOnePlace},
      {"dyn8", kDyn8},
      {"e4m3", kE4m3},
      {"e4m3_sr", kE4m3, kByChance},
      {"e5m2", kE5m2},
      {"e5m2_sr", kE5m2, kFromOnePlace},
      {"onebit", kOnebit},
      {"threshold_few", kThreshold, {.parameter = 1e30}, true},
      {"threshold_some", kThreshold, {.parameter = 0.4}, true},
      {"threshold_most", kThreshold, {.parameter = 1e-25}, true},
      {"threshold_all", kThreshold, {.parameter = 0}, true},
      {"threshold_none", kThreshold, {.parameter = 1e300}, true},
      {"threshold_fp16", kThreshold, {.parameter = 0.4, .carried = DataType::kFloat16}, true},
      {"threshold_bf16", kThreshold, {.parameter = 1e-25, .carried = DataType::kBfloat16}, true},
      {"threshold_float64", kThreshold, {.parameter = 1, .carried = DataType::kFloat64}, true},
      {"sign_some", kSign, {.parameter = 0.4}, true},
      {"sign_all", kSign, {.parameter = 0}, true},
      {"sign_none", kSign, {.parameter = 1e300}, true},
      {"topk_one", kTopk, {.parameter = 1e-9}, true},
      {"topk_few", kTopk, {.parameter = 0.01}, true},
      {"topk_many", kTopk, {.parameter = 0.3}, true},
      {"topk_all", kTopk, {.parameter = 1}, true},
      {"topk_fp16", kTopk, {.parameter = 0.25, .carried = DataType::kFloat16}, true},
      {"randk_one", kRandk, {.parameter = 1e-9, .seed = 3}, true},
      {"randk_few", kRandk, {.parameter = 0.01, .seed = 3, .step = 4}, true},
      {"randk_many", kRandk, {.parameter = 0.8, .seed = 5}, true},
      {"randk_all", kRandk, {.parameter = 1}, true},
      {"randk_fp16", kRandk, {.parameter = 0.25, .carried = DataType::kFloat16, .seed = 1}, true},
      {"nonzero", kNonzero, {}, true},
      {"nonzero_bf16", kNonzero, {.carried = DataType::kBfloat16}, true},
      {"absolute_int8", kAbsoluteBound, {.selection = &kTakesInt8}},
      {"absolute_none", kAbsoluteBound},
      {"relative_none_bf16", kRelativeBound, {.carried = DataType::kBfloat16}},
      {"relative_fp16", kRelativeBound, {.selection = &kTakesFp16}},
  };
  return kCases;
}

Message encoded(const Codec& codec, const Coding& coding, DataType type, const Memory& values,
                Memory* left) {
  const uint64_t count = values.size() / size_of(type);
  Message message;
  message.bytes.resize(codec.capacity(coding, type, count));
  if (left != nullptr) left->resize(values.size());
  message.said = codec.encode(coding, type, values.data(), count, message.bytes.data(),
                              left == nullptr ? nullptr : left->data());
  message.bytes.resize(message.said.size);
  return message;
}

Memory decode(const Codec& codec, const Coding& coding, DataType type, const Message& message,
              uint64_t count) {
  Memory values(count * size_of(type));
  if (!codec.decode(coding, type, message.view(), count, values.data())) values.clear();
  return values;
}

std::vector<Memory> all_made_of(const Codec& codec, const Coding& coding, DataType type,
                                const Memory& values) {
  const uint64_t count = values.size() / size_of(type);
  Memory left;
  const Message message = encoded(codec, coding, type, values, &left);
  Memory sum = values;
  codec.decode_add(coding, type, message.view(), count, sum.data(), sum.data());
  return {message.bytes, left, decode(codec, coding, type, message, count), sum};
}

std::vector<float> wide(DataType type, const Memory& values) {
  std::vector<float> result(values.size() / size_of(type));
  for (size_t i = 0; i < result.size(); i++) {
    const uint64_t bits = get_bits(type, &values[i * size_of(type)]);
    result[i] = static_cast<float>(value_of(type, bits));
  }
  return result;
}

double unit_of(DataType type, double magnitude) {
  const int mantissa = type == DataType::kFloat32 ? 23 : type == DataType::kFloat16 ? 10 : 7;
  const int smallest = type == DataType::kFloat16 ? -14 : -126;
  const int exponent = magnitude == 0 ? smallest : std::max(std::ilogb(magnitude), smallest);
  return std::ldexp(1.0, exponent - mantissa);
}

}  // namespace banyan
