// What streams capture: work that is kept as a graph, and not done. Calls that would break the
// rules of a capture are found here.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <thread>
#include <vector>

#include "tests/cuda/driver/state.h"

namespace banyan::standin {

enum CaptureMode : int { kCaptureGlobal = 0, kCaptureThreadLocal = 1, kCaptureRelaxed = 2 };

struct Capture {
  const Stream* origin;
  Context& context;
  std::thread::id thread;
  int mode;
  uint64_t id;
  bool invalidated = false;
  std::vector<CaptureNode> nodes{};
  std::vector<SharedStream> streams{};  // that are in it, the origin first
};

int begin_capture(const SharedStream& stream, int mode);
struct EndedCapture {
  int result;
  std::vector<CaptureNode> nodes{};
};
EndedCapture end_capture(const SharedStream& stream);
struct CaptureStatus {
  int result;
  int status = 0;  // CUstreamCaptureStatus
  uint64_t id = 0;
  size_t dependencies = 0;
};
CaptureStatus capture_status(const SharedStream& stream);

// Calls that ask or wait for a stream, for an event, or for the whole context: what is not kSuccess
// has invalidated a capture.
int refuse_if_capturing(const SharedStream& stream);
// And where it may be any stream's work, also what refuse_unsafe() does.
int refuse_asking(const SharedStream& stream);
int refuse_if_captured(const EventRecord* record);
int refuse_if_any_captures(const Context& context);
void forget_captures(const Context& context);

}  // namespace banyan::standin
