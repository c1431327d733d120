// SPDX-License-Identifier: Apache-2.0

#include "python/core/communicator.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "python/core/errors.h"
#include "python/core/waiting.h"

namespace py = pybind11;

namespace banyan::python {
namespace {

[[noreturn]] void refuse_usage(const char* text) {
  raise({.result = BANYAN_ERR_INVALID_USAGE, .text = text});
}

// Aborts a communicator if what happens in its lifetime takes longer.
class Limit {
 public:
  Limit(banyan_comm_t comm, double seconds)
      : thread_([this, comm, seconds] {
          std::unique_lock lock(mutex_);
          if (!changed_.wait_for(lock, std::chrono::duration<double>(seconds),
                                 [this] { return ended_; }))
            (void)banyan_comm_abort(comm);
        }) {}
  ~Limit() {
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }
  Limit(const Limit&) = delete;
  Limit& operator=(const Limit&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ended_ = false;
  std::thread thread_;  // the last: it uses the others
};

}  // namespace

bool has_failed(banyan_comm_t comm) {
  banyan_result_t error = BANYAN_SUCCESS;
  return banyan_comm_async_error(comm, &error) != BANYAN_SUCCESS || error != BANYAN_SUCCESS;
}

void check_waited(banyan_result_t result, banyan_comm_t comm) {
  if (result == BANYAN_SUCCESS) return;
  const Failed failed = failure_of(result, comm);
  if (PyErr_CheckSignals() != 0) throw py::error_already_set();
  raise(failed);
}

Use::Use(Communicator& communicator) : communicator_(communicator) {
  if (communicator.in_use_)
    refuse_usage("another thread is in a call on this communicator: one at a time uses it");
  communicator.in_use_ = true;
}

Communicator::Communicator(banyan_comm_t handle) : handle_(handle) {
  check(banyan_comm_rank(handle, &rank_), handle);
  check(banyan_comm_size(handle, &size_), handle);
}

Communicator::~Communicator() {
  end(0);
}

banyan_comm_t Communicator::handle() const {
  if (closed()) refuse_usage("the communicator is closed");
  return handle_;
}

int Communicator::failed_rank() const {
  int rank = -1;
  check(banyan_comm_failed_rank(handle(), &rank), handle_);
  return rank;
}

void Communicator::abort() {
  if (closed()) return;
  check(banyan_comm_abort(handle_), handle_);
}

banyan_result_t Communicator::end_reducers() {
  for (Dependent* dependent : std::vector<Dependent*>(dependents_))
    if (const auto ended = dependent->before_finalize(); ended != BANYAN_SUCCESS) return ended;
  return BANYAN_SUCCESS;
}

void Communicator::end_dependents() noexcept {
  for (Dependent* dependent : std::exchange(dependents_, {})) dependent->after();
}

void Communicator::close() {
  if (closed()) return;
  const Use use(*this);
  banyan_result_t result = BANYAN_SUCCESS;
  if (!has_failed(handle_)) {
    check(end_reducers(), handle_);
    result = wait_for(handle_, [this] { return banyan_comm_finalize(handle_); });
    if (result != BANYAN_SUCCESS && !has_failed(handle_)) check_waited(result, handle_);
  }
  const Failed failed = failure_of(result, handle_);
  end_dependents();
  destroy();
  if (result == BANYAN_SUCCESS) return;
  if (PyErr_CheckSignals() != 0) throw py::error_already_set();
  raise(failed);
}

void Communicator::end(double seconds) noexcept {
  if (closed()) return;
  if (in_use_) {  // by a daemon thread, which comes back before Python leaves it behind
    (void)banyan_comm_abort(handle_);
    for (int i = 0; i < 100 && in_use_; ++i) {
      const WithoutGil released;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));  // nothing tells of its return
    }
    if (in_use_) return;
  }
  bool finalized = false;
  if (seconds > 0 && !has_failed(handle_) && end_reducers() == BANYAN_SUCCESS) {
    const WithoutGil released;
    const Limit limit(handle_, seconds);
    finalized = banyan_comm_finalize(handle_) == BANYAN_SUCCESS;
  }
  if (!finalized) (void)banyan_comm_abort(handle_);
  end_dependents();
  destroy();
}

// Memory that an array lies in stays until the array ends.
void Communicator::destroy() noexcept {
  closed_ = true;
  if (blocks_ != 0) return;
  const banyan_comm_t handle = std::exchange(handle_, nullptr);
  const WithoutGil released;  // for two seconds a thread may be inside
  (void)banyan_comm_destroy(handle);
}

void Communicator::remove(Dependent* dependent) noexcept {
  std::erase(dependents_, dependent);
}

void Communicator::let_go(void* memory) noexcept {
  --blocks_;
  if (!closed_)
    memory_.push_back(memory);
  else if (blocks_ == 0)
    destroy();
}

void Communicator::tidy() {
  for (const banyan_op_t op : std::exchange(operations_, {})) (void)banyan_op_destroy(handle_, op);
  for (void* memory : std::exchange(memory_, {})) (void)banyan_mem_free(handle_, memory);
}

}  // namespace banyan::python
