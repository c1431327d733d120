// Judges which way long messages of a kind take from one peer, through slots or read from its
// memory, by what they have cost lately.
//
// What was measured when ranks met (rehearsal.h) does not stay true: the cores of a virtual machine
// move, now below one cache and now far apart, seconds long. Lines that another core has just
// written then take four times as long, so slots, which are nothing else, lose what they had won.
//
// So a receiver times its messages, and the sender tells what filling the slots has taken it. The
// way that costs less is wanted. Now and then, and when the cost of that way has changed, some
// messages in a row are to take the other way. One alone would not tell, since where a message lies
// in the caches depends on how those before it went.
//
// The lower one of two ranks says so for both directions. One direction by slots and one from afar
// is what neither has weighed, and can be worse than both.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "transports/shm/choice.h"

namespace banyan::shm {

enum class Way : uint8_t { kUnknown, kSlots, kAfar };  // kUnknown: as was settled when ranks met

// What messages go by until another way has been better.
struct Settled {
  Way way = Way::kSlots;
  bool measured = false;  // by a rehearsal, so that there is no hurry to try the other one
};

// Judges one kind of messages from one peer. A value.
class WayJudge {
 public:
  // In messages.
  static constexpr int kTryFirst = 16;      // before the first try where nothing was measured
  static constexpr int kTryAgain = 128;     // after it; longer each time that a try gains nothing
  static constexpr int kTrySeldom = 4096;   // at the most
  static constexpr int kTrySoonest = 64;    // where the cost has changed
  static constexpr int kSettle = 8;         // the first ones, and those of a try, do not count
  static constexpr int kTryLength = 16;     // with these
  static constexpr int kHopelessLeast = 4;  // that a try has at the least
  static constexpr int kGivenUp = 48;       // where the sender does not go along
  // Ratios of costs.
  static constexpr double kClearly = 0.9;  // of a better way to the one before
  static constexpr double kChanged = 2;    // since the last try
  static constexpr double kHopeless = 2;   // of the other way, so that the try ends
  static constexpr double kVain = 1.3;     // the same, of those that count

  // A message has come by the way `by` and taken so long, of both ends.
  void took(Way by, const Settled& settled, double ns_per_byte);
  // For the messages from now on.
  Way wanted() const { return trying_ ? other(best_) : best_; }

 private:
  static Way other(Way way) { return way == Way::kSlots ? Way::kAfar : Way::kSlots; }
  bool try_is_due() const;
  void took_in_try(Way by, double ns_per_byte);
  void end_try();

  double cost_ = 0;  // of the best way; 0: not known
  double cost_at_try_ = 0;
  double cost_of_other_ = 0;  // in this try
  Way best_ = Way::kUnknown;
  bool trying_ = false;
  int messages_ = 0;  // since the last try began or ended, or the first one
  int tried_ = 0;     // by the other way
  int interval_ = kTryFirst;
  bool first_ = true;  // no try has ended yet
};

// Messages of one kind are of one flow and of about one length: what is right for 64 KiB, which
// caches hold, is not for 1 MiB.
inline constexpr int kLengthClasses = 6;  // from kWeighedLeast on, each twice the one before
inline constexpr size_t kKindCount = static_cast<size_t>(kFlowCount) * kLengthClasses;
// Not of kAny.
constexpr size_t kind_of(Flow flow, uint64_t bytes) {
  const int length = std::clamp(static_cast<int>(std::bit_width(bytes / kWeighedLeast)) - 1, 0,
                                kLengthClasses - 1);
  return (static_cast<size_t>(flow) - 1) * kLengthClasses + static_cast<size_t>(length);
}

// What a receiver wants of one peer, in one word: two bits for each kind.
constexpr uint64_t with_way(uint64_t wanted, size_t kind, Way way) {
  return (wanted & ~(uint64_t{3} << (2 * kind))) | static_cast<uint64_t>(way) << (2 * kind);
}
// Reads a word that a peer wrote; what is no way is kUnknown.
constexpr Way way_in(uint64_t wanted, size_t kind) {
  const uint64_t way = wanted >> (2 * kind) & 3;
  return way == 3 ? Way::kUnknown : static_cast<Way>(way);
}
static_assert(2 * kKindCount <= 64);

}  // namespace banyan::shm
