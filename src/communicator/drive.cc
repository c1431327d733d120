// Waiting for operations: spin, then yield, then sleep in the kernel.
// SPDX-License-Identifier: Apache-2.0

#include "src/communicator/drive.h"

#include <algorithm>

#include "src/communicator/quick_call.h"

namespace banyan {
namespace {

constexpr int kMostSleepMs = kSaysAgain.count();
constexpr uint32_t kTurnsBetweenClocks = 64;  // a turn may move megabytes

bool all_done(std::span<Operation* const> operations) {
  return std::all_of(operations.begin(), operations.end(),
                     [](const Operation* operation) { return operation->done(); });
}

TimePoint earliest_deadline(std::span<Membership* const> memberships) {
  TimePoint earliest = TimePoint::max();
  for (Membership* membership : memberships)
    earliest = std::min(earliest, membership->engine().deadline());
  return earliest;
}

// Gives each one turn; true: something moved. A communicator that fails keeps its first status and
// its operations count as done, so that the others go on.
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

void check_deadlines(std::span<Membership* const> memberships) {
  const TimePoint now = Clock::now();
  for (Membership* membership : memberships) membership->check_deadline(now);
}

void sleep_all(std::span<Membership* const> memberships, TimePoint deadline) {
  for (Membership* membership : memberships) membership->look_around();
  // With several communicators the sleep of one must not outlast news for another.
  const int most = memberships.size() > 1 ? 1 : kMostSleepMs;
  for (Membership* membership : memberships)
    if (membership->busy()) membership->sleep(std::max(1, milliseconds_until(deadline, most)));
}

// Whoever cancels an operation need not be the one that waits for it.
bool any_cancelled(std::span<Operation* const> operations) {
  return std::any_of(operations.begin(), operations.end(),
                     [](const Operation* operation) { return operation->execution.cancelled(); });
}

Status failure_of(std::span<Membership* const> memberships) {
  for (Membership* membership : memberships)
    if (membership->failure().failed()) return membership->failure().status();
  return {Code::kInternal, "an operation was cancelled without a failure"};
}

}  // namespace

Status drive(std::span<Membership* const> memberships, std::span<Operation* const> operations) {
  if (memberships.empty()) return {};
  Status status;
  uint32_t turns = 0;
  Wait wait = memberships.front()->wait();
  while (!all_done(operations)) {
    if (++turns % kTurnsBetweenClocks == 0) check_deadlines(memberships);
    if (turn_all(memberships, status)) {
      wait.moved();
    } else if (!wait.linger()) {
      check_deadlines(memberships);
      sleep_all(memberships, earliest_deadline(memberships));
      wait.slept();
    }
  }
  if (status.ok() && any_cancelled(operations)) status = failure_of(memberships);
  for (Membership* membership : memberships) membership->leave_baton();
  return status;
}

bool run_patiently(QuickCall& quick, Program::Stop stop) {
  Program& program = quick.program;
  Membership& membership = quick.membership;
  Wait wait = membership.wait();
  for (uint32_t before = program.position(); stop == Program::Stop::kWaits; stop = program.run()) {
    if (program.position() != before) {
      before = program.position();
      wait.moved();
    }
    if (membership.failure().failed() || !wait.linger_for(program.waiting_for())) return false;
  }
  return stop == Program::Stop::kDone;
}

Status go_on(QuickCall& quick) {
  quick.membership.hand_over(quick);
  Membership* membership = &quick.membership;
  Operation* operation = quick.operation.get();
  return drive({&membership, 1}, {&operation, 1});
}

}  // namespace banyan
