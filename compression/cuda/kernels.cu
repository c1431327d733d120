// The kernels, as the driver finds them by name in the module that nvcc makes of this.
// SPDX-License-Identifier: Apache-2.0

#include "compression/cuda/blocks.h"
#include "compression/cuda/choice_blocks.h"
#include "compression/cuda/codec_blocks.h"
#include "compression/cuda/fold_blocks.h"
#include "compression/cuda/gradient_blocks.h"
#include "compression/cuda/onebit_blocks.h"
#include "compression/cuda/randk_blocks.h"
#include "compression/cuda/topk_blocks.h"

// The indices of blocks, and of threads in them, have one dimension.
#define KERNEL_BY(run, Call, name, ...)                              \
  extern "C" __global__ void __launch_bounds__(banyan::kCudaThreads) \
      name(const banyan::Call call) {                                \
    using namespace banyan;                                          \
    run<__VA_ARGS__>(call, {blockIdx.x, gridDim.x, threadIdx.x});    \
  }
#define KERNEL(name, ...) KERNEL_BY(run_thread, CudaKernelCall, name, __VA_ARGS__)
#define CODEC_KERNEL(name, ...) KERNEL_BY(run_warp, CudaCodecCall, name, __VA_ARGS__)
#define CODED_FOLD_KERNEL(name, ...) KERNEL_BY(run_warp, CudaCodedFold, name, __VA_ARGS__)
#define FOLD_KERNEL(name, ...) KERNEL_BY(run_fold, CudaFoldCall, name, __VA_ARGS__)
#define GRADIENT_KERNEL(name, ...) KERNEL_BY(run_stretches, CudaGradientCall, name, __VA_ARGS__)
#define SPARSE_KERNEL(name, ...) KERNEL_BY(run_counting, CudaSparseCall, name, __VA_ARGS__)
#define CHOICE_KERNEL(name, ...) KERNEL_BY(run_rounds, CudaChoiceCall, name, __VA_ARGS__)
#define ONEBIT_KERNEL(name, ...) KERNEL_BY(run_counting, CudaCodecCall, name, __VA_ARGS__)
#define ONEBIT_ENCODE_KERNEL(name, ...) KERNEL_BY(run_onebit, CudaCodecCall, name, __VA_ARGS__)
#define TOPK_KERNEL(name, ...) KERNEL_BY(run_counting, CudaTopkCall, name, __VA_ARGS__)
#define TOPK_BLOCK_KERNEL(name, ...) KERNEL_BY(run_block, CudaTopkCall, name, __VA_ARGS__)

#include "compression/cuda/choice_kernels.inc"
#include "compression/cuda/codec_kernels.inc"
#include "compression/cuda/fold_kernels.inc"
#include "compression/cuda/gradient_kernels.inc"
#include "compression/cuda/kernels.inc"
#include "compression/cuda/onebit_kernels.inc"
#include "compression/cuda/sparse_kernels.inc"
#include "compression/cuda/topk_kernels.inc"
