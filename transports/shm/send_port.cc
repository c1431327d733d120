// The sending end of a channel in shared memory.
// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <bit>
#include <cstring>

#include "src/base/clock.h"
#include "src/base/copy.h"
#include "src/base/copy_far.h"
#include "src/base/prepare_store.h"
#include "transports/shm/port.h"

namespace banyan::shm {
namespace {

// A message that leaves past the queues has all of its slot prepared, unless that would fill the L1
// cache.
constexpr uint64_t kPreparedMost = 16 << 10;
constexpr uint64_t kPreparedFew = 4 << 10;
// The slots of a window of so many messages are back by the time that it is their turn.
constexpr uint32_t kAhead = 3;
// Written into the peer's heap at once.
constexpr uint64_t kPutAtOnce = 256 << 10;

void write_envelope(Line& line, const Envelope& envelope) {
  const auto words = std::bit_cast<std::array<uint64_t, 4>>(envelope);
  for (size_t i = 0; i < words.size(); ++i) {
    line.envelope[i].store(words[i], std::memory_order_relaxed);
  }
}

}  // namespace

void SendPort::push(const Transfer& transfer) {
  pending_.push({.transfer = transfer, .number = ++messages_});
}

// Nothing else is pending, or send_whole() would not have sent anything.
void SendPort::push_delivery(uint64_t cookie) {
  pending_.push(
      {.transfer = {.envelope = {}, .cookie = cookie}, .done_at = slots_sent_, .sent = true});
  sending_ = pending_.size();
}

// A peer that claims to have read what was never sent is not believed again.
void SendPort::update_read() {
  const uint64_t read = channel_.slots_read->load(std::memory_order_acquire);
  if (read < slots_read_ || read > slots_sent_) {
    corrupt_ = true;
  } else {
    slots_read_ = read;
  }
}

bool SendPort::delivered() {
  if (slots_read_ != slots_sent_) update_read();
  return slots_read_ == slots_sent_;
}

bool SendPort::has_room() {
  if (slots_sent_ - slots_read_ < channel_.slots) return true;
  update_read();
  return slots_sent_ - slots_read_ < channel_.slots;
}

bool SendPort::ready() const {
  if (pending_.empty()) return false;
  const uint64_t read = channel_.slots_read->load(std::memory_order_seq_cst);
  if (read != slots_read_ || corrupt_) return true;
  return sending_ < pending_.size() ? slots_sent_ - read < channel_.slots
                                    : pending_.front().done_at <= read;
}

SlotKind SendPort::kind_for(const Pending& pending) const {
  const Transfer& transfer = pending.transfer;
  const uint64_t bytes = transfer.envelope.bytes;
  if (bytes <= kInlineMost) return SlotKind::kInline;
  if (is_read_in_place(transfer.memory, bytes)) return SlotKind::kHeap;
  switch (wanted_for(pending.preference.flow, bytes)) {
    case Way::kSlots: return SlotKind::kFragment;
    case Way::kAfar: return SlotKind::kMemory;
    case Way::kUnknown: break;
  }
  return goes_afar(pending.preference, bytes, afar_least()) ? SlotKind::kMemory
                                                            : SlotKind::kFragment;
}

Way SendPort::wanted_for(Flow flow, uint64_t bytes) const {
  if (flow == Flow::kAny) return Way::kUnknown;
  return way_in(channel_.abilities->wanted.load(std::memory_order_relaxed), kind_of(flow, bytes));
}

bool SendPort::is_read_in_place(const std::byte* memory, uint64_t bytes) const {
  return bytes >= kHeapLeast && channel_.heap->offset_of(memory, bytes) &&
         (channel_.abilities->flags.load(std::memory_order_acquire) & kReadsHeap) != 0;
}

// The payload that travels in the line or in its slot.
void SendPort::copy_in(Line& line, const SlotWord& word, const std::byte* memory) const {
  if (word.kind == SlotKind::kFragment) {
    copy_bytes(next_slot(), memory, word.bytes);
    return;
  }
  copy_few(line.bytes(), memory, word.bytes);
}

// And tells the receiver, which weighs ways, how long that took.
void SendPort::copy_in_timed(Line& line, const SlotWord& word, const std::byte* memory) const {
  const TimePoint begin = Clock::now();
  copy_in(line, word, memory);
  line.payload[0].store(nanoseconds_since(begin), std::memory_order_relaxed);
}

void SendPort::publish(Line& line, const SlotWord& word) {
  store_before_look(line.word, pack(word), channel_.fence);
  ++slots_sent_;
}

// The peer still has copies of these lines, from the last time round: all come back together.
void SendPort::prepare_next(uint64_t bytes, uint32_t after) const {
  prepare_store(&next_line(after));
  if (bytes <= kInlineMost) return;
  const uint64_t most =
      bytes <= kPreparedMost && after == 0 ? bytes : std::min(bytes, kPreparedFew);
  for (size_t i = 0; i < most; i += kLineBytes) prepare_store(next_slot(after) + i);
}

void SendPort::prepare_likely() const {
  if (slots_sent_ - slots_read_ < channel_.slots)
    prepare_next(std::max(whole_bytes_[0], whole_bytes_[1]));
}

SendPort::Whole SendPort::send_whole(const std::byte* memory, const Envelope& envelope) {
  if (envelope.bytes > channel_.slot_bytes || is_read_in_place(memory, envelope.bytes))
    return Whole::kOther;
  if (!pending_.empty() || corrupt_ || !has_room()) return Whole::kNoRoom;
  prepare_next(envelope.bytes);
  Line& line = next_line();
  const SlotWord word{
      .number = static_cast<uint32_t>(slots_sent_ + 1),
      .first = true,
      .kind = envelope.bytes <= kInlineMost ? SlotKind::kInline : SlotKind::kFragment,
      .bytes = static_cast<uint32_t>(envelope.bytes)};
  copy_in(line, word, memory);
  write_envelope(line, envelope);
  publish(line, word);
  ++messages_;
  if (channel_.lane == Lane::kMessage && slots_sent_ + kAhead - slots_read_ < channel_.slots)
    prepare_next(envelope.bytes, kAhead);
  whole_bytes_ = {envelope.bytes, whole_bytes_[0]};
  return Whole::kSent;
}

// Where the peer wants the message, if it does, and nowhere that cannot be.
void SendPort::look_for_offer(Pending& pending) const {
  if (channel_.offer == nullptr || pending.transfer.envelope.bytes < kOfferLeast) return;
  const Offer& offer = *channel_.offer;
  if (offer.number.load(std::memory_order_acquire) != pending.number) return;
  std::array<uint64_t, 4> envelope{};
  for (size_t i = 0; i < envelope.size(); ++i)
    envelope[i] = offer.envelope[i].load(std::memory_order_relaxed);
  const uint64_t offset = offer.offset.load(std::memory_order_relaxed);
  const Envelope& ours = pending.transfer.envelope;
  if (std::bit_cast<Envelope>(envelope) != ours || ours.bytes > channel_.peer_heap.size() ||
      offset > channel_.peer_heap.size() - ours.bytes || channel_.slot_bytes < kRestMost)
    return;
  pending.target = channel_.peer_heap.data() + offset;
  pending.cut = cut_at_pages(offset, ours.bytes);
  pending.bypasses_caches = offer.bypasses_caches.load(std::memory_order_relaxed) == 1;
}

// Writes a piece of the message where the peer wants it, and sends the rest after the last one.
size_t SendPort::put(Pending& pending) {
  const PageCut& cut = pending.cut;
  const size_t bytes = std::min<uint64_t>(cut.pages - pending.bytes_sent, kPutAtOnce);
  std::byte* to = pending.target + cut.head + pending.bytes_sent;
  const std::byte* memory = pending.transfer.memory;
  const std::byte* from = memory + cut.head + pending.bytes_sent;
  if (pending.bypasses_caches)
    copy_far(to, from, bytes);
  else
    copy_bytes(to, from, bytes);
  pending.bytes_sent += bytes;
  if (pending.bytes_sent < cut.pages) return bytes;
  Line& line = next_line();
  write_envelope(line, pending.transfer.envelope);
  copy_bytes(next_slot(), memory, cut.head);
  copy_bytes(next_slot() + cut.head, memory + cut.head + cut.pages, cut.tail);
  publish(line, {.number = static_cast<uint32_t>(slots_sent_ + 1),
                 .first = true,
                 .kind = SlotKind::kPut,
                 .bytes = static_cast<uint32_t>(cut.rest())});
  pending.passage = Passage::kPut;
  pending.sent = true;
  return bytes;
}

// Fills one slot. Returns what that cost, in bytes moved.
size_t SendPort::send_slot(Pending& pending) {
  const Transfer& transfer = pending.transfer;
  const uint64_t bytes = transfer.envelope.bytes;
  if (pending.bytes_sent == 0) look_for_offer(pending);
  if (pending.target != nullptr) return put(pending);
  Line& line = next_line();
  SlotWord word{.number = static_cast<uint32_t>(slots_sent_ + 1),
                .first = pending.bytes_sent == 0,
                .kind = SlotKind::kFragment,
                .bytes = 0};
  if (word.first) {
    pending.preference = preference_of(transfer, channel_.ranks_per_core);
    word.kind = kind_for(pending);
    pending.passage = passage_by(word.kind);
    write_envelope(line, transfer.envelope);
    if (word.kind != SlotKind::kInline)
      line.payload[1].store(pack(pending.preference), std::memory_order_relaxed);
  }
  const bool in_place = word.kind == SlotKind::kHeap || word.kind == SlotKind::kMemory;
  if (in_place) {
    const uint64_t where = word.kind == SlotKind::kHeap
                               ? *channel_.heap->offset_of(transfer.memory, bytes)
                               : reinterpret_cast<uintptr_t>(transfer.memory);
    line.payload[0].store(where, std::memory_order_relaxed);
  } else {
    const uint64_t left = bytes - pending.bytes_sent;
    word.bytes = static_cast<uint32_t>(std::min<uint64_t>(left, channel_.slot_bytes));
    const std::byte* memory = transfer.memory + pending.bytes_sent;
    if (pending.preference.flow == Flow::kAny || word.kind == SlotKind::kInline ||
        !is_timed(pending.bytes_sent, channel_.slot_bytes))
      copy_in(line, word, memory);
    else
      copy_in_timed(line, word, memory);
  }
  publish(line, word);
  pending.bytes_sent += word.bytes;
  pending.sent = in_place || pending.bytes_sent == bytes;
  const bool until_read = in_place || channel_.lane == Lane::kMessage;
  if (pending.sent) pending.done_at = until_read ? slots_sent_ : 0;
  return std::max<size_t>(word.bytes, kLeastCost);
}

bool SendPort::progress(Completions& completions) {
  const uint64_t slots_before = slots_sent_;
  size_t moved = 0;
  while (sending_ < pending_.size() && moved < kBytesAtOnce && !corrupt_ && has_room()) {
    Pending& pending = pending_[sending_];
    moved += send_slot(pending);
    if (pending.sent) ++sending_;
  }
  moved_ = moved > 0;
  complete(completions);
  return slots_sent_ != slots_before;
}

void SendPort::complete(Completions& completions) {
  if (sending_ > 0 && pending_.front().done_at > slots_read_) update_read();
  while (!pending_.empty() && !completions.full()) {
    const Pending& first = pending_.front();
    if (!corrupt_ && (!first.sent || first.done_at > slots_read_)) return;
    completions.push({.cookie = first.transfer.cookie,
                      .code = corrupt_ ? Code::kCorrupt : Code::kOk,
                      .passage = first.passage,
                      .seen = {}});
    pending_.pop();
    if (sending_ > 0) --sending_;
  }
}

}  // namespace banyan::shm
