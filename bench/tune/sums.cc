// SPDX-License-Identifier: Apache-2.0

#include "bench/tune/sums.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <vector>

#include "bench/perf/statistics.h"
#include "compression/kernels.h"
#include "src/base/clock.h"

namespace banyan::tune {

namespace {

constexpr size_t kNearBytes = 64 << 10, kFarBytes = 4 << 20;
constexpr int kNearTimes = 101, kFarTimes = 7;

// GB/s of result: the lower quartile of times, which interruptions hardly move.
double rate_of(size_t bytes, int times) {
  const size_t count = bytes / sizeof(float);
  std::vector<float> sum(count), left(count, 1), right(count, 2);
  const CombineKernel add =
      best_kernels()
          .reduce[static_cast<size_t>(DataType::kFloat32)][static_cast<size_t>(ReduceOp::kSum)];
  std::vector<double> us;
  for (int time = 0; time <= times; ++time) {
    const TimePoint begin = Clock::now();
    add(sum.data(), left.data(), right.data(), count, nullptr);
    const double spent = std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
    if (time > 0) us.push_back(std::max(spent, 1e-3));  // the first one fetches the vectors
  }
  std::sort(us.begin(), us.end());
  return static_cast<double>(bytes) * 1e-3 / perf::percentile(us, 25);
}

}  // namespace

MeasuredSums measure_sums() {
  const double near = rate_of(kNearBytes, kNearTimes);
  return {.GBps = near, .far_GBps = std::min(rate_of(kFarBytes, kFarTimes), near)};
}

}  // namespace banyan::tune
