// Events: places in the work of streams, with the time at which they are reached.
// SPDX-License-Identifier: Apache-2.0

#include "tests/cuda/driver/capture.h"
#include "tests/cuda/driver/state.h"
#include "tests/cuda/driver/submit.h"

using namespace banyan::standin;  // NOLINT(google-build-using-namespace): these are its functions

namespace {

constexpr unsigned kDisableTiming = 2, kInterprocess = 4;  // CUevent_flags

// body(Event&) -> int
template <typename Body>
int call_of_event(const char* function, CuHandle handle, const Body& body) {
  return call_in_context(function, [&](Context&) -> int {
    const std::shared_ptr<Event> event = state().events.find(handle);
    if (event == nullptr) return kInvalidHandle;
    const int result = usable(event->context);
    return result != kSuccess ? result : body(*event);
  });
}

int elapsed(const char* function, float* ms, CuHandle from, CuHandle to) {
  return call_of_event(function, from, [&](Event& first) {
    const std::shared_ptr<Event> second = state().events.find(to);
    if (second == nullptr || &second->context != &first.context) return kInvalidHandle;
    if (ms == nullptr) return kInvalidValue;
    const auto begin = first.last(), end = second->last();
    if (((first.flags | second->flags) & kDisableTiming) != 0 || begin == nullptr || end == nullptr)
      return kInvalidHandle;
    if (begin->capture != nullptr || end->capture != nullptr) return kCapturedEvent;
    if (!begin->mark.reached() || !end->mark.reached()) return kNotReady;
    *ms = std::chrono::duration<float, std::milli>(end->at - begin->at).count();
    return kSuccess;
  });
}

}  // namespace

int cuEventCreate(CuHandle* event, unsigned flags) {
  return call_in_context(__func__, [&](Context& context) {
    if (event == nullptr || flags > 7) return kInvalidValue;
    if ((flags & kInterprocess) != 0 && (flags & kDisableTiming) == 0) return kInvalidValue;
    *event = state().events.add(std::make_shared<Event>(context, flags));
    return kSuccess;
  });
}

int cuEventDestroy_v2(CuHandle event) {
  return call_in_context(__func__, [&](Context&) {
    return state().events.take(event) == nullptr ? kInvalidHandle : kSuccess;
  });
}

int cuEventRecord(CuHandle event, CuHandle stream) {
  return call_of_event(__func__, event, [&](Event& of) {
    const FoundStream found = find_stream(*current_context().context, stream);
    if (found.result != kSuccess) return found.result;
    if (&found.stream->context() != &of.context) return kInvalidHandle;
    return record_event(found.stream, of);
  });
}

int cuEventQuery(CuHandle event) {
  return call_of_event(__func__, event, [](Event& of) {
    const auto record = of.last();
    if (const int refused = refuse_if_captured(record.get()); refused != kSuccess) return refused;
    if (const int refused = refuse_unsafe(); refused != kSuccess) return refused;
    return record == nullptr || record->mark.reached() ? kSuccess : kNotReady;
  });
}

int cuEventSynchronize(CuHandle event) {
  return call_of_event(__func__, event, [](Event& of) {
    const auto record = of.last();
    if (const int refused = refuse_if_captured(record.get()); refused != kSuccess) return refused;
    if (const int refused = refuse_unsafe(); refused != kSuccess) return refused;
    return record == nullptr ? kSuccess : wait_for(record->mark);
  });
}

int cuEventElapsedTime(float* ms, CuHandle from, CuHandle to) {
  return elapsed(__func__, ms, from, to);
}

int cuEventElapsedTime_v2(float* ms, CuHandle from, CuHandle to) {
  return elapsed(__func__, ms, from, to);
}

// The event may be of another context. What is recorded later does not matter.
int cuStreamWaitEvent(CuHandle stream, CuHandle event, unsigned flags) {
  return call_of_event(__func__, event, [&](Event& of) {
    if (flags > 1) return kInvalidValue;
    const FoundStream found = find_stream(*current_context().context, stream);
    if (found.result != kSuccess) return found.result;
    const auto record = of.last();
    return record == nullptr ? kSuccess : wait_in_stream(found.stream, *record);
  });
}
