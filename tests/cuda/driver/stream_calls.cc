// Streams, and what they do beside copies and kernels.
// SPDX-License-Identifier: Apache-2.0

#include <chrono>
#include <thread>
#include <type_traits>
#include <utility>

#include "tests/cuda/driver/capture.h"
#include "tests/cuda/driver/state.h"
#include "tests/cuda/driver/submit.h"

using namespace banyan::standin;  // NOLINT(google-build-using-namespace): these are its functions

namespace {

constexpr unsigned kNonBlocking = 1;  // CU_STREAM_NON_BLOCKING

int create_stream(const char* function, CuHandle* handle, unsigned flags, int priority) {
  return call_in_context(function, [&](Context& context) {
    if (handle == nullptr || flags > kNonBlocking) return kInvalidValue;
    const StreamOrder order =
        flags == kNonBlocking ? StreamOrder::kNonBlocking : StreamOrder::kBlocking;
    *handle = state().streams.add(context.add_stream(order, priority));
    return kSuccess;
  });
}

// Reached when all that the stream has to do is done, of which others' work is a part where it is
// the legacy one.
Mark end_of(const SharedStream& stream) {
  if (stream->order() != StreamOrder::kLegacy) return stream->last();
  return stream->context().submit(*stream, {});
}

// The legacy stream as such: whoever asks must not have it wait for what nobody waits for.
bool is_done(const SharedStream& stream) {
  const Mark last = stream->last();
  if (!last.reached()) return false;
  return stream->order() != StreamOrder::kLegacy || stream->context().blocking_streams_are_done();
}

template <typename Word>
bool holds(Word now, Word value, unsigned condition) {
  using Signed = std::make_signed_t<Word>;
  switch (condition) {
    case 0: return static_cast<Signed>(now - value) >= 0;  // cyclic
    case 1: return now == value;
    case 2: return (now & value) != 0;
    default: return static_cast<Word>(~(now | value)) != 0;
  }
}

struct FoundWord {
  Located located;
  bool valid;
};

FoundWord find_word(CuAddress address, size_t bytes) {
  Located located = state().memory.locate(address, bytes);
  const bool valid = located.whole && !located.is_pageable() && address % bytes == 0;
  return {std::move(located), valid};
}

template <typename Word>
int wait_value(const char* function, CuHandle handle, CuAddress address, Word value,
               unsigned flags) {
  constexpr unsigned kFlush = 1U << 30;  // which an H200 does not have
  return call_on_stream(function, handle, [&](Context&, const SharedStream& stream) {
    if ((flags & kFlush) != 0) return kNotSupported;
    const FoundWord word = find_word(address, sizeof(Word));
    if (!word.valid || flags > 3) return kInvalidValue;
    Work work{.uses = {word.located.of}};
    work.run = [at = reinterpret_cast<Word*>(word.located.own), value,
                flags](const Running& running) {
      constexpr std::chrono::microseconds kNap{20};
      while (!holds(__atomic_load_n(at, __ATOMIC_ACQUIRE), value, flags)) {
        if (running.is_given_up()) return;
        std::this_thread::sleep_for(kNap);
      }
    };
    return submit(stream, std::move(work)).result;
  });
}

template <typename Word>
int write_value(const char* function, CuHandle handle, CuAddress address, Word value,
                unsigned flags) {
  return call_on_stream(function, handle, [&](Context&, const SharedStream& stream) {
    const FoundWord word = find_word(address, sizeof(Word));
    if (!word.valid || flags > 1) return kInvalidValue;
    Work work{.uses = {word.located.of}};
    work.run = [at = reinterpret_cast<Word*>(word.located.own), value](const Running&) {
      __atomic_store_n(at, value, __ATOMIC_RELEASE);
    };
    return submit(stream, std::move(work)).result;
  });
}

}  // namespace

int cuStreamCreate(CuHandle* stream, unsigned flags) {
  return create_stream(__func__, stream, flags, 0);
}

int cuStreamCreateWithPriority(CuHandle* stream, unsigned flags, int priority) {
  return create_stream(__func__, stream, flags, priority);
}

int cuStreamDestroy_v2(CuHandle stream) {
  return call_in_context(__func__, [&](Context&) {
    const SharedStream found = state().streams.find(stream);
    if (found == nullptr) return kInvalidHandle;
    if (const int refused = refuse_if_capturing(found); refused != kSuccess) return refused;
    const SharedStream taken = state().streams.take(stream);
    if (taken == nullptr) return kInvalidHandle;
    taken->close();
    if (taken->last().ticket == 0) taken->context().forget(*taken);
    return kSuccess;
  });
}

int cuStreamQuery(CuHandle stream) {
  return call_on_stream(__func__, stream, [](Context&, const SharedStream& found) {
    if (const int refused = refuse_asking(found); refused != kSuccess) return refused;
    return is_done(found) ? kSuccess : kNotReady;
  });
}

int cuStreamSynchronize(CuHandle stream) {
  return call_on_stream(__func__, stream, [](Context&, const SharedStream& found) {
    if (const int refused = refuse_asking(found); refused != kSuccess) return refused;
    return wait_for(end_of(found));
  });
}

int cuStreamGetCtx(CuHandle stream, CuHandle* context) {
  return call_on_stream(__func__, stream, [&](Context&, const SharedStream& found) {
    if (context == nullptr) return kInvalidValue;
    *context = found->context().handle();
    return kSuccess;
  });
}

int cuStreamGetFlags(CuHandle stream, unsigned* flags) {
  return call_on_stream(__func__, stream, [&](Context&, const SharedStream& found) {
    if (flags == nullptr) return kInvalidValue;
    *flags = found->order() == StreamOrder::kNonBlocking ? kNonBlocking : 0;
    return kSuccess;
  });
}

int cuStreamGetPriority(CuHandle stream, int* priority) {
  return call_on_stream(__func__, stream, [&](Context&, const SharedStream& found) {
    if (priority == nullptr) return kInvalidValue;
    *priority = found->priority();
    return kSuccess;
  });
}

int cuLaunchHostFunc(CuHandle stream, void (*function)(void*), void* argument) {
  return call_on_stream(__func__, stream, [&](Context&, const SharedStream& found) {
    if (function == nullptr) return kInvalidValue;
    Work work;
    work.run = [function, argument](const Running&) {
      thread_state().calls_host_function = true;
      function(argument);
      thread_state().calls_host_function = false;
    };
    return submit(found, std::move(work)).result;
  });
}

int cuStreamWaitValue32_v2(CuHandle stream, CuAddress address, uint32_t value, unsigned flags) {
  return wait_value(__func__, stream, address, value, flags);
}

int cuStreamWaitValue64_v2(CuHandle stream, CuAddress address, uint64_t value, unsigned flags) {
  return wait_value(__func__, stream, address, value, flags);
}

int cuStreamWriteValue32_v2(CuHandle stream, CuAddress address, uint32_t value, unsigned flags) {
  return write_value(__func__, stream, address, value, flags);
}

int cuStreamWriteValue64_v2(CuHandle stream, CuAddress address, uint64_t value, unsigned flags) {
  return write_value(__func__, stream, address, value, flags);
}
