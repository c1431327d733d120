// SPDX-License-Identifier: Apache-2.0

#include "src/patience.h"

#include <sched.h>

#include <algorithm>

namespace banyan {

void Patience::begin(TimePoint now) {
  until_ = sleeps_left_ > 0 ? now : now + kYieldFor;
}

void Patience::yielded(TimePoint before, TimePoint after) {
  if (after - before < kDearYield) {
    if (after - before < kYieldFor) backoff_ = 1;
    return;
  }
  backoff_ = std::min(2 * backoff_, kMostSleeps);
  sleeps_left_ = backoff_;
  until_ = before;
}

void Patience::slept() {
  if (sleeps_left_ > 0) --sleeps_left_;
}

bool yield_a_little(Patience& patience, bool first) {
  const TimePoint now = Clock::now();
  if (first) patience.begin(now);
  if (!patience.yields(now)) return false;
  sched_yield();
  patience.yielded(now, Clock::now());
  return true;
}

}  // namespace banyan
