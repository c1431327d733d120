// Each rank of a host says, while it waits, where it runs.
//
// Whoever waits for a rank that runs on another core looks for its message. If that rank does not
// run, or would run on this core, looking only keeps it from running.
//
// Every mark is a peer's. A wrong one costs time and nothing else.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <atomic>
#include <cstdint>
#include <span>

namespace banyan {

// Serves the thread that waits for the calls of one rank.
class Places {
 public:
  // A mark is one rank's, in memory that all of them share. It fills a cache line, since it is
  // written while others read theirs. Zero: nothing is known.
  struct alignas(64) Mark {
    std::atomic<uint32_t> word;
  };

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

 private:
  static constexpr uint32_t kRunsBit = 1;

  std::atomic<uint32_t>& own() { return marks_[rank_].word; }

  std::span<Mark> marks_;
  size_t rank_;
  uint32_t core_ = 0;  // and one, since a mark of zero says nothing
};

}  // namespace banyan
