// The order in which buckets are sent: what the next forward pass needs first goes first, and the
// link is never idle for it.
// SPDX-License-Identifier: Apache-2.0

#include "src/reducer/send_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

namespace banyan::send_order_test {
namespace {

using ::testing::ElementsAre;

using Seconds = std::vector<double>;

std::vector<uint32_t> first_come(const Seconds& ready) {
  std::vector<uint32_t> order(ready.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return ready[a] < ready[b]; });
  return order;
}

// When each bucket is summed.
Seconds ends(const std::vector<uint32_t>& order, const Seconds& ready, const Seconds& duration) {
  Seconds end(ready.size());
  double now = 0;
  for (const uint32_t b : order) end[b] = now = std::max(now, ready[b]) + duration[b];
  return end;
}

// When the next forward pass is done whose layers take so long each: the highest number is first.
double forward(const Seconds& end, double layer) {
  double now = 0;
  for (size_t b = end.size(); b-- > 0;) now = std::max(now, end[b]) + layer;
  return now;
}

TEST(SendOrder, IsThatOfTheBackwardPassWhereTheLinkIsFast) {
  EXPECT_THAT(send_order(Seconds{1, 2, 3}, Seconds{0.5, 0.5, 0.5}), ElementsAre(0U, 1U, 2U));
}

TEST(SendOrder, TakesTheHighestNumberOfThoseThatAreFull) {
  // While 0 is sent, 1 to 3 fill.
  EXPECT_THAT(send_order(Seconds{1, 2, 3, 4}, Seconds{5, 1, 1, 1}), ElementsAre(0U, 3U, 2U, 1U));
  // 3 fills later than that, and the link does not wait for it.
  EXPECT_THAT(send_order(Seconds{1, 2, 3, 9}, Seconds{5, 4, 4, 1}), ElementsAre(0U, 2U, 3U, 1U));
  // A bucket that fills as the link becomes free is full.
  EXPECT_THAT(send_order(Seconds{0, 1, 2}, Seconds{2, 1, 1}), ElementsAre(0U, 2U, 1U));
}

TEST(SendOrder, TakesTheLowerNumberOfTwoThatFillWhileTheLinkIsFree) {
  EXPECT_THAT(send_order(Seconds{3, 3, 3}, Seconds{1, 1, 1}), ElementsAre(0U, 2U, 1U));
  EXPECT_THAT(send_order(Seconds{5, 3, 3}, Seconds{1, 1, 1}), ElementsAre(1U, 2U, 0U));
}

TEST(SendOrder, TakesWhatIsNoTimeForZero) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinite = std::numeric_limits<double>::infinity();
  EXPECT_EQ(send_order(Seconds{nan, -1, infinite, 0}, Seconds{nan, infinite, -5, 0}),
            send_order(Seconds{0, 0, 0, 0}, Seconds{0, 0, 0, 0}));
  EXPECT_EQ(send_order(Seconds{2, nan}, Seconds{1, 1}), send_order(Seconds{2, 0}, Seconds{1, 1}));
}

TEST(SendOrder, OfNothingIsNothing) {
  EXPECT_TRUE(send_order({}, {}).empty());
}

TEST(SendOrder, EndsNoLaterThanFirstComeFirstServed) {
  std::mt19937 random(1);
  std::uniform_real_distribution<double> time(0, 10);
  int sooner = 0;
  for (int round = 0; round < 2000; ++round) {
    Seconds ready(1 + random() % 12), duration(ready.size());
    for (double& one : ready) one = std::floor(time(random) * 4) / 4;  // ties, and sums are exact
    for (double& one : duration) one = std::floor(time(random)) / 4;
    if (random() % 2 == 0) std::sort(ready.begin(), ready.end());
    const std::vector<uint32_t> order = send_order(ready, duration);
    std::vector<uint32_t> sorted = order;
    std::sort(sorted.begin(), sorted.end());
    for (uint32_t b = 0; b < ready.size(); ++b) ASSERT_EQ(sorted.at(b), b);
    ASSERT_EQ(sorted.size(), ready.size());

    const Seconds ours = ends(order, ready, duration);
    const Seconds theirs = ends(first_come(ready), ready, duration);
    EXPECT_EQ(*std::max_element(ours.begin(), ours.end()),
              *std::max_element(theirs.begin(), theirs.end()));
    // No bucket that is full waits for one of a lower number to begin.
    double now = -1;
    for (size_t i = 0; i < order.size(); ++i) {
      const double begin = std::max(now, ready[order[i]]);
      for (size_t later = i + 1; later < order.size(); ++later) {
        const bool was_full = ready[order[later]] <= now;
        EXPECT_FALSE(was_full && order[later] > order[i]);
        EXPECT_GE(ready[order[later]], begin > now ? begin : 0);
      }
      now = begin + duration[order[i]];
    }
    if (forward(ours, 0.25) < forward(theirs, 0.25)) ++sooner;
  }
  EXPECT_GT(sooner, 500);
}

TEST(SendOrder, PutsOneOfThemFirst) {
  std::vector<uint32_t> order = {5, 3, 0, 4, 2, 1};
  put_first(order, std::vector<uint32_t>{2, 3, 4});
  EXPECT_EQ(order, (std::vector<uint32_t>{5, 2, 0, 4, 3, 1}));
  put_first(order, std::vector<uint32_t>{2, 3, 4});  // it is
  EXPECT_EQ(order, (std::vector<uint32_t>{5, 2, 0, 4, 3, 1}));
  put_first(order, std::vector<uint32_t>{1});
  EXPECT_EQ(order, (std::vector<uint32_t>{5, 2, 0, 4, 3, 1}));
}

}  // namespace
}  // namespace banyan::send_order_test
