// Tells the core that this is a waiting loop.
// SPDX-License-Identifier: Apache-2.0

#pragma once

namespace banyan {

inline void relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace banyan
