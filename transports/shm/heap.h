// Peers read this memory of one rank in place: a sparse sealed memfd and a first-fit free list.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>

#include "banyan/status.h"
#include "src/base/descriptor.h"
#include "src/base/sealed_memory.h"

namespace banyan::shm {

// Not thread-safe. Blocks are whole pages; those that are free hold no memory.
class Heap {
 public:
  // Takes address space for `bytes` bytes, or for half of it and so on if the process may not have
  // that much.
  static Result<Heap> create(size_t bytes);

  Heap() = default;  // has nothing to give

  const Descriptor& memory() const { return memory_; }
  size_t bytes() const { return mapping_.bytes(); }
  std::byte* base() const { return mapping_.base(); }
  // Where [memory, memory + bytes) lies, if it lies in the heap.
  std::optional<uint64_t> offset_of(const std::byte* memory, size_t bytes) const;

  // kSystem: the machine has no more memory, or signals keep it from coming. Zeroed, page aligned.
  Result<std::byte*> allocate(size_t bytes, TimePoint deadline = TimePoint::max());
  // kInvalidArgument: not from allocate().
  Status release(const std::byte* memory);
  // Sends elsewhere what peers still write to the memory of a failed communicator: its pages become
  // this process's own, with what they hold. Where the machine has no memory for that, they stay
  // shared.
  void withdraw(std::span<std::byte> memory);

 private:
  void add_free(size_t offset, size_t bytes);
  void punch(size_t offset, size_t bytes) const;

  Descriptor memory_;
  Mapping mapping_;
  std::map<size_t, size_t> free_;  // offset: bytes; never two in a row
  std::map<size_t, size_t> used_;
};

// The physical memory of this machine.
size_t physical_memory();

}  // namespace banyan::shm
