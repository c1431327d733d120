// Memory that callers map by themselves: allocations of a device, to which there are counted
// handles, ranges of addresses, and which allocation is where in them (CUDA Driver API, "Virtual
// Memory Management").
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "src/base/descriptor.h"
#include "tests/cuda/driver/memory.h"

namespace banyan::standin {

inline constexpr size_t kGranularity = size_t{2} << 20;

// A file, whose name says what an importer must know.
class Physical {
 public:
  Physical(Descriptor file, size_t bytes, int device, int handle_types);
  Physical(const Physical&) = delete;
  Physical& operator=(const Physical&) = delete;
  ~Physical();

  static std::shared_ptr<Physical> create(size_t bytes, int device, int handle_types);
  // Null: the descriptor is of something else.
  static std::shared_ptr<Physical> import(int descriptor);
  static long count();  // there are now

  const Descriptor& file() const { return file_; }
  size_t bytes() const { return bytes_; }
  int device() const { return device_; }
  int handle_types() const { return handle_types_; }
  uint64_t number() const { return number_; }  // of its handle

 private:
  const Descriptor file_;
  const size_t bytes_;
  const int device_;
  const int handle_types_;
  const uint64_t number_;
};

// Addresses of callers, and the driver's for the same.
struct Reservation {
  Pages theirs{};
  Pages ours{};
  CuAddress begin = 0;
  std::byte* own = nullptr;
  size_t bytes = 0;
};

class MappedMemory {
 public:
  // Each returns CUresult.
  int hold(const std::shared_ptr<Physical>& physical);  // one more handle
  int release(uint64_t handle);
  std::shared_ptr<Physical> find(uint64_t handle) const;  // or null

  int reserve(size_t bytes, CuAddress* address);
  int free(CuAddress address, size_t bytes);
  int map(CuAddress address, size_t bytes, uint64_t handle);
  int unmap(CuAddress address, size_t bytes);
  int set_access(CuAddress address, size_t bytes, int device, unsigned flags);

  long handles() const;
  long reservations() const;

 private:
  // Those that fill the range, in order; none where they do not, or one goes beyond it.
  static std::vector<SharedAllocation> pieces_of(CuAddress address, size_t bytes);

  struct Held {
    std::shared_ptr<Physical> physical;
    long references = 0;
  };
  mutable std::mutex mutex_;
  std::map<uint64_t, Held> held_;
  std::map<CuAddress, std::shared_ptr<Reservation>> reserved_;
};

MappedMemory& mapped_memory();

}  // namespace banyan::standin
