// Streams of the stand-in: queues, whose work a thread of each does in order, with delays by
// chance.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <vector>

#include "tests/cuda/driver/memory.h"

namespace banyan::standin {

class Context;
class Stream;
struct Capture;

using SharedStream = std::shared_ptr<Stream>;  // of handles, its context, its thread, and marks

// A place in the work of a stream, which is reached when all up to there is done.
struct Mark {
  SharedStream stream{};
  uint64_t ticket = 0;

  bool reached() const;
};

// What work knows of where it runs.
struct Running {
  Context& context;
  Stream& stream;
  int breaks;  // of the context, when the work was submitted

  bool is_given_up() const;  // what waits goes on at once, what is not begun is not done
};

struct Work {
  // What is done, from the stream's thread and maybe many times; null: nothing.
  std::function<void(const Running&)> run = nullptr;
  std::vector<SharedAllocation> uses{};
};

// Which streams wait for each other without being told.
enum class StreamOrder : uint8_t { kLegacy, kBlocking, kNonBlocking };

class Stream : public std::enable_shared_from_this<Stream> {
 public:
  Stream(Context& context, StreamOrder order, int priority);

  Context& context() const { return context_; }
  StreamOrder order() const { return order_; }
  int priority() const { return priority_; }

  // Does the work once these marks are reached. Its thread begins with the first.
  Mark submit(Work work, std::vector<Mark> after);
  Mark last() const;  // reached when all that is there so far is done
  bool reached(uint64_t ticket) const;
  // False: the program ends, and what is not done will not be.
  bool wait(uint64_t ticket) const;
  // The thread ends when all is done; nothing may be submitted any more.
  void close();
  bool closed() const;
  void dawdle();  // of its thread: a while by chance
  bool working() const { return working_; }

  // Under the lock of all captures.
  std::shared_ptr<Capture> capture{};
  std::vector<size_t> tail{};  // of the capture: what the next node comes after

 private:
  struct Item {
    Work work;
    std::vector<Mark> after;
    int breaks = 0;
  };

  void work_off();
  bool next(Item* item);
  void work(const Item& item);

  Context& context_;
  const StreamOrder order_;
  const int priority_;
  std::minstd_rand chance_;  // of the thread
  std::atomic<bool> working_{false};

  mutable std::mutex queue_mutex_;
  std::condition_variable queued_;
  std::deque<Item> queue_;
  uint64_t submitted_ = 0;
  bool started_ = false;
  bool closed_ = false;

  // Apart, so that who only submits has not synchronized with what is done.
  mutable std::mutex done_mutex_;
  mutable std::condition_variable done_changed_;
  uint64_t done_ = 0;
};

}  // namespace banyan::standin
