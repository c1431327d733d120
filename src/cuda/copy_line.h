// Copies and kernels of one stream, which end in the order in which they were begun.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "banyan/status.h"
#include "src/base/cuda_driver.h"
#include "src/base/descriptor.h"
#include "src/cuda/driver_calls.h"
#include "src/engine/local_work.h"

namespace banyan {

// Everything requires its context to be current.
class CopyLine {
 public:
  using Handle = CudaFunctions::Handle;

  explicit CopyLine(const CudaFunctions& cuda) : cuda_(cuda) {}
  CopyLine(const CopyLine&) = delete;
  CopyLine& operator=(const CopyLine&) = delete;
  ~CopyLine();

  Status open();

  // `enqueue` is called with the stream. `message_bytes`: of the message that it writes.
  template <typename Enqueue>
  Status begin(uint64_t cookie, uint64_t message_bytes, const Enqueue& enqueue) {
    BANYAN_TRY(have_event());
    BANYAN_TRY(enqueue(stream_));
    return note(cookie, message_bytes);
  }
  Status begin_copy(void* to, const void* from, size_t bytes, uint64_t cookie);

  bool idle() const { return begun_.empty(); }
  // Whether the oldest has ended; kCuda: it has failed.
  Result<bool> ended() const;
  LocalWork::End take();

  // The bell rings when the oldest has ended.
  Status ring_for_oldest(const Descriptor& bell);

  Status finish();
  void abandon() {
    if (!idle()) (void)finish();
  }

 private:
  struct Begun {
    uint64_t cookie;
    uint64_t message_bytes;
    Handle event;
  };

  Status have_event();
  Status note(uint64_t cookie, uint64_t message_bytes);

  const CudaFunctions& cuda_;
  Handle stream_ = nullptr;
  Handle bell_stream_ = nullptr;  // host functions in stream_ would hold back the copies behind
  std::deque<Begun> begun_;
  std::vector<Handle> free_;    // events
  Handle rings_for_ = nullptr;  // the oldest copy's event, where the bell was asked for it
};

}  // namespace banyan
