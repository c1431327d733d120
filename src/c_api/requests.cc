// banyan.h: persistent, non-blocking requests.
// SPDX-License-Identifier: Apache-2.0

#include <fmt/core.h>

#include <algorithm>

#include "src/base/process.h"
#include "src/c_api/arguments.h"
#include "src/c_api/group.h"
#include "src/c_api/run.h"
#include "src/c_api/structs.h"
#include "src/cuda/device_memory.h"

using banyan::Code;
using banyan::door;
using banyan::OpenRequest;
using banyan::Result;
using banyan::Status;
using State = banyan::OpenRequest::State;

Status banyan::complete_request(OpenRequest& request) {
  Driver driver(*request.communicator->membership);
  Status driven = drive_through({&driver, 1}, {&request.operation, 1});
  settle_request(driver, request);
  return driven;
}

namespace {

// From now on its starts are turns in that stream.
Status order_by_stream(OpenRequest& request, void* stream) {
  BANYAN_TRY(request.communicator->membership->start_service());
  Result<std::unique_ptr<banyan::StreamTurn>> turn =
      banyan::StreamTurn::create(*banyan::cuda_of_process(), stream);
  BANYAN_TRY(turn.status());
  request.turn = std::move(*turn);
  request.call.gate = request.turn.get();
  request.call.hook = request.turn.get();
  return {};
}

Status create(banyan_comm_t comm, const banyan_call_t* given, banyan_request_t* request) {
  if (request == nullptr) return {Code::kInvalidArgument, "request is NULL"};
  *request = nullptr;
  if (given == nullptr) return {Code::kInvalidArgument, "call is NULL"};
  const Result<banyan::OpenCommunicator*> communicator = banyan::find_communicator(comm);
  BANYAN_TRY(communicator.status());
  BANYAN_TRY(banyan::check_usable_here(**communicator));
  const banyan_call_t defaults = BANYAN_CALL_INIT;
  const Result<banyan_call_t> whole = banyan::complete_struct(given, defaults, "call");
  BANYAN_TRY(whole.status());
  Result<banyan::Call> call = banyan::check_call(**communicator, *whole);
  BANYAN_TRY(call.status());

  auto open = std::make_unique<OpenRequest>();
  open->communicator = *communicator;
  open->call = *call;
  if (whole->on_stream != 0) BANYAN_TRY(order_by_stream(*open, whole->stream));
  open->plan = banyan::Driver(*(*communicator)->membership)->plan(*call);
  const uint64_t place = banyan::process().requests.insert(open.get());
  if (place == 0) return {Code::kSystem, "too many requests in this process"};
  (*communicator)->requests.push_back(place);
  (void)open.release();  // owned through its handle until banyan_request_destroy
  *request = reinterpret_cast<banyan_request_t>(place);  // NOLINT(performance-no-int-to-ptr)
  return {};
}

// Whoever waits for the stream need not ask the request before starting it again.
void settle_behind_stream(OpenRequest& request) {
  if (request.state != State::kRunning || request.turn == nullptr) return;
  banyan::Driver driver(*request.communicator->membership);
  if (request.operation->done()) banyan::settle_request(driver, request);
}

Status start(banyan_request_t handle) {
  const Result<OpenRequest*> request = banyan::find_request(handle);
  BANYAN_TRY(request.status());
  settle_behind_stream(**request);
  if ((*request)->state == State::kRunning || (*request)->grouped)
    return {Code::kInvalidUsage, "the request is in flight: wait for it first"};
  if (Status usable = banyan::check_usable(*(*request)->communicator); !usable.ok()) {
    banyan::refuse_request(**request, usable);
    return usable;
  }
  if (banyan::in_group()) {
    BANYAN_TRY(banyan::join_group(*(*request)->communicator, (*request)->call, handle));
    (*request)->grouped = true;
    return {};
  }
  const banyan::Problem& problem = (*request)->call.problem;
  if (is_message(problem.collective) &&
      problem.root == (*request)->communicator->membership->rank())
    return {Code::kInvalidUsage,
            fmt::format("peer {} is this rank itself: a message to oneself needs a group",
                        problem.root)};
  return banyan::start_request(**request);
}

// Its start may have been what failed the communicator.
Status never_started(const OpenRequest& request) {
  banyan::Failure& failure = request.communicator->membership->failure();
  if (failure.failed()) return failure.status();
  return {Code::kInvalidUsage, "the request was never started"};
}

Status test(banyan_request_t handle, int* done) {
  if (done == nullptr) return {Code::kInvalidArgument, "done is NULL"};
  const Result<OpenRequest*> found = banyan::find_request(handle);
  BANYAN_TRY(found.status());
  OpenRequest& request = **found;
  *done = 0;
  if (request.grouped) return {};
  if (request.state == State::kNew) return never_started(request);
  if (request.state == State::kRunning) {
    banyan::Driver driver(*request.communicator->membership);
    const Result<bool> moved = driver->turn();
    if (moved.ok() && !*moved) driver->check_deadline(banyan::Clock::now());
    if (!moved.ok()) driver->engine().cancel();
    if (request.operation->done()) banyan::settle_request(driver, request);
    if (request.state == State::kRunning) return {};
  }
  *done = 1;
  return request.result;
}

Status wait(banyan_request_t handle) {
  BANYAN_TRY(banyan::refuse_in_group("banyan_request_wait"));
  const Result<OpenRequest*> found = banyan::find_request(handle);
  BANYAN_TRY(found.status());
  OpenRequest& request = **found;
  if (request.state == State::kNew) return never_started(request);
  if (request.state == State::kRunning) BANYAN_TRY(banyan::complete_request(request));
  return request.result;
}

Status destroy(banyan_request_t handle) {
  const Result<OpenRequest*> found = banyan::find_request(handle);
  BANYAN_TRY(found.status());
  OpenRequest& request = **found;
  settle_behind_stream(request);
  banyan::Membership& membership = *request.communicator->membership;
  if (request.grouped) return {Code::kInvalidUsage, "the request is part of an open group"};
  if (request.state == State::kRunning) {
    if (!membership.failure().failed())
      return {Code::kInvalidUsage, "the request is in flight: wait for it first"};
    if (!banyan::others_are_out(request.communicator->handle, 1))
      return {Code::kInvalidUsage, "another thread is inside a call on the communicator"};
  }
  if (request.state == State::kRunning) {  // nobody has waited for it
    banyan::Driver driver(membership);
    driver->engine().cancel();
    banyan::settle_request(driver, request);
  }
  const uint64_t place = banyan::place_of(handle);
  std::erase(request.communicator->requests, place);
  const std::unique_ptr<OpenRequest> owned(
      static_cast<OpenRequest*>(banyan::process().requests.remove(place)));
  return {};
}

}  // namespace

banyan_result_t banyan_request_create(banyan_comm_t comm, const banyan_call_t* call,
                                      banyan_request_t* request) {
  return door(comm, [&] { return create(comm, call, request); });
}

banyan_result_t banyan_request_start(banyan_request_t request) {
  return door(banyan::communicator_of(request), [&] { return start(request); });
}

banyan_result_t banyan_request_test(banyan_request_t request, int* done) {
  return door(banyan::communicator_of(request), [&] { return test(request, done); });
}

banyan_result_t banyan_request_wait(banyan_request_t request) {
  return door(banyan::communicator_of(request), [&] { return wait(request); });
}

banyan_result_t banyan_request_destroy(banyan_request_t request) {
  return door(banyan::communicator_of(request), [&] { return destroy(request); });
}
