// Working memory: aligned, apart, used again.
// SPDX-License-Identifier: Apache-2.0

#include "src/engine/scratch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <random>

namespace banyan::scratch_test {
namespace {

TEST(ScratchPool, GivesNothingForNothing) {
  ScratchPool pool;
  EXPECT_EQ(pool.take(0), nullptr);
  pool.give_back(nullptr, 0);
  EXPECT_EQ(pool.take(SIZE_MAX), nullptr) << "memory that cannot be had";
  EXPECT_EQ(pool.take(SIZE_MAX / 2 + 2), nullptr);
}

TEST(ScratchPool, GivesTheSameMemoryAgain) {
  ScratchPool pool;
  for (const size_t bytes : {size_t{1}, size_t{4096}, size_t{4097}, size_t{5} << 20}) {
    std::byte* first = pool.take(bytes);
    ASSERT_NE(first, nullptr);
    pool.give_back(first, bytes);
    EXPECT_EQ(pool.take(bytes), first) << bytes;
    EXPECT_NE(pool.take(bytes), first) << bytes << ": taken twice";
  }
}

// Blocks in use never overlap, are aligned and can be written to their end.
TEST(ScratchPool, KeepsBlocksApart) {
  ScratchPool pool;
  struct Block {
    size_t bytes;
    unsigned char mark;
  };
  std::map<std::byte*, Block> live;
  std::mt19937 random(5);
  for (int step = 0; step < 2000; ++step) {
    if (live.size() > 20 || (!live.empty() && random() % 2 == 0)) {
      auto victim = live.begin();
      std::advance(victim, random() % live.size());
      const auto [memory, block] = *victim;
      for (const size_t place : {size_t{0}, block.bytes / 2, block.bytes - 1})
        ASSERT_EQ(memory[place], static_cast<std::byte>(block.mark)) << "somebody wrote here";
      pool.give_back(memory, block.bytes);
      live.erase(victim);
      continue;
    }
    const size_t bytes = 1 + random() % (size_t{1} << (1 + random() % 17));
    std::byte* memory = pool.take(bytes);
    ASSERT_NE(memory, nullptr);
    ASSERT_EQ(reinterpret_cast<uintptr_t>(memory) % 64, 0u);
    const auto mark = static_cast<unsigned char>(step);
    std::memset(memory, mark, bytes);
    ASSERT_TRUE(live.insert({memory, {bytes, mark}}).second) << "given out twice";
  }
}

}  // namespace
}  // namespace banyan::scratch_test
