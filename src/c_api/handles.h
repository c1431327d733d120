// What stands behind the handles of banyan.h, and how an error gets to its thread.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "banyan/banyan.h"
#include "banyan/status.h"
#include "src/base/process.h"
#include "src/c_api/known_calls.h"
#include "src/communicator/membership.h"
#include "src/cuda/stream_turn.h"

namespace banyan {

class GradientReducer;

// A banyan_comm_t.
struct OpenCommunicator {
  std::unique_ptr<Membership> membership;
  KnownCalls known;
  std::atomic<bool> finalized{false};
  struct Scalar {
    DataType type;
    std::array<std::byte, 8> value;
  };
  std::map<int, Scalar> scalars;   // of premulsum operations, by handle
  std::vector<uint64_t> requests;  // handles of those not destroyed
  std::mutex reducers_mutex;       // abort() comes from any thread
  std::vector<GradientReducer*> reducers;
  banyan_comm_t handle = nullptr;
  uint32_t incarnation = 0;  // in which it was made
};

// A banyan_request_t.
struct OpenRequest {
  OpenCommunicator* communicator = nullptr;
  Call call;
  std::shared_ptr<Plan> plan;
  std::unique_ptr<StreamTurn> turn;  // in the stream on which it starts; null: on none
  enum class State { kNew, kRunning, kDone } state = State::kNew;
  bool grouped = false;            // started in a group that is open
  Operation* operation = nullptr;  // while running
  Status result;                   // once done; of a start that failed, why
};

// Fails with one of
//
//   kInvalidArgument  null, destroyed, or never a handle
//   kInvalidUsage     this process was made by fork() since
Result<OpenCommunicator*> find_communicator(banyan_comm_t handle);
Result<OpenRequest*> find_request(banyan_request_t handle);

// Made in this process, not in a parent of it.
bool is_ours(const OpenCommunicator& communicator);

// A thread inside a call on a communicator, which is not freed meanwhile, whatever others do.
class Pinned {
 public:
  Pinned() = default;
  explicit Pinned(banyan_comm_t comm);

  // Null where find_communicator() fails.
  OpenCommunicator* get() const { return static_cast<OpenCommunicator*>(pin_.get()); }

 private:
  HandleTable::Pin pin_;
};

// As Pinned, in a blocking call, which one thread at a time may make.
class Visiting {
 public:
  explicit Visiting(banyan_comm_t comm);

  OpenCommunicator* get() const {
    auto* found = static_cast<OpenCommunicator*>(visit_.get());
    return found != nullptr && is_ours(*found) ? found : nullptr;
  }

 private:
  HandleTable::Visit visit_;
};

// Tells, after an abort or a failure, whether all other threads are out of their calls on it, which
// end soon. `own`: how often this thread is inside.
bool others_are_out(banyan_comm_t handle, uint32_t own);

banyan_comm_t communicator_handle(uint64_t place);
uint64_t place_of(banyan_comm_t handle);
uint64_t place_of(banyan_request_t handle);
// Null where there is none, or none any more.
banyan_comm_t communicator_of(banyan_request_t handle) noexcept;

// Keeps the text for banyan_last_error of this thread and gives the result code; an error inside a
// group is the group's, too. Every function of banyan.h ends with it. `comm` is what the call was
// on, null where that is unknown. Never BANYAN_IN_PROGRESS.
banyan_result_t answer(const Status& status, banyan_comm_t comm);

// Gives the failure of `comm`, unless this thread had an error on it since. Without a failure it is
// this thread's last error on it. Null, or no open communicator: this thread's last error. The
// pointer stays valid until the thread asks again.
const char* last_text(banyan_comm_t comm);

// Runs a door's body; what the standard library throws becomes a status.
template <typename Body>
banyan_result_t run_body(banyan_comm_t comm, const Body& body) {
  try {
    return answer(body(), comm);
  } catch (const std::bad_alloc&) {
    return answer({Code::kSystem, "out of memory"}, comm);
  } catch (const std::exception& caught) {
    return answer({Code::kInternal, caught.what()}, comm);
  }
}

template <typename Body>
banyan_result_t door(banyan_comm_t comm, const Body& body) {
  const Pinned inside(comm);
  return run_body(comm, body);
}

template <typename Body>
banyan_result_t door(const Body& body) {
  return run_body(nullptr, body);
}

}  // namespace banyan
