// These copies go past the caches, where the machine has stores for that: their destination is not
// read again soon. They spare reading the lines that they overwrite, and leave the caches to
// others.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace banyan {

// As memcpy. What it wrote is visible to others as after memcpy.
inline void copy_far(std::byte* to, const std::byte* from, size_t bytes) {
#if defined(__SSE2__)
  constexpr size_t kLine = 64;
  const size_t head = std::min(bytes, -reinterpret_cast<uintptr_t>(to) % kLine);
  std::memcpy(to, from, head);
  to += head;
  from += head;
  bytes -= head;
  for (; bytes >= kLine; bytes -= kLine) {
    for (size_t i = 0; i < kLine; i += sizeof(__m128i))
      _mm_stream_si128(reinterpret_cast<__m128i*>(to + i),
                       _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i)));
    to += kLine;
    from += kLine;
  }
  _mm_sfence();
#endif
  std::memcpy(to, from, bytes);
}

}  // namespace banyan
