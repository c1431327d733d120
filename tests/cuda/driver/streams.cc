// SPDX-License-Identifier: Apache-2.0

#include "tests/cuda/driver/streams.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <utility>

#include "src/base/thread.h"
#include "tests/cuda/driver/state.h"

namespace banyan::standin {

bool Mark::reached() const {
  return stream == nullptr || stream->reached(ticket);
}

bool Running::is_given_up() const {
  return is_ending() || context.breaks() != breaks;
}

Stream::Stream(Context& context, StreamOrder order, int priority)
    : context_(context), order_(order), priority_(priority), chance_(next_seed()) {}

Mark Stream::submit(Work work, std::vector<Mark> after) {
  const std::lock_guard lock(queue_mutex_);
  if (!started_) {
    started_ = true;
    auto thread = start_thread("does the work of a stream",
                               [self = shared_from_this()] { self->work_off(); });
    if (!thread.ok()) {
      std::fprintf(stderr, "stand-in CUDA: %s\n", std::string(thread.status().message()).c_str());
      std::abort();
    }
    thread->detach();
  }
  queue_.push_back({std::move(work), std::move(after), context_.breaks()});
  queued_.notify_one();
  return {shared_from_this(), ++submitted_};
}

Mark Stream::last() const {
  const std::lock_guard lock(queue_mutex_);
  return {std::const_pointer_cast<Stream>(shared_from_this()), submitted_};
}

bool Stream::reached(uint64_t ticket) const {
  const std::lock_guard lock(done_mutex_);
  return done_ >= ticket;
}

bool Stream::wait(uint64_t ticket) const {
  constexpr std::chrono::milliseconds kLooksEvery{20};  // whether the program ends
  std::unique_lock lock(done_mutex_);
  while (done_ < ticket) {
    if (is_ending()) return false;
    done_changed_.wait_for(lock, kLooksEvery);
  }
  return true;
}

void Stream::close() {
  const std::unique_lock lock(queue_mutex_);
  closed_ = true;
  queued_.notify_one();
}

bool Stream::closed() const {
  const std::lock_guard lock(queue_mutex_);
  return closed_;
}

bool Stream::next(Item* item) {
  std::unique_lock lock(queue_mutex_);
  queued_.wait(lock, [this] { return closed_ || !queue_.empty(); });
  if (queue_.empty()) return false;
  *item = std::move(queue_.front());
  queue_.pop_front();
  return true;
}

void Stream::dawdle() {
  const int most_us = most_delay_us();
  if (most_us <= 0) return;
  const int us = std::uniform_int_distribution(0, most_us)(chance_);
  if (us > 0) std::this_thread::sleep_for(std::chrono::microseconds(us));
}

// The end of the program waits a while for what has begun, and nothing begins after that.
void Stream::work(const Item& item) {
  const Running running{context_, *this, item.breaks};
  working_ = true;
  if (item.work.run && !running.is_given_up()) item.work.run(running);
  working_ = false;
  if (is_ending()) sleep_for_ever();
}

// What it waits for was submitted before, so that streams never wait for each other in a circle.
void Stream::work_off() {
  Item item;
  while (next(&item)) {
    for (const Mark& mark : item.after)
      if (mark.stream != nullptr && !mark.stream->wait(mark.ticket)) sleep_for_ever();
    dawdle();
    work(item);
    item = {};  // what it used may end here, before anybody is told
    const std::lock_guard lock(done_mutex_);
    ++done_;
    done_changed_.notify_all();
  }
  context_.forget(*this);
}

}  // namespace banyan::standin
