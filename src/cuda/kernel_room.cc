// SPDX-License-Identifier: Apache-2.0

#include "src/cuda/kernel_room.h"

#include <algorithm>

#include "src/cuda/driver_calls.h"

namespace banyan {

namespace {

constexpr size_t kLeastBytes = size_t{64} << 10;
constexpr size_t kPageBytes = 4096;

}  // namespace

KernelRoom::~KernelRoom() {
  for (const CudaFunctions::Address memory : memory_) (void)cuda_.free(memory);
  for (void* page : pages_) (void)cuda_.free_host(page);
}

Result<std::byte*> KernelRoom::at_least(size_t bytes) {
  if (bytes_ < bytes) {
    const size_t more = std::max({kLeastBytes, bytes, 2 * bytes_});
    CudaFunctions::Address memory = 0;
    BANYAN_TRY(cuda_status(cuda_, cuda_.allocate(&memory, more), "cuMemAlloc"));
    memory_.push_back(memory);
    bytes_ = more;
  }
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the driver has given it as a number
  return reinterpret_cast<std::byte*>(memory_.back());
}

Result<uint64_t*> KernelRoom::take_word() {
  if (words_.empty()) {
    void* page = nullptr;
    BANYAN_TRY(cuda_status(cuda_, cuda_.allocate_host(&page, kPageBytes, kCudaPortableAndMapped),
                           "cuMemHostAlloc"));
    pages_.push_back(page);
    for (size_t at = 0; at < kPageBytes; at += sizeof(uint64_t))
      words_.push_back(reinterpret_cast<uint64_t*>(static_cast<std::byte*>(page) + at));
  }
  uint64_t* const word = words_.back();
  words_.pop_back();
  return word;
}

}  // namespace banyan
