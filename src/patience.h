// How long a rank that waits looks before it yields, and yields before it sleeps, by what it has
// seen.
//
// A yield that comes back at once has found nobody else on this core: then looking is as good, and
// sooner. One that took longer let another rank run, which looking only keeps waiting.
//
// Beside ranks of its own job a yield lets the one run that it waits for, and costs less than a
// microsecond. Beside programs that never give a core away it costs a slice of theirs,
// milliseconds. So a rank whose yields are dear sleeps instead, and tries a yield again after ever
// more sleeps.
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
  static constexpr int kFewLooks = 2;
  static constexpr int kManyLooks = 256;

  // What a yield takes at least that lets another process run, on this machine.
  static Clock::duration switch_time();

  explicit Patience(int most_looks = kManyLooks, Clock::duration switch_least = switch_time())
      : most_looks_(most_looks), switch_least_(switch_least), looks_(most_looks) {}

  // Before the first yield of a wait.
  int looks() const { return looks_; }
  // The first yield of a wait is due, or of what follows a sleep.
  void begin(TimePoint now);
  bool yields(TimePoint now) const { return now < until_; }
  // One yield took from `before` to `after`.
  void yielded(TimePoint before, TimePoint after);
  void slept();

 private:
  TimePoint until_;
  int most_looks_;
  Clock::duration switch_least_;
  int looks_;
  int sleeps_left_ = 0;  // before the next try of a yield
  int backoff_ = 1;
};

// One loop that waits: for what, it knows itself.
class Wait {
 public:
  explicit Wait(Patience& patience) : patience_(patience) {}

  // Nothing has come: lets a moment pass. False, at once: it is time to sleep.
  bool linger() { return !yielding_ && ++looks_ <= patience_.looks() ? look() : yield(); }
  void moved() {
    looks_ = 0;
    yielding_ = false;
  }
  void slept();

 private:
  static bool look();
  bool yield();

  Patience& patience_;
  int looks_ = 0;
  bool yielding_ = false;
};

}  // namespace banyan
