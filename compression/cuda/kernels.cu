// The kernels, as the driver finds them by name in the module that nvcc makes of this.
// SPDX-License-Identifier: Apache-2.0

#include "compression/cuda/blocks.h"
#include "compression/cuda/codec_blocks.h"
#include "compression/cuda/fold_blocks.h"

// The indices of blocks, and of threads in them, have one dimension.
#define KERNEL(name, ...)                                                              \
  extern "C" __global__ void __launch_bounds__(banyan::kCudaThreads)                   \
      name(const banyan::CudaKernelCall call) {                                        \
    using namespace banyan;                                                            \
    run_thread<__VA_ARGS__>(call, {blockIdx.x, gridDim.x, threadIdx.x});               \
  }

#include "compression/cuda/kernels.inc"

#define CODEC_KERNEL(name, ...)                                                        \
  extern "C" __global__ void __launch_bounds__(banyan::kCudaThreads)                   \
      name(const banyan::CudaCodecCall call) {                                         \
    using namespace banyan;                                                            \
    run_warp<__VA_ARGS__>(call, {blockIdx.x, gridDim.x, threadIdx.x});                 \
  }

#define CODED_FOLD_KERNEL(name, ...)                                                   \
  extern "C" __global__ void __launch_bounds__(banyan::kCudaThreads)                   \
      name(const banyan::CudaCodedFold call) {                                         \
    using namespace banyan;                                                            \
    run_warp<__VA_ARGS__>(call, {blockIdx.x, gridDim.x, threadIdx.x});                 \
  }

#include "compression/cuda/codec_kernels.inc"

#define FOLD_KERNEL(name, ...)                                                         \
  extern "C" __global__ void __launch_bounds__(banyan::kCudaThreads)                   \
      name(const banyan::CudaFoldCall call) {                                          \
    using namespace banyan;                                                            \
    run_fold<__VA_ARGS__>(call, {blockIdx.x, gridDim.x, threadIdx.x});                 \
  }

#include "compression/cuda/fold_kernels.inc"
