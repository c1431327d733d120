// The order of hosts in a ring: against all orders, by search against exactly, and planted ones.
// SPDX-License-Identifier: Apache-2.0

#include "algorithms/ring_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace banyan::ring_order_test {
namespace {

std::vector<int> by_number(int hosts) {
  std::vector<int> order(static_cast<size_t>(hosts));
  std::iota(order.begin(), order.end(), 0);
  return order;
}

// Draws from few different costs, so that many cycles are equal, or from many.
EdgeCosts random_costs(int hosts, std::mt19937& random, bool symmetric, int kinds) {
  EdgeCosts costs(hosts);
  std::uniform_int_distribution<int> cost(1, kinds);
  for (int from = 0; from < hosts; ++from)
    for (int to = 0; to < hosts; ++to) {
      if (from == to) continue;
      costs.at(from, to) = symmetric && to < from ? costs.at(to, from) : cost(random);
    }
  return costs;
}

RingCost least_of_all(const EdgeCosts& costs) {
  std::vector<int> order = by_number(costs.hosts);
  RingCost least = cost_of(costs, order);
  while (std::next_permutation(order.begin() + 1, order.end()))
    least = std::min(least, cost_of(costs, order),
                     [](const RingCost& a, const RingCost& b) { return a < b; });
  return least;
}

void expect_each_once(const std::vector<int>& order, int hosts) {
  std::vector<int> sorted = order;
  std::sort(sorted.begin(), sorted.end());
  EXPECT_EQ(sorted, by_number(hosts));
  if (hosts > 0) {
    EXPECT_EQ(order.front(), 0);
  }
}

TEST(RingOrder, IsTheBestOfAllOrders) {
  std::mt19937 random(3);
  for (int hosts = 0; hosts <= 8; ++hosts)
    for (int trial = 0; trial < 12; ++trial) {
      const EdgeCosts costs =
          random_costs(hosts, random, trial % 2 == 0, trial % 3 == 0 ? 4 : 1000);
      const std::vector<int> order = ring_order(costs);
      expect_each_once(order, hosts);
      if (hosts == 0) continue;
      const RingCost found = cost_of(costs, order), least = least_of_all(costs);
      EXPECT_EQ(found.slowest, least.slowest) << hosts << " hosts, trial " << trial;
      EXPECT_EQ(found.sum, least.sum) << hosts << " hosts, trial " << trial;
    }
}

TEST(RingOrder, BySearchIsNearlyAlwaysTheBest) {
  std::mt19937 random(4);
  int trials = 0, as_fast = 0, best = 0;
  for (int hosts = 3; hosts <= 10; ++hosts)
    for (int trial = 0; trial < 50; ++trial) {
      const EdgeCosts costs =
          random_costs(hosts, random, trial % 2 == 0, trial % 3 == 0 ? 4 : 1000);
      const RingCost least = cost_of(costs, ring_order(costs));
      const std::vector<int> order = ring_order_by_search(costs);
      expect_each_once(order, hosts);
      const RingCost found = cost_of(costs, order);
      EXPECT_GE(found.slowest, least.slowest);
      EXPECT_LE(found.slowest, cost_of(costs, by_number(hosts)).slowest);
      ++trials;
      as_fast += found.slowest == least.slowest ? 1 : 0;
      best += found == least ? 1 : 0;
    }
  RecordProperty("as_fast", as_fast);
  RecordProperty("best", best);
  EXPECT_GE(as_fast, trials * 99 / 100) << "of " << trials;
  EXPECT_GE(best, trials * 90 / 100) << "of " << trials;
}

TEST(RingOrder, BySearchFindsARingThatWasPlanted) {
  for (const int hosts : {13, 20, 40})
    for (uint32_t seed = 1; seed <= 10; ++seed) {
      std::mt19937 random(seed);
      EdgeCosts costs = random_costs(hosts, random, false, 1000);
      for (double& cost : costs.rows) cost += 100;
      std::vector<int> planted = by_number(hosts);
      std::shuffle(planted.begin() + 1, planted.end(), random);
      for (int place = 0; place < hosts; ++place)
        costs.at(planted[static_cast<size_t>(place)],
                 planted[static_cast<size_t>((place + 1) % hosts)]) = 10;
      EXPECT_EQ(ring_order(costs), planted) << hosts << " hosts, seed " << seed;
    }
}

// Racks whose hosts are dealt out in turn: a ring enters each rack once.
TEST(RingOrder, GoesThroughRacksOneAfterTheOther) {
  for (const auto& [hosts, racks] : {std::pair(6, 2), {12, 3}, {24, 4}, {64, 8}}) {
    EdgeCosts costs(hosts);
    for (int from = 0; from < hosts; ++from)
      for (int to = 0; to < hosts; ++to) costs.at(from, to) = from % racks == to % racks ? 1 : 10;
    const RingCost found = cost_of(costs, ring_order(costs));
    EXPECT_EQ(found.slowest, 10);
    EXPECT_EQ(found.sum, 10 * racks + hosts - racks) << hosts << " hosts in " << racks;
  }
}

TEST(RingOrder, TakesWhatIsUnknownForTheSlowest) {
  EdgeCosts costs(4);
  EXPECT_EQ(ring_order(costs), by_number(4));
  for (const auto& [from, to] : {std::pair(0, 2), {2, 1}, {1, 3}, {3, 0}}) costs.at(from, to) = 1;
  costs.at(0, 1) = 5;
  EXPECT_EQ(cost_of(costs, by_number(4)).slowest, 5);
  EXPECT_EQ(ring_order(costs), (std::vector<int>{0, 2, 1, 3}));
  costs.at(0, 1) = 1;  // none is slower than another
  EXPECT_EQ(ring_order(costs), by_number(4));
}

TEST(RingOrder, OfHundredsOfHostsIsFoundInTime) {
  for (const int hosts : {100, 300}) {
    std::mt19937 random(7);
    const EdgeCosts costs = random_costs(hosts, random, true, 1000000);
    const auto begin = std::chrono::steady_clock::now();
    const std::vector<int> order = ring_order(costs);
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(
                        std::chrono::steady_clock::now() - begin)
                        .count();
    RecordProperty("ms_for_" + std::to_string(hosts), static_cast<int>(ms));
    expect_each_once(order, hosts);
    EXPECT_EQ(order, ring_order(costs));
    EXPECT_LT(cost_of(costs, order).slowest, cost_of(costs, by_number(hosts)).slowest / 4);
    EXPECT_LT(ms, 2000) << hosts << " hosts";  // a machine with other work
  }
}

}  // namespace
}  // namespace banyan::ring_order_test
