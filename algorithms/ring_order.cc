// Up to a dozen hosts are ordered by dynamic programming over sets of hosts (Held, Karp 1962). For
// more a binary search looks for the slowest edge that must be allowed. In it tours are repaired
// until they have none that is slower, by turning a segment (2-opt) and by exchanging two
// (or-3opt).
// SPDX-License-Identifier: Apache-2.0

#include "algorithms/ring_order.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <utility>

namespace banyan {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

// Unknown costs as the greatest that is known.
EdgeCosts filled(const EdgeCosts& costs) {
  double slowest = 0;
  for (int from = 0; from < costs.hosts; ++from)
    for (int to = 0; to < costs.hosts; ++to)
      if (from != to && std::isfinite(costs.at(from, to)))
        slowest = std::max(slowest, costs.at(from, to));
  EdgeCosts known = costs;
  for (double& cost : known.rows)
    if (!std::isfinite(cost)) cost = slowest;
  return known;
}

std::vector<int> by_number(int hosts) {
  std::vector<int> order(static_cast<size_t>(hosts));
  std::iota(order.begin(), order.end(), 0);
  return order;
}

RingCost known_cost(const EdgeCosts& costs, const std::vector<int>& order) {
  RingCost cost;
  for (size_t index = 0; index < order.size(); ++index) {
    const double edge = costs.at(order[index], order[(index + 1) % order.size()]);
    cost.slowest = std::max(cost.slowest, edge);
    cost.sum += edge;
  }
  return cost;
}

// Beginning with host 0.
std::vector<int> from_first(std::vector<int> order) {
  std::rotate(order.begin(), std::find(order.begin(), order.end(), 0), order.end());
  return order;
}

struct Best {
  double value;
  std::vector<int> order;
};

// Finds the cycle of least value, where `join` makes the value of a path of that of its beginning
// and of its last edge. Host 0 is the last one, and sets are of the others.
template <typename Join>
Best least_cycle(const EdgeCosts& costs, Join join) {
  const int others = costs.hosts - 1;
  const size_t sets = size_t{1} << others;
  struct Path {
    double value = kNever;
    int before = -1;
  };
  std::vector<Path> paths(sets * static_cast<size_t>(others));
  const auto path = [&](size_t set, int last) -> Path& {
    return paths[set * static_cast<size_t>(others) + static_cast<size_t>(last)];
  };
  for (int host = 0; host < others; ++host)
    path(size_t{1} << host, host) = {join(0, costs.at(others, host)), -1};
  for (size_t set = 1; set < sets; ++set)
    for (int last = 0; last < others; ++last) {
      if ((set >> last & 1) == 0) continue;
      const size_t before = set ^ size_t { 1 } << last;
      for (int host = 0; host < others; ++host) {
        if ((before >> host & 1) == 0) continue;
        const double value = join(path(before, host).value, costs.at(host, last));
        if (value < path(set, last).value) path(set, last) = {value, host};
      }
    }
  Best best{kNever, {}};
  int last = 0;
  for (int host = 0; host < others; ++host) {
    const double value = join(path(sets - 1, host).value, costs.at(host, others));
    if (value < best.value) {
      best.value = value;
      last = host;
    }
  }
  best.order.push_back(others);
  for (size_t set = sets - 1; last >= 0;) {
    best.order.push_back(last);
    const int before = path(set, last).before;
    set ^= size_t{1} << last;
    last = before;
  }
  std::reverse(best.order.begin(), best.order.end());
  return best;
}

std::vector<int> exactly(const EdgeCosts& costs) {
  const double slowest =
      least_cycle(costs, [](double path, double edge) { return std::max(path, edge); }).value;
  return least_cycle(
             costs,
             [slowest](double path, double edge) { return edge > slowest ? kNever : path + edge; })
      .order;
}

constexpr int64_t kMostSteps = 8'000'000;  // moves that are looked at: some tens of milliseconds
constexpr int kStarts = 8;
constexpr int kKicks = 4;  // of each
constexpr int kShortSegment = 3;
constexpr int kFewHosts = 40;  // all segments are looked at

// What is made less: first the edges that are slower than is allowed.
struct Weight {
  int slow = 0;
  double sum = 0;

  Weight operator+(const Weight& other) const { return {slow + other.slow, sum + other.sum}; }
  Weight operator-(const Weight& other) const { return {slow - other.slow, sum - other.sum}; }
  bool operator<(const Weight& other) const {
    return slow != other.slow ? slow < other.slow : sum < other.sum;
  }
};

class Search {
 public:
  explicit Search(const EdgeCosts& costs) : costs_(costs), best_(by_number(costs.hosts)) {
    best_cost_ = known_cost(costs_, best_);
    tiny_ = 1e-9 * best_cost_.slowest;
    const int starts = std::min(kStarts, costs.hosts);
    for (int start = 0; start < starts; ++start) {
      starts_.push_back(nearest_first(start * costs.hosts / starts));
      take(starts_.back());
    }
  }

  std::vector<int> run() {
    const std::vector<double> limits = limits_to_try();
    size_t least = 0;  // all below it failed
    while (true) {
      const auto most = static_cast<size_t>(
          std::lower_bound(limits.begin(), limits.end(), best_cost_.slowest) - limits.begin());
      if (least >= most) break;
      const size_t middle = least + (most - least) / 2;
      if (!reach(limits[middle])) least = middle + 1;
    }
    steps_ = kMostSteps / 4;
    std::vector<int> tour = best_;
    shorten(tour, best_cost_.slowest);
    take(tour);
    return from_first(best_);
  }

 private:
  struct Move {
    Weight change{};
    int first = -1;   // the last place of the first segment, from the edge that goes; -1: no move
    int second = -1;  // that of the second, which changes places with the rest; -1: the first turns
  };

  Weight weight(int from, int to, double limit) const {
    const double cost = costs_.at(from, to);
    return {cost > limit ? 1 : 0, cost};
  }

  void take(const std::vector<int>& tour) {
    const RingCost cost = known_cost(costs_, tour);
    if (!(cost < best_cost_)) return;
    best_ = tour;
    best_cost_ = cost;
  }

  // Different costs, from the least that every host must pay.
  std::vector<double> limits_to_try() const {
    double least = 0;
    std::vector<double> limits;
    for (int host = 0; host < costs_.hosts; ++host) {
      double out = kNever, in = kNever;
      for (int other = 0; other < costs_.hosts; ++other) {
        if (other == host) continue;
        out = std::min(out, costs_.at(host, other));
        in = std::min(in, costs_.at(other, host));
        limits.push_back(costs_.at(host, other));
      }
      least = std::max({least, out, in});
    }
    std::sort(limits.begin(), limits.end());
    limits.erase(std::unique(limits.begin(), limits.end()), limits.end());
    limits.erase(limits.begin(), std::lower_bound(limits.begin(), limits.end(), least));
    return limits;
  }

  std::vector<int> nearest_first(int start) const {
    std::vector<int> left = by_number(costs_.hosts);
    std::vector<int> tour{start};
    left.erase(left.begin() + start);
    while (!left.empty()) {
      const auto next = std::min_element(left.begin(), left.end(), [&](int a, int b) {
        return costs_.at(tour.back(), a) < costs_.at(tour.back(), b);
      });
      tour.push_back(*next);
      left.erase(next);
    }
    return tour;
  }

  // Whether a tour without edges above the limit was found.
  bool reach(double limit) {
    std::vector<std::vector<int>> tours{best_};
    tours.insert(tours.end(), starts_.begin(), starts_.end());
    for (std::vector<int>& tour : tours)
      for (int kick = 0; kick <= kKicks && steps_ > 0; ++kick) {
        if (kick > 0) exchange_any(tour);
        if (!repair(tour, limit)) continue;
        take(tour);
        return true;
      }
    return false;
  }

  // Two neighbouring segments, whatever it costs: out of where no move gains.
  void exchange_any(std::vector<int>& tour) {
    std::array<std::ptrdiff_t, 3> cuts{};
    for (std::ptrdiff_t& cut : cuts)
      cut = static_cast<std::ptrdiff_t>(random_() % (tour.size() + 1));  // the same everywhere
    std::sort(cuts.begin(), cuts.end());
    std::rotate(tour.begin() + cuts[0], tour.begin() + cuts[1], tour.begin() + cuts[2]);
  }

  // Removes slow edges, one after the other.
  bool repair(std::vector<int>& tour, double limit) {
    const int size = costs_.hosts;
    while (steps_ > 0) {
      int slow = 0, failed = 0;
      for (int turn = 0; turn < size && steps_ > 0; ++turn) {
        std::rotate(tour.begin(), tour.begin() + 1, tour.end());
        if (costs_.at(tour.back(), tour.front()) <= limit) continue;
        ++slow;
        if (!improve(tour, limit, size)) ++failed;
      }
      if (slow == 0) return known_cost(costs_, tour).slowest <= limit;
      if (failed == slow) return false;
    }
    return false;
  }

  // Makes the sum less, without edges above the limit.
  void shorten(std::vector<int>& tour, double limit) {
    const int size = costs_.hosts;
    const int segment = size <= kFewHosts ? size : kShortSegment;
    for (int idle = 0; idle < size && steps_ > 0; ++idle) {
      std::rotate(tour.begin(), tour.begin() + 1, tour.end());
      if (improve(tour, limit, segment)) idle = -1;
    }
  }

  // By the best move without the edge from the last to the first, if any gains.
  bool improve(std::vector<int>& tour, double limit, int longest) {
    const Move move = std::min(best_turn(tour, limit), best_exchange(tour, limit, longest),
                               [](const Move& a, const Move& b) { return a.change < b.change; });
    if (!(move.change < Weight{0, -tiny_})) return false;
    const auto first = tour.begin() + move.first + 1;
    if (move.second < 0)
      std::reverse(tour.begin(), first);
    else
      std::rotate(first, tour.begin() + move.second + 1, tour.end());
    return true;
  }

  // The first segment the other way around.
  Move best_turn(const std::vector<int>& tour, double limit) {
    Move best;
    const int last = tour.back();
    Weight turned;  // of the segment backwards, less forwards
    for (int j = 1; j + 1 < costs_.hosts; ++j) {
      const int end = tour[static_cast<size_t>(j)];
      const int before = tour[static_cast<size_t>(j) - 1];
      const int next = tour[static_cast<size_t>(j) + 1];
      turned = turned + weight(end, before, limit) - weight(before, end, limit);
      const Weight change = turned + weight(last, end, limit) + weight(tour.front(), next, limit) -
                            weight(last, tour.front(), limit) - weight(end, next, limit);
      if (change < best.change) best = {change, j, -1};
    }
    steps_ -= costs_.hosts;
    return best;
  }

  // Two segments behind the first, of at most `longest`, in the other order.
  Move best_exchange(const std::vector<int>& tour, double limit, int longest) {
    Move best;
    const int size = costs_.hosts;
    const int head = tour.front(), last = tour.back();
    const Weight gone = weight(last, head, limit);
    for (int j = 0; j + 2 < size && j < longest; ++j) {
      const int end = tour[static_cast<size_t>(j)];
      const int next = tour[static_cast<size_t>(j) + 1];
      const Weight so_far = weight(last, next, limit) - gone - weight(end, next, limit);
      steps_ -= size - j;
      if (so_far.slow > 0) continue;
      for (int k = j + 1; k + 1 < size; ++k) {
        const int far = tour[static_cast<size_t>(k)];
        const int after = tour[static_cast<size_t>(k) + 1];
        const Weight change = so_far + weight(end, after, limit) + weight(far, head, limit) -
                              weight(far, after, limit);
        if (change < best.change) best = {change, j, k};
      }
    }
    return best;
  }

  const EdgeCosts& costs_;
  std::vector<int> best_;
  RingCost best_cost_;
  double tiny_ = 0;  // what rounding may make of equal sums
  std::vector<std::vector<int>> starts_;
  std::mt19937 random_;  // always of the same seed
  int64_t steps_ = kMostSteps;
};

}  // namespace

EdgeCosts::EdgeCosts(int count)
    : hosts(count), rows(static_cast<size_t>(count) * static_cast<size_t>(count), kNever) {}

RingCost cost_of(const EdgeCosts& costs, const std::vector<int>& order) {
  return known_cost(filled(costs), order);
}

std::vector<int> ring_order(const EdgeCosts& costs) {
  if (costs.hosts > kMostHostsExactly) return ring_order_by_search(costs);
  std::vector<int> order = by_number(costs.hosts);
  if (costs.hosts <= 2) return order;
  const EdgeCosts known = filled(costs);
  std::vector<int> best = from_first(exactly(known));
  return known_cost(known, best) < known_cost(known, order) ? best : order;
}

std::vector<int> ring_order_by_search(const EdgeCosts& costs) {
  if (costs.hosts <= 2) return by_number(costs.hosts);
  const EdgeCosts known = filled(costs);
  return Search(known).run();
}

}  // namespace banyan
