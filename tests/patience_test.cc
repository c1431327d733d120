// SPDX-License-Identifier: Apache-2.0

#include "src/patience.h"

#include <gtest/gtest.h>

namespace banyan {
namespace {

constexpr auto kCheap = std::chrono::microseconds(1);
constexpr auto kDear = std::chrono::milliseconds(3);

// Yields of that cost until it is time to sleep; how many they were.
int yields_until_sleep(Patience& patience, TimePoint& now, Clock::duration cost) {
  int count = 0;
  for (patience.begin(now); patience.yields(now); ++count) {
    const TimePoint before = now;
    now += cost;
    patience.yielded(before, now);
  }
  patience.slept();
  return count;
}

TEST(Patience, YieldsForAWhileWhereYieldsAreCheap) {
  Patience patience;
  TimePoint now;
  for (int wait = 0; wait < 3; ++wait) EXPECT_EQ(yields_until_sleep(patience, now, kCheap), 100);
}

TEST(Patience, TriesDearYieldsEverMoreSeldom) {
  Patience patience;
  TimePoint now;
  int yields = 0;
  for (int wait = 0; wait < 10000; ++wait) yields += yields_until_sleep(patience, now, kDear);
  EXPECT_GE(yields, 10);
  EXPECT_LE(yields, 20);
}

TEST(Patience, YieldsAgainOnceItIsCheap) {
  Patience patience;
  TimePoint now;
  for (int wait = 0; wait < 100; ++wait) yields_until_sleep(patience, now, kDear);
  int waits = 0;
  while (yields_until_sleep(patience, now, kCheap) == 0) ASSERT_LE(++waits, Patience::kMostSleeps);
  EXPECT_EQ(yields_until_sleep(patience, now, kCheap), 100);
  EXPECT_EQ(yields_until_sleep(patience, now, kDear), 1);
  EXPECT_EQ(yields_until_sleep(patience, now, kCheap), 0);
  EXPECT_EQ(yields_until_sleep(patience, now, kCheap), 100) << "it starts again with few sleeps";
}

// Looks pay where nobody else is on this core.
TEST(Patience, LooksAsLongAsYieldsFindNobody) {
  constexpr auto kSwitch = std::chrono::nanoseconds(400);
  Patience patience(Patience::kManyLooks, kSwitch);
  TimePoint now;
  EXPECT_EQ(patience.looks(), Patience::kManyLooks);
  yields_until_sleep(patience, now, kCheap);
  EXPECT_EQ(patience.looks(), Patience::kFewLooks) << "a microsecond: somebody else ran";
  yields_until_sleep(patience, now, std::chrono::nanoseconds(200));
  EXPECT_EQ(patience.looks(), Patience::kManyLooks);
  Patience never(0, kSwitch);
  yields_until_sleep(never, now, std::chrono::nanoseconds(200));
  EXPECT_EQ(never.looks(), 0);
}

TEST(Wait, LooksThenYieldsThenAsksForSleep) {
  Patience patience;
  Wait wait(patience);
  for (int round = 0; round < 3; ++round) {
    const TimePoint before = Clock::now();
    int turns = 0;
    while (wait.linger()) ASSERT_LT(++turns, 100000000) << "never asks for sleep";
    EXPECT_GE(turns, round == 0 ? Patience::kManyLooks : 0);
    EXPECT_GE(Clock::now() - before, round == 0 ? Patience::kYieldFor : Clock::duration());
    wait.slept();
  }
}

}  // namespace
}  // namespace banyan
