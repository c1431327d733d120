// The memory that the stand-in knows of. Memory of a device is mapped twice: callers get addresses
// that nobody may touch, and the driver uses others.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <shared_mutex>
#include <utility>
#include <vector>

#include "src/base/descriptor.h"
#include "tests/cuda/driver/calls.h"

namespace banyan::standin {

class Context;
class Physical;
struct Reservation;

enum class MemorySort : uint8_t { kPinned, kRegistered, kDevice, kManaged, kBorrowed, kMapped };

// A mapping that ends with this.
class Pages {
 public:
  Pages() = default;
  Pages(std::byte* begin, size_t bytes) : begin_(begin), bytes_(bytes) {}
  Pages(Pages&& other) noexcept
      : begin_(std::exchange(other.begin_, nullptr)), bytes_(other.bytes_) {}
  Pages& operator=(Pages&& other) noexcept {
    std::swap(begin_, other.begin_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Pages();

  std::byte* begin() const { return begin_; }

  // Null where the system has none. `fd`: of a file, shared with whoever maps it; -1: of nothing,
  // zeros of this process.
  static Pages map(size_t bytes, int protection, int fd);

 private:
  std::byte* begin_ = nullptr;
  size_t bytes_ = 0;
};

struct Allocation {
  MemorySort sort = MemorySort::kDevice;
  CuAddress begin = 0;  // the caller's
  size_t bytes = 0;
  std::byte* own = nullptr;  // the driver's address of the same
  Context* context = nullptr;
  unsigned flags = 0;
  uint64_t buffer = 0;  // never that of another one
  Pages theirs{};
  Pages ours{};
  Descriptor file{};
  std::atomic<bool> freed{false};
  int times_opened = 1;  // where it is borrowed
  // Where callers have mapped it: in what, and what; by bits, which devices may read or write it.
  std::shared_ptr<Reservation> range{};
  std::shared_ptr<Physical> physical{};
  std::atomic<uint64_t> readers{0};
  std::atomic<uint64_t> writers{0};

  bool is_host() const { return sort == MemorySort::kPinned || sort == MemorySort::kRegistered; }
};

using SharedAllocation = std::shared_ptr<Allocation>;  // of the table, and of work that uses it

// Where the driver finds memory of a caller. Without an allocation: pageable memory of the host.
struct Located {
  std::byte* own = nullptr;
  SharedAllocation of{};
  bool whole = true;  // false: what is asked for is not in one allocation, or in none
  std::vector<SharedAllocation> more{};  // what is mapped right behind, and asked for, too

  bool is_pageable() const { return of == nullptr; }
  bool is_host() const { return of == nullptr || of->is_host(); }
  // What callers map they also open to devices.
  bool may_be_used_by(int device, bool written) const;
  void add_to(std::vector<SharedAllocation>& uses) const;
};

class MemoryTable {
 public:
  // False: it overlaps what is there.
  bool add(const SharedAllocation& allocation);
  // The one that begins there, if it is of one of these sorts, which is then unknown.
  SharedAllocation take(CuAddress begin, std::initializer_list<MemorySort> sorts);
  // All of the context.
  std::vector<SharedAllocation> take_all(const Context& context);
  // The one that the address is in; or null.
  SharedAllocation find(CuAddress address) const;
  template <typename Condition>
  SharedAllocation find_if(const Condition& condition) const {
    const std::shared_lock lock(mutex_);
    for (const auto& [begin, allocation] : by_begin_)
      if (condition(*allocation)) return allocation;
    return nullptr;
  }
  Located locate(CuAddress address, size_t bytes) const;
  size_t size() const;
  size_t device_bytes(const Context& context) const;

 private:
  SharedAllocation at_or_before(CuAddress address) const;  // under the lock
  bool touches(CuAddress begin, size_t bytes) const;       // under the lock

  mutable std::shared_mutex mutex_;
  std::map<CuAddress, SharedAllocation> by_begin_;
};

// Memory of the device of the context; null where the system refuses. Nothing behind its end, in
// steps of 256 bytes, can be reached from it.
SharedAllocation allocate_device(Context& context, size_t bytes);
// The same of a file, which has as many bytes, rounded up to pages.
SharedAllocation map_device(Context& context, Descriptor file, size_t bytes);
// What both sides may touch.
SharedAllocation allocate_shared(Context& context, MemorySort sort, size_t bytes);
uint64_t next_buffer();

inline CuAddress address_of(const void* memory) {
  return reinterpret_cast<uintptr_t>(memory);
}
inline std::byte* pointer_to(CuAddress address) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): callers of the driver have numbers
  return reinterpret_cast<std::byte*>(address);
}

}  // namespace banyan::standin
