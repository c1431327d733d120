// Thinning and percentiles.
// SPDX-License-Identifier: Apache-2.0

#include "bench/perf/statistics.h"

#include <algorithm>
#include <cmath>

namespace banyan::perf {

void Times::add(double microseconds) {
  if (count_ % stride_ == 0) {
    if (kept_.size() == limit_) {
      // Every second one goes; what is kept are still the multiples of the stride.
      for (size_t i = 0; 2 * i < kept_.size(); ++i) kept_[i] = kept_[2 * i];
      kept_.resize((kept_.size() + 1) / 2);
      stride_ *= 2;
    }
    if (count_ % stride_ == 0) kept_.push_back(microseconds);
  }
  ++count_;
  sum_ += microseconds;
  least_ = std::min(least_, microseconds);
  most_ = std::max(most_, microseconds);
}

double percentile(std::span<const double> sorted, double percent) {
  if (sorted.empty()) return 0;
  const double rank = std::ceil(percent / 100 * static_cast<double>(sorted.size()));
  const auto index = static_cast<size_t>(std::max(rank, 1.0)) - 1;
  return sorted[std::min(index, sorted.size() - 1)];
}

}  // namespace banyan::perf
