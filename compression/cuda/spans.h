// A span of elements is divided here into what each thread of a launch does. Both sides see it: the
// launcher, which needs to know how many blocks there are, and the kernels.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <cstdint>

// Nothing for a host compiler: the kernels are plain functions there, and tests run them.
#ifdef __CUDACC__
#define BANYAN_HOST_DEVICE __host__ __device__ __forceinline__
#define BANYAN_UNROLLED _Pragma("unroll")
#else
#define BANYAN_HOST_DEVICE inline
#define BANYAN_UNROLLED
#endif

// A host build may count what kernels touch.
#ifndef BANYAN_CUDA_READS
#define BANYAN_CUDA_READS(from, bytes) static_cast<void>(0)
#define BANYAN_CUDA_WRITES(to, bytes) static_cast<void>(0)
#endif

namespace banyan {

// All that a kernel is told.
struct CudaKernelCall {
  std::byte* dst;
  const std::byte* local;  // null where a kernel has one source
  const std::byte* src;
  uint64_t count;
  uint64_t operand;  // what the kernel's function takes beside its elements, as bits
};

// One thread of a launch.
struct CudaThread {
  unsigned block;
  unsigned blocks;
  unsigned index;  // in its block
};

inline constexpr unsigned kCudaThreads = 256;   // of a block
inline constexpr unsigned kCudaInFlight = 4;    // packs that a thread loads before it stores one
inline constexpr unsigned kCudaPackBytes = 16;  // of the wider side; the other has as many elements
inline constexpr unsigned kCudaTile = kCudaThreads * kCudaInFlight;

// Where the sources of a pack begin when its destination is aligned.
enum class CudaSources { kAligned, kAnywhere };

// A span is `head` elements, packs, and some more elements: together fewer than four packs. Where
// dst cannot be aligned, or there are few elements, there are no packs and all is head.
struct CudaPacks {
  uint64_t head;
  uint64_t packs;
  CudaSources sources;
};

// Sources that begin anywhere are read in words, of which the first and the last reach beyond their
// pack. So there is a pack's worth of elements on both sides then.
BANYAN_HOST_DEVICE CudaPacks cuda_packs(const CudaKernelCall& call, uint32_t dst_size,
                                        uint32_t src_size) {
  const uint32_t elements = kCudaPackBytes / (dst_size > src_size ? dst_size : src_size);
  const uint32_t dst_pack = elements * dst_size;
  const uint32_t src_pack = elements * src_size;
  const auto dst = reinterpret_cast<uintptr_t>(call.dst);
  const auto local = call.local == nullptr ? dst : reinterpret_cast<uintptr_t>(call.local);
  const auto src = reinterpret_cast<uintptr_t>(call.src);
  const uint64_t head = (dst_pack - dst % dst_pack) % dst_pack / dst_size;
  if (dst % dst_size != 0 || call.count < head + 4 * elements) {
    return {call.count, 0, CudaSources::kAligned};
  }
  const uint64_t packs = (call.count - head) / elements;
  const bool aligned =
      (local + head * dst_size) % dst_pack == 0 && (src + head * src_size) % src_pack == 0;
  if (aligned) return {head, packs, CudaSources::kAligned};
  return {head + elements, packs - 2, CudaSources::kAnywhere};
}

// Further tiles are done by the same blocks, whose indices are unsigned.
inline constexpr uint64_t kMostCudaBlocks = 1U << 30;

// As many blocks as there are tiles.
BANYAN_HOST_DEVICE uint64_t cuda_blocks(const CudaPacks& packs) {
  const uint64_t items = packs.packs > 0 ? packs.packs : packs.head;
  return (items + kCudaTile - 1) / kCudaTile;
}

}  // namespace banyan
