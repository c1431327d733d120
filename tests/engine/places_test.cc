// SPDX-License-Identifier: Apache-2.0

#include "src/engine/places.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <vector>

#include "src/engine/patience.h"

namespace banyan {
namespace {

int core_for(std::vector<int> core_of, int rank) {
  return less_crowded_core(core_of, rank);
}

TEST(LessCrowdedCore, IsForTheLastRankOfTheMostCrowdedOne) {
  const std::vector<int> five_and_three{0, 1, 0, 0, 1, 0, 0, 1};
  for (int rank = 0; rank < 8; ++rank)
    EXPECT_EQ(core_for(five_and_three, rank), rank == 6 ? 1 : -1) << rank;
  EXPECT_EQ(core_for({7, 2, 7, 7}, 3), 2);
  EXPECT_EQ(core_for({5, 5, 5, 5, 3, 3, 4}, 3), 4) << "the least crowded of all";
  EXPECT_EQ(core_for({5, 5, 5, 5, 3, 3, 3, 4}, 6), -1) << "not the most crowded";
}

TEST(LessCrowdedCore, IsNoneWhereThatChangesNothing) {
  for (const std::vector<int>& core_of : std::vector<std::vector<int>>{
           {}, {0}, {0, 0, 0}, {0, 1}, {0, 0, 1}, {0, 1, 0, 1}, {-1, -1}, {0, 0, 0, -1}})
    for (int rank = 0; rank < static_cast<int>(core_of.size()); ++rank)
      EXPECT_EQ(less_crowded_core(core_of, rank), -1) << core_of.size() << " ranks, rank " << rank;
}

TEST(LessCrowdedCore, LeavesOutWhatIsNoCore) {
  EXPECT_EQ(core_for({0, 0, 0, -1, 1 << 30, 1, CPU_SETSIZE}, 2), 1);
}

// All moves together: they end, and no core has two ranks more than another.
TEST(LessCrowdedCore, EvensOutWhateverItBegins) {
  for (const int ranks : {2, 3, 5, 8, 13, 64})
    for (const int cores : {1, 2, 3, 7}) {
      std::vector<int> core_of(static_cast<size_t>(ranks), 0);
      for (int core = 1; core < std::min(cores, ranks); ++core)
        core_of[static_cast<size_t>(core)] = core;
      for (int moves = 0;; ++moves) {
        ASSERT_LE(moves, ranks) << "they go on and on";
        int rank = 0, core = -1;
        while (rank < ranks && core < 0) core = less_crowded_core(core_of, rank++);
        if (core < 0) break;
        core_of[static_cast<size_t>(rank - 1)] = core;
      }
      std::vector<int> on(static_cast<size_t>(std::min(cores, ranks)));
      for (const int core : core_of) ++on[static_cast<size_t>(core)];
      const auto [least, most] = std::minmax_element(on.begin(), on.end());
      EXPECT_LE(*most - *least, 1) << ranks << " ranks on " << cores << " cores";
    }
}

cpu_set_t allowed_cores() {
  cpu_set_t cores;
  EXPECT_EQ(sched_getaffinity(0, sizeof cores, &cores), 0);
  return cores;
}

// Pins this thread, which may use all cores again afterwards.
class OnCores : public testing::Test {
 protected:
  OnCores() : cores_(allowed_cores()) {
    for (int core = 0; core < CPU_SETSIZE; ++core)
      if (CPU_ISSET(core, &cores_)) numbers_.push_back(core);
  }
  void TearDown() override { sched_setaffinity(0, sizeof cores_, &cores_); }

  static void stay_on(int core) {
    cpu_set_t only;
    CPU_ZERO(&only);
    CPU_SET(core, &only);
    ASSERT_EQ(sched_setaffinity(0, sizeof only, &only), 0);
  }
  static uint32_t mark(int core, bool runs) {
    return static_cast<uint32_t>(core + 1) << 1 | (runs ? 1U : 0U);
  }

  cpu_set_t cores_;
  std::vector<int> numbers_;
  std::array<Places::Mark, 4> marks_{};
};

TEST_F(OnCores, ARankThatRunsElsewhereIsTold) {
  const int here = numbers_.front();
  stay_on(here);
  Places places(marks_, 0);
  places.arrive();
  EXPECT_EQ(places.look_at(1), Places::Peer::kUnknown);
  marks_[1].word = mark(here + 1, true);
  EXPECT_EQ(places.look_at(1), Places::Peer::kRuns);
  marks_[1].word = mark(here + 1, false);
  EXPECT_EQ(places.look_at(1), Places::Peer::kOff);
  marks_[1].word = mark(here, true);
  EXPECT_EQ(places.look_at(1), Places::Peer::kOff) << "this rank runs there";

  Places peer(marks_, 2);
  peer.arrive();
  EXPECT_EQ(marks_[2].word, mark(here, true));
  peer.leave();
  EXPECT_EQ(marks_[2].word, mark(here, false));
}

TEST_F(OnCores, AWaitLooksForARankThatRunsAndYieldsToOthers) {
  const int here = numbers_.front();
  stay_on(here);
  Places places(marks_, 0);
  marks_[1].word = mark(here + 1, true);
  marks_[2].word = mark(here, true);
  // Takes any yield for one that let others run, and says so by fewer looks.
  Patience patience(Patience::Core::kShared, Patience::kManyLooks, Clock::duration(0));
  Wait wait(patience, &places);
  for (int look = 0; look < Patience::kManyLooks; ++look) ASSERT_TRUE(wait.linger_for(1));
  EXPECT_EQ(patience.looks(), Patience::kManyLooks);
  EXPECT_TRUE(wait.linger_for(1));
  EXPECT_EQ(patience.looks(), Patience::kFewLooks) << "but not for ever";

  Patience other(Patience::Core::kShared, Patience::kManyLooks, Clock::duration(0));
  Wait off(other, &places);
  EXPECT_TRUE(off.linger_for(2));
  EXPECT_EQ(other.looks(), Patience::kFewLooks) << "at once";
  const TimePoint before = Clock::now();
  while (off.linger_for(2)) ASSERT_LT(Clock::now() - before, std::chrono::seconds(10));

  Patience unknown(Patience::Core::kShared, Patience::kManyLooks, Clock::duration(0));
  Wait blind(unknown, &places);
  EXPECT_TRUE(blind.linger_for(3));
  EXPECT_EQ(unknown.looks(), Patience::kManyLooks) << "as linger() does";
}

TEST_F(OnCores, TheLastRankOfACrowdMovesAndMayStillRunAnywhere) {
  // There is nowhere to move to; less_crowded_core() is tested without cores.
  if (numbers_.size() < 2) GTEST_SKIP() << "only one core to run on";
  const int crowded = numbers_[0], other = numbers_[1];
  for (const size_t rank : {0, 1}) marks_[rank].word = mark(crowded, false);
  marks_[2].word = mark(other, true);
  Places places(marks_, 3);
  const auto arrive_on = [&](int core) {
    stay_on(core);
    places.arrive();
    sched_setaffinity(0, sizeof cores_, &cores_);
  };
  arrive_on(crowded);
  int there = 0, moves = 0;
  constexpr auto kStep = std::chrono::milliseconds(10);
  TimePoint now;
  for (const TimePoint end = now + std::chrono::minutes(1); now < end; now += kStep) {
    arrive_on(crowded);
    if (!places.balance(now)) continue;
    EXPECT_GT(now, TimePoint()) << "it looks a second time first";
    ++moves;
    if (sched_getcpu() == other) ++there;
  }
  // Ever more seldom, should somebody take it back each time.
  EXPECT_GE(moves, 55);
  EXPECT_LE(moves, 70);
  EXPECT_GE(there, moves / 2) << "where the kernel may move it on";
  const cpu_set_t after = allowed_cores();
  EXPECT_TRUE(CPU_EQUAL(&after, &cores_));
}

TEST_F(OnCores, ARankThatMayNotMoveStays) {
  const int here = numbers_.front();
  stay_on(here);
  for (const size_t rank : {0, 1}) marks_[rank].word = mark(here, false);
  marks_[2].word = mark(here + 1, true);
  Places places(marks_, 3);
  places.arrive();
  TimePoint now;
  for (int look = 0; look < 100; ++look) EXPECT_FALSE(places.balance(now += Places::kLookAgain));
  const cpu_set_t after = allowed_cores();
  EXPECT_EQ(CPU_COUNT(&after), 1);
  EXPECT_TRUE(CPU_ISSET(here, &after));
}

}  // namespace
}  // namespace banyan
