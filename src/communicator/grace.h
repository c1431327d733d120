// Decides for how long an operation that was left stays the caller's, who may be back at once to
// test it. What the caller did before decides.
//
//   the last time, the caller was back       the service thread
//   never, or not before the grace was over  takes over at once
//   sooner, once                             leaves it to the caller for kLeast
//   sooner, again and again                  leaves it ever longer, for kMost in the end
//
// Taking over from a caller that comes back costs both threads more than a test takes, and so does
// each look whether it came back. What follows a start and what follows a test are learnt each by
// itself: a caller that computes after it has started something may test it in a loop when it is
// back.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <algorithm>
#include <chrono>

#include "src/base/clock.h"

namespace banyan {

class Grace {
 public:
  static constexpr Clock::duration kLeast = std::chrono::microseconds(50);
  static constexpr Clock::duration kMost = 3 * kLeast;

  Clock::duration length() const { return length_; }
  // The caller stayed away for so long, and perhaps longer.
  void was_away(Clock::duration time) {
    const bool soon = time < std::max(length_, kLeast);
    length_ = soon ? std::clamp(2 * length_, kLeast, kMost) : Clock::duration();
  }

 private:
  Clock::duration length_{};
};

}  // namespace banyan
