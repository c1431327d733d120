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

#include <atomic>
#include <cstdint>
#include <memory>

#include "banyan/status.h"
#include "src/base/clock.h"
#include "src/base/cuda_driver.h"
#include "src/base/descriptor.h"
#include "src/engine/execution.h"

namespace banyan {

class StreamTurn final : public StartGate, public Hook {
 public:
  // For turns in that stream, one after another, whose context is current. kUnsupported:
  // check_driver(). kSystem, kCuda: no descriptor, no event or no pinned memory is to be had.
  static Result<std::unique_ptr<StreamTurn>> create(const CudaFunctions& cuda, void* stream);
  StreamTurn(const StreamTurn&) = delete;
  StreamTurn& operator=(const StreamTurn&) = delete;
  // Requires that no turn is under way. A stream that has yet to go through the last one is waited
  // for, at most a second; then what it still reads is left to the process.
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
  int descriptor() const override { return shared_->bell.get(); }
  void ended(const Execution& /*execution*/) override { give_up(); }

 private:
  // What the stream uses at its own time.
  struct Shared {
    const CudaFunctions& cuda;
    Descriptor bell;
    std::atomic<uint32_t> reached{0};  // counts the turns that the stream has got to
    uint32_t* word = nullptr;          // pinned: how many have ended

    Shared(const CudaFunctions& driver, Descriptor rung) : cuda(driver), bell(std::move(rung)) {}
    Shared(const Shared&) = delete;
    Shared& operator=(const Shared&) = delete;
    ~Shared();
  };

  StreamTurn(std::unique_ptr<Shared> shared, void* stream)
      : shared_(std::move(shared)), cuda_(shared_->cuda), stream_(stream) {}
  Status prepare();
  Status enqueue();
  static void reach(void* shared);

  std::unique_ptr<Shared> shared_;
  const CudaFunctions& cuda_;
  CudaFunctions::Handle stream_;
  CudaFunctions::Handle context_ = nullptr;  // of whoever has made it
  CudaFunctions::Handle gone_on_ = nullptr;  // event: the stream has gone through the last turn
  CudaFunctions::Address word_of_gpu_ = 0;
  uint32_t entered_ = 0;  // turns
  TimePoint looks_next_;  // at the stream
};

}  // namespace banyan
