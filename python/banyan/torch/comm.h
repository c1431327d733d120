// A communicator of the C interface, whose failures are exceptions of c10d.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <banyan/banyan.h>

#include <chrono>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Store.hpp>

namespace banyan::process_group {

// What a communicator of this group is made with. The strings are kept for the config.
struct Settings {
  std::string name, transports, codec;
  double timeout_s = 0, init_timeout_s = 0, bound = 0;
  banyan_determinism_t determinism = BANYAN_DETERMINISM_DEFAULT;
  banyan_fidelity_t fidelity = BANYAN_EXACT;
  bool compress = false;
  size_t min_bytes = 0;
  uint64_t seed = 0;
};

// Throws c10::DistBackendError with the library's text, which names the rank.
void check(banyan_result_t result, const char* what, banyan_comm_t comm);

// Throws likewise if the communicator has failed, also where no call has said so. Any thread.
void check_alive(banyan_comm_t comm, const char* what);

// Owns the handle. One thread at a time makes calls; any thread aborts.
class Comm {
 public:
  // Meets the others over the store, which all ranks of the group see and nobody else.
  static std::unique_ptr<Comm> meet(c10d::Store& store, int rank, int size,
                                    const Settings& settings);
  explicit Comm(banyan_comm_t handle) : handle_(handle) {}
  Comm(const Comm&) = delete;
  Comm& operator=(const Comm&) = delete;
  ~Comm();

  // The same ranks once more, independent of these.
  std::unique_ptr<Comm> twin(const Settings& settings);
  banyan_comm_t handle() const { return handle_; }
  // Runs the calls, several as one group, and returns when all have ended.
  void run(std::span<const banyan_call_t> calls, const char* what);
  // Runs them, several as one group, in the order of this stream (a cudaStream_t), and returns when
  // that is enqueued. Later failures are those of the communicator.
  void enqueue(std::vector<banyan_call_t> calls, void* stream, const char* what);
  void abort() { (void)banyan_comm_abort(handle_); }
  // A child of fork() has no thread of this communicator and must not touch what the parent uses.
  void leak() { handle_ = nullptr; }

 private:
  void drop_ended();

  banyan_comm_t handle_;
  std::deque<banyan_request_t> enqueued_;  // in their order, with ends that nobody waits for
};

}  // namespace banyan::process_group
