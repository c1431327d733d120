// Buffers of GPUs for the benchmarks, by the CUDA driver that is opened at run time.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>

#include "banyan/status.h"

namespace banyan::perf {

// kUnsupported: there is no driver. It is only loaded, so that a process that has asked may fork.
Status find_driver();

// Memory of the device of that number, modulo how many there are; `managed`: the host may touch it.
Result<std::byte*> allocate_on_device(int number, size_t bytes, bool managed);
void free_on_device(std::byte* memory);
// Copies from or to the device, and waits until that is done.
Status copy_to_device(std::byte* to, const std::byte* from, size_t bytes);
Status copy_from_device(std::byte* to, const std::byte* from, size_t bytes);

}  // namespace banyan::perf
