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

TimePoint earliest_deadline(std::span<Driver> drivers) {
  TimePoint earliest = TimePoint::max();
  for (Driver& driver : drivers) earliest = std::min(earliest, driver->engine().deadline());
  return earliest;
}

// Gives each one turn; true: something moved. A communicator that fails keeps its first status and
// its operations count as done, so that the others go on.
bool turn_all(std::span<Driver> drivers, Status& status) {
  bool any = false;
  for (Driver& driver : drivers) {
    const Result<bool> moved = driver->turn();
    if (moved.ok()) {
      any = any || *moved;
      continue;
    }
    if (status.ok()) status = moved.status();
    driver->engine().cancel();
  }
  return any;
}

void check_deadlines(std::span<Driver> drivers) {
  const TimePoint now = Clock::now();
  for (Driver& driver : drivers) driver->check_deadline(now);
}

void sleep_all(std::span<Driver> drivers, TimePoint deadline) {
  for (Driver& driver : drivers) driver->look_around();
  // With several communicators the sleep of one must not outlast news for another.
  const int most = drivers.size() > 1 ? 1 : kMostSleepMs;
  for (Driver& driver : drivers)
    if (driver->busy()) driver->sleep(std::max(1, milliseconds_until(deadline, most)));
}

// Whoever cancels an operation need not be the one that waits for it.
bool any_cancelled(std::span<Operation* const> operations) {
  return std::any_of(operations.begin(), operations.end(),
                     [](const Operation* operation) { return operation->execution.cancelled(); });
}

Status failure_of(std::span<Driver> drivers) {
  for (Driver& driver : drivers)
    if (Failure& failure = driver.membership().failure(); failure.failed()) return failure.status();
  return {Code::kInternal, "an operation was cancelled without a failure"};
}

}  // namespace

Status drive(std::span<Driver> drivers, std::span<Operation* const> operations) {
  if (drivers.empty()) return {};
  Status status;
  uint32_t turns = 0;
  Wait wait = drivers.front()->wait();
  while (!all_done(operations)) {
    if (++turns % kTurnsBetweenClocks == 0) check_deadlines(drivers);
    if (turn_all(drivers, status)) {
      wait.moved();
    } else if (!wait.linger()) {
      check_deadlines(drivers);
      sleep_all(drivers, earliest_deadline(drivers));
      wait.slept();
    }
  }
  if (status.ok() && any_cancelled(operations)) status = failure_of(drivers);
  return status;
}

bool run_patiently(Driver& driver, QuickCall& quick, Program::Stop stop) {
  Program& program = quick.program;
  Failure& failure = driver.membership().failure();
  Wait wait = driver->wait();
  for (uint32_t before = program.position(); stop == Program::Stop::kWaits; stop = program.run()) {
    if (program.position() != before) {
      before = program.position();
      wait.moved();
    }
    if (failure.failed() || !wait.linger_for(program.waiting_for())) return false;
  }
  return stop == Program::Stop::kDone;
}

Status go_on(Driver& driver, QuickCall& quick) {
  driver->hand_over(quick);
  Operation* operation = quick.operation.get();
  return drive({&driver, 1}, {&operation, 1});
}

}  // namespace banyan
