// An eventfd by which one thread wakes another.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <fmt/core.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "banyan/status.h"
#include "src/base/descriptor.h"
#include "src/base/system_error.h"

namespace banyan {

inline Result<Descriptor> make_bell() {
  Descriptor bell(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!bell.valid()) return system_error("eventfd", errno);
  return bell;
}

inline void ring(const Descriptor& bell) {
  const uint64_t one = 1;
  // Fails only when 2^64 - 2 rings are unread, and then it is ringing.
  if (write(bell.get(), &one, sizeof one) < 0) return;
}

inline void quiet(const Descriptor& bell) {
  uint64_t count = 0;
  if (read(bell.get(), &count, sizeof count) < 0) return;  // was quiet
}

}  // namespace banyan
