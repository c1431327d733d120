// SPDX-License-Identifier: Apache-2.0

#include "transports/ways.h"

#include <algorithm>

namespace banyan::shm {
namespace {

// What takes less than before is believed at once, what takes more not: a rank may have lost its
// core meanwhile.
double updated(double cost, double seen) {
  constexpr double kDown = 0.75;
  constexpr double kUp = 0.125;
  constexpr double kMostTimes = 4;  // that one message may seem dearer than those before
  if (cost == 0) return seen;
  if (seen < cost) return cost + kDown * (seen - cost);
  return cost + kUp * (std::min(seen, kMostTimes * cost) - cost);
}

}  // namespace

void WayJudge::took(Way by, Way settled, double ns_per_byte) {
  if (best_ == Way::kUnknown) best_ = settled;
  ++messages_;
  if (trying_) return took_in_try(by, ns_per_byte);
  if (by != best_) return;  // on its way when the last try ended
  cost_ = updated(cost_, ns_per_byte);
  if (!try_is_due()) return;
  trying_ = true;
  messages_ = tried_ = 0;
  cost_at_try_ = cost_;
  cost_of_other_ = 0;
}

bool WayJudge::try_is_due() const {
  if (messages_ >= interval_) return true;
  return cost_at_try_ > 0 && messages_ >= kTrySoonest &&
         (cost_ > kChanged * cost_at_try_ || kChanged * cost_ < cost_at_try_);
}

void WayJudge::took_in_try(Way by, double ns_per_byte) {
  if (by != best_ && ++tried_ > kSettle) cost_of_other_ = updated(cost_of_other_, ns_per_byte);
  const bool hopeless = tried_ > kSettle / 2 && ns_per_byte > kHopeless * cost_ && by != best_;
  if (hopeless || tried_ == kTryLength || messages_ == kGivenUp) end_try();
}

void WayJudge::end_try() {
  trying_ = false;
  messages_ = 0;
  const bool better =
      tried_ == kTryLength && cost_of_other_ > 0 && cost_of_other_ < kClearly * cost_;
  if (better) {
    best_ = other(best_);
    cost_ = cost_at_try_ = cost_of_other_;
  }
  interval_ = better ? kTryAgain : std::clamp(2 * interval_, kTryAgain, kTrySeldom);
}

}  // namespace banyan::shm
