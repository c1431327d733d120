// Mapping pages before they are used, so that no message has to wait for a page fault.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <cstdint>

namespace banyan {

// kWrite is for memory that this process can write. Before Linux 5.14 the first byte of each page
// is written then, and nobody else may use the memory yet.
enum class Touch : uint8_t { kRead, kWrite };
// Maps what can be mapped; other pages are mapped, or fail, when they are used. What they hold
// stays as it is.
void touch_pages(const std::byte* begin, size_t bytes, Touch touch);

}  // namespace banyan
