// SPDX-License-Identifier: Apache-2.0

#include "src/reducer/send_order.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>
#include <queue>

namespace banyan {
namespace {

double seconds_in(double value) {
  return std::isfinite(value) && value > 0 ? value : 0;
}

}  // namespace

std::vector<uint32_t> send_order(std::span<const double> ready, std::span<const double> duration) {
  assert(ready.size() == duration.size());
  std::vector<uint32_t> coming(ready.size());
  std::iota(coming.begin(), coming.end(), 0U);
  std::stable_sort(coming.begin(), coming.end(), [&](uint32_t a, uint32_t b) {
    return seconds_in(ready[a]) < seconds_in(ready[b]);
  });
  std::vector<uint32_t> order;
  std::priority_queue<uint32_t> full;
  double now = 0;  // when the link is free
  for (auto next = coming.begin(); order.size() < ready.size();) {
    if (full.empty()) {
      now = std::max(now, seconds_in(ready[*next]));
      full.push(*next++);
    }
    order.push_back(full.top());
    full.pop();
    now += seconds_in(duration[order.back()]);
    for (; next != coming.end() && seconds_in(ready[*next]) <= now; ++next) full.push(*next);
  }
  return order;
}

void put_first(std::vector<uint32_t>& order, std::span<const uint32_t> buckets) {
  const auto first = std::find_first_of(order.begin(), order.end(), buckets.begin(), buckets.end());
  std::iter_swap(first, std::find(order.begin(), order.end(), buckets.front()));
}

}  // namespace banyan
