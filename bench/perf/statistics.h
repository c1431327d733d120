// Keeps times of iterations: their exact mean and extremes, and percentiles from a bounded number
// of them.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace banyan::perf {

// Keeps every 2^k-th time, with k growing so that at most `limit` are kept: a run may have a
// hundred million iterations. Which ones are kept depends on their number alone, so ranks that make
// the same calls keep the same.
class Times {
 public:
  explicit Times(size_t limit) : limit_(limit < 2 ? 2 : limit) {}

  void add(double microseconds);

  uint64_t count() const { return count_; }
  double mean() const { return count_ == 0 ? 0 : sum_ / static_cast<double>(count_); }
  double least() const { return count_ == 0 ? 0 : least_; }
  double most() const { return count_ == 0 ? 0 : most_; }
  std::span<const double> kept() const { return kept_; }

 private:
  size_t limit_;
  uint64_t count_ = 0;
  uint64_t stride_ = 1;
  double sum_ = 0;
  double least_ = std::numeric_limits<double>::infinity();
  double most_ = 0;
  std::vector<double> kept_;
};

struct Latency {
  double average = 0;  // mean over iterations, then over ranks
  double least = 0;
  double most = 0;
  double p50 = 0;
  double p90 = 0;
  double p99 = 0;
};

// The nearest-rank percentile of sorted values; 0 without values.
double percentile(std::span<const double> sorted, double percent);

}  // namespace banyan::perf
