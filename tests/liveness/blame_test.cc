// SPDX-License-Identifier: Apache-2.0

#include "src/liveness/blame.h"

#include <gtest/gtest.h>

#include <vector>

namespace banyan::blame_test {
namespace {

using std::chrono::milliseconds;

constexpr Waiting kComputes;

Waiting waits_for(int peer, int age_ms = 10) {
  return {peer, milliseconds(age_ms)};
}

TEST(Blame, FollowsTheChainToItsEnd) {
  const std::vector<Waiting> said{kComputes, waits_for(0), waits_for(1), waits_for(2)};
  EXPECT_EQ(culprit_of(3, 2, said), 0);
  EXPECT_EQ(culprit_of(1, 0, said), 0);
}

// Rank 0 was stopped while it waited for rank 2, which has sent long since.
TEST(Blame, FindsTheSilentOneInACircle) {
  for (const int silent_for : {60, 300, 5000}) {
    const std::vector<Waiting> said{waits_for(2, silent_for), waits_for(0), waits_for(0, 45),
                                    waits_for(2, 3)};
    for (const int me : {1, 2, 3}) EXPECT_EQ(culprit_of(me, said[me].peer, said), 0) << me;
  }
}

// Rank 0 was stopped; rank 2, for which it waited, computes and is late for nobody.
TEST(Blame, StopsAtWhoHasLongBeenSilent) {
  const std::vector<Waiting> said{waits_for(2, 2000), waits_for(0), kComputes};
  EXPECT_EQ(culprit_of(1, 0, said), 0);
  const std::vector<Waiting> alive{waits_for(2, 100), waits_for(0), kComputes};
  EXPECT_EQ(culprit_of(1, 0, alive), 2);
}

TEST(Blame, EndsWhateverTheRanksSay) {
  for (int a = -1; a < 3; ++a)
    for (int b = -1; b < 3; ++b)
      for (int c = -1; c < 3; ++c) {
        const std::vector<Waiting> said{waits_for(a), waits_for(b), waits_for(c)};
        const int culprit = culprit_of(0, 1, said);
        EXPECT_TRUE(culprit >= 0 && culprit < 3);
      }
}

}  // namespace
}  // namespace banyan::blame_test
