// SPDX-License-Identifier: Apache-2.0

#include "bench/tune/sums.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <span>
#include <vector>

#include "compression/kernels.h"
#include "src/base/clock.h"

namespace banyan::tune {

namespace {

// What a core's cache holds, and what none does.
constexpr std::array<size_t, 4> kNearBytes{16 << 10, 32 << 10, 48 << 10, 64 << 10};
constexpr std::array<size_t, 3> kFarBytes{4 << 20, 6 << 20, 8 << 20};
constexpr int kNearTimes = 51, kFarTimes = 5;

// Microseconds of one sum of so many bytes, of each time but the first, which fetches the vectors.
void time_sums(size_t bytes, int times, std::vector<LinkSample>& samples) {
  const size_t count = bytes / sizeof(float);
  std::vector<float> sum(count), left(count, 1), right(count, 2);
  const CombineKernel add =
      best_kernels()
          .reduce[static_cast<size_t>(DataType::kFloat32)][static_cast<size_t>(ReduceOp::kSum)];
  for (int time = 0; time <= times; ++time) {
    const TimePoint begin = Clock::now();
    add(sum.data(), left.data(), right.data(), count, nullptr);
    const double us = std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
    if (time > 0) samples.push_back({static_cast<double>(bytes), us});
  }
}

// GB/s of result; nothing where a clock or a busy machine shows no slope.
std::optional<double> rate_of(std::span<const size_t> lengths, int times) {
  std::vector<LinkSample> samples;
  for (const size_t bytes : lengths) time_sums(bytes, times, samples);
  const auto line = fit_line(samples);
  return line ? std::optional(1e-3 / line->byte_us) : std::nullopt;
}

}  // namespace

std::optional<MeasuredSums> measure_sums() {
  const auto near = rate_of(kNearBytes, kNearTimes), far = rate_of(kFarBytes, kFarTimes);
  if (!near || !far) return std::nullopt;
  return MeasuredSums{.GBps = *near, .far_GBps = std::min(*far, *near)};
}

}  // namespace banyan::tune
