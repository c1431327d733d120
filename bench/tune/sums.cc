// SPDX-License-Identifier: Apache-2.0

#include "bench/tune/sums.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <span>
#include <vector>

#include "bench/perf/statistics.h"
#include "compression/kernels.h"
#include "src/base/clock.h"

namespace banyan::tune {

namespace {

constexpr double kGBpsOfOne = 1e-3;  // of a byte a microsecond
// What a core's own caches hold, and what they do not.
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
    add(sum.data(), left.data(), right.data(), count);
    const double us = std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
    if (time > 0) samples.push_back({static_cast<double>(bytes), std::max(us, 1e-3)});
  }
}

std::vector<LinkSample> times_of(std::span<const size_t> lengths, int times) {
  std::vector<LinkSample> samples;
  for (const size_t bytes : lengths) time_sums(bytes, times, samples);
  return samples;
}

// Gives the GB/s of long vectors, of which the call itself takes no part that shows. Some lengths
// may be in a cache that cores share and others not, so that their slope would be the rate of
// neither.
double far_rate() {
  std::vector<double> rates;
  for (const LinkSample& sample : times_of(kFarBytes, kFarTimes))
    rates.push_back(kGBpsOfOne * sample.bytes / sample.us);
  std::sort(rates.begin(), rates.end());
  return perf::percentile(rates, 50);
}

}  // namespace

std::optional<MeasuredSums> measure_sums() {
  const auto near = fit_line(times_of(kNearBytes, kNearTimes));
  if (!near) return std::nullopt;
  const double rate = kGBpsOfOne / near->byte_us;
  return MeasuredSums{.GBps = rate, .far_GBps = std::min(far_rate(), rate)};
}

}  // namespace banyan::tune
