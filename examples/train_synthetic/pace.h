// Time that passes as computation would let it.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <algorithm>
#include <chrono>
#include <thread>

namespace banyan::synthetic {

// What one piece of time was too long, the next ones are shorter, so that many come to their sum.
// That is for the lateness of timers: longer waits for a core are not made up for.
class Pace {
 public:
  using Clock = std::chrono::steady_clock;

  // Spinning takes a core, as computation on it would; sleeping leaves it free, as that on an
  // accelerator would.
  explicit Pace(bool spins) : spins_(spins) {}

  void spend(double seconds) {
    const auto wanted = std::chrono::duration<double>(seconds);
    const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(wanted) - late_;
    if (!spins_) std::this_thread::sleep_until(end);
    while (Clock::now() < end) {
    }
    late_ = std::min<Clock::duration>(Clock::now() - end, kLatest);
  }

 private:
  static constexpr std::chrono::milliseconds kLatest{1};

  bool spins_;
  Clock::duration late_{};
};

}  // namespace banyan::synthetic
