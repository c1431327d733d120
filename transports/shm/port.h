// A channel in shared memory has two ends, which know what is pending and how it moves.
//
// One thread owns a port. Nothing here allocates, blocks or rings a doorbell: progress() says
// whether the peer may have something to do now.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "src/base/far_fence.h"
#include "transports/message.h"
#include "transports/quick_lane.h"
#include "transports/shm/channel.h"
#include "transports/shm/heap.h"
#include "transports/shm/single_copy.h"
#include "transports/shm/ways.h"

namespace banyan::shm {

inline constexpr size_t kPendingMost = 8;
// One of so many fragments of a message that is weighed is timed, for all of them. With a look at
// the clock before and after every copy, calls of 64 KiB to 1 MiB took 5 to 8 % longer.
inline constexpr uint64_t kFragmentsOfATime = 4;
constexpr bool is_timed(uint64_t bytes_before, uint64_t slot_bytes) {
  return bytes_before / slot_bytes % kFragmentsOfATime == 0;
}
static_assert(kOfferLeast >= 2 * kPageBytes);
// Bytes that one port moves in one call, so that ports share a thread fairly.
inline constexpr size_t kBytesAtOnce = 512 << 10;
// A message, or a slot of one, counts as so many of them at the least: a short one takes time, too.
inline constexpr size_t kLeastCost = 1024;

class SendPort {
 public:
  struct Channel {
    Line* lines = nullptr;
    std::byte* payload = nullptr;
    uint32_t slots = 0;
    uint32_t slot_bytes = 0;
    const Word* slots_read = nullptr;      // the peer writes it
    const Abilities* abilities = nullptr;  // the peer writes them
    const Heap* heap = nullptr;            // ours
    const Offer* offer = nullptr;          // the peer writes it; null: nothing is put
    std::span<std::byte> peer_heap{};      // as mapped here
    Lane lane = Lane::kCollective;
    int ranks_per_core = 1;  // of this host
    Fence fence = Fence::kNear;
  };

  SendPort() = default;
  explicit SendPort(const Channel& channel) : channel_(channel) {}

  bool idle() const { return pending_.empty(); }
  bool full() const { return pending_.full(); }
  void push(const Transfer& transfer);
  // Queues a completion for when the peer has read all that was sent.
  void push_delivery(uint64_t cookie);
  // Whether send_whole() had better send it.
  bool is_quick(const Transfer& transfer) const {
    return shm::is_quick(transfer, channel_.ranks_per_core, channel_.slot_bytes, afar_least());
  }
  // Sends a whole message in one slot, at once and past the queue.
  //
  //   kNoRoom  something is pending, or no slot is free; nothing happened
  //   kOther   nothing happened; push() and progress() do better: they need not copy it, or take
  //            several slots for it
  using Whole = QuickLane::Departure;
  Whole send_whole(const std::byte* memory, const Envelope& envelope);
  // Whether the peer has read all that was sent.
  bool delivered();
  // Takes back from the peer, while nobody waits, the cache lines that the next message will fill
  // if it is as long as the longer of the last two.
  void prepare_likely() const;
  // Whether anything was published.
  bool progress(Completions& completions);
  // Whether the last progress() moved anything.
  bool moved() const { return moved_; }
  // For arm(): whether progress() would find something.
  bool ready() const;

 private:
  struct Pending {
    Transfer transfer;
    uint64_t number = 0;           // of the message in its lane, from 1
    std::byte* target = nullptr;   // in the peer's heap, for a message that is put
    PageCut cut{};                 // of that
    bool bypasses_caches = false;  // there
    uint64_t bytes_sent = 0;
    uint64_t done_at = 0;  // complete when the peer has read this many slots
    bool sent = false;
    Preference preference{};
    Passage passage = Passage::kSlots;
  };

  bool has_room();
  void update_read();
  SlotKind kind_for(const Pending& pending) const;
  // From which length on the peer would rather read the memory; 0: never.
  uint64_t afar_least() const {
    return channel_.abilities->afar_least[static_cast<size_t>(channel_.lane)].load(
        std::memory_order_acquire);
  }
  Way wanted_for(Flow flow, uint64_t bytes) const;
  void look_for_offer(Pending& pending) const;
  size_t put(Pending& pending);
  size_t send_slot(Pending& pending);
  Line& next_line(uint32_t after = 0) const {
    return channel_.lines[(slots_sent_ + after) & (channel_.slots - 1)];
  }
  std::byte* next_slot(uint32_t after = 0) const {
    return channel_.payload + ((slots_sent_ + after) & (channel_.slots - 1)) * channel_.slot_bytes;
  }
  bool is_read_in_place(const std::byte* memory, uint64_t bytes) const;
  void prepare_next(uint64_t bytes, uint32_t after = 0) const;
  void copy_in(Line& line, const SlotWord& word, const std::byte* memory) const;
  void copy_in_timed(Line& line, const SlotWord& word, const std::byte* memory) const;
  void publish(Line& line, const SlotWord& word);
  void complete(Completions& completions);

  Channel channel_;
  FixedQueue<Pending, kPendingMost> pending_;
  size_t sending_ = 0;  // index in pending_ of the first that is not sent
  uint64_t messages_ = 0;
  std::array<uint64_t, 2> whole_bytes_{};  // of the last messages that went by send_whole()
  uint64_t slots_sent_ = 0;
  uint64_t slots_read_ = 0;
  bool moved_ = false;
  bool corrupt_ = false;
};

class RecvPort {
 public:
  struct Channel {
    const Line* lines = nullptr;  // the peer writes them
    const std::byte* payload = nullptr;
    uint32_t slots = 0;
    uint32_t slot_bytes = 0;
    Word* slots_read = nullptr;
    Offer* offer = nullptr;             // to the peer; null: none is made
    const Heap* own_heap = nullptr;     // ours
    std::span<const std::byte> heap{};  // the peer's, as mapped here; empty: none
    const Word* withdrawn = nullptr;    // the peer writes it
    Owner owner{};
    bool reads_memory = false;
    uint64_t afar_least = 0;    // as we have told the peer
    Word* wanted = nullptr;     // of each kind, for the peer; null: ways are not weighed
    const Word* led = nullptr;  // what the peer wants of us, if we want the same; null: we judge
    uint32_t epoch = 0;
    Lane lane = Lane::kCollective;
    int ranks_per_core = 1;  // of this host
    Fence fence = Fence::kNear;
  };

  RecvPort() = default;
  explicit RecvPort(const Channel& channel) : channel_(channel) {}

  bool idle() const { return pending_.empty(); }
  bool full() const { return pending_.full(); }
  void push(const Transfer& transfer);
  // Whether receive_whole() had better receive it.
  bool is_quick(const Transfer& transfer) const {
    return !transfer.up_to && shm::is_quick(transfer, channel_.ranks_per_core, channel_.slot_bytes,
                                            channel_.afar_least);
  }
  // Receives the message at the head, if it is the expected one and whole in its slot, at once and
  // past the queue. kOther: push() and progress() deal with it. It may acknowledge: acknowledged().
  // A peer that waits until it is taken hears of it by acknowledge_rest() at the latest.
  using Whole = QuickLane::Arrival;
  Whole receive_whole(const Transfer& transfer);
  // Whether anything was acknowledged. `bounce` is for messages that are combined from afar.
  bool progress(Completions& completions, std::span<std::byte> bounce);
  // Whether the last progress() moved anything.
  bool moved() const { return moved_; }
  bool ready() const;
  // What is at the head and not taken. May acknowledge what it drops: acknowledged() says so.
  std::optional<Envelope> peek();
  bool acknowledged() { return std::exchange(acknowledged_, false); }
  // In the message lane, in which peers wait for that: says all that was taken and not yet said.
  void acknowledge_rest();
  // The errno of the read that failed; 0: none did.
  int read_error() const { return read_error_; }
  // What the peer may write until the receive is complete; empty: nothing.
  std::span<std::byte> offered() const;

 private:
  // The header at the head of the lane, as read once.
  struct Head {
    SlotWord word;
    Envelope envelope;
    uint64_t where = 0;     // in place: offset or address
    Preference preference;  // of what is not in the line
  };

  const Line& line() const { return channel_.lines[slots_taken_ & (channel_.slots - 1)]; }
  const std::byte* payload() const {
    return channel_.payload + (slots_taken_ & (channel_.slots - 1)) * channel_.slot_bytes;
  }
  const std::byte* whole_payload(const SlotWord& word, uint64_t bytes) const;
  bool slot_is_there(std::memory_order order) const;
  bool find_head();
  Head read_head() const;
  Whole take_whole(const Transfer& transfer);
  bool is_consistent(const Head& head) const;
  uint64_t number_of_first() const { return messages_ + 1 - pending_.size(); }
  bool may_offer(const Transfer& transfer) const;
  void make_offer(const Transfer& transfer);
  static PageCut cut_of(const Transfer& transfer);  // that was offered
  void drop(const Head& head);
  void drop_fragment();
  bool open(Completions& completions);
  size_t move(Completions& completions, std::span<std::byte> bounce);
  size_t move_fragment(Completions& completions);
  bool is_withdrawn() const;
  size_t move_from_afar(Completions& completions, std::span<std::byte> bounce);
  int read_from_afar(uint64_t address, size_t bytes, std::span<std::byte> bounce);
  bool may_be_weighed() const;
  bool is_weighed() const;
  Settled settled() const;
  void spend(uint64_t ns, uint64_t times = 1);
  void judge_way();
  void take(bool at_once);
  void acknowledge();
  void complete(Completions& completions, Code code, const Envelope& seen,
                Passage passage = Passage::kSlots);
  void fail(Completions& completions, Code code);

  Channel channel_;
  FixedQueue<Transfer, kPendingMost> pending_;
  uint64_t messages_ = 0;  // that were asked for
  uint64_t offered_ = 0;   // the number of the latest that was offered a place
  std::optional<Head> head_;
  bool open_ = false;  // the first of pending_ has taken head_
  uint64_t bytes_done_ = 0;
  uint64_t spent_ns_ = 0;  // on the message that is open, at both ends
  std::array<WayJudge, kKindCount> judges_{};
  uint64_t bytes_to_drop_ = 0;  // of fragments of another epoch
  uint64_t slots_taken_ = 0;
  uint64_t slots_acknowledged_ = 0;
  bool acknowledged_ = false;
  bool moved_ = false;
  int read_error_ = 0;
  Code broken_ = Code::kOk;  // what every receive gets from now on
};

}  // namespace banyan::shm
