// SPDX-License-Identifier: Apache-2.0

#include "src/base/descriptor_room.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <new>

namespace {

// Allocations of this thread that go well before one does not; below 0: all do.
thread_local int allocations_left = -1;

}  // namespace

// The compiler must not look into them, where new and free() do not belong together.
[[gnu::noinline]] void* operator new(size_t bytes) {
  if (allocations_left >= 0 && allocations_left-- == 0) throw std::bad_alloc();
  void* memory = std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}

[[gnu::noinline]] void operator delete(void* memory, size_t /*bytes*/) noexcept {
  std::free(memory);
}

namespace banyan::descriptor_room_test {
namespace {

using testing::HasSubstr;

auto open_descriptors() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
}

TEST(DescriptorRoom, SaysHowManyAreMissing) {
  EXPECT_TRUE(require_descriptors(0, "nothing").ok());
  const Status status = require_descriptors(size_t{1} << 40, "a split among 3 ranks");
  EXPECT_EQ(status.code(), Code::kSystem);
  EXPECT_THAT(status.message(), HasSubstr("a split among 3 ranks takes 1099511627776 descriptors"));
}

TEST(DescriptorRoom, CountsWithoutKeepingAnyWhereMemoryIsMissing) {
  const auto before = open_descriptors();
  int failed = 0;
  for (bool enough = false; !enough; ++failed) {
    allocations_left = failed;
    try {
      (void)require_descriptors(size_t{1} << 40, "a split among 3 ranks");
      enough = true;
    } catch (const std::bad_alloc&) {
    }
    allocations_left = -1;
    ASSERT_EQ(open_descriptors(), before) << "where allocation " << failed << " fails";
  }
  EXPECT_GT(failed, 1) << "it takes memory";
}

}  // namespace
}  // namespace banyan::descriptor_room_test
