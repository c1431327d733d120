// SPDX-License-Identifier: Apache-2.0

#include "tests/support/host_kernels.h"

#include "compression/cuda/blocks.h"
#include "compression/cuda/choice_blocks.h"
#include "compression/cuda/codec_blocks.h"
#include "compression/cuda/fold_blocks.h"
#include "compression/cuda/gradient_blocks.h"
#include "compression/cuda/onebit_blocks.h"
#include "compression/cuda/randk_blocks.h"
#include "compression/cuda/topk_blocks.h"

namespace banyan::test {

namespace {

template <class Function>
void run_blocks(const void* told, unsigned blocks) {
  const auto& call = *static_cast<const CudaKernelCall*>(told);
  for (unsigned block = 0; block < blocks; block++) {
    for (unsigned i = 0; i < kCudaThreads; i++) run_thread<Function>(call, {block, blocks, i});
  }
}

template <class Function>
std::vector<KernelMemory> memory_of(const void* told) {
  const auto& call = *static_cast<const CudaKernelCall*>(told);
  const uint64_t local = call.count * sizeof(typename Function::Local);
  return {{offsetof(CudaKernelCall, dst), local},
          {offsetof(CudaKernelCall, local), Function::kCombines ? local : 0},
          {offsetof(CudaKernelCall, src), call.count * sizeof(typename Function::Incoming)}};
}

template <class Function>
void run_codec(const void* told, unsigned blocks) {
  run_warps<Function>(*static_cast<const CudaCodecCall*>(told), blocks);
}

template <template <class, class> class Function, class Format, class Values>
std::vector<KernelMemory> memory_of_codec(const void* told, const Function<Format, Values>*) {
  const auto& call = *static_cast<const CudaCodecCall*>(told);
  const uint64_t superblocks = (call.count + kSuperblockValues - 1) / kSuperblockValues;
  const uint64_t values = call.count * sizeof(typename CudaValues<Values>::Storage);
  return {{offsetof(CudaCodecCall, message), superblocks * LanePlace<Format>::kSuperblock},
          {offsetof(CudaCodecCall, values), values},
          {offsetof(CudaCodecCall, other), call.other == nullptr ? 0 : values}};
}

template <class Function>
void run_coded_folds(const void* told, unsigned blocks) {
  run_warps<Function>(*static_cast<const CudaCodedFold*>(told), blocks);
}

template <template <class, class> class Function, class Format, class Values>
std::vector<KernelMemory> memory_of_coded_fold(const void* told, const Function<Format, Values>*) {
  const auto& call = *static_cast<const CudaCodedFold*>(told);
  const uint64_t superblocks = (call.encode.count + kSuperblockValues - 1) / kSuperblockValues;
  const uint64_t bytes = superblocks * LanePlace<Format>::kSuperblock;
  std::vector<KernelMemory> memory{
      {offsetof(CudaCodedFold, encode) + offsetof(CudaCodecCall, message), bytes}};
  for (unsigned rank = 0; rank < call.ranks; rank++) {
    memory.push_back({offsetof(CudaCodedFold, sources) + rank * sizeof(std::byte*), bytes});
  }
  return memory;
}

template <class Function>
void run_folds(const void* told, unsigned blocks) {
  const auto& call = *static_cast<const CudaFoldCall*>(told);
  for (unsigned block = 0; block < blocks; block++) {
    for (unsigned i = 0; i < kCudaThreads; i++) run_fold<Function>(call, {block, blocks, i});
  }
}

template <class Function>
std::vector<KernelMemory> memory_of_fold(const void* told) {
  const auto& call = *static_cast<const CudaFoldCall*>(told);
  const uint64_t bytes = call.count * sizeof(typename Function::Element);
  std::vector<KernelMemory> memory{{offsetof(CudaFoldCall, dst), bytes}};
  for (unsigned rank = 0; rank < call.ranks; rank++) {
    memory.push_back({offsetof(CudaFoldCall, sources) + rank * sizeof(std::byte*), bytes});
  }
  return memory;
}

template <class Function>
void run_gradients(const void* told, unsigned blocks) {
  run_all_stretches<Function>(*static_cast<const CudaGradientCall*>(told), blocks);
}

template <class Function>
std::vector<KernelMemory> memory_of_gradients(const void* told) {
  const auto& call = *static_cast<const CudaGradientCall*>(told);
  uint64_t element = sizeof(float);
  if constexpr (requires { typename Function::Type; })
    element = sizeof(typename Function::Type::Storage);
  const auto floats = [&](const float* values) {
    return values == nullptr ? 0 : call.count * sizeof(float);
  };
  const uint64_t seen = call.seen == nullptr ? 0 : gradient_stretches(call.count);
  return {{offsetof(CudaGradientCall, values), call.count * element},
          {offsetof(CudaGradientCall, sum), floats(call.sum)},
          {offsetof(CudaGradientCall, velocity), floats(call.velocity)},
          {offsetof(CudaGradientCall, next_velocity), floats(call.next_velocity)},
          {offsetof(CudaGradientCall, residual), floats(call.residual)},
          {offsetof(CudaGradientCall, seen), seen * sizeof(GradientSeen)}};
}

template <class Function, class Call>
void run_counted(const void* told, unsigned blocks) {
  run_all_counting<Function>(*static_cast<const Call*>(told), blocks);
}

std::vector<KernelMemory> memory_of_sparse(const void* told) {
  const auto& call = *static_cast<const CudaSparseCall*>(told);
  const uint64_t values = call.count * sizeof(float);
  const uint64_t lists = sign_lists(call.count);
  const bool encodes = call.said != nullptr;
  return {{offsetof(CudaSparseCall, message), call.message_bytes},
          {offsetof(CudaSparseCall, values), call.values == nullptr ? 0 : values},
          {offsetof(CudaSparseCall, other), call.other == nullptr ? 0 : values},
          {offsetof(CudaSparseCall, bits), call.bits == nullptr ? 0 : (call.count + 7) / 8},
          {offsetof(CudaSparseCall, offsets), sparse_pieces(call.count) * sizeof(uint32_t)},
          {offsetof(CudaSparseCall, totals), lists * sizeof(uint32_t)},
          {offsetof(CudaSparseCall, starts), lists * sizeof(uint64_t)},
          {offsetof(CudaSparseCall, plan), sizeof(SparsePlan)},
          {offsetof(CudaSparseCall, said), encodes ? sizeof(uint64_t) : 0}};
}

template <class Function>
void run_onebit_blocks(const void* told, unsigned blocks) {
  run_all_onebit<Function>(*static_cast<const CudaCodecCall*>(told), blocks);
}

// What begins touches no values.
template <class Function>
std::vector<KernelMemory> memory_of_onebit(const void* told) {
  const auto& call = *static_cast<const CudaCodecCall*>(told);
  std::vector<KernelMemory> memory{{offsetof(CudaCodecCall, message),
                                    static_cast<uint64_t>(onebit_flag(call) - call.message) + 1}};
  if constexpr (requires { typename Function::Storage; }) {
    const uint64_t values = call.count * sizeof(typename Function::Storage);
    memory.push_back({offsetof(CudaCodecCall, values), values});
    memory.push_back({offsetof(CudaCodecCall, other), call.other == nullptr ? 0 : values});
  }
  return memory;
}

template <class Function>
void run_choice(const void* told, unsigned blocks) {
  run_all_rounds<Function>(*static_cast<const CudaChoiceCall*>(told), blocks);
}

std::vector<KernelMemory> memory_of_choice(const void* told) {
  const auto& call = *static_cast<const CudaChoiceCall*>(told);
  const uint64_t spans = choice_spans(call.count, call.log);
  const uint64_t parts = call.of_parts == nullptr ? 0 : choice_spans(call.count, call.log_part);
  return {
      {offsetof(CudaChoiceCall, of_spans), call.of_spans == nullptr ? 0 : spans * sizeof(uint32_t)},
      {offsetof(CudaChoiceCall, of_parts), parts * sizeof(uint32_t)},
      {offsetof(CudaChoiceCall, bits), call.bits == nullptr ? 0 : choice_bits(call.count)}};
}

template <class Function>
void run_topk_blocks(const void* told, unsigned blocks) {
  run_all_blocks<Function>(*static_cast<const CudaTopkCall*>(told), blocks);
}

std::vector<KernelMemory> memory_of_topk(const void* told) {
  const auto& call = *static_cast<const CudaTopkCall*>(told);
  return {{offsetof(CudaTopkCall, values), call.count * sizeof(float)},
          {offsetof(CudaTopkCall, state), sizeof(TopkState)},
          {offsetof(CudaTopkCall, bins), kTopkBins * sizeof(uint64_t)},
          {offsetof(CudaTopkCall, offsets), sparse_pieces(call.count) * sizeof(uint32_t)},
          {offsetof(CudaTopkCall, starts), sparse_regions(call.count) * sizeof(uint64_t)},
          {offsetof(CudaTopkCall, selection), sizeof(Selection)}};
}

#define KERNEL(name, ...) \
  {#name, run_blocks<__VA_ARGS__>, sizeof(CudaKernelCall), memory_of<__VA_ARGS__>},
#define CODEC_KERNEL(name, ...)                                                 \
  {#name, run_codec<__VA_ARGS__>, sizeof(CudaCodecCall), [](const void* call) { \
     constexpr const __VA_ARGS__* kFunction = nullptr;                          \
     return memory_of_codec(call, kFunction);                                   \
   }},
#define CODED_FOLD_KERNEL(name, ...)                                                  \
  {#name, run_coded_folds<__VA_ARGS__>, sizeof(CudaCodedFold), [](const void* call) { \
     constexpr const __VA_ARGS__* kFunction = nullptr;                                \
     return memory_of_coded_fold(call, kFunction);                                    \
   }},
#define FOLD_KERNEL(name, ...) \
  {#name, run_folds<__VA_ARGS__>, sizeof(CudaFoldCall), memory_of_fold<__VA_ARGS__>},
#define GRADIENT_KERNEL(name, ...) \
  {#name, run_gradients<__VA_ARGS__>, sizeof(CudaGradientCall), memory_of_gradients<__VA_ARGS__>},
#define SPARSE_KERNEL(name, ...) \
  {#name, run_counted<__VA_ARGS__, CudaSparseCall>, sizeof(CudaSparseCall), memory_of_sparse},
#define CHOICE_KERNEL(name, ...) \
  {#name, run_choice<__VA_ARGS__>, sizeof(CudaChoiceCall), memory_of_choice},
#define ONEBIT_KERNEL(name, ...)                                          \
  {#name, run_counted<__VA_ARGS__, CudaCodecCall>, sizeof(CudaCodecCall), \
   memory_of_onebit<__VA_ARGS__>},
#define ONEBIT_ENCODE_KERNEL(name, ...) \
  {#name, run_onebit_blocks<__VA_ARGS__>, sizeof(CudaCodecCall), memory_of_onebit<__VA_ARGS__>},
#define TOPK_KERNEL(name, ...) \
  {#name, run_counted<__VA_ARGS__, CudaTopkCall>, sizeof(CudaTopkCall), memory_of_topk},
#define TOPK_BLOCK_KERNEL(name, ...) \
  {#name, run_topk_blocks<__VA_ARGS__>, sizeof(CudaTopkCall), memory_of_topk},
constexpr HostKernel kHostKernels[] = {
#include "compression/cuda/choice_kernels.inc"
#include "compression/cuda/codec_kernels.inc"
#include "compression/cuda/fold_kernels.inc"
#include "compression/cuda/gradient_kernels.inc"
#include "compression/cuda/kernels.inc"
#include "compression/cuda/onebit_kernels.inc"
#include "compression/cuda/sparse_kernels.inc"
#include "compression/cuda/topk_kernels.inc"
};
#undef KERNEL
#undef CODEC_KERNEL
#undef FOLD_KERNEL
#undef GRADIENT_KERNEL
#undef CODED_FOLD_KERNEL
#undef SPARSE_KERNEL
#undef CHOICE_KERNEL
#undef ONEBIT_KERNEL
#undef ONEBIT_ENCODE_KERNEL
#undef TOPK_KERNEL
#undef TOPK_BLOCK_KERNEL

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
