// Decides how long a rank that waits looks before it yields, and yields before it sleeps, by what
// it has seen.
//
// A yield that comes back at once has found nobody else on this core: then looking is as good, and
// sooner. One that took longer let another rank run, which looking only keeps waiting.
//
// A sleep costs tens of microseconds to end. It costs milliseconds on a virtual machine whose host
// gave its idle core to somebody else. So a rank yields for as long as most waits of a running job
// last, and between two sleeps only briefly.
//
//   beside                            a yield costs           so the rank
//   ranks of its own job              under a microsecond     yields: the one it waits for runs
//   programs that never give a core   a slice of theirs,      does without, and tries one again
//   away                              milliseconds            after ever more sleeps
//
// While it does without yields it looks for as long as it would have yielded, as other libraries
// do. That takes a core of its own: where looking would keep other ranks from running, it sleeps at
// once.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <algorithm>
#include <chrono>

#include "src/base/clock.h"
#include "src/engine/places.h"

namespace banyan {

class Patience {
 public:
  static constexpr Clock::duration kYieldFor = std::chrono::milliseconds(1);
  static constexpr Clock::duration kYieldAgain = std::chrono::microseconds(100);  // after a sleep
  static constexpr auto kCheapYield = std::chrono::microseconds(100);
  static constexpr auto kDearYield = std::chrono::microseconds(500);
  // A yield lets all others of a core run, each for a turn. Where they are more than these it may
  // take longer by as much before it is dear. kMostCrowding keeps that below a slice of another
  // program.
  static constexpr int kFewOfACore = 16;
  static constexpr int kMostCrowding = 4;
  static constexpr int kMostSleeps = 1024;
  static constexpr int kFewLooks = 2;
  static constexpr int kManyLooks = 256;

  // What a yield takes at least that lets another process run, on this machine.
  static Clock::duration switch_time();

  enum class Core : uint8_t { kShared, kOwn };

  explicit Patience(Core core = Core::kShared, int most_looks = kManyLooks,
                    Clock::duration switch_least = switch_time(), int ranks_per_core = 1)
      : core_(core),
        most_looks_(most_looks),
        crowding_(std::clamp(ranks_per_core / kFewOfACore, 1, kMostCrowding)),
        switch_least_(switch_least),
        looks_(most_looks) {}

  // Before the first yield of a wait.
  int looks() const { return looks_; }
  // The first yield of a wait is due, or of what follows a sleep: for so long.
  void begin(TimePoint now, Clock::duration yield_for);
  bool yields(TimePoint now) const { return now < until_; }
  // How long yields go on, at first and between two sleeps.
  Clock::duration yield_for(bool slept) const {
    return crowding_ * Clock::duration(slept ? kYieldAgain : kYieldFor);
  }
  // It does without yields, and looks instead.
  bool looks_on(TimePoint now) const { return now < looks_until_; }
  // One yield took from `before` to `after`.
  void yielded(TimePoint before, TimePoint after);
  void slept();

 private:
  TimePoint until_;
  TimePoint looks_until_;
  Core core_;
  int most_looks_;
  int crowding_;
  Clock::duration switch_least_;
  int looks_;
  int sleeps_left_ = 0;  // before the next try of a yield
  int backoff_ = 1;
};

// One loop that waits: for what, it knows itself.
class Wait {
 public:
  // `places`: of the rank, for the thread that makes its calls; null for others.
  explicit Wait(Patience& patience, Places* places = nullptr)
      : patience_(patience), places_(places) {}

  // Nothing has come: lets a moment pass. False, at once: it is time to sleep.
  bool linger() { return !yielding_ && ++looks_ <= patience_.looks() ? look() : yield(); }
  // The same, where all wait for that peer. Requires places.
  bool linger_for(int peer);
  void moved() {
    looks_ = 0;
    yielding_ = false;
    slept_ = false;
  }
  void slept();

 private:
  static bool look();
  bool yield();

  Patience& patience_;
  Places* places_;
  int looks_ = 0;
  bool arrived_ = false;
  bool yielding_ = false;
  bool slept_ = false;
};

}  // namespace banyan
