// SPDX-License-Identifier: Apache-2.0

#include "src/engine/patience.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace banyan::patience_test {
namespace {

constexpr auto kCheap = std::chrono::microseconds(1);
constexpr auto kWhile = std::chrono::microseconds(100);
constexpr auto kDear = std::chrono::milliseconds(3);

// Yields of that cost until it is time to sleep; how many they were.
int yields_until_sleep(Patience& patience, TimePoint& now, Clock::duration cost) {
  int count = 0;
  for (patience.begin(now, kWhile); patience.yields(now); ++count) {
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

// A yield among 64 ranks of a core takes as long as their turns do; what a program takes that gives
// its core to nobody stays dear.
TEST(Patience, AYieldMayTakeLongerOnACrowdedCore) {
  constexpr auto kTurns = std::chrono::microseconds(1500);
  for (const int ranks : {1, 64, 100000}) {
    Patience patience(Patience::Core::kShared, Patience::kManyLooks, Patience::switch_time(),
                      ranks);
    TimePoint now;
    yields_until_sleep(patience, now, kTurns);
    const int crowded = yields_until_sleep(patience, now, kTurns);
    EXPECT_EQ(crowded > 0, ranks > 1) << ranks;
    yields_until_sleep(patience, now, kDear);
    EXPECT_EQ(yields_until_sleep(patience, now, kDear), 0) << ranks;
    EXPECT_EQ(patience.yield_for(false),
              (ranks > 1 ? 4 : 1) * Clock::duration(Patience::kYieldFor));
  }
}

// Beside a program that never gives the core away, whoever has a core of its own keeps it.
TEST(Patience, LooksOnWhereYieldsAreDearAndTheCoreIsItsOwn) {
  for (const auto core : {Patience::Core::kOwn, Patience::Core::kShared}) {
    Patience patience(core);
    TimePoint now;
    yields_until_sleep(patience, now, kDear);
    patience.begin(now, kWhile);
    EXPECT_FALSE(patience.yields(now));
    EXPECT_EQ(patience.looks_on(now), core == Patience::Core::kOwn);
    EXPECT_FALSE(patience.looks_on(now + kWhile)) << "then it sleeps";
  }
}

// Looks pay where nobody else is on this core.
TEST(Patience, LooksAsLongAsYieldsFindNobody) {
  constexpr auto kSwitch = std::chrono::nanoseconds(400);
  Patience patience(Patience::Core::kShared, Patience::kManyLooks, kSwitch);
  TimePoint now;
  EXPECT_EQ(patience.looks(), Patience::kManyLooks);
  yields_until_sleep(patience, now, kCheap);
  EXPECT_EQ(patience.looks(), Patience::kFewLooks) << "a microsecond: somebody else ran";
  yields_until_sleep(patience, now, std::chrono::nanoseconds(200));
  EXPECT_EQ(patience.looks(), Patience::kManyLooks);
  Patience never(Patience::Core::kShared, 0, kSwitch);
  yields_until_sleep(never, now, std::chrono::nanoseconds(200));
  EXPECT_EQ(never.looks(), 0);
}

TEST(Wait, LooksOnInPlaceOfDearYields) {
  Patience patience(Patience::Core::kOwn);
  patience.yielded(TimePoint(), TimePoint() + kDear);
  for (int round = 0; round < 2; ++round) {
    Wait wait(patience);
    const TimePoint before = Clock::now();
    while (wait.linger()) ASSERT_LT(Clock::now() - before, std::chrono::seconds(10));
    EXPECT_GE(Clock::now() - before, Patience::kYieldFor);
  }
}

TEST(Wait, LooksThenYieldsThenAsksForSleep) {
  Patience patience;
  Wait wait(patience);
  auto fastest = Clock::duration::max();
  for (int round = 0; round < 10; ++round) {
    const TimePoint before = Clock::now();
    int turns = 0;
    while (wait.linger()) ASSERT_LT(++turns, 100000000) << "never asks for sleep";
    EXPECT_GE(turns, round == 0 ? Patience::kManyLooks : 0);
    const auto yielded = Clock::now() - before;
    if (round == 0) {
      EXPECT_GE(yielded, Patience::kDearYield);  // a dear one ends it
    } else {
      fastest = std::min(fastest, yielded);
    }
    wait.slept();
  }
  EXPECT_LT(fastest, Patience::kYieldFor) << "between sleeps it yields for as long as at first";
}

}  // namespace
}  // namespace banyan::patience_test
