// SPDX-License-Identifier: Apache-2.0

#include "src/c_api/handles.h"

#include <fmt/core.h>

#include <algorithm>
#include <new>

#include "src/c_api/group.h"

namespace banyan {
namespace {

static_assert(sizeof(void*) == sizeof(uint64_t), "a handle is a place and a generation");

struct LastError {
  std::string text;
  banyan_comm_t comm = nullptr;  // null: not known
  bool after_failure = false;    // of comm, or it is that failure
};

// Errors belong to the thread that caused them.
class LastErrors {
 public:
  void add(LastError error) {
    std::erase_if(errors_, [&](const LastError& older) { return older.comm == error.comm; });
    if (errors_.size() == kMost) errors_.erase(errors_.begin());
    errors_.push_back(std::move(error));
  }
  // Null: there was none, or so long ago that others have taken its place.
  const LastError* on(banyan_comm_t comm) const {
    const auto found = std::find_if(errors_.begin(), errors_.end(),
                                    [&](const LastError& error) { return error.comm == comm; });
    return found == errors_.end() ? nullptr : &*found;
  }
  const LastError* last() const { return errors_.empty() ? nullptr : &errors_.back(); }
  // Stays until the next time.
  const char* show(std::string_view text) {
    shown_ = text;
    return shown_.c_str();
  }

 private:
  static constexpr size_t kMost = 64;  // communicators
  std::vector<LastError> errors_;      // one for each, the last one at the end
  std::string shown_;
};

LastErrors& last_errors() {
  thread_local LastErrors errors;
  return errors;
}

template <typename Handle>
Status stale(std::string_view what, Handle handle) {
  if (handle == nullptr) return {Code::kInvalidArgument, fmt::format("{} is NULL", what)};
  return {Code::kInvalidArgument, fmt::format("{} {} was destroyed, or never was one", what,
                                              static_cast<const void*>(handle))};
}

// What happened, and on which communicator.
std::string told_of(const OpenCommunicator& communicator, std::string_view message) {
  return fmt::format("{} [{}]", message, communicator.membership->settings().name);
}

Status forked() {
  return {Code::kInvalidUsage,
          "the communicator belongs to the process that made this one by fork(): use it there, or "
          "make one here"};
}

// Where memory is missing for the text, the code alone tells it.
void keep_error(const Status& status, banyan_comm_t comm) noexcept {
  const Pinned open(comm);
  const OpenCommunicator* on = open.get();
  try {
    last_errors().add(
        {.text = on != nullptr ? told_of(*on, status.message()) : std::string(status.message()),
         .comm = comm,
         .after_failure = on != nullptr && on->membership->failure().failed()});
  } catch (const std::bad_alloc&) {
    return;
  }
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
    keep_error(status, comm);
    fail_group(status, comm);
  }
  return static_cast<banyan_result_t>(status.code());
}

const char* last_text(banyan_comm_t comm) {
  LastErrors& errors = last_errors();
  const Pinned open(comm);
  if (open.get() == nullptr) {
    const LastError* last = errors.last();
    const bool meant = last != nullptr && (comm == nullptr || last->comm == nullptr);
    const LastError* error = meant ? last : errors.on(comm);
    return errors.show(error != nullptr ? std::string_view(error->text) : "");
  }
  const Status failure = open.get()->membership->failure().peek();
  const LastError* error = errors.on(comm);
  const bool meant = error != nullptr && (failure.ok() || error->after_failure);
  if (meant) return errors.show(error->text);
  return errors.show(failure.ok() ? "" : told_of(*open.get(), failure.message()));
}

}  // namespace banyan
