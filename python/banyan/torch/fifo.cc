// SPDX-License-Identifier: Apache-2.0

#include "python/banyan/torch/fifo.h"

#include <utility>

namespace banyan::process_group {

Fifo::~Fifo() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Fifo::push(Job job) {
  const std::lock_guard lock(mutex_);
  jobs_.push_back(std::move(job));
  if (!thread_.joinable()) thread_ = std::thread([this] { serve(); });
  changed_.notify_all();
}

bool Fifo::run_now(const Job& job) {
  bool nested = false;
  {
    const std::lock_guard lock(mutex_);
    // A callback of a future that waits for an operation would else wait for itself.
    const bool inside = thread_.joinable() && thread_.get_id() == std::this_thread::get_id();
    if (!inside && (busy_ || !jobs_.empty())) return false;
    if (!inside) busy_ = true;
    nested = inside;
  }
  job();
  if (nested) return true;
  const std::lock_guard lock(mutex_);
  busy_ = false;
  changed_.notify_all();
  return true;
}

bool Fifo::drain(std::chrono::milliseconds patience) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, patience, [this] { return !busy_ && jobs_.empty(); });
}

void Fifo::serve() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return !busy_ && (stopping_ || !jobs_.empty()); });
    if (jobs_.empty()) return;
    {
      const Job job = std::move(jobs_.front());
      jobs_.pop_front();
      busy_ = true;
      lock.unlock();
      job();
      // The job's tensors are dropped here, outside the lock: that may need the interpreter's.
    }
    lock.lock();
    busy_ = false;
    changed_.notify_all();
  }
}

}  // namespace banyan::process_group
