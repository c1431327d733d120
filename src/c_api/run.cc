// SPDX-License-Identifier: Apache-2.0

#include "src/c_api/run.h"

#include <fmt/format.h>

#include <optional>

#include "src/c_api/arguments.h"
#include "src/c_api/group.h"
#include "src/communicator/drive.h"

namespace banyan {
namespace {

// Requires the baton.
Status run_plan(Membership& membership, const std::shared_ptr<Plan>& plan, const Call& call) {
  const Result<Operation*> operation = membership.start(plan, call);
  BANYAN_TRY(operation.status());
  Membership* only = &membership;
  Operation* running = *operation;
  Status status = drive_through({&only, 1}, {&running, 1});
  membership.finish(running);
  return status;
}

// A call that is too long for a program, or finds others under way.
Status run_known(Membership& membership, const KnownCall& known, const PlainCall& plain) {
  Call call;
  call.send = plain.send;
  call.recv = plain.recv;
  membership.take_baton();
  return run_plan(membership, known.plan, call);
}

}  // namespace

void remember(OpenCommunicator& communicator, const PlainCall& plain, const Call& call) {
  Membership& membership = *communicator.membership;
  if (plain.op > BANYAN_AVG || !membership.at_rest()) return;
  try {
    const std::shared_ptr<Plan> plan = membership.plan(call);
    communicator.known.remember(plain, call, {plan, membership.prepare_quick(plan)});
  } catch (const std::bad_alloc&) {
    return;  // this call has ended well; the next one is checked as this one was
  }
}

bool takes_known(const OpenCommunicator& communicator) noexcept {
  return !in_group() && !communicator.finalized.load() && communicator.membership->at_rest() &&
         !communicator.membership->failure().failed();
}

QuickCall* begin_known(OpenCommunicator* communicator, const PlainCall& plain) noexcept {
  if (communicator == nullptr || !takes_known(*communicator)) return nullptr;
  const KnownCalls::Place* place = communicator->known.find(plain);
  if (place == nullptr || place->known.quick == nullptr) return nullptr;
  QuickCall& quick = *place->known.quick;
  communicator->membership->begin(quick, plain.send, plain.recv);
  return &quick;
}

Status check_usable(const OpenCommunicator& communicator) {
  if (communicator.membership->failure().failed())
    return communicator.membership->failure().status();
  if (communicator.finalized.load())
    return {Code::kInvalidUsage, "the communicator is finalized: no call after finalize"};
  return {};
}

Status run_out_of_memory(Membership& membership) {
  membership.take_baton();
  Status status = membership.give_up("out of memory");
  membership.engine().cancel();
  return status;
}

Status drive_through(std::span<Membership* const> memberships,
                     std::span<Operation* const> operations) {
  return with_memory(memberships, [&] { return drive(memberships, operations); });
}

Status run_now(OpenCommunicator& communicator, const Call& call) {
  Membership* membership = communicator.membership.get();
  return with_memory({&membership, 1}, [&] {
    membership->take_baton();
    return run_plan(*membership, membership->plan(call), call);
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
  if (status.ok() && plain != nullptr) remember(communicator, *plain, *call);
  return status;
}

}  // namespace

Status run_call(banyan_comm_t handle, const banyan_call_t& given, const PlainCall* plain) {
  const Result<OpenCommunicator*> communicator = find_communicator(handle);
  BANYAN_TRY(communicator.status());
  BANYAN_TRY(check_usable(**communicator));
  Membership* membership = (*communicator)->membership.get();
  return with_memory({&membership, 1}, [&] { return run_usable(**communicator, given, plain); });
}

void refuse_request(OpenRequest& request, const Status& why) {
  request.result = why;
  request.state = OpenRequest::State::kDone;
}

Status start_request(OpenRequest& request) {
  OpenCommunicator& communicator = *request.communicator;
  Membership* membership = communicator.membership.get();
  membership->take_baton();
  Status status = with_memory({&membership, 1}, [&]() -> Status {
    const Result<Operation*> operation = membership->start(request.plan, request.call);
    BANYAN_TRY(operation.status());
    request.operation = *operation;
    request.state = OpenRequest::State::kRunning;
    const Result<bool> moved = membership->turn();  // the first messages leave with the start
    if (!moved.ok()) membership->engine().cancel();
    return {};
  });
  membership->leave_baton();
  if (!status.ok()) refuse_request(request, status);
  return status;
}

void settle_request(OpenRequest& request) {
  Membership& membership = *request.communicator->membership;
  request.result = membership.failure().failed() ? membership.failure().status() : Status();
  membership.finish(request.operation);
  request.operation = nullptr;
  request.state = OpenRequest::State::kDone;
}

}  // namespace banyan
