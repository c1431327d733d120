// One thread that runs jobs in the order in which they came; an idle one lets callers run their
// own.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace banyan::process_group {

class Fifo {
 public:
  // A job does not throw.
  using Job = std::function<void()>;
  Fifo() = default;
  Fifo(const Fifo&) = delete;
  Fifo& operator=(const Fifo&) = delete;
  // Runs what has been pushed, then ends the thread.
  ~Fifo();

  void push(Job job);
  // Runs the job in the calling thread where nothing is before it; else it is not run.
  bool run_now(const Job& job);
  // Waits until nothing is left to run; false where that took longer.
  bool drain(std::chrono::milliseconds patience);

 private:
  void serve();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> jobs_;
  bool busy_ = false, stopping_ = false;
  std::thread thread_;  // from the first push on
};

}  // namespace banyan::process_group
