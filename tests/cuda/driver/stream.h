// Streams of the stand-in: queues of work, each with a thread that takes its time.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <vector>

namespace banyan::standin {

using Work = std::function<void()>;

// Something that counts up, and may be waited for.
class Progress {
 public:
  void reach(uint64_t count) {
    {
      const std::lock_guard lock(mutex_);
      reached_ = std::max(reached_, count);
    }
    changed_.notify_all();
  }
  bool has(uint64_t count) const {
    const std::lock_guard lock(mutex_);
    return reached_ >= count;
  }
  void wait(uint64_t count) const {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return reached_ >= count; });
  }

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  uint64_t reached_ = 0;
};

struct Event {
  std::shared_ptr<Progress> done = std::make_shared<Progress>();
  std::atomic<uint64_t> recorded{0};  // how often
  std::shared_ptr<std::atomic<int64_t>> at = std::make_shared<std::atomic<int64_t>>(0);  // ns
};

struct Graph {
  std::vector<Work> works;
};

class Stream {
 public:
  // `ordered`: by the legacy default stream, and it by this one.
  Stream(int device, bool ordered, unsigned seed);
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  int device() const { return device_; }
  bool ordered() const { return ordered_; }
  // Behind what was enqueued before, and behind `after`.
  void enqueue(Work work, std::vector<std::pair<std::shared_ptr<Progress>, uint64_t>> after = {});
  // What was enqueued so far.
  std::pair<std::shared_ptr<Progress>, uint64_t> last() const;
  // Its thread ends when it has done what was enqueued.
  void close();

  // Null: it is not being captured.
  std::shared_ptr<Graph> capture;

 private:
  struct State;
  static void run(const std::shared_ptr<State>& state);

  int device_;
  bool ordered_;
  std::shared_ptr<State> state_;
};

// For all streams: most_us before each piece of work.
void set_delay(unsigned most_us);
// A thread that runs work of a stream right now: it may not call the driver.
bool in_host_function();
void run_host_function(void (*function)(void*), void* argument);

}  // namespace banyan::standin
