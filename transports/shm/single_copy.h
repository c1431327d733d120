// Reads the memory of another process of the same user: one copy instead of two through slots.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "banyan/status.h"

namespace banyan::shm {

// Whose memory.
struct Owner {
  int pid = 0;
};

// Copies [address, address + bytes) of the owner to `to`. 0, or an errno: ESRCH, EPERM, ...
int read_memory(const Owner& owner, uint64_t address, std::byte* to, size_t bytes);
// kPeerLost: the process is gone; kCorrupt: it has no such memory; kSystem: it may not be read.
Code code_of(int error);
// For an owner that could be read when the ranks met.
std::string why_not_read(int error);

// Tells whether that works: the owner says that `value` is at `address`. In another pid namespace,
// say, its pid belongs to somebody else.
bool can_read(const Owner& owner, uint64_t address, uint64_t value);

}  // namespace banyan::shm
