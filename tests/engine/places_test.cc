// SPDX-License-Identifier: Apache-2.0

#include "src/engine/places.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <array>
#include <vector>

#include "src/engine/patience.h"

namespace banyan::places_test {
namespace {

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

}  // namespace
}  // namespace banyan::places_test
