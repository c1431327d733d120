// SPDX-License-Identifier: Apache-2.0

#include "tests/cuda/driver/memory.h"

#include <sys/mman.h>
#include <unistd.h>

namespace banyan::standin {
namespace {

size_t whole_pages(size_t bytes) {
  constexpr size_t kPage = 4096;
  return (bytes + kPage - 1) / kPage * kPage;
}

}  // namespace

uintptr_t Memory::allocate(size_t bytes, Kind kind, int device) {
  if (bytes == 0) return 0;
  const size_t length = whole_pages(bytes);
  const int file = memfd_create("stand-in GPU", MFD_CLOEXEC);
  if (file < 0) return 0;
  void* inside = MAP_FAILED;
  void* outside = MAP_FAILED;
  if (ftruncate(file, static_cast<off_t>(length)) == 0) {
    inside = mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    outside =
        kind == Kind::kDevice ? mmap(nullptr, length, PROT_NONE, MAP_SHARED, file, 0) : inside;
  }
  close(file);
  if (inside == MAP_FAILED || outside == MAP_FAILED) return 0;
  const std::lock_guard lock(mutex_);
  const auto begin = reinterpret_cast<uintptr_t>(outside);
  by_begin_[begin] = {begin, bytes, kind, device, next_id_++, static_cast<std::byte*>(inside),
                      false};
  return begin;
}

bool Memory::add(uintptr_t begin, size_t bytes, int device) {
  const std::lock_guard lock(mutex_);
  const auto behind = by_begin_.lower_bound(begin + bytes);
  if (behind != by_begin_.begin()) {
    const Allocation& last = std::prev(behind)->second;
    if (last.begin + last.bytes > begin) return false;
  }
  // NOLINTNEXTLINE(performance-no-int-to-ptr): what the caller gave, as a pointer again
  auto* const inside = reinterpret_cast<std::byte*>(begin);
  by_begin_[begin] = {begin, bytes, Kind::kPinned, device, next_id_++, inside, true};
  return true;
}

bool Memory::remove(uintptr_t begin, Kind kind, bool registered) {
  const std::lock_guard lock(mutex_);
  const auto found = by_begin_.find(begin);
  if (found == by_begin_.end()) return false;
  const Allocation& allocation = found->second;
  const bool device = allocation.kind != Kind::kPinned;  // managed memory is freed alike
  if (device != (kind != Kind::kPinned) || allocation.registered != registered) return false;
  if (!registered) {
    const size_t length = whole_pages(allocation.bytes);
    // NOLINTNEXTLINE(performance-no-int-to-ptr): ranges are kept as numbers
    munmap(reinterpret_cast<void*>(begin), length);
    if (reinterpret_cast<uintptr_t>(allocation.inside) != begin) munmap(allocation.inside, length);
  }
  by_begin_.erase(found);
  return true;
}

const Allocation* Memory::look_up(uintptr_t address) const {
  auto found = by_begin_.upper_bound(address);
  if (found == by_begin_.begin()) return nullptr;
  const Allocation& allocation = (--found)->second;
  return address - allocation.begin < allocation.bytes ? &allocation : nullptr;
}

std::optional<Allocation> Memory::find(uintptr_t address) const {
  const std::lock_guard lock(mutex_);
  const Allocation* found = look_up(address);
  return found == nullptr ? std::nullopt : std::optional(*found);
}

std::byte* Memory::inside(uintptr_t address, size_t bytes) const {
  const std::lock_guard lock(mutex_);
  const Allocation* found = look_up(address);
  if (found == nullptr)
    return reinterpret_cast<std::byte*>(address);  // NOLINT(performance-no-int-to-ptr): a number
  const size_t offset = address - found->begin;
  return bytes > found->bytes - offset ? nullptr : found->inside + offset;
}

}  // namespace banyan::standin
