// Two steps of a rank that touch the same bytes, one of them writing, must wait for each other,
// directly or through others. Order on a port does not count: that messages are posted in order
// does not mean that what they touch is done in order.
// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <tuple>

#include "algorithms/verify/verify_parts.h"

namespace banyan {
namespace {

// Up to this many steps every pair is checked; above, the pairs of every k-th step with any other.
constexpr size_t kExhaustiveSteps = 2000;
constexpr size_t kSampledSteps = 256;

struct Access {
  Slice slice;
  uint32_t step;
  bool write;
};

std::vector<Access> accesses_of(const Schedule& schedule) {
  std::vector<Access> found;
  for (uint32_t step = 0; step < schedule.steps.size(); ++step) {
    const Step& each = schedule.steps[step];
    const bool of_peer = !is_transfer(each.op) && each.peer >= 0;  // whose window it reads
    if (each.src.size != 0 && !of_peer) found.push_back({each.src, step, false});
    if (each.src2.size != 0) found.push_back({each.src2, step, false});
    if (each.dst.size != 0) found.push_back({each.dst, step, true});
    if (each.dst2.size != 0) found.push_back({each.dst2, step, true});
  }
  std::sort(found.begin(), found.end(), [](const Access& left, const Access& right) {
    return std::tuple(left.slice.space, left.slice.offset, left.step) <
           std::tuple(right.slice.space, right.slice.offset, right.step);
  });
  return found;
}

// For chosen steps: which steps come after them.
class Order {
 public:
  Order(const Schedule& schedule, uint32_t seed) {
    const size_t count = schedule.steps.size();
    stride_ = count <= kExhaustiveSteps ? 1 : (count + kSampledSteps - 1) / kSampledSteps;
    first_ = seed % stride_;
    words_ = (count / stride_ + 1 + 63) / 64;
    earlier_.assign(count * words_, 0);
    for (uint32_t step = 0; step < count; ++step) {
      uint64_t* mine = &earlier_[step * words_];
      if (is_chosen(step)) {
        const size_t bit = (step - first_) / stride_;
        mine[bit / 64] |= uint64_t{1} << (bit % 64);
      }
      for (const uint32_t next : schedule.successors_of(step))
        for (size_t word = 0; word < words_; ++word) earlier_[next * words_ + word] |= mine[word];
    }
  }

  bool is_chosen(uint32_t step) const { return step >= first_ && (step - first_) % stride_ == 0; }
  // `before` is chosen.
  bool waits(uint32_t step, uint32_t before) const {
    const size_t bit = (before - first_) / stride_;
    return (earlier_[step * words_ + bit / 64] >> (bit % 64) & 1) != 0;
  }

 private:
  size_t stride_ = 1;
  size_t first_ = 0;
  size_t words_ = 0;
  std::vector<uint64_t> earlier_;  // words_ per step: the chosen steps that it waits for
};

ScheduleFault check_rank(const VerifiedCall& call, int rank, uint32_t seed) {
  const Schedule& schedule = call.schedules[static_cast<size_t>(rank)];
  const std::vector<Access> accesses = accesses_of(schedule);
  const Order order(schedule, seed);
  for (size_t left = 0; left < accesses.size(); ++left) {
    const Access& one = accesses[left];
    for (size_t right = left + 1; right < accesses.size(); ++right) {
      const Access& other = accesses[right];
      if (other.slice.space != one.slice.space || other.slice.offset >= one.slice.end()) break;
      const bool harmless = one.step == other.step || (!one.write && !other.write);
      const uint32_t before = std::min(one.step, other.step);
      const uint32_t after = std::max(one.step, other.step);
      if (harmless || !order.is_chosen(before) || order.waits(after, before)) continue;
      return place_of(call, rank, after) + " touches bytes of " + place_of(call, rank, before) +
             " without waiting for it";
    }
  }
  return {};
}

}  // namespace

ScheduleFault check_races(const VerifiedCall& call, uint32_t seed) {
  return check_each(call.ranks, [&](int rank) { return check_rank(call, rank, seed); });
}

}  // namespace banyan
