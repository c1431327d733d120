// Bytes in memory that kernels for GPUs reach, with guards around them.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <string>

#include "tests/support/cuda_kernels_checks.h"
#include "tests/support/kernels_reference.h"

namespace banyan::test {

inline constexpr std::byte kCanary{0xa5};
inline constexpr size_t kGuard = 64;

// Bytes that begin `offset` bytes beyond a multiple of 64, with a guard before them. Sources end
// where their allocation ends, so that a checker sees a read beyond it; others have a guard there.
class OnDevice {
 public:
  OnDevice(DeviceMemory& memory, const Memory& bytes, size_t offset, size_t guard_behind = 0)
      : memory_(memory), size_(bytes.size()), before_(kGuard + offset) {
    Memory whole(before_ + size_ + guard_behind, kCanary);
    std::copy(bytes.begin(), bytes.end(), whole.begin() + static_cast<ptrdiff_t>(before_));
    all_ = whole.size();
    base_ = memory.allocate(all_);
    memory.write(base_, whole.data(), all_);
  }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  ~OnDevice() { memory_.release(base_); }

  std::byte* data() { return base_ + before_; }

  void expect(const Memory& wanted, const std::string& what) {
    Memory whole(all_);
    memory_.read(whole.data(), base_, all_);
    const auto begin = whole.begin() + static_cast<ptrdiff_t>(before_);
    const auto end = begin + static_cast<ptrdiff_t>(size_);
    const auto differs = std::mismatch(begin, end, wanted.begin(), wanted.end());
    ASSERT_TRUE(differs.first == end)
        << what << ": byte " << differs.first - begin << " of " << size_;
    const auto touched = [](std::byte byte) { return byte != kCanary; };
    ASSERT_FALSE(std::any_of(whole.begin(), begin, touched)) << what << ": written before";
    ASSERT_FALSE(std::any_of(end, whole.end(), touched)) << what << ": written behind";
  }

 private:
  DeviceMemory& memory_;
  size_t size_;
  size_t before_;
  size_t all_ = 0;
  std::byte* base_ = nullptr;
};

}  // namespace banyan::test
