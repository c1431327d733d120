// Which way long messages of a kind take from one peer, through slots or read from its memory, by
// what they have cost lately.
//
// What was measured when ranks met (rehearsal.h) does not stay true: the cores of a virtual machine
// move, now below one cache and now far apart, seconds long. Lines that another core has just
// written then take four times as long, so slots, which are nothing else, lose what they had won.
//
// So a receiver times its messages, and the sender tells what filling the slots has taken it. The
// way that costs less is wanted. Now and then, and when the cost of that way has changed, some
// messages in a row are to take the other way: one alone would not tell, since where a message lies
// in the caches depends on how those before it went.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "transports/transport.h"

namespace banyan::shm {

enum class Way : uint8_t { kUnknown, kSlots, kAfar };  // kUnknown: as was settled when ranks met

// Of one flow from one peer. A value.
class WayJudge {
 public:
  // In messages.
  static constexpr int kTryFirst = 8;      // before the first try
  static constexpr int kTryAgain = 128;    // after it; longer each time that a try gains nothing
  static constexpr int kTrySeldom = 4096;  // at the most
  static constexpr int kTrySoonest = 64;   // where the cost has changed
  static constexpr int kSettle = 4;        // of a try, which do not count
  static constexpr int kTryLength = 12;    // with these
  static constexpr int kGivenUp = 48;      // where the sender does not go along
  // Ratios of costs.
  static constexpr double kClearly = 0.8;  // of a better way to the one before
  static constexpr double kChanged = 2;    // since the last try
  static constexpr double kHopeless = 3;   // of the other way, so that the try ends

  // A message has come by the way `by` and taken so long, of both ends. `settled`: what all go by
  // until one way has been better.
  void took(Way by, Way settled, double ns_per_byte);
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
  int messages_ = 0;  // since the last try began or ended
  int tried_ = 0;     // by the other way
  int interval_ = kTryFirst;
};

// What a receiver wants of one peer, in one word: two bits for each flow.
constexpr uint64_t with_way(uint64_t wanted, Flow flow, Way way) {
  const int shift = 2 * static_cast<int>(flow);
  return (wanted & ~(uint64_t{3} << shift)) | static_cast<uint64_t>(way) << shift;
}
// Of a word that a peer wrote; what is no way is kUnknown.
constexpr Way way_in(uint64_t wanted, Flow flow) {
  const uint64_t way = wanted >> (2 * static_cast<int>(flow)) & 3;
  return way == 3 ? Way::kUnknown : static_cast<Way>(way);
}

}  // namespace banyan::shm
