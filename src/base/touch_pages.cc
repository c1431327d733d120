// SPDX-License-Identifier: Apache-2.0

#include "src/base/touch_pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

namespace banyan {

void touch_pages(const std::byte* begin, size_t bytes, Touch touch) {
  // Linux 5.14, younger than the headers of Debian 12.
  constexpr int kPopulateRead = 22, kPopulateWrite = 23;
  if (bytes == 0) return;
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t before = reinterpret_cast<uintptr_t>(begin) % page;
  auto* first = const_cast<std::byte*>(begin) - before;
  const size_t whole = before + bytes;  // the kernel rounds it up
  const bool writes = touch == Touch::kWrite;
  if (madvise(first, whole, writes ? kPopulateWrite : kPopulateRead) == 0 || errno != EINVAL)
    return;
  for (size_t at = 0; at < whole; at += page) {
    auto* byte = reinterpret_cast<volatile std::byte*>(at == 0 ? first + before : first + at);
    const std::byte value = *byte;
    if (writes) *byte = value;
  }
}

}  // namespace banyan
