// Captures, and the graphs that they give. A launch does the nodes one after the other, in the
// order in which they were captured, which is one that the graph allows.
// SPDX-License-Identifier: Apache-2.0

#include <memory>
#include <utility>

#include "tests/cuda/driver/capture.h"
#include "tests/cuda/driver/submit.h"

using namespace banyan::standin;  // NOLINT(google-build-using-namespace): these are its functions

namespace {

// The memory of a node must still be there, which is not known before it is done.
void run_nodes(const std::vector<CaptureNode>& nodes, const Running& running) {
  for (const CaptureNode& node : nodes) {
    if (running.is_given_up()) return;
    for (const SharedAllocation& used : node.work.uses)
      if (used->freed) return running.context.break_with(kIllegalAddress);
    running.stream.dawdle();
    if (node.work.run) node.work.run(running);
  }
}

}  // namespace

int cuStreamBeginCapture_v2(CuHandle stream, int mode) {
  return call_on_stream(__func__, stream, [&](Context&, const SharedStream& found) {
    return begin_capture(found, mode);
  });
}

int cuStreamEndCapture(CuHandle stream, CuHandle* graph) {
  return call_on_stream(__func__, stream, [&](Context&, const SharedStream& found) {
    if (graph == nullptr) return kInvalidValue;
    *graph = nullptr;
    EndedCapture ended = end_capture(found);
    if (ended.result != kSuccess) return ended.result;
    *graph = state().graphs.add(
        std::make_shared<CapturedGraph>(found->context(), std::move(ended.nodes)));
    return kSuccess;
  });
}

int cuStreamIsCapturing(CuHandle stream, int* status) {
  return call_on_stream(__func__, stream, [&](Context&, const SharedStream& found) {
    if (status == nullptr) return kInvalidValue;
    const CaptureStatus is = capture_status(found);
    *status = is.status;
    return is.result;
  });
}

int cuStreamGetCaptureInfo_v2(CuHandle stream, int* status, uint64_t* id, CuHandle* graph,
                              const CuHandle** dependencies, size_t* count) {
  return call_on_stream(__func__, stream, [&](Context&, const SharedStream& found) {
    if (status == nullptr) return kInvalidValue;
    // Nobody may add nodes by hand here.
    if (graph != nullptr || dependencies != nullptr) return kNotSupported;
    const CaptureStatus is = capture_status(found);
    *status = is.status;
    if (id != nullptr) *id = is.id;
    if (count != nullptr) *count = is.dependencies;
    return is.result;
  });
}

int cuThreadExchangeStreamCaptureMode(int* mode) {
  return call(__func__, [&] {
    if (mode == nullptr || *mode < kCaptureGlobal || *mode > kCaptureRelaxed) return kInvalidValue;
    std::swap(*mode, thread_state().capture_mode);
    return kSuccess;
  });
}

int cuGraphInstantiateWithFlags(CuHandle* executable, CuHandle graph, unsigned long long flags) {
  return call_in_context(__func__, [&](Context&) {
    if (executable == nullptr || flags != 0) return kInvalidValue;
    const std::shared_ptr<CapturedGraph> found = state().graphs.find(graph);
    if (found == nullptr) return kInvalidHandle;
    *executable =
        state().executables.add(std::make_shared<CapturedGraph>(found->context, found->nodes));
    return kSuccess;
  });
}

// Launches of one graph wait for each other.
int cuGraphLaunch(CuHandle executable, CuHandle stream) {
  return call_on_stream(__func__, stream, [&](Context&, const SharedStream& found) {
    const std::shared_ptr<CapturedGraph> graph = state().executables.find(executable);
    if (graph == nullptr) return kInvalidHandle;
    Work work;
    work.run = [graph](const Running& running) { run_nodes(graph->nodes, running); };
    const std::lock_guard lock(graph->mutex);
    const Submitted done = submit(found, std::move(work), {graph->last});
    if (done.result == kSuccess && !done.captured) graph->last = done.mark;
    return done.result;
  });
}

int cuGraphDestroy(CuHandle graph) {
  return call_in_context(__func__, [&](Context&) {
    return state().graphs.take(graph) == nullptr ? kInvalidHandle : kSuccess;
  });
}

int cuGraphExecDestroy(CuHandle executable) {
  return call_in_context(__func__, [&](Context&) {
    return state().executables.take(executable) == nullptr ? kInvalidHandle : kSuccess;
  });
}
