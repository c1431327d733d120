// What stands behind the handles of banyan.h, and how an error gets to its thread.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "banyan/banyan.h"
#include "banyan/status.h"
#include "src/c_api/known_calls.h"
#include "src/membership.h"

namespace banyan {

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
  banyan_comm_t handle = nullptr;
  uint32_t incarnation = 0;  // in which it was made
};

// A banyan_request_t.
struct OpenRequest {
  OpenCommunicator* communicator = nullptr;
  Call call;
  std::shared_ptr<Plan> plan;
  enum class State { kNew, kRunning, kDone } state = State::kNew;
  bool grouped = false;            // started in a group that is open
  Operation* operation = nullptr;  // while running
  Status result;                   // once done
};

// kInvalidArgument: null, destroyed, or never a handle. kInvalidUsage: this process was made by
// fork() since.
Result<OpenCommunicator*> find_communicator(banyan_comm_t handle);
// Null where find_communicator() fails.
OpenCommunicator* own_communicator(banyan_comm_t handle) noexcept;
Result<OpenRequest*> find_request(banyan_request_t handle);
banyan_comm_t communicator_handle(uint64_t place);
// Made in this process, not in a parent of it.
bool is_ours(const OpenCommunicator& communicator);
uint64_t place_of(banyan_comm_t handle);
uint64_t place_of(banyan_request_t handle);
// Null where there is none, or none any more.
banyan_comm_t communicator_of(banyan_request_t handle) noexcept;

// Keeps the text for banyan_last_error of this thread and gives the result code; an error inside a
// group is the group's, too. Every function of banyan.h ends with it. `comm` is what the call was
// on, null where that is unknown.
banyan_result_t answer(const Status& status, banyan_comm_t comm);

// The last error of this thread on `comm`; null: on anything. The pointer stays valid until the
// thread asks again.
const char* last_text(banyan_comm_t comm, const Status& failure);

// Runs a door's body; what the standard library throws becomes a status.
template <typename Body>
banyan_result_t door(banyan_comm_t comm, const Body& body) {
  try {
    return answer(body(), comm);
  } catch (const std::bad_alloc&) {
    return answer({Code::kSystem, "out of memory"}, comm);
  } catch (const std::exception& caught) {
    return answer({Code::kInternal, caught.what()}, comm);
  }
}

template <typename Body>
banyan_result_t door(const Body& body) {
  return door(nullptr, body);
}

}  // namespace banyan
