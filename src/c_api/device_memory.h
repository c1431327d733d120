// Tells whether an address lies in the memory of a GPU, which this version cannot read.
//
// The CUDA driver knows, and is asked where the process has loaded it: a process without it has no
// such address. Managed memory and pinned memory of the host can be read as any other. Source: CUDA
// Driver API, "Unified Addressing", cuPointerGetAttribute.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <atomic>
#include <string_view>

#include "banyan/status.h"

namespace banyan {

namespace internal {

using PointerAttribute = int (*)(void* value, int attribute, unsigned long long pointer);
extern constinit std::atomic<PointerAttribute> pointer_attribute;  // null: no driver was seen

}  // namespace internal

// Looks whether the process has loaded the driver by now. Thread-safe.
void look_for_cuda_driver();

// A driver was seen.
inline bool knows_devices() {
  return internal::pointer_attribute.load(std::memory_order_relaxed) != nullptr;
}

// By the driver as last seen. Thread-safe.
bool is_in_device_memory(const void* address);
// What is returned for such a buffer, or whatever the argument of that name is.
Status device_memory_refused(std::string_view name, const void* address);

}  // namespace banyan
