// Waiting for operations: spin, then yield, then sleep in the kernel.
// SPDX-License-Identifier: Apache-2.0

#include <algorithm>

#include "src/base/relax.h"
#include "src/membership.h"

namespace banyan {
namespace {

// Turns without success before a rank yields, and before it sleeps. With more ranks than cores a
// spinning rank keeps the one that it waits for from running.
constexpr int kSpins = 1000;
constexpr int kMostSleepMs = kSaysAgain.count();
constexpr uint32_t kTurnsBetweenClocks = 4096;

bool all_done(std::span<Operation* const> operations) {
  return std::all_of(operations.begin(), operations.end(),
                     [](const Operation* operation) { return operation->done(); });
}

TimePoint earliest_deadline(std::span<Operation* const> operations) {
  TimePoint earliest = TimePoint::max();
  for (const Operation* operation : operations)
    if (!operation->done()) earliest = std::min(earliest, operation->deadline);
  return earliest;
}

// One turn of each; true: something moved. A communicator that fails keeps its first status and its
// operations count as done, so that the others go on.
bool turn_all(std::span<Membership* const> memberships, Status& status) {
  bool any = false;
  for (Membership* membership : memberships) {
    const Result<bool> moved = membership->turn();
    if (moved.ok()) {
      any = any || *moved;
      continue;
    }
    if (status.ok()) status = moved.status();
    membership->engine().cancel();
  }
  return any;
}

void check_deadline(std::span<Membership* const> memberships, TimePoint deadline) {
  if (Clock::now() < deadline) return;
  for (Membership* membership : memberships)
    if (membership->busy()) membership->time_out();
}

void sleep_all(std::span<Membership* const> memberships, TimePoint deadline) {
  for (Membership* membership : memberships) membership->look_around();
  // With several communicators the sleep of one must not outlast news for another.
  const int most = memberships.size() > 1 ? 1 : kMostSleepMs;
  for (Membership* membership : memberships)
    if (membership->busy()) membership->sleep(milliseconds_until(deadline, most));
}

}  // namespace

Status drive(std::span<Membership* const> memberships, std::span<Operation* const> operations) {
  if (memberships.empty()) return {};
  const bool crowded = std::any_of(memberships.begin(), memberships.end(),
                                   [](const Membership* each) { return each->crowded(); });
  const int spins = crowded ? 0 : kSpins;
  Status status;
  uint32_t turns = 0;
  Patience& patience = memberships.front()->patience();
  for (int idle = 0; !all_done(operations);) {
    if (++turns % kTurnsBetweenClocks == 0)
      check_deadline(memberships, earliest_deadline(operations));
    if (turn_all(memberships, status)) {
      idle = 0;
    } else if (++idle <= spins) {
      relax();
    } else if (yield_a_little(patience, idle == spins + 1)) {
      continue;
    } else {
      const TimePoint deadline = earliest_deadline(operations);
      check_deadline(memberships, deadline);
      sleep_all(memberships, deadline);
      patience.slept();
      idle = spins;  // yields a little before the next sleep
    }
  }
  for (Membership* membership : memberships) membership->leave_baton();
  return status;
}

}  // namespace banyan
