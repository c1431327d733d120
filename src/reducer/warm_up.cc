// SPDX-License-Identifier: Apache-2.0

#include "src/reducer/warm_up.h"

#include <algorithm>
#include <cmath>

#include "compression/codecs.h"

namespace banyan {
namespace {

constexpr double kFirst = 0.25;
constexpr uint64_t kMostStairs = 20;

// Exact, so that all ranks have the same.
double stair(uint64_t index) {
  return std::ldexp(kFirst, -static_cast<int>(index));
}

}  // namespace

double density_at(double density, uint64_t step, uint64_t warmup_steps) {
  uint64_t stairs = 0;  // that are above `density`
  while (stairs < kMostStairs && stair(stairs) > density) ++stairs;
  if (step >= warmup_steps || stairs == 0) return density;
  const double passed = static_cast<double>(step) * static_cast<double>(stairs);
  const auto index = static_cast<uint64_t>(passed / static_cast<double>(warmup_steps));
  return stair(std::min(index, stairs - 1));
}

Compression compression_at(const Compression& compression, uint64_t step, uint64_t warmup_steps) {
  Compression at = compression;
  for (CodecChoice* choice : {&at.intra, &at.inter, &at.alone})
    if (choice->codec == kTopk || choice->codec == kRandk)
      choice->parameter = density_at(choice->parameter, step, warmup_steps);
  return at;
}

}  // namespace banyan
