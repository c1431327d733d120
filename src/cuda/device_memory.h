// Tells whether an address lies in the memory of a GPU, which the host cannot touch.
//
// The CUDA driver knows, and is asked where the process has loaded it: a process without it has no
// such address. Managed memory and pinned memory of the host can be touched as any other.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <atomic>
#include <string>
#include <string_view>

#include "banyan/status.h"
#include "src/base/cuda_driver.h"

namespace banyan {

namespace internal {

extern constinit std::atomic<const CudaFunctions*> cuda_of_process;  // null: no driver was seen
extern constinit std::atomic<bool> may_meet_devices;

}  // namespace internal

// Looks whether the process has loaded the driver by now. Thread-safe.
void look_for_cuda_driver();
// Has the driver expected where the machine below `root` may have a GPU. The first look for the
// driver does so for "/".
void expect_devices(const std::string& root);
// False: no memory is a GPU's, and it takes no look to say so. Communicators have looked once.
inline bool may_meet_devices() {
  return internal::may_meet_devices.load(std::memory_order_relaxed);
}

// That of the process as last seen, which lives to its end. Null: none was seen.
inline const CudaFunctions* cuda_of_process() {
  return internal::cuda_of_process.load(std::memory_order_acquire);
}
inline bool knows_devices() {
  return cuda_of_process() != nullptr;
}

// By the driver as last seen. Thread-safe.
bool is_in_device_memory(const void* address);
// The same of the argument of that name. kUnsupported: it is, and the driver lacks a function.
Result<bool> must_be_staged(std::string_view name, const void* address);
// Looks for the driver. kUnsupported: there is none, or it lacks a function that streams need.
Status check_streams();

}  // namespace banyan
