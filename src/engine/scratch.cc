// SPDX-License-Identifier: Apache-2.0

#include "src/engine/scratch.h"

#include <sys/mman.h>

#include <bit>
#include <new>

namespace banyan {
namespace {

constexpr int kSmallestClass = 12;  // one page

int class_of(size_t bytes) {
  const int needed = static_cast<int>(std::bit_width(bytes - 1));
  return needed < kSmallestClass ? kSmallestClass : needed;
}

}  // namespace

ScratchPool::~ScratchPool() {
  for (size_t index = 0; index < free_.size(); ++index)
    for (std::byte* memory : free_[index]) unmap(memory, size_t{1} << index);
}

void ScratchPool::unmap(std::byte* memory, size_t bytes) {
  if (pinning_ != nullptr) pinning_->unpin(memory);
  munmap(memory, bytes);
}

std::byte* ScratchPool::take(size_t bytes) {
  if (bytes == 0) return nullptr;
  const auto index = static_cast<size_t>(class_of(bytes));
  if (index >= free_.size()) return nullptr;
  if (!free_[index].empty()) {
    std::byte* memory = free_[index].back();
    free_[index].pop_back();
    return memory;
  }
  const size_t size = size_t{1} << index;
  void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  if (size >= size_t{4} << 20) madvise(memory, size, MADV_HUGEPAGE);
  auto* block = static_cast<std::byte*>(memory);
  if (pinning_ != nullptr) pinning_->pin(block, size);
  return block;
}

void ScratchPool::give_back(std::byte* memory, size_t bytes) {
  if (memory == nullptr) return;
  const auto index = static_cast<size_t>(class_of(bytes));
  try {
    free_[index].push_back(memory);
  } catch (const std::bad_alloc&) {
    unmap(memory, size_t{1} << index);
  }
}

}  // namespace banyan
