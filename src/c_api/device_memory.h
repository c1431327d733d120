// Whether an address lies in the memory of a GPU, which this version cannot read.
//
// The CUDA driver knows, and is asked where the process has loaded it: a process without it has no
// such address. Managed memory and pinned memory of the host can be read as any other.
// Source: CUDA Driver API, "Unified Addressing", cuPointerGetAttribute.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <atomic>

namespace banyan {

namespace internal {

using PointerAttribute = int (*)(void* value, int attribute, unsigned long long pointer);
extern constinit std::atomic<PointerAttribute> pointer_attribute;  // null: no driver was seen

bool is_in_device_memory(PointerAttribute ask, const void* address);

}  // namespace internal

// Looks whether the process has loaded the driver by now; a microsecond. Thread-safe.
void look_for_cuda_driver();

// By the driver as last seen. Thread-safe.
inline bool is_in_device_memory(const void* address) {
  const auto ask = internal::pointer_attribute.load(std::memory_order_relaxed);
  return ask != nullptr && internal::is_in_device_memory(ask, address);
}

}  // namespace banyan
