// Copies and fills. What CUDA's page on the synchronization of the API says of pageable memory and
// of calls without "Async" holds.
// SPDX-License-Identifier: Apache-2.0

#include <cstring>
#include <memory>
#include <vector>

#include "tests/cuda/driver/capture.h"
#include "tests/cuda/driver/state.h"
#include "tests/cuda/driver/submit.h"

using namespace banyan::standin;  // NOLINT(google-build-using-namespace): these are its functions

namespace {

enum class Side : uint8_t { kAny, kHost, kDevice };

struct Ends {
  Located to;
  Located from;
  size_t bytes;
};

bool fits(const Located& located, Side side) {
  if (!located.whole) return false;
  switch (side) {
    case Side::kAny: return true;
    case Side::kHost:  // managed memory is of both
      return located.is_host() || located.of->sort == MemorySort::kManaged;
    case Side::kDevice: return !located.is_pageable();
  }
  return false;
}

Work copying(const Ends& ends) {
  Work work;
  ends.to.add_to(work.uses);
  ends.from.add_to(work.uses);
  work.run = [to = ends.to.own, from = ends.from.own, bytes = ends.bytes](const Running&) {
    std::memmove(to, from, bytes);
  };
  return work;
}

// From a copy of what the source is now.
Work copying_staged(const Ends& ends) {
  auto staged = std::make_shared<std::vector<std::byte>>(ends.from.own, ends.from.own + ends.bytes);
  Work work;
  ends.to.add_to(work.uses);
  work.run = [to = ends.to.own, staged](const Running&) {
    std::memcpy(to, staged->data(), staged->size());
  };
  return work;
}

int copy_async(const SharedStream& stream, const Ends& ends) {
  const bool staged = ends.from.is_pageable() && !ends.to.is_host() && !is_capturing(*stream);
  const Submitted done = submit(stream, staged ? copying_staged(ends) : copying(ends));
  if (done.result != kSuccess || done.captured) return done.result;
  const bool between_hosts = ends.from.is_host() && ends.to.is_host();
  return between_hosts || ends.to.is_pageable() ? wait_for(done.mark) : kSuccess;
}

int copy_now(const SharedStream& stream, const Ends& ends) {
  if (ends.from.is_pageable() && !ends.to.is_host()) {
    const Submitted before = submit(stream, {});
    if (before.result != kSuccess) return before.result;
    if (const int error = wait_for(before.mark); error != kSuccess) return error;
    return submit(stream, copying_staged(ends)).result;
  }
  const Submitted done = submit(stream, copying(ends));
  if (done.result != kSuccess) return done.result;
  const bool on_devices = !ends.from.is_host() && !ends.to.is_host();
  return on_devices ? kSuccess : wait_for(done.mark);
}

struct Sides {
  Side to;
  Side from;
};

// Without a stream it is the default one, and waits as the calls without "Async" do.
int copy(const char* function, CuAddress to, CuAddress from, size_t bytes, Sides sides,
         const CuHandle* handle) {
  return call_on_stream(
      function, handle == nullptr ? nullptr : *handle, [&](Context&, const SharedStream& stream) {
        if (const int refused = handle == nullptr ? refuse_asking(stream) : kSuccess;
            refused != kSuccess)
          return refused;
        if (bytes == 0) return kSuccess;
        const MemoryTable& memory = state().memory;
        const Ends ends{memory.locate(to, bytes), memory.locate(from, bytes), bytes};
        if (!fits(ends.to, sides.to) || !fits(ends.from, sides.from)) return kInvalidValue;
        const int device = stream->context().device();
        if (!ends.to.may_be_used_by(device, true) || !ends.from.may_be_used_by(device, false))
          return kInvalidValue;
        return handle == nullptr ? copy_now(stream, ends) : copy_async(stream, ends);
      });
}

template <typename Value>
int fill(const char* function, CuAddress to, Value value, size_t count, const CuHandle* handle) {
  return call_on_stream(
      function, handle == nullptr ? nullptr : *handle, [&](Context&, const SharedStream& stream) {
        if (const int refused = handle == nullptr ? refuse_asking(stream) : kSuccess;
            refused != kSuccess)
          return refused;
        if (count == 0) return kSuccess;
        const Located target = state().memory.locate(to, count * sizeof(Value));
        if (!fits(target, Side::kDevice) || to % sizeof(Value) != 0 ||
            count > SIZE_MAX / sizeof(Value) ||
            !target.may_be_used_by(stream->context().device(), true))
          return kInvalidValue;
        Work work;
        target.add_to(work.uses);
        work.run = [at = target.own, value, count](const Running&) {
          if constexpr (sizeof value == 1) {
            std::memset(at, value, count);
          } else {
            for (size_t i = 0; i < count; ++i)
              std::memcpy(at + i * sizeof value, &value, sizeof value);
          }
        };
        const Submitted done = submit(stream, std::move(work));
        const bool waits = handle == nullptr && target.is_host() && done.result == kSuccess;
        return waits ? wait_for(done.mark) : done.result;
      });
}

}  // namespace

int cuMemcpy(CuAddress to, CuAddress from, size_t bytes) {
  return copy(__func__, to, from, bytes, {Side::kAny, Side::kAny}, nullptr);
}

int cuMemcpyHtoD_v2(CuAddress to, const void* from, size_t bytes) {
  return copy(__func__, to, address_of(from), bytes, {Side::kDevice, Side::kHost}, nullptr);
}

int cuMemcpyDtoH_v2(void* to, CuAddress from, size_t bytes) {
  return copy(__func__, address_of(to), from, bytes, {Side::kHost, Side::kDevice}, nullptr);
}

int cuMemcpyDtoD_v2(CuAddress to, CuAddress from, size_t bytes) {
  return copy(__func__, to, from, bytes, {Side::kDevice, Side::kDevice}, nullptr);
}

int cuMemcpyAsync(CuAddress to, CuAddress from, size_t bytes, CuHandle stream) {
  return copy(__func__, to, from, bytes, {Side::kAny, Side::kAny}, &stream);
}

int cuMemcpyHtoDAsync_v2(CuAddress to, const void* from, size_t bytes, CuHandle stream) {
  return copy(__func__, to, address_of(from), bytes, {Side::kDevice, Side::kHost}, &stream);
}

int cuMemcpyDtoHAsync_v2(void* to, CuAddress from, size_t bytes, CuHandle stream) {
  return copy(__func__, address_of(to), from, bytes, {Side::kHost, Side::kDevice}, &stream);
}

int cuMemcpyDtoDAsync_v2(CuAddress to, CuAddress from, size_t bytes, CuHandle stream) {
  return copy(__func__, to, from, bytes, {Side::kDevice, Side::kDevice}, &stream);
}

int cuMemsetD8_v2(CuAddress to, unsigned char value, size_t count) {
  return fill(__func__, to, value, count, nullptr);
}

int cuMemsetD8Async(CuAddress to, unsigned char value, size_t count, CuHandle stream) {
  return fill(__func__, to, value, count, &stream);
}

int cuMemsetD32_v2(CuAddress to, unsigned value, size_t count) {
  return fill(__func__, to, value, count, nullptr);
}

int cuMemsetD32Async(CuAddress to, unsigned value, size_t count, CuHandle stream) {
  return fill(__func__, to, value, count, &stream);
}
