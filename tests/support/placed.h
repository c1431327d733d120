// Memory at a chosen address with guards around, for functions that may read and write nothing
// else.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

namespace banyan {

using Memory = std::vector<std::byte>;

inline constexpr std::byte kCanary{0xa5};
inline constexpr size_t kGuard = 64;

// A placed copy begins `offset` bytes beyond a multiple of 64, with guards on both sides. Sources
// end where their allocation ends, so that AddressSanitizer sees a read beyond it.
class Placed {
 public:
  Placed(const std::byte* bytes, size_t size, size_t offset)
      : size_(size), memory_(new (std::align_val_t{64}) std::byte[kGuard + offset + size]) {
    begin_ = memory_.get() + kGuard + offset;
    std::fill(memory_.get(), begin_, kCanary);
    if (size > 0) std::memcpy(begin_, bytes, size);
  }
  std::byte* data() { return begin_; }
  size_t size() const { return size_; }

 private:
  struct Free {
    void operator()(std::byte* memory) const { operator delete[](memory, std::align_val_t{64}); }
  };
  size_t size_;
  std::unique_ptr<std::byte[], Free> memory_;
  std::byte* begin_;
};

inline bool holds(Placed& placed, const Memory& expected) {
  return std::equal(expected.begin(), expected.end(), placed.data());
}

// Runs `call` on a destination of `size` bytes with canaries around; returns what it wrote.
template <typename Call>
Memory run_guarded(size_t size, size_t offset, const Call& call) {
  const Memory blank(size + kGuard, kCanary);
  Placed dst(blank.data(), blank.size(), offset);
  call(dst.data());
  for (size_t i = 0; i < kGuard; i++) {
    EXPECT_EQ(dst.data()[size + i], kCanary) << "written " << i << " bytes beyond the end";
    EXPECT_EQ(dst.data()[-1 - static_cast<ptrdiff_t>(i)], kCanary) << "written before the start";
  }
  return {dst.data(), dst.data() + size};
}

}  // namespace banyan
