// A rank's segment tells the peers that it serves over shared memory what these bytes say.
//
// A segment is written by its owner alone; peers map it read-only, and believe nothing in it.
//
//     SegmentHeader | rank of each peer, int32 each | pad to a page | block of peer 0 | ...
//
//     block of a peer:                          (one for each peer, all of the same length)
//       Acknowledgements, one for each lane     how far the owner has read the *peer's* channels
//       Offer, one for each lane                where the owner wants the next message of the peer
//       Abilities                               what the owner can do with the peer's memory
//       Line x slots, for each lane             headers of the slots of the channel to the peer
//       pad to a page
//       payload x slots, for each lane
//
// A channel is a ring of slots with one writer and one reader. Slot n (counted from 0 and never
// reset) is line n mod slots. Its word is written last, with the number n + 1 in it, so a line of
// an earlier round is never taken for a new one. Up to 24 bytes of payload travel in the line
// itself: a small message costs one cache line.
//
// Sleeping (Dekker's pattern) has two sides, of which one at least sees the other:
//
//   the owner of `sleeping`   stores an odd number, then looks at its channels once more
//   a peer                    stores a word or an acknowledgement, then looks at `sleeping`
//
// Where both can, and no core has two ranks, the owner has the peer pass a fence. Otherwise all
// four accesses are sequentially consistent.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "src/base/most_ranks.h"
#include "src/base/sealed_memory.h"
#include "transports/message.h"
#include "transports/shm/choice.h"
#include "transports/transport.h"

namespace banyan::shm {

using Word = std::atomic<uint64_t>;
static_assert(Word::is_always_lock_free && sizeof(Word) == 8, "words are shared by processes");

inline constexpr uint64_t kMagic = 0x384d48534e594e42;  // "BNYNSHM8"
inline constexpr size_t kLineBytes = 64;
inline constexpr size_t kInlineMost = 24;

// What a slot holds. A message is one kInline, kHeap or kMemory slot, or as many kFragment slots as
// its bytes need, all full but the last.
enum class SlotKind : uint8_t {
  kInline = 1,  // the payload is in the line
  kFragment,    // the payload is in the slot
  kHeap,        // the line holds an offset into the owner's heap
  kMemory,      // the line holds an address in the owner's process
  kPut,         // the whole pages are where the reader's offer wanted them, the rest is in the slot
};
constexpr Passage passage_by(SlotKind kind) {
  switch (kind) {
    case SlotKind::kInline:
    case SlotKind::kFragment: return Passage::kSlots;
    case SlotKind::kHeap: return Passage::kInPlace;
    case SlotKind::kMemory: return Passage::kAfar;
    case SlotKind::kPut: return Passage::kPut;
  }
  return Passage::kOnly;
}

// Number of the slot (modulo 2^32) | first of a message, 1 bit | kind, 7 bits | bytes, 24 bits.
struct SlotWord {
  uint32_t number = 0;
  bool first = false;
  SlotKind kind = SlotKind::kInline;
  uint32_t bytes = 0;  // of payload in line or slot
};
constexpr uint64_t pack(const SlotWord& word) {
  return uint64_t{word.number} << 32 | uint64_t{word.first} << 31 |
         static_cast<uint64_t>(word.kind) << 24 | word.bytes;
}
constexpr SlotWord unpack(uint64_t word) {
  return {.number = static_cast<uint32_t>(word >> 32),
          .first = (word >> 31 & 1) != 0,
          .kind = static_cast<SlotKind>(word >> 24 & 0x7f),
          .bytes = static_cast<uint32_t>(word & 0xffffff)};
}

constexpr uint64_t pack(const Preference& preference) {
  return static_cast<uint64_t>(preference.flow) << 1 | static_cast<uint64_t>(preference.slots);
}
// Reads what a peer wrote; what is no flow is kAny.
constexpr Preference unpack_preference(uint64_t word) {
  const uint64_t flow = word >> 1;
  return {.flow = flow <= kFlowCount ? static_cast<Flow>(flow) : Flow::kAny,
          .slots = (word & 1) != 0};
}

// Everything but `word` is relaxed: the word publishes it.
struct alignas(kLineBytes) Line {
  Word word;
  std::array<Word, 4> envelope;
  // The first word may be an offset, an address, or the ns that filling the slot took. The second
  // one of a message's first line may be a Preference.
  std::array<Word, 3> payload;

  // The payload as bytes. The word orders them between writer and reader.
  std::byte* bytes() { return reinterpret_cast<std::byte*>(payload.data()); }
  const std::byte* bytes() const { return reinterpret_cast<const std::byte*>(payload.data()); }
};
static_assert(sizeof(Line) == kLineBytes);

struct alignas(kLineBytes) Acknowledgement {
  Word slots_read;
};

// The reader of a channel wants message `number` of it (the first of all is 1), if its envelope is
// this one, at `offset` in the reader's heap. Number 0: the offer is not valid. Whoever sends that
// message may write the whole pages of that place, and then sends a kPut slot with what comes
// before and behind them. Any other kind is as good. What lies in a page beside the message is none
// of the peer's. A receive that does not know the length makes no offer.
struct alignas(kLineBytes) Offer {
  Word number;
  std::array<Word, 4> envelope;
  Word offset;
  Word bypasses_caches;  // 1: nobody reads the message soon (message.h)
};

// A message at `offset` of a heap, cut at the pages that it fills.
struct PageCut {
  uint64_t head = 0;   // bytes before the first whole page
  uint64_t pages = 0;  // bytes of whole pages
  uint64_t tail = 0;   // bytes behind the last one

  uint64_t rest() const { return head + tail; }
};
inline constexpr uint64_t kRestMost = 2 * (kPageBytes - 1);
// `bytes` are at least 2 pages.
constexpr PageCut cut_at_pages(uint64_t offset, uint64_t bytes) {
  const uint64_t head = (kPageBytes - offset % kPageBytes) % kPageBytes;
  const uint64_t pages = (bytes - head) / kPageBytes * kPageBytes;
  return {.head = head, .pages = pages, .tail = bytes - head - pages};
}

inline constexpr uint64_t kReadsHeap = 1;
struct alignas(kLineBytes) Abilities {
  Word flags;
  // Messages of so many bytes and more had better be kMemory, by lane; 0: none may.
  std::array<Word, kLaneCount> afar_least;
  Word wanted;  // ways of kinds of messages in the collective lane (ways.h)
};

// While ranks meet, each one times how a message comes from the rank before it (rehearsal.h).
struct alignas(kLineBytes) Rehearsal {
  Word written;  // rounds that the owner has copied into its slots to the rank behind it
  Word copy_ns;  // what the last of them took it
  Word read;     // rounds that it has read from the rank before it
};

// Written before the segment is passed on, constant from then on.
struct SegmentFacts {
  uint64_t magic = kMagic;
  int32_t rank = -1;
  uint32_t epoch = 0;
  uint32_t peer_count = 0;
  std::array<uint32_t, kLaneCount> slots{};       // powers of two
  std::array<uint32_t, kLaneCount> slot_bytes{};  // powers of two
  uint64_t heap_bytes = 0;
  uint64_t probe_address = 0;  // of kProbeBytes in the owner's process, until all have met...
  uint64_t probe_value = 0;    // ...and the word that they begin with
  uint64_t fences = 0;         // 1: before it sleeps, the owner has all others pass a fence
};

// Peers look for the facts at the beginning.
// NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding)
struct SegmentHeader {
  SegmentFacts facts;
  alignas(kLineBytes) Word sleeping;  // odd: the owner sleeps; another number each time
  Word withdrawn;  // 1: the owner's messages have failed, their memory is its caller's again
  Rehearsal rehearsal;
};

// Where things are. A function of the header alone.
struct Layout {
  uint32_t peer_count = 0;
  std::array<uint32_t, kLaneCount> slots{};
  std::array<uint32_t, kLaneCount> slot_bytes{};

  size_t ranks_at() const { return sizeof(SegmentHeader); }
  size_t blocks_at() const { return whole_pages(ranks_at() + peer_count * sizeof(int32_t)); }
  // Within a block:
  size_t acknowledgement_at(int lane) const { return lane * sizeof(Acknowledgement); }
  size_t offer_at(int lane) const {
    return kLaneCount * sizeof(Acknowledgement) + lane * sizeof(Offer);
  }
  size_t abilities_at() const { return offer_at(kLaneCount); }
  size_t lines_at(int lane) const {
    return abilities_at() + sizeof(Abilities) + (lane == 0 ? 0 : slots[0] * sizeof(Line));
  }
  size_t payload_at(int lane) const {
    return whole_pages(lines_at(1) + slots[1] * sizeof(Line)) +
           (lane == 0 ? 0 : size_t{slots[0]} * slot_bytes[0]);
  }
  size_t block_bytes() const {
    return whole_pages(payload_at(1) + size_t{slots[1]} * slot_bytes[1]);
  }
  size_t segment_bytes() const { return blocks_at() + peer_count * block_bytes(); }
};

inline constexpr size_t kProbeBytes = 256 << 10;
inline constexpr uint32_t kPeersMost = kMostRanks;
inline constexpr uint32_t kSlotsMost = 128;
inline constexpr uint32_t kSlotBytesLeast = kMessageElementMost;
inline constexpr uint32_t kSlotBytesMost = 1 << 20;
static_assert(kSlotBytesMost < 1 << 24, "the length of a fragment has 24 bits");

}  // namespace banyan::shm
