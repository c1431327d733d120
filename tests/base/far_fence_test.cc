// SPDX-License-Identifier: Apache-2.0

#include "src/base/far_fence.h"

#include <gtest/gtest.h>

#include <array>
#include <thread>

#include "src/base/relax.h"
#include "tests/support/forbid.h"
#include "tests/support/sanitizers.h"

namespace banyan::far_fence_test {
namespace {

struct alignas(64) Word {
  std::atomic<uint64_t> value = 0;
};

// Counts how often neither of two threads saw what the other had stored, in so many rounds. Before
// its store the frequent one stores into lines that the other has, which holds that store up.
int both_blind(int rounds, bool fenced) {
  Word frequent, rare, ready, done;
  std::array<Word, 32> lines;
  const auto store_into_all = [&](uint64_t value) {
    for (Word& line : lines) line.value.store(value, std::memory_order_relaxed);
  };
  uint64_t seen_by_frequent = 0;
  std::thread other([&] {
    for (uint64_t round = 1; round <= static_cast<uint64_t>(rounds); ++round) {
      while (ready.value.load(std::memory_order_acquire) != round) relax();
      store_into_all(round);
      store_before_look(frequent.value, round, Fence::kFar);
      seen_by_frequent = rare.value.load(std::memory_order_relaxed);
      done.value.store(round, std::memory_order_release);
    }
  });
  int blind = 0;
  for (uint64_t round = 1; round <= static_cast<uint64_t>(rounds); ++round) {
    store_into_all(0);
    ready.value.store(round, std::memory_order_release);
    for (uint64_t pause = round % 64; pause > 0; --pause) relax();
    rare.value.store(round, std::memory_order_relaxed);
    if (fenced) fence_from_afar();
    const uint64_t seen_by_rare = frequent.value.load(std::memory_order_relaxed);
    while (done.value.load(std::memory_order_acquire) != round) relax();
    if (seen_by_rare != round && seen_by_frequent != round) ++blind;
  }
  other.join();
  return blind;
}

TEST(FarFence, OneOfTwoSeesTheOther) {
  if (!take_part_in_far_fences() || !fence_from_afar())
    // Then the library uses near fences everywhere, and there is no far one to test.
    GTEST_SKIP() << "this kernel has no membarrier, or forbids it";
  constexpr int kRounds = test::kSanitized ? 1000 : 20'000;
  EXPECT_EQ(both_blind(kRounds, true), 0);
  RecordProperty("blind_without", both_blind(kRounds, false));
}

TEST(FarFence, SaysThatItIsMissing) {
  std::thread([] {
    ASSERT_TRUE(test::forbid(SYS_membarrier));
    EXPECT_FALSE(take_part_in_far_fences());
    EXPECT_FALSE(fence_from_afar());
  }).join();
}

TEST(FarFence, ANearOneStoresAsWell) {
  std::atomic<uint64_t> word = 0;
  store_before_look(word, 7, Fence::kNear);
  EXPECT_EQ(word, 7U);
}

}  // namespace
}  // namespace banyan::far_fence_test
