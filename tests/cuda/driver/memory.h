// The memory that the stand-in knows. That of a device is mapped twice: nobody can touch it at the
// addresses that callers get.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>

namespace banyan::standin {

enum class Kind : uint8_t { kPinned, kDevice, kManaged };

struct Allocation {
  uintptr_t begin = 0;
  size_t bytes = 0;
  Kind kind = Kind::kDevice;
  int device = 0;
  unsigned long long id = 0;    // never used again
  std::byte* inside = nullptr;  // where the driver touches it
  bool registered = false;      // it is the caller's own
};

class Memory {
 public:
  // 0: there is none.
  uintptr_t allocate(size_t bytes, Kind kind, int device);
  // False: it overlaps what is registered.
  bool add(uintptr_t begin, size_t bytes, int device);
  // False: nothing of that kind begins there.
  bool remove(uintptr_t begin, Kind kind, bool registered);
  std::optional<Allocation> find(uintptr_t address) const;
  // Where the driver touches so many bytes; null: they are not all in one allocation. What is in
  // none is ordinary memory of the host, and where the caller says.
  std::byte* inside(uintptr_t address, size_t bytes) const;

 private:
  const Allocation* look_up(uintptr_t address) const;

  mutable std::mutex mutex_;
  std::map<uintptr_t, Allocation> by_begin_;
  unsigned long long next_id_ = 1;
};

}  // namespace banyan::standin
