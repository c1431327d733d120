// Each rank of a host says, while it waits, where it runs.
//
// Whoever waits for a rank that runs on another core looks for its message. If that rank does not
// run, or would run on this core, looking only keeps it from running.
//
// Ranks that outnumber the cores wait for the most crowded one, and the kernel takes tenths of a
// second to spread those that yield all the time. So they do it themselves: 5 ranks on one core and
// 3 on another took almost twice the time of 4 and 4.
//
// Every mark is a peer's. A wrong one costs time and nothing else.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <span>

#include "src/base/clock.h"

namespace banyan {

// Serves the thread that waits for the calls of one rank.
class Places {
 public:
  // A mark is one rank's, in memory that all of them share. It fills a cache line, since it is
  // written while others read theirs. Zero: nothing is known.
  struct alignas(64) Mark {
    std::atomic<uint32_t> word;
  };

  static constexpr auto kLookAgain = std::chrono::microseconds(100);
  static constexpr auto kMostInterval = std::chrono::milliseconds(16);
  static constexpr auto kMostPause = std::chrono::seconds(1);

  // `marks` are those of all ranks, and outlive the places.
  Places(std::span<Mark> marks, int rank) : marks_(marks), rank_(static_cast<size_t>(rank)) {}

  // This rank runs: when it begins to wait, and after others have run.
  void arrive();
  // It is about to let others run.
  void leave() { own().store(core_ << 1, std::memory_order_relaxed); }

  // Looks at another rank, once this one has arrived. kOff: it lets others run, or is on the same
  // core.
  enum class Peer : uint8_t { kUnknown, kRuns, kOff };
  Peer look_at(int peer) const {
    const uint32_t word = marks_[static_cast<size_t>(peer)].word.load(std::memory_order_relaxed);
    if (word == 0) return Peer::kUnknown;
    return (word & kRunsBit) != 0 && word >> 1 != core_ ? Peer::kRuns : Peer::kOff;
  }

  // Goes to a less crowded core where two looks, some time apart, find the same one. There the
  // kernel leaves it, or takes it elsewhere: what cores it may use stays as it was. Where another
  // thread sets those for this one in the microseconds of the move, its setting is lost. The result
  // is whether it has gone.
  bool balance(TimePoint now) { return now >= next_look_ && look_for_core(now); }

 private:
  static constexpr uint32_t kRunsBit = 1;

  std::atomic<uint32_t>& own() { return marks_[rank_].word; }
  bool look_for_core(TimePoint now);

  std::span<Mark> marks_;
  size_t rank_;
  uint32_t core_ = 0;  // and one, since a mark of zero says nothing
  int wanted_core_ = -1;
  TimePoint next_look_;
  Clock::duration interval_ = kLookAgain;                 // to the look after the next
  Clock::duration pause_ = std::chrono::milliseconds(1);  // after the next move
};

// Finds the core that rank `rank` should go to, -1: none, given those of all ranks. -1 there: the
// core is not known or on another host. The last rank on the most crowded core goes where there are
// at least two ranks less. A core without any may be somebody else's, so there must be one.
int less_crowded_core(std::span<const int> core_of, int rank);

}  // namespace banyan
