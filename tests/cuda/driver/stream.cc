// SPDX-License-Identifier: Apache-2.0

#include "tests/cuda/driver/stream.h"

#include <cstdlib>
#include <thread>
#include <utility>

namespace banyan::standin {
namespace {

std::atomic<unsigned>& delay_us() {
  static std::atomic<unsigned> most = [] {
    const char* said = std::getenv("STANDIN_CUDA_DELAY_US");
    return said == nullptr ? 100U : static_cast<unsigned>(std::strtoul(said, nullptr, 10));
  }();
  return most;
}

thread_local bool inside_host_function = false;

}  // namespace

void set_delay(unsigned most_us) {
  delay_us().store(most_us);
}

bool in_host_function() {
  return inside_host_function;
}

void run_host_function(void (*function)(void*), void* argument) {
  inside_host_function = true;
  function(argument);
  inside_host_function = false;
}

struct Stream::State {
  explicit State(unsigned seed) : random(seed) {}

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Work> queue;
  uint64_t enqueued = 0;
  bool closed = false;
  std::shared_ptr<Progress> done = std::make_shared<Progress>();
  std::mt19937 random;  // its thread's
};

Stream::Stream(int device, bool ordered, unsigned seed)
    : device_(device), ordered_(ordered), state_(std::make_shared<State>(seed)) {
  std::thread([state = state_] { run(state); }).detach();
}

void Stream::run(const std::shared_ptr<State>& state) {
  for (uint64_t count = 1;; ++count) {
    Work work;
    {
      std::unique_lock lock(state->mutex);
      state->changed.wait(lock, [&] { return !state->queue.empty() || state->closed; });
      if (state->queue.empty()) return;
      work = std::move(state->queue.front());
      state->queue.pop_front();
    }
    const unsigned most = delay_us().load();
    if (most != 0)
      std::this_thread::sleep_for(std::chrono::microseconds(state->random() % (most + 1)));
    work();
    state->done->reach(count);
  }
}

void Stream::enqueue(Work work, std::vector<std::pair<std::shared_ptr<Progress>, uint64_t>> after) {
  {
    const std::lock_guard lock(state_->mutex);
    ++state_->enqueued;
    state_->queue.emplace_back([work = std::move(work), after = std::move(after)] {
      for (const auto& [progress, count] : after) progress->wait(count);
      work();
    });
  }
  state_->changed.notify_one();
}

std::pair<std::shared_ptr<Progress>, uint64_t> Stream::last() const {
  const std::lock_guard lock(state_->mutex);
  return {state_->done, state_->enqueued};
}

void Stream::close() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->closed = true;
  }
  state_->changed.notify_one();
}

}  // namespace banyan::standin
