// Places are found first fit over a sparse memfd; what is released goes back to the kernel.
// SPDX-License-Identifier: Apache-2.0

#include "transports/shm/heap.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

namespace banyan::shm {

size_t physical_memory() {
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long page = sysconf(_SC_PAGESIZE);
  return pages > 0 && page > 0 ? static_cast<size_t>(pages) * static_cast<size_t>(page) : 0;
}

Result<Heap> Heap::create(size_t bytes) {
  constexpr size_t kLeast = size_t{64} << 20;
  Status last(Code::kSystem, fmt::format("{} bytes of memory are too few for a heap", bytes));
  for (size_t size = whole_pages(bytes); size >= kLeast; size = whole_pages(size / 2)) {
    auto memory = create_memory(size, Pages::kSparse);
    last = memory.status();
    if (!last.ok()) continue;
    auto mapping = Mapping::map(*memory, size, Mapping::Access::kReadWrite);
    last = mapping.status();
    if (!last.ok()) continue;
    // Punching holes needs the right to write, so new writers cannot be forbidden here.
    last = seal(*memory, NewWriters::kAllowed);
    if (!last.ok()) continue;
    // Only where the administrator allows it for shared memory; otherwise it changes nothing.
    madvise(mapping->base(), size, MADV_HUGEPAGE);
    Heap heap;
    heap.memory_ = std::move(*memory);
    heap.mapping_ = std::move(*mapping);
    heap.free_.emplace(0, size);
    return heap;
  }
  return last;
}

std::optional<uint64_t> Heap::offset_of(const std::byte* memory, size_t bytes) const {
  const auto start = reinterpret_cast<uintptr_t>(memory);
  const auto base = reinterpret_cast<uintptr_t>(mapping_.base());
  if (start < base || start - base > mapping_.bytes()) return std::nullopt;
  const uint64_t offset = start - base;
  if (bytes > mapping_.bytes() - offset) return std::nullopt;
  return offset;
}

// A failure costs memory, not correctness: the block can be given out again either way.
void Heap::punch(size_t offset, size_t bytes) const {
  fallocate(memory_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
            static_cast<off_t>(bytes));
}

Result<std::byte*> Heap::allocate(size_t bytes, TimePoint deadline) {
  const auto refuse = [&](std::string_view why) {
    return Status(Code::kSystem, fmt::format("no {} bytes of shared memory: {}", bytes, why));
  };
  if (bytes > mapping_.bytes()) return refuse(fmt::format("the heap has {}", mapping_.bytes()));
  const size_t size = std::max(whole_pages(bytes), kPageBytes);
  const auto fit = std::find_if(free_.begin(), free_.end(),
                                [&](const auto& block) { return block.second >= size; });
  if (fit == free_.end()) return refuse("the heap is full");
  const auto [offset, whole] = *fit;
  // Now rather than at the first store, where the lack of it would be a SIGBUS.
  if (const int error = reserve(memory_, offset, size, deadline); error != 0) {
    punch(offset, size);
    return refuse(error == EINTR ? "signals interrupt fallocate again and again"
                                 : std::generic_category().message(error));
  }
  free_.erase(fit);
  if (whole > size) free_.emplace(offset + size, whole - size);
  used_.emplace(offset, size);
  return mapping_.base() + offset;
}

Status Heap::release(const std::byte* memory) {
  const auto offset = offset_of(memory, 0);
  const auto block = offset ? used_.find(*offset) : used_.end();
  if (block == used_.end()) {
    return {Code::kInvalidArgument,
            fmt::format("{} was not allocated here", static_cast<const void*>(memory))};
  }
  const auto [start, bytes] = *block;
  used_.erase(block);
  punch(start, bytes);
  add_free(start, bytes);
  return {};
}

void Heap::withdraw(std::span<std::byte> memory) {
  const auto offset = offset_of(memory.data(), memory.size());
  if (!offset || memory.empty()) return;
  const size_t begin = *offset / kPageBytes * kPageBytes;
  const size_t bytes = whole_pages(*offset + memory.size() - begin);
  void* copy = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (copy == MAP_FAILED) return;  // the memory stays shared, which is all that can be done
  std::memcpy(copy, mapping_.base() + begin, bytes);
  if (mremap(copy, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, mapping_.base() + begin) ==
      MAP_FAILED)
    munmap(copy, bytes);
}

void Heap::add_free(size_t offset, size_t bytes) {
  const auto after = free_.lower_bound(offset);
  if (after != free_.end() && after->first == offset + bytes) {
    bytes += after->second;
    free_.erase(after);
  }
  const auto next = free_.lower_bound(offset);
  if (next != free_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == offset) {
      before->second += bytes;
      return;
    }
  }
  free_.emplace(offset, bytes);
}

}  // namespace banyan::shm
