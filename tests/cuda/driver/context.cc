// SPDX-License-Identifier: Apache-2.0

#include <algorithm>

#include "tests/cuda/driver/capture.h"
#include "tests/cuda/driver/state.h"

namespace banyan::standin {

CuHandle Context::handle() const {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): nothing is there
  return reinterpret_cast<CuHandle>(0xcada'00c0'0000'0010 + (static_cast<uintptr_t>(device_) << 8));
}

void Context::break_with(int error) {
  broken_.store(error, std::memory_order_release);
  if (error != kSuccess) breaks_.fetch_add(1, std::memory_order_release);
}

void Context::retain() {
  const std::unique_lock lock(mutex_);
  if (users_++ > 0) return;
  legacy_ = std::make_shared<Stream>(*this, StreamOrder::kLegacy, 0);
  streams_.push_back(legacy_);
}

bool Context::release() {
  if (users_ == 0) return false;
  if (--users_ == 0) reset();
  return true;
}

// What is not begun is not done, and nothing waits for values any more.
void Context::reset() {
  const auto is_mine = [this](const auto& object) { return &object.context() == this; };
  const auto is_of_this = [this](const auto& object) { return &object.context == this; };
  break_with(kContextIsDestroyed);
  (void)state().streams.take_all(is_mine);
  (void)state().events.take_all(is_of_this);
  (void)state().modules.take_all(is_of_this);
  (void)state().graphs.take_all(is_of_this);
  (void)state().executables.take_all(is_of_this);
  forget_captures(*this);
  (void)state().functions.take_all(
      [this](const LoadedFunction& function) { return &function.module->context == this; });
  (void)synchronize();
  std::vector<SharedStream> ended;
  {
    const std::unique_lock lock(mutex_);
    legacy_ = nullptr;
    std::swap(ended, streams_);
    peers_.clear();
    if (users_ > 0) {
      legacy_ = std::make_shared<Stream>(*this, StreamOrder::kLegacy, 0);
      streams_.push_back(legacy_);
    }
  }
  for (const SharedStream& stream : ended) stream->close();
  (void)state().memory.take_all(*this);
  break_with(kSuccess);
}

SharedStream Context::legacy() const {
  const std::shared_lock lock(mutex_);
  return legacy_;
}

SharedStream Context::add_stream(StreamOrder order, int priority) {
  auto stream = std::make_shared<Stream>(*this, order, priority);
  const std::unique_lock lock(mutex_);
  streams_.push_back(stream);
  return stream;
}

void Context::forget(const Stream& stream) {
  const std::unique_lock lock(mutex_);
  std::erase_if(streams_, [&](const SharedStream& other) { return other.get() == &stream; });
}

std::vector<Mark> Context::marks_of(bool blocking_only) const {
  std::vector<Mark> marks;
  const std::shared_lock lock(mutex_);
  for (const SharedStream& stream : streams_) {
    if (blocking_only && stream->order() != StreamOrder::kBlocking) continue;
    Mark mark = stream->last();
    if (mark.ticket > 0) marks.push_back(std::move(mark));
  }
  return marks;
}

Mark Context::submit(Stream& stream, Work work, std::vector<Mark> after) {
  if (stream.order() == StreamOrder::kLegacy) {
    for (Mark& mark : marks_of(true)) after.push_back(std::move(mark));
  } else if (stream.order() == StreamOrder::kBlocking) {
    if (const SharedStream before = legacy(); before != nullptr) after.push_back(before->last());
  }
  return stream.submit(std::move(work), std::move(after));
}

bool Context::synchronize() {
  const std::vector<Mark> marks = marks_of(false);
  return std::all_of(marks.begin(), marks.end(),
                     [](const Mark& mark) { return mark.stream->wait(mark.ticket); });
}

bool Context::blocking_streams_are_done() const {
  const std::vector<Mark> marks = marks_of(true);
  return std::all_of(marks.begin(), marks.end(), [](const Mark& mark) { return mark.reached(); });
}

bool Context::works() const {
  const std::shared_lock lock(mutex_);
  return std::any_of(streams_.begin(), streams_.end(),
                     [](const SharedStream& stream) { return stream->working(); });
}

void Context::allow_peer(int device, bool allowed) {
  const std::unique_lock lock(mutex_);
  if (allowed) {
    peers_.insert(device);
  } else {
    peers_.erase(device);
  }
}

bool Context::allows_peer(int device) const {
  const std::shared_lock lock(mutex_);
  return peers_.contains(device);
}

}  // namespace banyan::standin
