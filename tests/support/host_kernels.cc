// SPDX-License-Identifier: Apache-2.0

#include "tests/support/host_kernels.h"

#include "compression/cuda/blocks.h"

namespace banyan::test {

namespace {

template <class Function>
void run_blocks(const CudaKernelCall& call, unsigned blocks) {
  for (unsigned block = 0; block < blocks; block++) {
    for (unsigned i = 0; i < kCudaThreads; i++) run_thread<Function>(call, {block, blocks, i});
  }
}

template <class Function>
constexpr HostKernel host_kernel(std::string_view name) {
  return {name, run_blocks<Function>, sizeof(typename Function::Local),
          sizeof(typename Function::Incoming), Function::kCombines};
}

#define KERNEL(name, ...) host_kernel<__VA_ARGS__>(#name),
constexpr HostKernel kHostKernels[] = {
#include "compression/cuda/kernels.inc"
};
#undef KERNEL

}  // namespace

std::span<const HostKernel> host_kernels() {
  return kHostKernels;
}

const HostKernel* find_host_kernel(std::string_view name) {
  for (const HostKernel& kernel : kHostKernels)
    if (kernel.name == name) return &kernel;
  return nullptr;
}

}  // namespace banyan::test
