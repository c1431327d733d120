// Operations take working memory here and give it back; it is kept mapped between calls.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <array>
#include <cstddef>
#include <vector>

namespace banyan {

// Makes memory fit for what copies it from or to elsewhere, as a GPU does.
class Pinning {
 public:
  virtual ~Pinning() = default;
  virtual void pin(std::byte* memory, size_t bytes) = 0;
  virtual void unpin(std::byte* memory) = 0;
};

// Blocks in power-of-two sizes, 64-byte aligned. Not thread-safe. Everything is freed at the end.
class ScratchPool {
 public:
  ScratchPool() = default;
  // Its blocks are pinned while there are any. `pinning` outlives it.
  explicit ScratchPool(Pinning& pinning) : pinning_(&pinning) {}
  ScratchPool(const ScratchPool&) = delete;
  ScratchPool& operator=(const ScratchPool&) = delete;
  ~ScratchPool();

  // At least `bytes`; null for 0 bytes, and where memory cannot be had.
  std::byte* take(size_t bytes);
  // What take(bytes) returned.
  void give_back(std::byte* memory, size_t bytes);

 private:
  static constexpr int kClasses = 48;

  void unmap(std::byte* memory, size_t bytes);

  Pinning* pinning_ = nullptr;  // null: its blocks are ordinary
  std::array<std::vector<std::byte*>, kClasses> free_;
};

}  // namespace banyan
