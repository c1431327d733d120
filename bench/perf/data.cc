// Quantiles of the normal distribution, and a hash that picks among them.
// SPDX-License-Identifier: Apache-2.0

#include "bench/perf/data.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "bench/perf/elements.h"

namespace banyan::perf {

namespace {

constexpr int kIntervalBits = 12;
constexpr size_t kIntervals = size_t{1} << kIntervalBits;
constexpr double kFarthest = Data::kFarthest;  // the two outer intervals end here

// Steele, Lea and Flood's SplitMix64, the finalizer.
uint64_t mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

constexpr uint64_t kGolden = 0x9e3779b97f4a7c15;

uint64_t seed_of(int rank) {
  return mix(kGolden * (static_cast<uint64_t>(rank) + 1));
}

// The value below which a normal variable lies with this probability, 0 < p < 1.
double quantile(double probability) {
  double low = -kFarthest;
  double high = kFarthest;
  for (int i = 0; i < 50; ++i) {
    const double middle = (low + high) / 2;
    (std::erfc(-middle / std::sqrt(2.0)) / 2 < probability ? low : high) = middle;
  }
  return (low + high) / 2;
}

std::vector<double> make_edges() {
  std::vector<double> edges(kIntervals + 1);
  edges.front() = -kFarthest;
  edges.back() = kFarthest;
  for (size_t i = 1; i <= kIntervals / 2; ++i) {
    edges[i] = quantile(static_cast<double>(i) / static_cast<double>(kIntervals));
    edges[kIntervals - i] = -edges[i];
  }
  return edges;
}

double scale_of(DataType type) {
  return size_of(type) == 1 ? 16 : static_cast<double>(1 << 24);
}

uint64_t element_from(DataType type, ReduceOp op, double normal) {
  if (is_floating(type)) return bits_of(type, op == ReduceOp::kProd ? 1 + normal / 8 : normal);
  const double scaled = std::nearbyint(normal * scale_of(type));
  const auto whole = static_cast<int64_t>(is_signed(type) ? scaled : std::fabs(scaled));
  return narrow(type, static_cast<uint64_t>(whole));
}

}  // namespace

Data::Data(DataType type, ReduceOp op) : type_(type), op_(op), edges_(make_edges()) {
  if (continuous()) return;
  for (size_t i = 0; i < kIntervals; ++i)
    table_.push_back(element_from(type, op, (edges_[i] + edges_[i + 1]) / 2));
}

inline uint64_t Data::draw(uint64_t seed, uint64_t index) const {
  const uint64_t random = mix(seed + kGolden * index);
  const uint64_t interval = random >> (64 - kIntervalBits);
  if (!continuous()) return table_[interval];
  const double part = static_cast<double>(random & 0xffffffffffff) * 0x1p-48;
  double value = edges_[interval] + part * (edges_[interval + 1] - edges_[interval]);
  if (op_ == ReduceOp::kProd) value = 1 + value / 8;
  if (type_ == DataType::kFloat64) return std::bit_cast<uint64_t>(value);
  return std::bit_cast<uint32_t>(static_cast<float>(value));
}

uint64_t Data::bits(int rank, uint64_t index) const {
  return draw(seed_of(rank), index);
}

template <typename Word>
void Data::write_words(uint64_t seed, uint64_t begin, uint64_t count, std::byte* elements) const {
  for (uint64_t i = 0; i < count; ++i) {
    const auto word = static_cast<Word>(draw(seed, begin + i));
    std::memcpy(elements + i * sizeof word, &word, sizeof word);
  }
}

void Data::write(int rank, uint64_t begin, uint64_t count, std::byte* elements) const {
  const uint64_t seed = seed_of(rank);
  switch (size_of(type_)) {
    case 1: return write_words<uint8_t>(seed, begin, count, elements);
    case 2: return write_words<uint16_t>(seed, begin, count, elements);
    case 4: return write_words<uint32_t>(seed, begin, count, elements);
    default: return write_words<uint64_t>(seed, begin, count, elements);
  }
}

uint64_t digest_of(std::span<const std::byte> bytes) {
  uint64_t digest = bytes.size();
  for (size_t at = 0; at < bytes.size(); at += sizeof(uint64_t)) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, std::min(sizeof word, bytes.size() - at));
    digest = mix(digest ^ word) + 0x9e3779b97f4a7c15;
  }
  return digest;
}

}  // namespace banyan::perf
