// SPDX-License-Identifier: Apache-2.0

#include "transports/shm/ways.h"

#include <algorithm>

namespace banyan::shm {
namespace {

// Gives the mean of `messages`, or of the last few, with one more. Messages of one kind differ,
// some being summed as they come. One that took far longer counts as somewhat longer, since its
// rank may have lost its core.
double updated(double cost, double seen, int messages) {
  constexpr double kShareOfNew = 0.2;
  constexpr double kMostTimes = 2;
  if (messages <= 1) return seen;
  const double share = std::max(kShareOfNew, 1.0 / messages);
  return cost + share * (std::min(seen, kMostTimes * cost) - cost);
}

}  // namespace

void WayJudge::took(Way by, const Settled& settled, double ns_per_byte) {
  if (best_ == Way::kUnknown) {
    best_ = settled.way;
    interval_ = settled.measured ? kTryAgain : kTryFirst;
  }
  ++messages_;
  if (trying_) return took_in_try(by, ns_per_byte);
  if (by != best_) return;  // on its way when the last try ended
  if (!first_ || messages_ > kSettle)
    cost_ = updated(cost_, ns_per_byte, first_ ? messages_ - kSettle : kTryLength);
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
  if (by == best_) {
    if (messages_ == kGivenUp) end_try();
    return;
  }
  if (++tried_ > kSettle) cost_of_other_ = updated(cost_of_other_, ns_per_byte, tried_ - kSettle);
  const bool hopeless = tried_ > kHopelessLeast && ns_per_byte > kHopeless * cost_;
  const bool vain = tried_ > kSettle && cost_of_other_ > kVain * cost_;
  if (hopeless || vain || tried_ == kTryLength || messages_ == kGivenUp) end_try();
}

void WayJudge::end_try() {
  trying_ = first_ = false;
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
