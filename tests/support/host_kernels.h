// The host build of the kernels for GPUs, by their names.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace banyan::test {

// A pointer in what a kernel is told, by its offset there, and the bytes that it names.
struct KernelMemory {
  size_t offset = 0;
  uint64_t bytes = 0;
};

struct HostKernel {
  std::string_view name;
  // All blocks and their threads, one after the other.
  void (*run)(const void* call, unsigned blocks);
  size_t call_bytes;
  std::vector<KernelMemory> (*memory)(const void* call);
};

std::span<const HostKernel> host_kernels();
const HostKernel* find_host_kernel(std::string_view name);  // or null

}  // namespace banyan::test
