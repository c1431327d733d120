// The thread that watches the links, and drives operations that nobody waits on.
// SPDX-License-Identifier: Apache-2.0

#include <poll.h>
#include <sys/prctl.h>

#include <algorithm>
#include <chrono>

#include "src/base/bell.h"
#include "src/base/float_mode.h"
#include "src/communicator/membership.h"

namespace banyan {
namespace {

constexpr int kSaysAgainUs = std::chrono::microseconds(kSaysAgain).count();
constexpr int kGraceUs = 1000;  // between looks whether what may still end well has ended

}  // namespace

void Membership::wake_service() const {
  ring(bells_.service);
}

void Membership::wake_caller() const {
  ring(bells_.caller);
}

// Waits for links, the bell and `also`, which are none or the engine's, and handles what came over
// the links. Returns what woke it; nothing where only links and the bell could.
std::string_view Membership::doze(std::span<const pollfd> also, int most_us) {
  std::vector<pollfd> descriptors;
  descriptors.push_back({bells_.service.get(), POLLIN, 0});
  descriptors.insert(descriptors.end(), also.begin(), also.end());
  const size_t first_link = descriptors.size();
  monitor_.add_to(descriptors);
  const TimePoint until = monitor_.patience_ends();
  if (until != TimePoint::max()) {
    const int most_ms = milliseconds_until(until, 1000);
    most_us = most_us < 0 ? most_ms * 1000 : std::min(most_us, most_ms * 1000);
  }
  const timespec patience{most_us / 1000000, most_us % 1000000 * 1000L};
  const int count =
      ppoll(descriptors.data(), descriptors.size(), most_us < 0 ? nullptr : &patience, nullptr);
  const std::string_view waker = also.empty() ? "" : worker_.waker_of(descriptors);
  if (until != TimePoint::max()) monitor_.lose_patience(Clock::now());
  if (count > 0) {
    if (descriptors.front().revents != 0) quiet(bells_.service);
    monitor_.handle(std::span(descriptors).subspan(first_link));
  }
  if (failure_.failed()) wake_caller();
  return waker;
}

void Membership::serve() {
  constexpr uint32_t kGracesBetweenLooks = 8;  // at the links, which take longer than the bell
  prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);        // Linux may add 50 us to a sleep otherwise
  Grace after_start;
  Grace after_test;
  uint32_t graces = 0;
  while (!stop_.load()) {
    if (!alert_.load()) {
      doze({}, -1);
      continue;
    }
    Grace& grace = after_start_.load(std::memory_order_relaxed) ? after_start : after_test;
    const TimePoint since = Clock::now();
    const bool waits = grace.length() > Clock::duration();
    if (waits && comes_back_within(grace.length())) {
      grace.was_away({});
      if (++graces % kGracesBetweenLooks == 0) doze({}, 0);
      continue;
    }
    if (!take_over()) {
      grace.was_away({});  // it was back before this thread looked
      continue;
    }
    serve_background();
    if (waits || wanted_.load()) grace.was_away(Clock::now() - since);
    alert_.store(false);
    baton_.release();
  }
}

// Lets the caller be for so long, which the bell may interrupt. True: it was back meanwhile, so
// that it may be back again.
bool Membership::comes_back_within(Clock::duration grace) {
  const uint32_t returns = returns_.load(std::memory_order_relaxed);
  const TimePoint until = Clock::now() + grace;
  pollfd bell{bells_.service.get(), POLLIN, 0};
  for (TimePoint now = Clock::now(); now < until; now = Clock::now()) {
    const timespec left{0, std::chrono::nanoseconds(until - now).count()};
    if (ppoll(&bell, 1, &left, nullptr) > 0) quiet(bells_.service);
    if (stop_.load() || returns_.load(std::memory_order_relaxed) != returns) return true;
  }
  return false;
}

// False: the caller has it, and says so when it leaves it again.
bool Membership::take_over() {
  if (baton_.try_acquire()) return true;
  alert_.store(false);
  if (!baton_.try_acquire()) return false;
  alert_.store(true);
  return true;
}

// With the baton: until it is wanted, or nothing is left to do. After a failure that is to end what
// is under way, for which streams may wait.
void Membership::serve_background() {
  const DefaultFloatMode mode;  // a thread begins with that of whoever has made it
  std::vector<pollfd> armed;
  Wait wait(service_patience_);
  while (!wanted_.load() && !stop_.load() &&
         (worker_.busy() || !(failure_.failed() || worker_.settled()))) {
    const Result<bool> moved = worker_.turn();
    if (!moved.ok()) {
      worker_.engine().cancel();
      break;
    }
    if (*moved) {
      wait.moved();
      continue;
    }
    if (wait.linger()) continue;
    wait.slept();
    worker_.check_deadline(Clock::now());
    worker_.look_around();
    armed.clear();
    const bool nothing = worker_.engine().arm(armed);
    if (nothing) worker_.say_waiting();
    const bool traced = nothing && worker_.trace().calls();
    const TimePoint begin = traced ? Clock::now() : TimePoint();
    const int most_us = failure_.failed() ? kGraceUs : kSaysAgainUs;
    const std::string_view waker = doze(armed, nothing && !wanted_.load() ? most_us : 0);
    if (traced) worker_.trace().slept(begin, worker_.engine().waiting_for(), waker);
    worker_.engine().disarm();
  }
}

}  // namespace banyan
