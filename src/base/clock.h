// Monotonic time. Only what is printed has the wall clock's (date.h).
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <chrono>
#include <cmath>
#include <cstdint>

namespace banyan {

using Clock = std::chrono::steady_clock;
using TimePoint = Clock::time_point;

// The moment `seconds` from now; infinity and what does not fit: never.
inline TimePoint deadline_after(double seconds) {
  if (!(seconds < 1e9)) return TimePoint::max();
  return Clock::now() +
         std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

inline uint64_t nanoseconds_since(TimePoint begin) {
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - begin).count());
}

// Milliseconds until then for poll(): at least 0, at most `most`.
inline int milliseconds_until(TimePoint when, int most) {
  if (when == TimePoint::max()) return most;
  const auto left =
      std::chrono::duration_cast<std::chrono::milliseconds>(when - Clock::now()).count();
  return left < 0                            ? 0
         : left > most                       ? most
         : static_cast<int>(left) + 1 > most ? most
                                             : static_cast<int>(left) + 1;
}

}  // namespace banyan
