// A call's turn in a CUDA stream: the call begins when the stream has got there, and what the
// caller enqueues behind it waits until the call has ended. No thread waits for either.
//
//   Result<std::unique_ptr<StreamTurn>> turn = StreamTurn::create(cuda, stream);
//   BANYAN_TRY((*turn)->enter());  // returns when it is enqueued
//   call.gate = turn->get();
//   call.hook = turn->get();  // and the call is started
//
// The stream calls a function of the host when it is there, which opens the gate, and waits for a
// word in pinned memory, which the end of the call writes (CUDA Driver API, "Stream Memory
// Operations").
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <memory>

#include "banyan/status.h"
#include "src/base/clock.h"
#include "src/base/cuda_driver.h"
#include "src/engine/execution.h"

namespace banyan {

class StreamTurn final : public StartGate, public Hook {
 public:
  // For turns in that stream, one after another, whose context is current. What they need is taken
  // over from one that has been destroyed, where its stream has gone through: so, once warm,
  // nothing is allocated, for which the driver may wait for all streams. kUnsupported:
  // check_driver(). kSystem, kCuda: no descriptor, no event or no pinned memory is to be had.
  static Result<std::unique_ptr<StreamTurn>> create(const CudaFunctions& cuda, void* stream);
  StreamTurn(const StreamTurn&) = delete;
  StreamTurn& operator=(const StreamTurn&) = delete;
  // Requires that no turn is under way. The stream may still be on its way through the last one.
  ~StreamTurn() override;

  // Enqueues the next one. Requires that none is under way. kInvalidUsage: the stream is being
  // captured, and goes on being so. kCuda: the driver refuses.
  Status enter();
  // Enqueues a copy without a turn, which any thread of the host may touch or a GPU.
  Status copy(void* to, const void* from, size_t bytes);
  CudaFunctions::Handle stream() const { return stream_; }
  // What was entered is not started: the stream goes on.
  void give_up();

  // Also where the stream has failed; then its memory cannot be reached, and the call fails.
  bool is_open() override;
  int descriptor() const override;
  void ended(const Execution& /*execution*/) override { give_up(); }

 private:
  struct Place;
  class Places;

  StreamTurn(std::unique_ptr<Place> place, void* stream);
  Status enqueue();
  static void reach(void* place);

  std::unique_ptr<Place> place_;
  const CudaFunctions& cuda_;
  CudaFunctions::Handle stream_;
  TimePoint looks_next_;  // at the stream
};

}  // namespace banyan
