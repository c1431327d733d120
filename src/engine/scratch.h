// Operations take working memory here and give it back; it is kept mapped between calls.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <array>
#include <cstddef>
#include <vector>

namespace banyan {

// Blocks in power-of-two sizes, 64-byte aligned. Not thread-safe. Everything is freed at the end.
class ScratchPool {
 public:
  ScratchPool() = default;
  ScratchPool(const ScratchPool&) = delete;
  ScratchPool& operator=(const ScratchPool&) = delete;
  ~ScratchPool();

  // At least `bytes`; null for 0 bytes, and where memory cannot be had.
  std::byte* take(size_t bytes);
  // What take(bytes) returned.
  void give_back(std::byte* memory, size_t bytes);

 private:
  static constexpr int kClasses = 48;
  std::array<std::vector<std::byte*>, kClasses> free_;
};

}  // namespace banyan
