// SPDX-License-Identifier: Apache-2.0

#include "src/c_api/handles.h"

#include <fmt/format.h>

#include "src/c_api/run.h"
#include "src/process.h"

namespace banyan {
namespace {

static_assert(sizeof(void*) == sizeof(uint64_t), "a handle is a place and a generation");

// An error belongs to the thread that caused it.
struct LastError {
  std::string text;
  banyan_comm_t comm = nullptr;
  std::string shown;  // what banyan_last_error returned
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

banyan_comm_t communicator_of(banyan_request_t handle) noexcept {
  const auto* found = static_cast<OpenRequest*>(process().requests.find(place_of(handle)));
  return found != nullptr ? found->communicator->handle : nullptr;
}

OpenCommunicator* own_communicator(banyan_comm_t handle) noexcept {
  auto* found = static_cast<OpenCommunicator*>(process().communicators.find(place_of(handle)));
  return found != nullptr && is_ours(*found) ? found : nullptr;
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

banyan_result_t answer(const Status& status, banyan_comm_t comm) {
  if (!status.ok()) {
    last_error().text = status.message();
    last_error().comm = comm;
    fail_group(status);
  }
  return static_cast<banyan_result_t>(status.code());
}

const char* last_text(banyan_comm_t comm, const Status& failure) {
  LastError& error = last_error();
  const bool meant = comm == nullptr || error.comm == nullptr || error.comm == comm;
  error.shown = meant && !error.text.empty() ? std::string_view(error.text) : failure.message();
  return error.shown.c_str();
}

}  // namespace banyan
