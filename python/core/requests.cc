// SPDX-License-Identifier: Apache-2.0

#include "python/core/requests.h"

#include <algorithm>
#include <iterator>

#include "python/core/errors.h"
#include "python/core/waiting.h"

namespace py = pybind11;

namespace banyan::python {
namespace {

constinit thread_local Group* open_group = nullptr;

}  // namespace

OpenRequest::OpenRequest(banyan_comm_t comm, const banyan_call_t& call) {
  check(banyan_request_create(comm, &call, &handle_), comm);
}

banyan_result_t OpenRequest::destroy() {
  if (handle_ == nullptr) return BANYAN_SUCCESS;
  const banyan_result_t result = banyan_request_destroy(handle_);
  if (result == BANYAN_SUCCESS) handle_ = nullptr;
  return result;
}

Request::Request(std::shared_ptr<Communicator> communicator, const Said& said)
    : communicator_(std::move(communicator)),
      call_(std::make_unique<PreparedCall>(communicator_, said)) {
  const Use use(*communicator_);
  communicator_->tidy();
  open_ = std::make_unique<OpenRequest>(communicator_->handle(), call_->call());
  communicator_->add(this);
}

// One that is under way has arrays that the library writes to, so the communicator cannot go on
// without it. The package keeps such a request until it has ended.
Request::~Request() {
  if (open_ == nullptr) return;
  communicator_->remove(this);
  if (communicator_->in_use() || communicator_->closed()) open_->leave_to_communicator();
  if (!in_flight_) return;
  (void)banyan_comm_abort(communicator_->closed() ? nullptr : communicator_->handle());
  after();
}

banyan_request_t Request::handle() const {
  (void)communicator_->handle();
  if (open_ == nullptr)
    raise({.result = BANYAN_ERR_INVALID_USAGE, .text = "the request is closed"});
  return open_->handle();
}

void Request::start() {
  const banyan_request_t request = handle();
  const Use use(*communicator_);
  check(banyan_request_start(request), communicator_->handle());
  in_flight_ = true;
}

bool Request::test() {
  const banyan_request_t request = handle();
  const Use use(*communicator_);
  int done = 0;
  const banyan_result_t result = banyan_request_test(request, &done);
  if (done != 0) in_flight_ = false;
  check(result, communicator_->handle());
  return done != 0;
}

void Request::wait() {
  const banyan_request_t request = handle();
  const banyan_comm_t comm = communicator_->handle();
  const Use use(*communicator_);
  const banyan_result_t result = wait_for(comm, [request] { return banyan_request_wait(request); });
  if (Group::of_thread() == nullptr) in_flight_ = false;
  check_waited(result, comm);
}

void Request::close() {
  if (open_ == nullptr || communicator_->closed()) return;
  if (in_flight_) wait();
  check(open_->destroy(), communicator_->handle());
  communicator_->remove(this);
  open_ = nullptr;
  call_ = nullptr;
}

// A request that is under way ends at once after a failure.
void Request::after() noexcept {
  if (open_ == nullptr) return;
  if (in_flight_) {
    const WithoutGil released;
    (void)banyan_request_wait(open_->handle());
  }
  in_flight_ = false;
  open_ = nullptr;
}

Group* Group::of_thread() {
  return open_group;
}

void Group::enter() {
  if (open_) raise({.result = BANYAN_ERR_INVALID_USAGE, .text = "the group is open already"});
  check(banyan_group_start());
  open_ = true;
  outer_ = std::exchange(open_group, this);
}

void Group::join(std::unique_ptr<PreparedCall> call) {
  Communicator& communicator = call->communicator();
  const banyan_comm_t comm = communicator.handle();
  const Use use(communicator);
  calls_.push_back(std::move(call));
  const PreparedCall& kept = *calls_.back();
  if (!kept.has_options()) {
    check(kept.run(comm), comm);
    return;
  }
  requests_.emplace_back(comm, kept.call());
  check(banyan_request_start(requests_.back().handle()), comm);
}

// A group in which a call was wrong moves nothing, so one of ours is.
void Group::abandon() {
  (void)banyan_barrier(nullptr);
}

void Group::leave(bool abandoned) {
  if (!open_ || open_group != this)
    raise({.result = BANYAN_ERR_INVALID_USAGE,
           .text = "the group is not the one that this thread opened last"});
  open_ = false;
  open_group = outer_;
  if (abandoned) abandon();
  if (outer_ != nullptr) {  // it ends with the one around it
    std::move(calls_.begin(), calls_.end(), std::back_inserter(outer_->calls_));
    std::move(requests_.begin(), requests_.end(), std::back_inserter(outer_->requests_));
    calls_.clear();
    requests_.clear();
    check(banyan_group_end());
    return;
  }
  const auto calls = std::exchange(calls_, {});
  std::vector<OpenRequest> requests = std::exchange(requests_, {});
  std::vector<banyan_comm_t> comms;
  std::vector<std::unique_ptr<Use>> uses;
  try {
    for (const auto& call : calls) {
      if (call->communicator().closed()) continue;
      const banyan_comm_t comm = call->communicator().handle();
      if (std::find(comms.begin(), comms.end(), comm) != comms.end()) continue;
      uses.push_back(std::make_unique<Use>(call->communicator()));
      comms.push_back(comm);
    }
  } catch (...) {
    abandon();
    (void)banyan_group_end();
    throw;
  }
  banyan_result_t result = BANYAN_SUCCESS;
  {
    const Interruptible interruptible(comms.data(), comms.size());
    const WithoutGil released;
    result = banyan_group_end();
    // The end of a group starts its requests, and waits for the other calls.
    for (const OpenRequest& request : requests) {
      if (abandoned) break;
      const banyan_result_t waited = banyan_request_wait(request.handle());
      if (result == BANYAN_SUCCESS) result = waited;
    }
  }
  const auto failed = std::find_if(comms.begin(), comms.end(), has_failed);
  if (!abandoned) check_waited(result, failed == comms.end() ? nullptr : *failed);
}

}  // namespace banyan::python
