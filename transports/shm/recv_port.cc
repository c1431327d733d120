// The receiving end of a channel in shared memory. Everything that it reads, a peer wrote.
// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <bit>

#include "src/base/clock.h"
#include "transports/shm/port.h"

namespace banyan::shm {
namespace {

// So many bytes are read from afar at once. A message that is combined goes through a bounce
// buffer, which stays in the L2 cache.
constexpr size_t kChunkBytes = 256 << 10;

bool is_in_place(SlotKind kind) {
  return kind == SlotKind::kHeap || kind == SlotKind::kMemory;
}

}  // namespace

void RecvPort::push(const Transfer& transfer) {
  pending_.push(transfer);
  ++messages_;
  if (may_offer(transfer)) make_offer(transfer);
}

bool RecvPort::may_offer(const Transfer& transfer) const {
  const bool free = offered_ < number_of_first();
  const uint64_t bytes = transfer.envelope.bytes;
  return channel_.offer != nullptr && channel_.slot_bytes >= kRestMost && free &&
         transfer.combine == nullptr && !transfer.up_to && bytes >= kOfferLeast &&
         bytes <= kOfferMost;
}

void RecvPort::make_offer(const Transfer& transfer) {
  const auto offset = channel_.own_heap->offset_of(transfer.memory, transfer.envelope.bytes);
  if (!offset) return;
  Offer& offer = *channel_.offer;
  const auto envelope = std::bit_cast<std::array<uint64_t, 4>>(transfer.envelope);
  for (size_t i = 0; i < envelope.size(); ++i)
    offer.envelope[i].store(envelope[i], std::memory_order_relaxed);
  offer.offset.store(*offset, std::memory_order_relaxed);
  offer.bypasses_caches.store(bypasses_caches(transfer) ? 1 : 0, std::memory_order_relaxed);
  offer.number.store(messages_, std::memory_order_release);
  offered_ = messages_;
}

std::span<std::byte> RecvPort::offered() const {
  const uint64_t first = number_of_first();
  if (pending_.empty() || offered_ < first) return {};
  const Transfer& transfer = pending_[offered_ - first];
  const PageCut cut = cut_of(transfer);
  return {transfer.memory + cut.head, cut.pages};
}

// Heaps begin at a page.
PageCut RecvPort::cut_of(const Transfer& transfer) {
  return cut_at_pages(reinterpret_cast<uintptr_t>(transfer.memory), transfer.envelope.bytes);
}

bool RecvPort::slot_is_there(std::memory_order order) const {
  const uint64_t word = line().word.load(order);
  return unpack(word).number == static_cast<uint32_t>(slots_taken_ + 1);
}

RecvPort::Head RecvPort::read_head() const {
  Head head;
  head.word = unpack(line().word.load(std::memory_order_acquire));
  std::array<uint64_t, 4> envelope{};
  for (size_t i = 0; i < envelope.size(); ++i) {
    envelope[i] = line().envelope[i].load(std::memory_order_relaxed);
  }
  head.envelope = std::bit_cast<Envelope>(envelope);
  head.where = line().payload[0].load(std::memory_order_relaxed);
  head.preference = unpack_preference(line().payload[1].load(std::memory_order_relaxed));
  return head;
}

// Whether the first slot of a message can be what it says. Checked before anything depends on it.
bool RecvPort::is_consistent(const Head& head) const {
  const uint64_t bytes = head.envelope.bytes;
  if (!head.word.first) return false;
  switch (head.word.kind) {
    case SlotKind::kInline: return bytes <= kInlineMost && head.word.bytes == bytes;
    case SlotKind::kFragment:
      return bytes > 0 && head.word.bytes == std::min<uint64_t>(bytes, channel_.slot_bytes);
    case SlotKind::kHeap:
      return bytes > 0 && bytes <= channel_.heap.size() &&
             head.where <= channel_.heap.size() - bytes;
    case SlotKind::kMemory:
      return bytes > 0 && channel_.reads_memory && bytes <= UINT64_MAX - head.where;
    case SlotKind::kPut:
      return offered_ == number_of_first() && head.word.bytes == cut_of(pending_.front()).rest();
  }
  return false;
}

// An acknowledgement of each small message would cost the peer's line a round trip. The peer needs
// to know only when it may run out of slots, or waits for this one.
void RecvPort::take(bool at_once) {
  ++slots_taken_;
  if (at_once || (slots_taken_ - slots_acknowledged_) * 2 >= channel_.slots) acknowledge();
}

void RecvPort::acknowledge() {
  store_before_look(*channel_.slots_read, slots_taken_, channel_.fence);
  slots_acknowledged_ = slots_taken_;
  acknowledged_ = true;
}

// A peer waits until its messages are taken, and may send nothing before.
void RecvPort::acknowledge_rest() {
  if (channel_.lane == Lane::kMessage && slots_acknowledged_ != slots_taken_) acknowledge();
}

void RecvPort::drop(const Head& head) {
  if (head.word.kind == SlotKind::kFragment) {
    bytes_to_drop_ = head.envelope.bytes - std::min<uint64_t>(head.envelope.bytes, head.word.bytes);
  }
  take(true);
}

void RecvPort::drop_fragment() {
  const SlotWord word = unpack(line().word.load(std::memory_order_acquire));
  bytes_to_drop_ -= std::min<uint64_t>(bytes_to_drop_, std::max<uint32_t>(word.bytes, 1));
  take(true);
}

// Where the payload of a message is that lies whole in its slot; null: it does not.
const std::byte* RecvPort::whole_payload(const SlotWord& word, uint64_t bytes) const {
  if (!word.first || word.bytes != bytes) return nullptr;
  if (word.kind == SlotKind::kInline && bytes <= kInlineMost) return line().bytes();
  if (word.kind == SlotKind::kFragment && bytes > 0 && bytes <= channel_.slot_bytes)
    return payload();
  return nullptr;
}

// The message at the head, if it is the one that `transfer` expects and whole in its slot.
RecvPort::Whole RecvPort::take_whole(const Transfer& transfer) {
  const SlotWord word = unpack(line().word.load(std::memory_order_acquire));
  if (word.number != static_cast<uint32_t>(slots_taken_ + 1)) return Whole::kNotThere;
  if (bytes_to_drop_ > 0) return Whole::kOther;
  const auto expected = std::bit_cast<std::array<uint64_t, 4>>(transfer.envelope);
  uint64_t difference = 0;
  for (size_t i = 0; i < expected.size(); ++i)
    difference |= expected[i] ^ line().envelope[i].load(std::memory_order_relaxed);
  const std::byte* payload = whole_payload(word, transfer.envelope.bytes);
  if (difference != 0 || payload == nullptr) return Whole::kOther;
  deliver(transfer, 0, payload, word.bytes);
  head_.reset();  // as peek() has left it
  take(false);
  return Whole::kTaken;
}

RecvPort::Whole RecvPort::receive_whole(const Transfer& transfer) {
  if (!pending_.empty() || broken_ != Code::kOk) return Whole::kOther;
  const Whole whole = take_whole(transfer);
  if (whole == Whole::kTaken)
    ++messages_;
  else
    acknowledge_rest();
  return whole;
}

// Whether a message of this epoch is at the head. It is read once, into head_.
bool RecvPort::find_head() {
  for (uint32_t i = 0; i < channel_.slots && !head_; ++i) {
    if (!slot_is_there(std::memory_order_acquire)) break;
    if (bytes_to_drop_ > 0) {
      drop_fragment();
      continue;
    }
    const Head head = read_head();
    if (head.envelope.epoch == channel_.epoch) {
      head_ = head;
    } else {
      drop(head);
    }
  }
  return head_.has_value();
}

std::optional<Envelope> RecvPort::peek() {
  if (open_ || broken_ != Code::kOk || !find_head()) return std::nullopt;
  if (!is_valid(head_->envelope)) return std::nullopt;
  return head_->envelope;
}

bool RecvPort::ready() const {
  if (pending_.empty()) return false;
  if (broken_ != Code::kOk || (head_ && !open_)) return true;
  if (open_ && is_in_place(head_->word.kind)) return true;
  return slot_is_there(std::memory_order_seq_cst);
}

void RecvPort::complete(Completions& completions, Code code, const Envelope& seen,
                        Passage passage) {
  completions.push(
      {.cookie = pending_.front().cookie, .code = code, .passage = passage, .seen = seen});
  pending_.pop();
}

// The first pending receive and all later ones: where the next message begins is not known.
void RecvPort::fail(Completions& completions, Code code) {
  broken_ = code;
  open_ = false;
  complete(completions, code, head_ ? head_->envelope : Envelope());
}

// Brings the first pending receive and the message at the head together. Whether they fit.
bool RecvPort::open(Completions& completions) {
  if (!find_head()) return false;
  switch (judge(head_->envelope, pending_.front(), channel_.epoch)) {
    case Judgement::kAccept: break;
    case Judgement::kMismatch:
      complete(completions, Code::kMismatch, head_->envelope);
      return false;
    case Judgement::kDrop:  // find_head() has dropped those
    case Judgement::kCorrupt: fail(completions, Code::kCorrupt); return false;
  }
  if (!is_consistent(*head_)) {
    fail(completions, Code::kCorrupt);
    return false;
  }
  open_ = true;
  bytes_done_ = 0;
  spent_ns_ = 0;
  return true;
}

// One step of the message that is open. Returns its cost in bytes; 0: nothing to do yet.
size_t RecvPort::move(Completions& completions, std::span<std::byte> bounce) {
  if (is_in_place(head_->word.kind)) return move_from_afar(completions, bounce);
  if (head_->word.kind == SlotKind::kFragment) return move_fragment(completions);
  if (head_->word.kind == SlotKind::kInline)
    deliver(pending_.front(), 0, line().bytes(), head_->word.bytes);
  if (head_->word.kind == SlotKind::kPut) {
    const PageCut cut = cut_of(pending_.front());
    deliver(pending_.front(), 0, payload(), cut.head);
    deliver(pending_.front(), cut.head + cut.pages, payload() + cut.head, cut.tail);
  }
  take(channel_.lane == Lane::kMessage);
  complete(completions, Code::kOk, head_->envelope, passage_by(head_->word.kind));
  head_.reset();
  open_ = false;
  return kLeastCost;
}

bool RecvPort::may_be_weighed() const {
  return channel_.wanted != nullptr &&
         flow_of(pending_.front(), channel_.ranks_per_core) != Flow::kAny;
}

// Tells whether the message that is open is weighed. A shorter one than was expected may have come
// by the quick lane, which leaves in the line what an earlier message preferred.
bool RecvPort::is_weighed() const {
  return may_be_weighed() && head_->envelope.bytes >= kWeighedLeast &&
         head_->preference.flow != Flow::kAny;
}

// Says what the sender does while nothing is wanted. Nobody measured that sums go through slots,
// nor what lengths beyond the rehearsal take. But a copy less that pays within the caches pays
// there, too.
Settled RecvPort::settled() const {
  const uint64_t bytes = head_->envelope.bytes;
  const uint64_t least = channel_.afar_least;
  const bool afar = goes_afar(head_->preference, bytes, least);
  const bool known = bytes <= kProbeBytes || (afar && least <= kProbeBytes);
  return {.way = afar ? Way::kAfar : Way::kSlots, .measured = !head_->preference.slots && known};
}

// No peer's word for it counts for more than a second.
void RecvPort::spend(uint64_t ns, uint64_t times) {
  constexpr uint64_t kMost = 1'000'000'000;
  spent_ns_ += std::min(ns, kMost) * times;
}

// The message that is open is done.
void RecvPort::judge_way() {
  const SlotKind kind = head_->word.kind;
  if (!is_weighed() || (kind != SlotKind::kFragment && kind != SlotKind::kMemory)) return;
  const size_t which = kind_of(head_->preference.flow, head_->envelope.bytes);
  Way way = channel_.led == nullptr ? Way::kUnknown
                                    : way_in(channel_.led->load(std::memory_order_relaxed), which);
  if (way == Way::kUnknown) {
    WayJudge& judge = judges_[which];
    judge.took(kind == SlotKind::kMemory ? Way::kAfar : Way::kSlots, settled(),
               static_cast<double>(spent_ns_) / static_cast<double>(head_->envelope.bytes));
    way = judge.wanted();
  }
  const uint64_t before = channel_.wanted->load(std::memory_order_relaxed);
  const uint64_t wanted = with_way(before, which, way);
  if (wanted != before) channel_.wanted->store(wanted, std::memory_order_relaxed);
}

size_t RecvPort::move_fragment(Completions& completions) {
  if (!slot_is_there(std::memory_order_acquire)) return 0;
  const uint64_t left = head_->envelope.bytes - bytes_done_;
  const size_t bytes = std::min<uint64_t>(left, channel_.slot_bytes);
  if (bytes_done_ > 0) {
    const SlotWord word = unpack(line().word.load(std::memory_order_acquire));
    if (word.first || word.kind != SlotKind::kFragment || word.bytes != bytes) {
      fail(completions, Code::kCorrupt);
      return kLeastCost;
    }
  }
  const bool timed = is_weighed() && is_timed(bytes_done_, channel_.slot_bytes);
  const TimePoint begin = timed ? Clock::now() : TimePoint();
  deliver(pending_.front(), bytes_done_, payload(), bytes);
  if (timed) {
    const uint64_t times = std::min((left + bytes - 1) / bytes, kFragmentsOfATime);
    spend(nanoseconds_since(begin), times);
    spend(line().payload[0].load(std::memory_order_relaxed), times);
  }
  bytes_done_ += bytes;
  take(true);
  if (bytes_done_ == head_->envelope.bytes) {
    judge_way();
    complete(completions, Code::kOk, head_->envelope, passage_by(head_->word.kind));
    head_.reset();
    open_ = false;
  }
  return std::max<size_t>(bytes, kLeastCost);
}

int RecvPort::read_from_afar(uint64_t address, size_t bytes, std::span<std::byte> bounce) {
  const Transfer& transfer = pending_.front();
  if (transfer.combine == nullptr) {
    return read_memory(channel_.owner, address, transfer.memory + bytes_done_, bytes);
  }
  const int error = read_memory(channel_.owner, address, bounce.data(), bytes);
  if (error == 0) deliver(transfer, bytes_done_, bounce.data(), bytes);
  return error;
}

// After the last byte was read where the peer has it: whether it may have been anything by then.
bool RecvPort::is_withdrawn() const {
  std::atomic_thread_fence(std::memory_order_acquire);
  return channel_.withdrawn->load(std::memory_order_relaxed) != 0;
}

size_t RecvPort::move_from_afar(Completions& completions, std::span<std::byte> bounce) {
  const bool heap = head_->word.kind == SlotKind::kHeap;
  const bool bounces = !heap && pending_.front().combine != nullptr;
  const size_t most = bounces ? std::min(bounce.size(), kChunkBytes) : kChunkBytes;
  const size_t bytes = std::min<uint64_t>(head_->envelope.bytes - bytes_done_, most);
  const uint64_t from = head_->where + bytes_done_;
  const TimePoint begin = is_weighed() ? Clock::now() : TimePoint();
  if (heap) {
    deliver(pending_.front(), bytes_done_, channel_.heap.data() + from, bytes);
  } else {
    read_error_ = read_from_afar(from, bytes, bounce);
  }
  if (read_error_ != 0) {
    fail(completions, code_of(read_error_));
    return kLeastCost;
  }
  if (is_weighed()) spend(nanoseconds_since(begin));
  bytes_done_ += bytes;
  if (bytes_done_ == head_->envelope.bytes) {
    if (is_withdrawn()) {
      fail(completions, Code::kPeerLost);
      return kLeastCost;
    }
    take(true);
    judge_way();
    complete(completions, Code::kOk, head_->envelope, passage_by(head_->word.kind));
    head_.reset();
    open_ = false;
  }
  return bytes;
}

bool RecvPort::progress(Completions& completions, std::span<std::byte> bounce) {
  size_t moved = 0;
  while (!pending_.empty() && !completions.full() && moved < kBytesAtOnce) {
    if (broken_ != Code::kOk) {
      complete(completions, broken_, {});
      continue;
    }
    if (!open_ && !may_be_weighed()) {
      const Whole whole = take_whole(pending_.front());
      if (whole == Whole::kNotThere && !head_) break;
      if (whole == Whole::kTaken) {
        const Envelope envelope = pending_.front().envelope;
        moved += std::max<size_t>(envelope.bytes, kLeastCost);
        complete(completions, Code::kOk, envelope);
        continue;
      }
    }
    if (!open_ && !open(completions)) {
      // A mismatch completes a receive and leaves the message for the next one.
      if (head_ && broken_ == Code::kOk) {
        moved += kLeastCost;
        continue;
      }
      if (broken_ == Code::kOk) break;
      continue;
    }
    const size_t cost = move(completions, bounce);
    if (cost == 0) break;
    moved += cost;
  }
  acknowledge_rest();
  moved_ = moved > 0;
  return acknowledged();
}

}  // namespace banyan::shm
