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
#include "src/cuda/kernel_room.h"
#include "src/engine/local_work.h"

namespace banyan {

// Everything requires its context to be current.
class CopyLine {
 public:
  using Handle = CudaFunctions::Handle;

  explicit CopyLine(const CudaFunctions& cuda) : cuda_(cuda), room_(cuda) {}
  CopyLine(const CopyLine&) = delete;
  CopyLine& operator=(const CopyLine&) = delete;
  ~CopyLine();

  Status open();

  // `enqueue` is called with the stream. `message_bytes`: of the message that it writes.
  template <typename Enqueue>
  Status begin(uint64_t cookie, uint64_t message_bytes, const Enqueue& enqueue) {
    BANYAN_TRY(have_event());
    BANYAN_TRY(drained_unless_ok(enqueue(stream_)));
    return note({cookie, message_bytes, nullptr, nullptr});
  }
  // Only enqueues; where that fails, nothing of it is under way.
  template <typename Enqueue>
  Status enqueue(const Enqueue& enqueue) {
    return drained_unless_ok(enqueue(stream_));
  }
  // `enqueue` is called with the stream, and with so many bytes of the GPU to work in.
  template <typename Enqueue>
  Status begin_in_room(uint64_t cookie, size_t room_bytes, const Enqueue& enqueue) {
    const Result<std::byte*> room = room_.at_least(room_bytes);
    BANYAN_TRY(room.status());
    return begin(cookie, 0, [&](Handle stream) { return enqueue(stream, *room); });
  }
  // Kernels say themselves how many bytes their message has: `enqueue` is called with the word
  // where they say it, too.
  template <typename Enqueue>
  Status begin_counted(uint64_t cookie, size_t room_bytes, const Enqueue& enqueue) {
    BANYAN_TRY(have_event());
    const Result<std::byte*> room = room_.at_least(room_bytes);
    BANYAN_TRY(room.status());
    const Result<uint64_t*> word = room_.take_word();
    BANYAN_TRY(word.status());
    Status begun = drained_unless_ok(enqueue(stream_, *room, *word));
    if (begun.ok()) begun = note({cookie, 0, *word, nullptr});
    if (!begun.ok()) room_.put_back(*word);
    return begun;
  }
  Status begin_copy(void* to, const void* from, size_t bytes, uint64_t cookie);

  bool idle() const { return begun_.empty(); }
  // Whether the oldest has ended; kCuda: it has failed.
  Result<bool> ended() const;
  LocalWork::End take();

  // The bell rings when the oldest has ended.
  Status ring_for_oldest(const Descriptor& bell);

  Status finish();

 private:
  struct Begun {
    uint64_t cookie;
    uint64_t message_bytes;
    uint64_t* counted;  // where kernels say them; null: these are they
    Handle event;
  };

  Status have_event();
  // Where only some of several kernels were enqueued, nobody would wait for those.
  Status drained_unless_ok(Status enqueued);
  // The event is the next free one.
  Status note(Begun begun);

  const CudaFunctions& cuda_;
  Handle stream_ = nullptr;
  Handle bell_stream_ = nullptr;  // host functions in stream_ would hold back the copies behind
  KernelRoom room_;
  std::deque<Begun> begun_;
  std::vector<Handle> free_;    // events
  Handle rings_for_ = nullptr;  // the oldest copy's event, where the bell was asked for it
};

}  // namespace banyan
