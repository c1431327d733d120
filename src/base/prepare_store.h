// Asks for a cache line that is about to be written, and that another core may hold.
// SPDX-License-Identifier: Apache-2.0

#pragma once

namespace banyan {

// Harmless for any address; nothing on processors that have no such instruction.
inline void prepare_store(const void* address) {
#if defined(__x86_64__)
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(address)));
#else
  __builtin_prefetch(address, 1);
#endif
}

}  // namespace banyan
