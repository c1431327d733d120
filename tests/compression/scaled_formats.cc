// SPDX-License-Identifier: Apache-2.0

#include "tests/compression/scaled_formats.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace banyan {
namespace {

template <int kMost>
unsigned integer_code(float product) {
  const float code = std::clamp<float>(std::nearbyint(product), -kMost, kMost);
  return static_cast<unsigned>(static_cast<int>(code)) & (2 * kMost + 1);
}

template <int kMost>
float integer_value(unsigned code) {
  return static_cast<float>(code) - static_cast<float>(code > kMost ? 2 * kMost + 2 : 0);
}

double half_a_step(double) {
  return 0.5 + 0x1p-14;
}

template <DataType kType>
unsigned float_code(float product) {
  return static_cast<unsigned>(rounded_bits(kType, product));
}

template <DataType kType>
float float_value(unsigned code) {
  return static_cast<float>(value_of(kType, code));
}

const std::vector<float>& dynamic_map() {
  static const std::vector<float> sorted = [] {
    std::vector<float> map = {0, 1};
    for (int e = 0; e < 7; e++) {
      for (int j = 0; j < 1 << e; j++) {
        const double cell = 0.1 + 0.9 * (2 * j + 1) / (2 << e);
        map.push_back(static_cast<float>(std::pow(10, e - 6) * cell));
        map.push_back(-map.back());
      }
    }
    std::sort(map.begin(), map.end());
    return map;
  }();
  return sorted;
}

// All are looked at. Differences of float32 are exact as doubles.
unsigned dynamic_code(float product) {
  const auto& map = dynamic_map();
  unsigned best = 0;
  double least = std::numeric_limits<double>::infinity();
  for (unsigned code = 0; code < map.size(); code++) {
    const double off = std::fabs(double{product} - double{map[code]});
    if (off < least) best = code;
    least = std::fmin(off, least);
  }
  return best;
}

// Half the gap around it, and beyond the lowest number, which is not -1, all that is missing.
double half_the_gap(double quotient) {
  const auto& map = dynamic_map();
  if (quotient <= map.front()) return map.front() - quotient + 0x1p-20;
  const auto above = std::lower_bound(map.begin() + 1, map.end() - 1, quotient);
  return (double{*above} - double{*(above - 1)}) / 2 + 0x1p-20;
}

float seventh(float m) {
  const float s = m / 7;
  const auto half = static_cast<uint16_t>(std::bit_cast<uint32_t>(s) >> 16);
  const auto rounded_down = std::bit_cast<float>(uint32_t{half} << 16);
  return rounded_down == s ? s : std::bit_cast<float>((uint32_t{half} + 1) << 16);
}

constexpr DataType kF32 = DataType::kFloat32;
constexpr DataType kE4 = DataType::kFloat8E4m3;
constexpr DataType kE5 = DataType::kFloat8E5m2;

constexpr ScaledFormat kFormats[] = {
    {"int8", kInt8, 256, 8, kF32,  //
     [](float m) { return m * (1.0F / 127.0F); }, [](float m) { return 127.0F / m; },
     integer_code<127>, integer_value<127>, half_a_step},
    {"int4", kInt4, 32, 4, DataType::kBfloat16,           //
     seventh, [](float m) { return 1.0F / seventh(m); },  //
     integer_code<7>, integer_value<7>, half_a_step},
    {"dyn8", kDyn8, 256, 8, kF32,  //
     [](float m) { return m; }, [](float m) { return 1.0F / m; }, dynamic_code,
     [](unsigned code) { return dynamic_map()[code]; }, half_the_gap},
    {"e4m3", kE4m3, 256, 8, kF32,  //
     [](float m) { return m * (1.0F / 448.0F); }, [](float m) { return 448.0F / m; },
     float_code<kE4>, float_value<kE4>,
     [](double q) { return std::fmax(std::fabs(q) * 0x1p-4, 0x1p-10) * (1 + 0x1p-18); }},
    {"e5m2", kE5m2, 256, 8, kF32,  //
     [](float m) { return m * (1.0F / 57344.0F); }, [](float m) { return 57344.0F / m; },
     float_code<kE5>, float_value<kE5>,
     [](double q) { return std::fmax(std::fabs(q) * 0x1p-3, 0x1p-17) * (1 + 0x1p-18); }},
};

}  // namespace

std::span<const ScaledFormat> scaled_formats() {
  return kFormats;
}

std::vector<float> numbers_of(const ScaledFormat& format) {
  std::vector<float> numbers;
  for (unsigned code = 0; code < 1U << format.bits; code++) {
    const float value = format.value_of_code(code);
    if (std::isfinite(value)) numbers.push_back(value);
  }
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  if (-numbers.front() > numbers.back()) numbers.erase(numbers.begin());  // no encoder's
  return numbers;
}

Said read(const ScaledFormat& format, const Memory& message) {
  Said said;
  const size_t size = size_of(format.scale);
  for (size_t at = 0; at < message.size(); at += format.superblock()) {
    for (size_t i = 0; i < format.blocks(); i++) {
      const uint64_t bits = get_bits(format.scale, &message[at + i * size]);
      said.scales.push_back(static_cast<float>(value_of(format.scale, bits)));
    }
    for (size_t i = 0; i < kValuesOfSuperblock; i++) {
      const size_t bit = i * format.bits;
      const auto byte = static_cast<unsigned>(message[at + format.scales() + bit / 8]);
      said.codes.push_back((byte >> bit % 8) & ((1U << format.bits) - 1));
    }
  }
  return said;
}

Said expected(const ScaledFormat& format, const std::vector<float>& values) {
  const size_t whole =
      (values.size() + kValuesOfSuperblock - 1) / kValuesOfSuperblock * kValuesOfSuperblock;
  std::vector<float> filled = values;
  filled.resize(whole);
  Said said;
  for (size_t first = 0; first < whole; first += format.block) {
    float m = 0;
    bool finite = true;
    for (size_t i = first; i < first + format.block; i++) {
      finite = finite && std::isfinite(filled[i]);
      m = std::fmax(m, std::fabs(filled[i]));
    }
    const bool empty = !finite || m < 0x1p-100F;
    said.scales.push_back(!finite ? std::numeric_limits<float>::quiet_NaN()
                          : empty ? 0
                                  : format.scale_of(m));
    for (size_t i = first; i < first + format.block; i++) {
      said.codes.push_back(format.code_of(empty ? 0 : filled[i] * format.factor_of(m)));
    }
  }
  return said;
}

}  // namespace banyan
