// How long a rank that waits yields before it sleeps, by what it has seen.
//
// Beside ranks of its own job a yield lets the one run that it waits for, and costs less than a
// microsecond. Beside programs that never give a core away it costs a slice of theirs,
// milliseconds, while a rank that sleeps is woken at once. So a rank whose yields are dear sleeps
// instead, and tries a yield again after ever more sleeps.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <chrono>

#include "src/base/clock.h"

namespace banyan {

class Patience {
 public:
  static constexpr auto kYieldFor = std::chrono::microseconds(100);
  static constexpr auto kDearYield = std::chrono::microseconds(500);
  static constexpr int kMostSleeps = 1024;

  // A wait begins, or goes on after a sleep.
  void begin(TimePoint now);
  bool yields(TimePoint now) const { return now < until_; }
  // One yield took from `before` to `after`.
  void yielded(TimePoint before, TimePoint after);
  void slept();

 private:
  TimePoint until_;
  int sleeps_left_ = 0;  // before the next try of a yield
  int backoff_ = 1;
};

// Yields once; `first`: a wait begins. False, at once: it is time to sleep.
bool yield_a_little(Patience& patience, bool first);

}  // namespace banyan
