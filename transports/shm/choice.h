// Chooses how a message goes between two ranks of a host: through slots, which are two copies by
// the ranks, read from the sender's memory, which is one by the kernel, or read or written in a
// shared heap. Nothing else in this library knows of that choice.
//
// The constants are of the machines that docs/performance.md names, with its commands: virtual ones
// of two cores. What a machine tells when ranks meet (rehearsal.h) or later (ways.h) goes before
// them.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>

#include "src/base/lengths.h"
#include "transports/quick_lane.h"
#include "transports/transport.h"

namespace banyan::shm {

// From here on a heap is read in place. Below, a copy through a slot lets the sender go on sooner.
inline constexpr uint64_t kHeapLeast = 4 << 10;
// A receive of such a length says where in its heap it wants its message. After a failure what was
// offered is copied before the call returns, so longer ones do not.
inline constexpr uint64_t kOfferLeast = 64 << 10;
inline constexpr uint64_t kOfferMost = 16 << 20;

// Messages of collectives are read from afar from here on at the soonest. Shorter ones gain less by
// a copy than they lose by leaving a lowered program, which knows slots only.
inline constexpr uint64_t kAfarOfCollectivesLeast = QuickLane::kBytesMost;
// Where nothing could be measured, messages are read from afar from here on.
inline constexpr uint64_t kAfarLeast = 64 << 10;
// Where slots won with all lengths that were measured, longer messages of collectives are read from
// afar from here on. They are not where slots took less by this factor.
inline constexpr uint64_t kAfarBeyondCachesLeast = 1 << 20;
inline constexpr double kSlotsByMuch = 1.5;

// Beyond so much input and output, what one rank reads is in no cache when another one wants it.
inline constexpr uint64_t kCachedMost = 32 << 20;
// A sum that is sent was just written, by an earlier step. Memory that another core has just
// written is read from afar at half the speed of memory that has lain there for a while. For
// messages longer than this the second copy of a slot costs more than that.
inline constexpr uint64_t kFreshMost = (1 << 20) - 1;
// Two ranks that share a core pass so much through slots sooner than the kernel copies it. Where
// more ranks share it, one of them has other work meanwhile.
inline constexpr uint64_t kSharedCoreMost = 32 << 10;

// Messages of this length and more go the way that costs less lately (ways.h): it is worth looking
// at a clock.
inline constexpr uint64_t kWeighedLeast = 64 << 10;
static_assert(kWeighedLeast > QuickLane::kBytesMost, "programs have no messages that are weighed");

// Tells what a message that is weighed is part of. It is the sender's flow that counts, but both
// ends know whether it is kAny.
//
//   kTerms   what a call that sums only reads
//   kSums    memory that such a call writes
//   kData    anything of other calls
//   kFar...  the same, in a call whose output is more than caches hold
//   kAny     any message: it is not weighed
enum class Flow : uint8_t { kAny, kData, kTerms, kSums, kFarData, kFarSums };
inline constexpr int kFlowCount = 5;  // without kAny

// Where ranks share cores only messages of outputs that no cache holds are weighed: with shorter
// ones a time is too often that of another rank's turn.
inline Flow flow_of(const Transfer& transfer, int ranks_per_core) {
  const Usage& usage = transfer.usage;
  const bool far = usage.output_bytes >= kUncachedLeast;
  if (transfer.envelope.bytes < kWeighedLeast || usage.caller_bytes == 0 ||
      transfer.lane != Lane::kCollective || (ranks_per_core > 1 && !far))
    return Flow::kAny;
  if (usage.sums) return far ? Flow::kFarSums : usage.given ? Flow::kTerms : Flow::kSums;
  return far ? Flow::kFarData : Flow::kData;
}

// Whether a message goes through slots even where its length would have it read from afar.
inline bool prefers_slots(const Transfer& transfer, int ranks_per_core) {
  const Usage& usage = transfer.usage;
  const uint64_t bytes = transfer.envelope.bytes;
  if (usage.sums)
    return ranks_per_core > 1 || usage.output_bytes >= kUncachedLeast ||
           (bytes <= kFreshMost && !usage.given);
  return (ranks_per_core > 1 && usage.caller_bytes > kCachedMost) ||
         (ranks_per_core == 2 && bytes <= kSharedCoreMost);
}

// What the sender knows of a message, which its receiver has to know to weigh ways.
struct Preference {
  Flow flow = Flow::kAny;
  bool slots = false;
};
inline Preference preference_of(const Transfer& transfer, int ranks_per_core) {
  return {flow_of(transfer, ranks_per_core), prefers_slots(transfer, ranks_per_core)};
}

// Whether a message of that preference is read from afar while nobody wants another way. `least`:
// the length from which on its receiver would rather do so; 0: never.
constexpr bool goes_afar(const Preference& preference, uint64_t bytes, uint64_t least) {
  return !preference.slots && least != 0 && bytes >= least;
}

// Whether a message, if its slot takes it whole, is sent or taken at once rather than queued. One
// that is to be summed mostly comes through slots anyway.
inline bool is_quick(const Transfer& transfer, int ranks_per_core, uint64_t slot_bytes,
                     uint64_t afar_least) {
  const uint64_t bytes = transfer.envelope.bytes;
  return bytes <= slot_bytes && bytes <= QuickLane::kBytesMost &&
         (transfer.usage.sums ||
          !goes_afar({Flow::kAny, prefers_slots(transfer, ranks_per_core)}, bytes, afar_least));
}

}  // namespace banyan::shm
