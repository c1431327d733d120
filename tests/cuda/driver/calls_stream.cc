// The driver's functions for streams, events and captures, as the CUDA Driver API has them.
// SPDX-License-Identifier: Apache-2.0

#include <chrono>
#include <memory>
#include <thread>
#include <utility>

#include "tests/cuda/driver/calls.h"

namespace banyan::standin {
namespace {

using Address = unsigned long long;
using Done = std::pair<std::shared_ptr<Progress>, uint64_t>;

bool is_satisfied(uint32_t value, uint32_t wanted, unsigned flags) {
  switch (flags) {
    case 0: return static_cast<int32_t>(value - wanted) >= 0;
    case 1: return value == wanted;
    case 2: return (value & wanted) != 0;
    default: return ~(value | wanted) != 0;
  }
}

Event* event_of(void* handle) {
  return static_cast<Event*>(handle);
}

bool is_done(const Done& last) {
  return last.first->has(last.second);
}

// A graph as its handles have it, for as long as the process lives.
std::shared_ptr<Graph>* keep(std::shared_ptr<Graph> graph) {
  return new std::shared_ptr<Graph>(std::move(graph));
}

}  // namespace
}  // namespace banyan::standin

using namespace banyan::standin;  // NOLINT(google-build-using-namespace): its functions have C
                                  // names

// NOLINTBEGIN(readability-identifier-naming): the names are CUDA's
extern "C" {

int cuStreamCreate(void** stream, unsigned flags) {
  ENTER_WITH_CONTEXT(cuStreamCreate);
  if (stream == nullptr || flags > 1) return kInvalidValue;
  *stream = Machine::the().make_stream(*Machine::current().back(), flags == 0).get();
  return kSuccess;
}

int cuStreamDestroy_v2(void* stream) {
  ENTER(cuStreamDestroy_v2);
  return Machine::the().destroy_stream(stream) ? kSuccess : kInvalidHandle;
}

int cuStreamSynchronize(void* handle) {
  ENTER(cuStreamSynchronize);
  const std::shared_ptr<Stream> stream = Machine::the().stream(handle);
  if (stream == nullptr) return kInvalidHandle;
  if (stream->capture != nullptr) return kCaptureUnsupported;
  const Done last = stream->last();
  last.first->wait(last.second);
  return Machine::the().broken.load();
}

int cuCtxSynchronize() {
  ENTER_WITH_CONTEXT(cuCtxSynchronize);
  Machine::the().finish(*Machine::current().back());
  return kSuccess;
}

int cuStreamQuery(void* handle) {
  ENTER(cuStreamQuery);
  const std::shared_ptr<Stream> stream = Machine::the().stream(handle);
  if (stream == nullptr) return kInvalidHandle;
  return is_done(stream->last()) ? kSuccess : kNotReady;
}

int cuStreamWaitEvent(void* handle, void* event, unsigned flags) {
  ENTER(cuStreamWaitEvent);
  const std::shared_ptr<Stream> stream = Machine::the().stream(handle);
  if (stream == nullptr || event == nullptr || flags > 1) return kInvalidHandle;
  Machine::the().submit(*stream, [] {},
                        {{event_of(event)->done, event_of(event)->recorded.load()}});
  return kSuccess;
}

int cuLaunchHostFunc(void* handle, void (*function)(void*), void* argument) {
  ENTER(cuLaunchHostFunc);
  const std::shared_ptr<Stream> stream = Machine::the().stream(handle);
  if (stream == nullptr) return kInvalidHandle;
  if (function == nullptr) return kInvalidValue;
  Machine::the().submit(*stream, [=] {
    if (Machine::the().broken.load() == kSuccess) run_host_function(function, argument);
  });
  return kSuccess;
}

int cuStreamWaitValue32_v2(void* handle, Address address, uint32_t value, unsigned flags) {
  ENTER(cuStreamWaitValue32_v2);
  Machine& machine = Machine::the();
  const std::shared_ptr<Stream> stream = machine.stream(handle);
  auto* word = reinterpret_cast<uint32_t*>(machine.memory.inside(address, sizeof(uint32_t)));
  if (stream == nullptr || word == nullptr || flags > 3 || address % 4 != 0) return kInvalidValue;
  if (!machine.memory.find(address)) return kInvalidValue;  // pageable
  machine.submit(*stream, [=] {
    while (!is_satisfied(std::atomic_ref(*word).load(std::memory_order_acquire), value, flags))
      // Whoever writes the word tells nobody.
      std::this_thread::sleep_for(std::chrono::microseconds(20));
  });
  return kSuccess;
}

int cuStreamWriteValue32_v2(void* handle, Address address, uint32_t value, unsigned /*flags*/) {
  ENTER(cuStreamWriteValue32_v2);
  Machine& machine = Machine::the();
  const std::shared_ptr<Stream> stream = machine.stream(handle);
  auto* word = reinterpret_cast<uint32_t*>(machine.memory.inside(address, sizeof(uint32_t)));
  if (stream == nullptr || word == nullptr || address % 4 != 0) return kInvalidValue;
  machine.submit(*stream, [=] { std::atomic_ref(*word).store(value, std::memory_order_release); });
  return kSuccess;
}

int cuEventCreate(void** event, unsigned flags) {
  ENTER_WITH_CONTEXT(cuEventCreate);
  if (event == nullptr || flags > 7) return kInvalidValue;
  *event = new Event;
  return kSuccess;
}

int cuEventDestroy_v2(void* event) {
  ENTER(cuEventDestroy_v2);
  if (event == nullptr) return kInvalidHandle;
  delete event_of(event);
  return kSuccess;
}

int cuEventRecord(void* event, void* handle) {
  ENTER(cuEventRecord);
  const std::shared_ptr<Stream> stream = Machine::the().stream(handle);
  if (stream == nullptr || event == nullptr) return kInvalidHandle;
  if (stream->capture != nullptr) return kSuccess;
  const uint64_t count = ++event_of(event)->recorded;
  Machine::the().submit(*stream, [done = event_of(event)->done, at = event_of(event)->at, count] {
    at->store(std::chrono::steady_clock::now().time_since_epoch().count());
    done->reach(count);
  });
  return kSuccess;
}

int cuEventQuery(void* event) {
  ENTER(cuEventQuery);
  if (event == nullptr) return kInvalidHandle;
  return event_of(event)->done->has(event_of(event)->recorded.load()) ? kSuccess : kNotReady;
}

int cuEventSynchronize(void* event) {
  ENTER(cuEventSynchronize);
  if (event == nullptr) return kInvalidHandle;
  event_of(event)->done->wait(event_of(event)->recorded.load());
  return kSuccess;
}

int cuEventElapsedTime(float* ms, void* begin, void* end) {
  ENTER(cuEventElapsedTime);
  if (cuEventQuery(begin) != kSuccess || cuEventQuery(end) != kSuccess) return kNotReady;
  *ms = static_cast<float>(event_of(end)->at->load() - event_of(begin)->at->load()) / 1e6F;
  return kSuccess;
}

int cuStreamIsCapturing(void* handle, int* status) {
  ENTER(cuStreamIsCapturing);
  Machine& machine = Machine::the();
  const std::shared_ptr<Stream> stream = machine.stream(handle);
  if (stream == nullptr || status == nullptr) return kInvalidHandle;
  const bool is_legacy = reinterpret_cast<uintptr_t>(handle) <= 1;
  if (is_legacy && machine.any_capture()) return kCaptureImplicit;
  *status = stream->capture != nullptr ? 1 : 0;
  return kSuccess;
}

int cuStreamBeginCapture_v2(void* handle, int mode) {
  ENTER(cuStreamBeginCapture_v2);
  const std::shared_ptr<Stream> stream = Machine::the().stream(handle);
  if (stream == nullptr || mode < 0 || mode > 2) return kInvalidValue;
  if (reinterpret_cast<uintptr_t>(handle) <= 1) return kCaptureUnsupported;
  stream->capture = std::make_shared<Graph>();
  return kSuccess;
}

int cuStreamEndCapture(void* handle, void** graph) {
  ENTER(cuStreamEndCapture);
  const std::shared_ptr<Stream> stream = Machine::the().stream(handle);
  if (stream == nullptr || graph == nullptr || stream->capture == nullptr) return kInvalidValue;
  *graph = keep(std::exchange(stream->capture, nullptr));
  return kSuccess;
}

int cuGraphInstantiateWithFlags(void** executable, void* graph, unsigned long long /*flags*/) {
  ENTER(cuGraphInstantiateWithFlags);
  if (executable == nullptr || graph == nullptr) return kInvalidValue;
  *executable = keep(*static_cast<std::shared_ptr<Graph>*>(graph));
  return kSuccess;
}

int cuGraphLaunch(void* executable, void* handle) {
  ENTER(cuGraphLaunch);
  const std::shared_ptr<Stream> stream = Machine::the().stream(handle);
  if (stream == nullptr || executable == nullptr) return kInvalidValue;
  const auto graph = *static_cast<std::shared_ptr<Graph>*>(executable);
  Machine::the().submit(*stream, [graph] {
    for (const Work& work : graph->works) work();
  });
  return kSuccess;
}

int cuGraphDestroy(void* graph) {
  ENTER(cuGraphDestroy);
  delete static_cast<std::shared_ptr<Graph>*>(graph);
  return kSuccess;
}

int cuGraphExecDestroy(void* executable) {
  ENTER(cuGraphExecDestroy);
  delete static_cast<std::shared_ptr<Graph>*>(executable);
  return kSuccess;
}

int cuThreadExchangeStreamCaptureMode(int* mode) {
  thread_local int current = 0;
  if (mode == nullptr || *mode < 0 || *mode > 2) return kInvalidValue;
  *mode = std::exchange(current, *mode);
  return kSuccess;
}

}  // extern "C"
// NOLINTEND(readability-identifier-naming)
