// The floating-point mode of a thread while it computes for the library.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace banyan {

// As long as it lives, this thread rounds to nearest even, keeps subnormals and traps nothing. A
// caller may have another mode (as torch.set_flush_denormal and -ffast-math leave it), and the
// thread that computes while nobody waits has its own: ranks would come to other bits.
class DefaultFloatMode {
 public:
  DefaultFloatMode() : before_(current()) {
    if (changes()) load(kDefault);
  }
  DefaultFloatMode(const DefaultFloatMode&) = delete;
  DefaultFloatMode& operator=(const DefaultFloatMode&) = delete;
  ~DefaultFloatMode() {
    if (changes()) load(before_);
  }

 private:
#if defined(__x86_64__)
  using Word = uint32_t;
  static constexpr Word kDefault = 0x1f80;
  static constexpr Word kHappened = 0x3f;  // what the last operations met: no mode
  static Word current() {
    return _mm_getcsr();
  }
  static void load(Word mode) {
    _mm_setcsr(mode);
  }
#elif defined(__aarch64__)
  using Word = uint64_t;
  static constexpr Word kDefault = 0;
  static constexpr Word kHappened = 0;
  static Word current() {
    Word mode = 0;
    asm volatile("mrs %0, fpcr" : "=r"(mode));
    return mode;
  }
  static void load(Word mode) {
    asm volatile("msr fpcr, %0" : : "r"(mode) : "memory");
  }
#else
#error "how is the floating-point mode set here?"
#endif

  bool changes() const {
    return (before_ & ~kHappened) != kDefault;
  }

  const Word before_;
};

}  // namespace banyan
