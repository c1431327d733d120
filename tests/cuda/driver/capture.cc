// SPDX-License-Identifier: Apache-2.0

#include "tests/cuda/driver/capture.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <utility>

#include "tests/cuda/driver/submit.h"

namespace banyan::standin {

namespace {

using SharedCapture = std::shared_ptr<Capture>;  // of the list, its streams, and events

// Where nothing captures, nobody takes the lock.
struct Captures {
  std::mutex mutex;
  std::atomic<int> count{0};
  uint64_t begun = 0;
  std::vector<SharedCapture> ongoing;
};

Captures& captures() {
  static auto* all = new Captures;
  return *all;
}

bool nothing_captures() {
  return captures().count.load(std::memory_order_relaxed) == 0;
}

int invalidate(Capture& capture, int error) {
  capture.invalidated = true;
  return error;
}

void drop(const SharedCapture& capture) {
  for (const SharedStream& stream : capture->streams) {
    stream->capture = nullptr;
    stream->tail.clear();
  }
  capture->streams.clear();
  std::erase(captures().ongoing, capture);
  captures().count = static_cast<int>(captures().ongoing.size());
}

bool is_ongoing(const SharedCapture& capture) {
  const auto& all = captures().ongoing;
  return std::find(all.begin(), all.end(), capture) != all.end();
}

// The capture that the legacy stream would have to wait for; or null.
SharedCapture conflict_of(const Stream& stream) {
  if (stream.order() != StreamOrder::kLegacy) return nullptr;
  for (const SharedCapture& capture : captures().ongoing) {
    for (const SharedStream& other : capture->streams)
      if (&other->context() == &stream.context() && other->order() == StreamOrder::kBlocking)
        return capture;
  }
  return nullptr;
}

void add_to(std::vector<size_t>& tail, const std::vector<size_t>& more) {
  for (const size_t node : more)
    if (std::find(tail.begin(), tail.end(), node) == tail.end()) tail.push_back(node);
}

// Nodes that nothing comes after are the last ones of the origin.
bool is_joined(const Capture& capture, const std::vector<size_t>& tail) {
  std::vector<bool> followed(capture.nodes.size(), false);
  for (const CaptureNode& node : capture.nodes)
    for (const size_t before : node.after) followed[before] = true;
  for (const size_t node : tail) followed[node] = true;
  return std::all_of(followed.begin(), followed.end(), [](bool is) { return is; });
}

}  // namespace

int begin_capture(const SharedStream& stream, int mode) {
  if (mode < kCaptureGlobal || mode > kCaptureRelaxed) return kInvalidValue;
  if (stream->order() == StreamOrder::kLegacy) return kCaptureUnsupported;
  const std::lock_guard lock(captures().mutex);
  if (stream->capture != nullptr) return kIllegalState;
  auto capture = std::make_shared<Capture>(Capture{
      stream.get(), stream->context(), std::this_thread::get_id(), mode, ++captures().begun});
  capture->streams.push_back(stream);
  stream->capture = capture;
  captures().ongoing.push_back(std::move(capture));
  captures().count = static_cast<int>(captures().ongoing.size());
  return kSuccess;
}

EndedCapture end_capture(const SharedStream& stream) {
  const std::lock_guard lock(captures().mutex);
  const SharedCapture capture = stream->capture;
  if (capture == nullptr) return {kIllegalState};
  if (capture->origin != stream.get()) return {invalidate(*capture, kCaptureUnmatched)};
  if (capture->mode != kCaptureRelaxed && capture->thread != std::this_thread::get_id())
    return {kCaptureWrongThread};
  const bool joined = is_joined(*capture, stream->tail);
  drop(capture);
  if (capture->invalidated) return {kCaptureInvalidated};
  if (!joined) return {kCaptureUnjoined};
  return {kSuccess, std::move(capture->nodes)};
}

CaptureStatus capture_status(const SharedStream& stream) {
  const std::lock_guard lock(captures().mutex);
  if (conflict_of(*stream) != nullptr) return {kCaptureImplicit};
  const SharedCapture& capture = stream->capture;
  if (capture == nullptr) return {kSuccess};
  return {kSuccess, capture->invalidated ? 2 : 1, capture->id, stream->tail.size()};
}

int refuse_unsafe() {
  const int mine = thread_state().capture_mode;
  if (nothing_captures() || mine == kCaptureRelaxed) return kSuccess;
  const std::lock_guard lock(captures().mutex);
  int result = kSuccess;
  for (const SharedCapture& capture : captures().ongoing) {
    if (capture->mode == kCaptureRelaxed) continue;
    const bool own = capture->thread == std::this_thread::get_id();
    if (own || (mine == kCaptureGlobal && capture->mode == kCaptureGlobal))
      result = invalidate(*capture, kCaptureUnsupported);
  }
  return result;
}

int refuse_if_capturing(const SharedStream& stream) {
  if (nothing_captures()) return kSuccess;
  const std::lock_guard lock(captures().mutex);
  if (const SharedCapture capture = conflict_of(*stream); capture != nullptr)
    return invalidate(*capture, kCaptureImplicit);
  return stream->capture == nullptr ? kSuccess : invalidate(*stream->capture, kCaptureUnsupported);
}

int refuse_asking(const SharedStream& stream) {
  const int refused = refuse_if_capturing(stream);
  return refused != kSuccess ? refused : refuse_unsafe();
}

int refuse_if_captured(const EventRecord* record) {
  if (record == nullptr || record->capture == nullptr) return kSuccess;
  const std::lock_guard lock(captures().mutex);
  return invalidate(*record->capture, kCapturedEvent);
}

int refuse_if_any_captures(const Context& context) {
  if (nothing_captures()) return kSuccess;
  const std::lock_guard lock(captures().mutex);
  int result = kSuccess;
  for (const SharedCapture& capture : captures().ongoing)
    if (&capture->context == &context) result = invalidate(*capture, kCaptureUnsupported);
  return result;
}

void forget_captures(const Context& context) {
  const std::lock_guard lock(captures().mutex);
  const std::vector<SharedCapture> all = captures().ongoing;
  for (const SharedCapture& capture : all)
    if (&capture->context == &context) drop(capture);
}

Submitted submit(const SharedStream& stream, Work work, std::vector<Mark> after) {
  if (!nothing_captures()) {
    const std::lock_guard lock(captures().mutex);
    if (const SharedCapture conflict = conflict_of(*stream); conflict != nullptr)
      return {invalidate(*conflict, kCaptureImplicit)};
    if (Capture* const capture = stream->capture.get(); capture != nullptr) {
      if (capture->invalidated) return {kCaptureInvalidated};
      capture->nodes.push_back({std::move(work), std::exchange(stream->tail, {})});
      stream->tail = {capture->nodes.size() - 1};
      return {.captured = true};
    }
  }
  return {kSuccess, stream->context().submit(*stream, std::move(work), std::move(after))};
}

bool is_capturing(const Stream& stream) {
  if (nothing_captures()) return false;
  const std::lock_guard lock(captures().mutex);
  return stream.capture != nullptr;
}

// Within a capture it is a place in the graph, and has no time.
int record_event(const SharedStream& stream, Event& event) {
  auto record = std::make_shared<EventRecord>();
  if (is_capturing(*stream)) {
    const std::lock_guard lock(captures().mutex);
    if (stream->capture == nullptr) return kCaptureInvalidated;
    if (stream->capture->invalidated) return kCaptureInvalidated;
    record->capture = stream->capture;
    record->tail = stream->tail;
  } else {
    Work work;
    work.run = [keep = std::weak_ptr(record)](const Running&) {
      if (const auto kept = keep.lock()) kept->at = std::chrono::steady_clock::now();
    };
    const Submitted done = submit(stream, std::move(work));
    if (done.result != kSuccess) return done.result;
    record->mark = done.mark;
  }
  const std::lock_guard lock(event.mutex);
  event.record = std::move(record);
  return kSuccess;
}

namespace {

// Whoever waits for an event of a capture is in it from then on.
int join_capture(const SharedStream& stream, const EventRecord& record) {
  const std::lock_guard lock(captures().mutex);
  if (!is_ongoing(record.capture)) return kCapturedEvent;
  Capture& capture = *record.capture;
  if (capture.invalidated) return kCaptureInvalidated;
  if (stream->order() == StreamOrder::kLegacy) return invalidate(capture, kCaptureImplicit);
  if (stream->capture != nullptr && stream->capture != record.capture) {
    invalidate(*stream->capture, kCaptureMerge);
    return invalidate(capture, kCaptureMerge);
  }
  if (stream->capture == nullptr) {
    stream->capture = record.capture;
    capture.streams.push_back(stream);
  }
  add_to(stream->tail, record.tail);
  return kSuccess;
}

}  // namespace

int wait_in_stream(const SharedStream& stream, const EventRecord& record) {
  if (record.capture != nullptr) return join_capture(stream, record);
  if (is_capturing(*stream)) {
    const std::lock_guard lock(captures().mutex);
    if (stream->capture == nullptr) return kCaptureInvalidated;
    return invalidate(*stream->capture, kCaptureIsolation);
  }
  return submit(stream, {}, {record.mark}).result;
}

int wait_for(const Mark& mark) {
  if (mark.stream == nullptr) return kSuccess;
  if (!mark.stream->wait(mark.ticket)) return kDeinitialized;
  return mark.stream->context().broken();
}

}  // namespace banyan::standin
