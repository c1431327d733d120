// SPDX-License-Identifier: Apache-2.0

#include "src/c_api/run.h"

#include <fmt/format.h>

#include <optional>

#include "src/c_api/arguments.h"
#include "src/c_api/group.h"
#include "src/communicator/drive.h"

namespace banyan {
namespace {

Status run_plan(Driver& driver, const std::shared_ptr<Plan>& plan, const Call& call) {
  const Result<Operation*> operation = driver->start(plan, call);
  BANYAN_TRY(operation.status());
  Operation* running = *operation;
  Status status = drive_through({&driver, 1}, {&running, 1});
  driver->finish(running);
  return status;
}

// A call that is too long for a program, or finds others under way.
Status run_known(Membership& membership, const KnownCall& known, const PlainCall& plain) {
  Call call;
  call.send = plain.send;
  call.recv = plain.recv;
  Driver driver(membership);
  return run_plan(driver, known.plan, call);
}

}  // namespace

void remember(Driver& driver, OpenCommunicator& communicator, const PlainCall& plain,
              const Call& call) {
  if (plain.op > BANYAN_AVG || call.problem.staging.any() || driver->busy()) return;
  try {
    const std::shared_ptr<Plan> plan = driver->plan(call);
    communicator.known.remember(plain, call, {plan, driver->prepare_quick(plan)});
  } catch (const std::bad_alloc&) {
    return;  // this call has ended well; the next one is checked as this one was
  }
}

bool takes_known(const OpenCommunicator& communicator) noexcept {
  return !in_group() && !communicator.finalized.load() && communicator.membership->at_rest() &&
         !communicator.membership->failure().failed();
}

QuickCall* find_known(OpenCommunicator* communicator, const PlainCall& plain) noexcept {
  if (communicator == nullptr || !takes_known(*communicator)) return nullptr;
  const KnownCalls::Place* place = communicator->known.find(plain);
  return place == nullptr ? nullptr : place->known.quick.get();
}

Status check_usable(const OpenCommunicator& communicator) {
  Failure& failure = communicator.membership->failure();
  return failure.failed() ? failure.status() : check_usable_here(communicator);
}

Status check_usable_here(const OpenCommunicator& communicator) {
  Failure& failure = communicator.membership->failure();
  if (failure.is_known()) return failure.status();
  if (communicator.finalized.load())
    return {Code::kInvalidUsage, "the communicator is finalized: no call after finalize"};
  return {};
}

Status run_out_of_memory(Driver& driver) {
  Status status = driver->give_up("out of memory");
  driver->engine().cancel();
  return status;
}

Status run_out_of_memory(Membership& membership) {
  Driver driver(membership);
  return run_out_of_memory(driver);
}

Status drive_through(std::span<Driver> drivers, std::span<Operation* const> operations) {
  return with_memory(drivers, [&] { return drive(drivers, operations); });
}

Status run_now(OpenCommunicator& communicator, const Call& call) {
  return with_memory(*communicator.membership, [&] {
    Driver driver(*communicator.membership);
    return run_plan(driver, driver->plan(call), call);
  });
}

namespace {

// Why a call failed, for who looks at the log and not at banyan_last_error().
Status told(const Membership& membership, const Status& status) {
  if (!status.ok())
    BANYAN_LOG(membership.settings().log, Subsystem::kCall, LogLevel::kInfo, "{}: {}",
               describe(status.code()), status.message());
  return status;
}

Status run_usable(OpenCommunicator& communicator, const banyan_call_t& given,
                  const PlainCall* plain) {
  Membership& membership = *communicator.membership;
  if (plain != nullptr && !in_group()) {
    const KnownCalls::Place* place = communicator.known.find(*plain);
    if (place != nullptr) return run_known(membership, place->known, *plain);
  }
  const Result<Call> call = check_call(communicator, given);
  if (!call.ok()) return told(membership, call.status());
  if (in_group()) return join_group(communicator, *call, nullptr, plain);
  const Problem& problem = call->problem;
  if (is_message(problem.collective) && problem.root == membership.rank())
    return {Code::kInvalidUsage,
            fmt::format("peer {} is this rank itself: a message to oneself needs a group",
                        problem.root)};
  Status status = told(membership, run_now(communicator, *call));
  if (status.ok() && plain != nullptr && membership.at_rest()) {
    Driver driver = Driver::of_resting(membership);
    remember(driver, communicator, *plain, *call);
  }
  return status;
}

}  // namespace

Status run_call(banyan_comm_t handle, const banyan_call_t& given, const PlainCall* plain) {
  const Result<OpenCommunicator*> communicator = find_communicator(handle);
  BANYAN_TRY(communicator.status());
  BANYAN_TRY(check_usable(**communicator));
  return with_memory(*(*communicator)->membership,
                     [&] { return run_usable(**communicator, given, plain); });
}

void refuse_request(OpenRequest& request, const Status& why) {
  request.result = why;
  request.state = OpenRequest::State::kDone;
}

Status start_request(OpenRequest& request) {
  if (request.turn != nullptr) BANYAN_TRY(request.turn->enter());
  Driver driver(*request.communicator->membership);
  Status status = with_memory(driver, [&]() -> Status {
    const Result<Operation*> operation = driver->start(request.plan, request.call);
    BANYAN_TRY(operation.status());
    request.operation = *operation;
    request.state = OpenRequest::State::kRunning;
    const Result<bool> moved = driver->turn();  // the first messages leave with the start
    if (!moved.ok()) driver->engine().cancel();
    return {};
  });
  if (status.ok()) return status;
  if (request.turn != nullptr && request.operation == nullptr) request.turn->give_up();
  refuse_request(request, status);
  return status;
}

void settle_request(Driver& driver, OpenRequest& request) {
  Failure& failure = driver.membership().failure();
  request.result = failure.failed() ? failure.status() : Status();
  driver->finish(request.operation);
  request.operation = nullptr;
  request.state = OpenRequest::State::kDone;
}

}  // namespace banyan
