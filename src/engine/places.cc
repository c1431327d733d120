// SPDX-License-Identifier: Apache-2.0

#include "src/engine/places.h"

#include <sched.h>

#include <algorithm>
#include <array>

namespace banyan {
namespace {

constexpr size_t kCoresMost = CPU_SETSIZE;
constexpr size_t kRanksMost = 256;  // of more, nobody moves: no host has so few cores for them

// To a core that this thread may use, without changing which those are.
bool move_to(int core) {
  cpu_set_t allowed, only;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0 || !CPU_ISSET(core, &allowed))
    return false;
  CPU_ZERO(&only);
  CPU_SET(core, &only);
  if (sched_setaffinity(0, sizeof only, &only) != 0) return false;
  if (sched_setaffinity(0, sizeof allowed, &allowed) == 0) return true;
  // All cores that are left to us, where those of before are no longer.
  std::fill_n(reinterpret_cast<unsigned char*>(&allowed), sizeof allowed, 0xFF);
  sched_setaffinity(0, sizeof allowed, &allowed);
  return true;
}

}  // namespace

int less_crowded_core(std::span<const int> core_of, int rank) {
  std::array<uint16_t, kCoresMost> ranks_on{};
  const auto known = [](int core) { return core >= 0 && static_cast<size_t>(core) < kCoresMost; };
  for (const int core : core_of)
    if (known(core)) ++ranks_on[static_cast<size_t>(core)];
  int most = -1, least = -1, last = -1;  // the last rank on the most crowded core
  const auto on = [&](int core) { return ranks_on[static_cast<size_t>(core)]; };
  for (size_t each = 0; each < core_of.size(); ++each) {
    const int core = core_of[each];
    if (!known(core)) continue;
    if (most < 0 || on(core) > on(most) || (on(core) == on(most) && core < most)) most = core;
    if (least < 0 || on(core) < on(least) || (on(core) == on(least) && core < least)) least = core;
    if (core == most) last = static_cast<int>(each);
  }
  return last == rank && on(least) + 2 <= on(most) ? least : -1;
}

void Places::arrive() {
  core_ = static_cast<uint32_t>(sched_getcpu() + 1);
  const uint32_t word = core_ << 1 | kRunsBit;
  if (own().load(std::memory_order_relaxed) != word) own().store(word, std::memory_order_relaxed);
}

bool Places::look_for_core(TimePoint now) {
  next_look_ = now + interval_;
  interval_ = std::min<Clock::duration>(2 * interval_, kMostInterval);
  if (marks_.size() > kRanksMost) return false;
  std::array<int, kRanksMost> core_of;
  for (size_t rank = 0; rank < marks_.size(); ++rank)
    core_of[rank] = static_cast<int>(marks_[rank].word.load(std::memory_order_relaxed) >> 1) - 1;
  const int core = less_crowded_core({core_of.data(), marks_.size()}, static_cast<int>(rank_));
  const bool again = core >= 0 && core == wanted_core_;
  wanted_core_ = again ? -1 : core;
  if (core >= 0) next_look_ = now + kLookAgain;
  if (!again) return false;
  next_look_ = now + pause_;
  pause_ = std::min<Clock::duration>(2 * pause_, kMostPause);
  return move_to(core);
}

}  // namespace banyan
