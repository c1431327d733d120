// Memory that ranks share: sealed memfds, their checks, their mappings. Nothing has a name, so
// nothing is left behind when a process dies.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "banyan/status.h"
#include "src/base/clock.h"
#include "src/base/descriptor.h"

namespace banyan {

inline constexpr size_t kPageBytes = 4096;
constexpr size_t whole_pages(size_t bytes) {
  return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
}

// One mapping, unmapped at the end.
class Mapping {
 public:
  enum class Access : uint8_t { kRead, kReadWrite };
  static Result<Mapping> map(const Descriptor& memory, size_t bytes, Access access);

  Mapping() = default;
  Mapping(Mapping&& other) noexcept
      : base_(std::exchange(other.base_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Mapping& operator=(Mapping&& other) noexcept {
    std::swap(base_, other.base_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Mapping();

  std::byte* base() const { return base_; }
  size_t bytes() const { return bytes_; }

 private:
  Mapping(std::byte* base, size_t bytes) : base_(base), bytes_(bytes) {}
  std::byte* base_ = nullptr;
  size_t bytes_ = 0;
};

enum class Pages : uint8_t {
  kReserved,  // taken now, so that a later store cannot fail with SIGBUS
  kSparse,    // taken when touched
};
// Takes pages of a memfd, in parts, since the kernel gives back all of a part that a signal
// interrupts; whatever came of those before stays. 0, or the error. EINTR: signals let nothing
// through for 10 s, or for half the time to the deadline, so that others can still be told.
int reserve(const Descriptor& memory, size_t offset, size_t bytes, TimePoint deadline);
// A memfd that can neither shrink nor grow. kTimeout: see EINTR above.
Result<Descriptor> create_memory(size_t bytes, Pages pages, TimePoint deadline = TimePoint::max());
// The last seal, before the memory is passed on. kForbidden: no process can map it writable from
// now on; mappings that are there stay as they are, but holes can no longer be punched.
enum class NewWriters : uint8_t { kAllowed, kForbidden };
Status seal(const Descriptor& memory, NewWriters writers);
// Its size, once the seals show that a peer cannot change it.
Result<size_t> checked_size(const Descriptor& memory, int peer);

}  // namespace banyan
