// This is memmove, without a trap of the string instructions that C libraries use from about 2 KiB
// on. Where `to` lies a few bytes behind `from` modulo 4 KiB, some processors copy at a twentieth
// of their speed (AMD Zen 3 and 4: glibc bug 30994). A page, such as a slot, and most large blocks
// of malloc, which begin 16 bytes behind one, lie so.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace banyan {

#if defined(__SSE2__)
// No overlap.
inline void copy_by_vectors(std::byte* to, const std::byte* from, size_t bytes) {
  constexpr size_t kStep = 4 * sizeof(__m128i);
  for (; bytes >= kStep; bytes -= kStep, to += kStep, from += kStep) {
    const auto* in = reinterpret_cast<const __m128i*>(from);
    auto* out = reinterpret_cast<__m128i*>(to);
    const __m128i a = _mm_loadu_si128(in), b = _mm_loadu_si128(in + 1);
    const __m128i c = _mm_loadu_si128(in + 2), d = _mm_loadu_si128(in + 3);
    _mm_storeu_si128(out, a);
    _mm_storeu_si128(out + 1, b);
    _mm_storeu_si128(out + 2, c);
    _mm_storeu_si128(out + 3, d);
  }
  std::memcpy(to, from, bytes);
}

// Whether `to` lies 1 to 63 bytes behind `from` modulo 4 KiB, and nothing overlaps.
inline bool is_string_trap(const std::byte* to, const std::byte* from, size_t bytes) {
  const uintptr_t behind = reinterpret_cast<uintptr_t>(to) - reinterpret_cast<uintptr_t>(from);
  return behind % 4096 - 1 < 63 && behind >= bytes && -behind >= bytes;
}
#endif

inline void copy_bytes(std::byte* to, const std::byte* from, size_t bytes) {
#if defined(__SSE2__)
  constexpr size_t kStringsLeast = 1024;
  if (bytes >= kStringsLeast && is_string_trap(to, from, bytes))
    return copy_by_vectors(to, from, bytes);
#endif
  std::memmove(to, from, bytes);
}

}  // namespace banyan
