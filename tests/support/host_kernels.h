// The host build of the kernels for GPUs, by their names.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "compression/cuda/spans.h"

namespace banyan::test {

struct HostKernel {
  std::string_view name;
  // All blocks and their threads, one after the other.
  void (*run)(const CudaKernelCall& call, unsigned blocks);
  uint32_t local_bytes;  // of an element of dst, and of local where it combines two sources
  uint32_t incoming_bytes;
  bool combines;
};

std::span<const HostKernel> host_kernels();
const HostKernel* find_host_kernel(std::string_view name);  // or null

}  // namespace banyan::test
