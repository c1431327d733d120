// Says in which order a ring should go from host to host. Every message of a ring waits for the
// slowest edge, so that one is made as fast as it can be (the bottleneck travelling salesman
// problem, of edges that may differ by direction), and then the sum of all.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <vector>

namespace banyan {

// What a byte takes from each host to each other one, in any unit; at least 0.
struct EdgeCosts {
  explicit EdgeCosts(int count);  // nothing is known

  int hosts;
  std::vector<double> rows;  // from, then to; what is not finite is unknown

  double& at(int from, int to) { return rows[index(from, to)]; }
  double at(int from, int to) const { return rows[index(from, to)]; }
  size_t index(int from, int to) const {
    return static_cast<size_t>(from) * static_cast<size_t>(hosts) + static_cast<size_t>(to);
  }
};

// Holds the cost of a cycle, by costs that are known; those that are not count as the slowest that
// is.
struct RingCost {
  double slowest = 0;
  double sum = 0;

  bool operator==(const RingCost&) const = default;
  bool operator<(const RingCost& other) const {
    return slowest != other.slowest ? slowest < other.slowest : sum < other.sum;
  }
};
RingCost cost_of(const EdgeCosts& costs, const std::vector<int>& order);

// Visits each host once, beginning with host 0; never worse than in the order of numbers. It is the
// best there is for up to kMostHostsExactly hosts, a good one for more. A pure function: a search
// that is drawn at random draws the same every time, and ends after a number of steps, not at a
// time.
inline constexpr int kMostHostsExactly = 12;
std::vector<int> ring_order(const EdgeCosts& costs);
// As for more hosts.
std::vector<int> ring_order_by_search(const EdgeCosts& costs);

}  // namespace banyan
