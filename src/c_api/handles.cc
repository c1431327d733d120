// SPDX-License-Identifier: Apache-2.0

#include "src/c_api/handles.h"

#include <fmt/format.h>

#include "src/c_api/run.h"

namespace banyan {
namespace {

static_assert(sizeof(void*) == sizeof(uint64_t), "a handle is a place and a generation");

// An error belongs to the thread that caused it.
struct LastError {
  std::string text;
  banyan_comm_t comm = nullptr;
  bool after_failure = false;  // of comm, or it is that failure
  std::string shown;           // what banyan_last_error returned
};

LastError& last_error() {
  thread_local LastError error;
  return error;
}

template <typename Handle>
Status stale(std::string_view what, Handle handle) {
  if (handle == nullptr) return {Code::kInvalidArgument, fmt::format("{} is NULL", what)};
  return {Code::kInvalidArgument, fmt::format("{} {} was destroyed, or never was one", what,
                                              static_cast<const void*>(handle))};
}

Status forked() {
  return {Code::kInvalidUsage,
          "the communicator belongs to the process that made this one by fork(): use it there, or "
          "make one here"};
}

}  // namespace

bool is_ours(const OpenCommunicator& communicator) {
  return communicator.incarnation == process().incarnation.now();
}

uint64_t place_of(banyan_comm_t handle) {
  return reinterpret_cast<uint64_t>(handle);
}

uint64_t place_of(banyan_request_t handle) {
  return reinterpret_cast<uint64_t>(handle);
}

banyan_comm_t communicator_handle(uint64_t place) {
  return reinterpret_cast<banyan_comm_t>(place);  // NOLINT(performance-no-int-to-ptr)
}

// Pinned, because banyan_comm_destroy frees requests before it frees what they point to.
banyan_comm_t communicator_of(banyan_request_t handle) noexcept {
  const HandleTable::Pin pin = process().requests.pin(place_of(handle));
  const auto* found = static_cast<OpenRequest*>(pin.get());
  return found != nullptr ? found->communicator->handle : nullptr;
}

Result<OpenCommunicator*> find_communicator(banyan_comm_t handle) {
  void* found = process().communicators.find(place_of(handle));
  if (found == nullptr) return stale("comm", handle);
  auto* communicator = static_cast<OpenCommunicator*>(found);
  if (!is_ours(*communicator)) return forked();
  return communicator;
}

Result<OpenRequest*> find_request(banyan_request_t handle) {
  void* found = process().requests.find(place_of(handle));
  if (found == nullptr) return stale("request", handle);
  auto* request = static_cast<OpenRequest*>(found);
  if (!is_ours(*request->communicator)) return forked();
  return request;
}

Pinned::Pinned(banyan_comm_t comm) : pin_(process().communicators.pin(place_of(comm))) {
  if (get() != nullptr && !is_ours(*get())) pin_ = {};
}

Visiting::Visiting(banyan_comm_t comm) : visit_(process().communicators.visit(place_of(comm))) {}

bool others_are_out(banyan_comm_t handle, uint32_t own) {
  constexpr double kPatienceSeconds = 2;  // a failed call may take one to end those before it
  return process().communicators.wait_for_pins(place_of(handle), own,
                                               deadline_after(kPatienceSeconds));
}

// Between parts of the library kBusy asks for a repetition; whatever comes here was not repeated.
banyan_result_t answer(const Status& status, banyan_comm_t comm) {
  if (status.code() == Code::kBusy)
    return answer({Code::kInternal, std::string(status.message())}, comm);
  if (!status.ok()) {
    const Pinned open(comm);
    LastError& error = last_error();
    error.text = status.message();
    error.comm = comm;
    error.after_failure = open.get() != nullptr && open.get()->membership->failure().failed();
    fail_group(status, comm);
  }
  return static_cast<banyan_result_t>(status.code());
}

const char* last_text(banyan_comm_t comm) {
  LastError& error = last_error();
  const Pinned open(comm);
  if (open.get() == nullptr) {
    const bool meant = comm == nullptr || error.comm == nullptr || error.comm == comm;
    error.shown = meant ? error.text : std::string();
    return error.shown.c_str();
  }
  const Status failure = open.get()->membership->failure().peek();
  const bool meant = error.comm == comm && (failure.ok() || error.after_failure);
  error.shown = meant ? std::string_view(error.text) : failure.message();
  return error.shown.c_str();
}

}  // namespace banyan
