// Calls that outlive the line that makes them: requests, and those of an open group.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "banyan/banyan.h"
#include "python/core/calls.h"
#include "python/core/communicator.h"

namespace banyan::python {

// The library's part of a request.
class OpenRequest {
 public:
  OpenRequest(banyan_comm_t comm, const banyan_call_t& call);  // throws
  OpenRequest(OpenRequest&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  OpenRequest& operator=(OpenRequest&&) = delete;
  ~OpenRequest() { (void)destroy(); }

  banyan_request_t handle() const { return handle_; }
  banyan_result_t destroy();                           // and nothing is freed where it fails
  void leave_to_communicator() { handle_ = nullptr; }  // which frees it at its own end

 private:
  banyan_request_t handle_ = nullptr;
};

// A call that can be started again and again. Its arrays live as long as it.
class Request final : public Dependent {
 public:
  Request(std::shared_ptr<Communicator> communicator, const Said& said);
  ~Request();
  Request(const Request&) = delete;
  Request& operator=(const Request&) = delete;

  void start();
  bool test();
  void wait();
  // Ends it; one that is under way is waited for.
  void close();

  banyan_result_t before_finalize() override { return BANYAN_SUCCESS; }
  void after() noexcept override;

 private:
  // Throws InvalidUsage once it or its communicator is closed.
  banyan_request_t handle() const;

  std::shared_ptr<Communicator> communicator_;
  std::unique_ptr<PreparedCall> call_;
  std::unique_ptr<OpenRequest> open_;
  bool in_flight_ = false;
};

// Calls of a thread that are issued together, at the end. It keeps their arrays until then.
class Group {
 public:
  static Group* of_thread();  // null: none is open

  void enter();
  // Waits for the calls; where abandoned, nothing of the group moves.
  void leave(bool abandoned);
  void join(std::unique_ptr<PreparedCall> call);

 private:
  void abandon();

  Group* outer_ = nullptr;
  bool open_ = false;
  std::vector<std::unique_ptr<PreparedCall>> calls_;
  std::vector<OpenRequest> requests_;  // after the calls, which they point into
};

}  // namespace banyan::python
