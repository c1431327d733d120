// SPDX-License-Identifier: Apache-2.0

#include "src/reducer/packing.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <new>
#include <vector>

namespace banyan {
namespace {

constexpr uint64_t kSampled = 256;
constexpr uint64_t kAllUpTo = 65536;
constexpr uint64_t kEvery = 16;              // of longer vectors, this block of so many
constexpr uint64_t kAtOnce = 16 * kSampled;  // values that are worked on while they are in a cache

double squares(const float* values, uint64_t count) {
  std::array<double, 8> sums{};  // that a vector unit can add to at once
  uint64_t at = 0;
  for (; at + sums.size() <= count; at += sums.size())
    for (uint64_t lane = 0; lane < sums.size(); ++lane) {
      const auto value = static_cast<double>(values[at + lane]);
      sums[lane] += value * value;
    }
  for (; at < count; ++at) sums.front() += static_cast<double>(values[at]) * values[at];
  double total = 0;
  for (const double sum : sums) total += sum;
  return total;
}

// Samples values that are part of `whole`, and begin at a multiple of kAtOnce of them.
Sampled sample_part(const float* values, uint64_t count, uint64_t whole) {
  if (samples_parts(whole)) count = std::min(count, kSampled);
  return {squares(values, count), count};
}

template <typename Word>
uint64_t count_ones(const std::byte* elements, uint64_t count, Word exponent) {
  uint64_t found = 0;
  std::array<Word, 1024> words;
  for (uint64_t at = 0; at < count; at += words.size()) {
    const uint64_t here = std::min<uint64_t>(words.size(), count - at);
    std::memcpy(words.data(), elements + at * sizeof(Word), here * sizeof(Word));
    uint32_t some = 0;
    for (uint64_t i = 0; i < here; ++i) some += (words[i] & exponent) == exponent ? 1 : 0;
    found += some;
  }
  return found;
}

uint64_t nonfinite_among(const std::byte* elements, DataType type, uint64_t count) {
  switch (type) {
    case DataType::kFloat16: return count_ones<uint16_t>(elements, count, 0x7C00);
    case DataType::kBfloat16: return count_ones<uint16_t>(elements, count, 0x7F80);
    case DataType::kFloat32: return count_ones<uint32_t>(elements, count, 0x7F800000);
    case DataType::kFloat64: return count_ones<uint64_t>(elements, count, uint64_t{0x7FF} << 52);
    default: return 0;  // reducers have no others
  }
}

struct Extent {
  uint64_t begin;
  uint64_t end;
};

bool is_contribution(const Left& left) {
  return left.place == left.elements.begin;
}

// What contributions are left of, in order and without gaps where there are none.
std::vector<Extent> contributed(std::span<const Left> lefts, uint64_t count) {
  std::vector<Extent> extents;
  for (const Left& left : lefts)
    if (left.place < count && is_contribution(left))
      extents.push_back({left.elements.begin, left.elements.begin + left.elements.count});
  std::sort(extents.begin(), extents.end(),
            [](const Extent& a, const Extent& b) { return a.begin < b.begin; });
  return extents;
}

// Calls body(begin, end) for what lies between the extents.
template <typename Body>
void between(std::span<const Extent> extents, uint64_t count, const Body& body) {
  uint64_t at = 0;
  for (const Extent& extent : extents) {
    if (at < extent.begin) body(at, extent.begin);
    at = std::max(at, extent.end);
  }
  if (at < count) body(at, count);
}

}  // namespace

bool samples_parts(uint64_t count) {
  return count > kAllUpTo;
}

uint64_t sampled_of(uint64_t count) {
  if (!samples_parts(count)) return count;
  return count / kAtOnce * kSampled + std::min(count % kAtOnce, kSampled);
}

Result<float*> HostPacking::take(uint64_t count) {
  void* floats = std::calloc(count, sizeof(float));
  if (floats == nullptr) throw std::bad_alloc();
  return static_cast<float*>(floats);
}

void HostPacking::give_back(float* floats) {
  std::free(floats);
}

Status HostPacking::read(std::span<float> to, const float* from) {
  std::copy_n(from, to.size(), to.begin());
  return {};
}

Status HostPacking::write(float* to, std::span<const float> from) {
  std::copy(from.begin(), from.end(), to);
  return {};
}

void HostPacking::contribute(const Contribution& part, float* sum, Contributed* seen) {
  *seen = {};
  const uint64_t element = size_of(part.type);
  const auto type = static_cast<size_t>(part.type);
  for (uint64_t at = 0; at < part.count; at += kAtOnce) {
    const uint64_t here = std::min(kAtOnce, part.count - at);
    float* const out = sum + at;
    const std::byte* const in = part.gradient + at * element;
    seen->nonfinite += nonfinite_among(in, part.type, here);  // before `out`, which may lie there
    if (static_cast<const void*>(in) != out) kernels_.decode[type](out, in, here, nullptr);
    if (part.scale != 1)
      for (uint64_t i = 0; i < here; ++i) out[i] *= part.scale;
    if (part.velocity != nullptr) {
      for (uint64_t i = 0; i < here; ++i) out[i] += part.momentum * part.velocity[at + i];
      std::memcpy(part.next_velocity + at, out, here * sizeof(float));
    }
    seen->gradient.add(sample_part(out, here, part.count));
    if (part.residual != nullptr)
      for (uint64_t i = 0; i < here; ++i) out[i] += part.residual[at + i];
    seen->sum.add(sample_part(out, here, part.count));
  }
}

void HostPacking::clear(float* values, uint64_t count) {
  std::fill_n(values, count, 0.0F);
}

void HostPacking::copy(std::byte* to, const std::byte* from, uint64_t bytes) {
  std::memcpy(to, from, bytes);
}

void HostPacking::add(float* to, const float* more, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) to[i] += more[i];
}

void HostPacking::forget_said(float* velocity, const float* left, const float* residual,
                              uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) {
    const float whole = residual == nullptr ? velocity[i] : velocity[i] + residual[i];
    if (left[i] != whole) velocity[i] = 0;
  }
}

void HostPacking::forget_summed(float* velocity, const float* sum, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i)
    if (sum[i] != 0) velocity[i] = 0;
}

void HostPacking::sample(const float* values, uint64_t count, Sampled* seen) {
  *seen = {};
  for (uint64_t at = 0; at < count; at += kAtOnce)
    seen->add(sample_part(values + at, std::min(kAtOnce, count - at), count));
}

void HostPacking::round(std::byte* gradient, DataType type, const float* sum, uint64_t count,
                        int divisor) {
  kernels_.encode[static_cast<size_t>(type)](gradient, sum, count, divisor);
}

void HostPacking::count_nonfinite(const std::byte* elements, DataType type, uint64_t count,
                                  uint64_t* found) {
  *found = nonfinite_among(elements, type, count);
}

double HostPacking::squares_of(const std::byte* gradient, DataType type, uint64_t count) {
  const uint64_t element = size_of(type);
  std::array<float, kAtOnce> values;
  double total = 0;
  for (uint64_t at = 0; at < count; at += kAtOnce) {
    const uint64_t here = std::min(kAtOnce, count - at);
    kernels_.decode[static_cast<size_t>(type)](values.data(), gradient + at * element, here,
                                               nullptr);
    total += squares(values.data(), here);
  }
  return total;
}

void add_residual(std::span<const float> residual, DataType type, const Kernels& kernels,
                  std::byte* gradient) {
  if (type == DataType::kFloat64) {
    for (size_t i = 0; i < residual.size(); ++i) {
      double value = 0;
      std::memcpy(&value, gradient + i * sizeof value, sizeof value);
      value += static_cast<double>(residual[i]);
      std::memcpy(gradient + i * sizeof value, &value, sizeof value);
    }
    return;
  }
  const uint64_t element = size_of(type);
  std::array<float, kAtOnce> values;
  for (uint64_t at = 0; at < residual.size(); at += kAtOnce) {
    const uint64_t here = std::min(kAtOnce, residual.size() - at);
    std::byte* const part = gradient + at * element;
    kernels.decode[static_cast<size_t>(type)](values.data(), part, here, nullptr);
    for (uint64_t i = 0; i < here; ++i) values[i] += residual[at + i];
    kernels.encode[static_cast<size_t>(type)](part, values.data(), here, 1);
  }
}

void gather_left(std::span<const Left> lefts, uint64_t count, float* left, PackingWork& work) {
  between(contributed(lefts, count), count,
          [&](uint64_t begin, uint64_t end) { work.clear(left + begin, end - begin); });
  for (const Left& piece : lefts) {
    if (piece.place < count && is_contribution(piece)) continue;
    work.add(left + piece.elements.begin, left + piece.place, piece.elements.count);
  }
}

void mask_velocity(std::span<const Left> lefts, const SentVector& sent, float* velocity,
                   uint64_t count, PackingWork& work) {
  const std::vector<Extent> extents = contributed(lefts, count);
  for (const auto& [begin, end] : extents)
    work.forget_said(velocity + begin, sent.left + begin,
                     sent.residual == nullptr ? nullptr : sent.residual + begin, end - begin);
  between(extents, count, [&](uint64_t begin, uint64_t end) {
    work.forget_summed(velocity + begin, sent.sum + begin, end - begin);
  });
}

}  // namespace banyan
