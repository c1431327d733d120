// The sending end of a channel in shared memory.
// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <bit>
#include <cstring>

#include "transports/port.h"

namespace banyan::shm {
namespace {

// From here on the peer reads our heap in place; below, a copy through a slot lets us go on sooner.
constexpr uint64_t kHeapLeast = 4 << 10;
// From here on the peer copies straight from our memory.
constexpr uint64_t kMemoryLeast = 64 << 10;

void write_envelope(Line& line, const Envelope& envelope) {
  const auto words = std::bit_cast<std::array<uint64_t, 4>>(envelope);
  for (size_t i = 0; i < words.size(); ++i) {
    line.envelope[i].store(words[i], std::memory_order_relaxed);
  }
}

}  // namespace

void SendPort::push(const Transfer& transfer) {
  pending_.push({.transfer = transfer, .bytes_sent = 0, .done_at = 0, .sent = false});
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

bool SendPort::has_room() {
  if (slots_sent_ - slots_read_ < channel_.slots) return true;
  update_read();
  return slots_sent_ - slots_read_ < channel_.slots;
}

bool SendPort::ready() const {
  if (pending_.empty()) return false;
  const uint64_t read = channel_.slots_read->load(std::memory_order_seq_cst);
  if (read != slots_read_ || corrupt_) return true;
  return sending_ < pending_.size() ? slots_sent_ - read < channel_.slots : pending_.front().sent;
}

SlotKind SendPort::kind_for(const Transfer& transfer) const {
  const uint64_t bytes = transfer.envelope.bytes;
  if (bytes <= kInlineMost) return SlotKind::kInline;
  const uint64_t abilities = channel_.abilities->load(std::memory_order_acquire);
  if (bytes >= kHeapLeast && (abilities & kReadsHeap) != 0 &&
      channel_.heap->offset_of(transfer.memory, bytes)) {
    return SlotKind::kHeap;
  }
  if (bytes >= kMemoryLeast && (abilities & kReadsMemory) != 0) return SlotKind::kMemory;
  return SlotKind::kFragment;
}

// The payload that travels in the line or in its slot.
void SendPort::copy_in(Line& line, const SlotWord& word, const std::byte* memory) const {
  if (word.kind == SlotKind::kFragment) {
    const uint64_t slot = slots_sent_ & (channel_.slots - 1);
    std::memcpy(channel_.payload + slot * channel_.slot_bytes, memory, word.bytes);
    return;
  }
  copy_few(line.bytes(), memory, word.bytes);
}

void SendPort::publish(Line& line, const SlotWord& word) {
  line.word.store(pack(word), std::memory_order_seq_cst);
  ++slots_sent_;
}

bool SendPort::send_whole(const std::byte* memory, const Envelope& envelope) {
  if (!pending_.empty() || envelope.bytes > channel_.slot_bytes || corrupt_ || !has_room()) {
    return false;
  }
  Line& line = next_line();
  const SlotWord word{
      .number = static_cast<uint32_t>(slots_sent_ + 1),
      .first = true,
      .kind = envelope.bytes <= kInlineMost ? SlotKind::kInline : SlotKind::kFragment,
      .bytes = static_cast<uint32_t>(envelope.bytes)};
  write_envelope(line, envelope);
  copy_in(line, word, memory);
  publish(line, word);
  return true;
}

// Fills one slot. Returns what that cost, in bytes moved.
size_t SendPort::send_slot(Pending& pending) {
  const Transfer& transfer = pending.transfer;
  const uint64_t bytes = transfer.envelope.bytes;
  Line& line = next_line();
  SlotWord word{.number = static_cast<uint32_t>(slots_sent_ + 1),
                .first = pending.bytes_sent == 0,
                .kind = SlotKind::kFragment,
                .bytes = 0};
  if (word.first) {
    word.kind = kind_for(transfer);
    write_envelope(line, transfer.envelope);
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
    copy_in(line, word, transfer.memory + pending.bytes_sent);
  }
  publish(line, word);
  pending.bytes_sent += word.bytes;
  pending.sent = in_place || pending.bytes_sent == bytes;
  const bool until_read = in_place || channel_.lane == Lane::kMessage;
  if (pending.sent) pending.done_at = until_read ? slots_sent_ : 0;
  return std::max<size_t>(word.bytes, 1024);
}

bool SendPort::progress(Completions& completions) {
  bool published = false;
  size_t moved = 0;
  while (sending_ < pending_.size() && moved < kBytesAtOnce && !corrupt_ && has_room()) {
    Pending& pending = pending_[sending_];
    moved += send_slot(pending);
    published = true;
    if (pending.sent) ++sending_;
  }
  complete(completions);
  return published;
}

void SendPort::complete(Completions& completions) {
  if (sending_ > 0 && pending_.front().done_at > slots_read_) update_read();
  while (!pending_.empty() && !completions.full()) {
    const Pending& first = pending_.front();
    if (!corrupt_ && (!first.sent || first.done_at > slots_read_)) return;
    completions.push({.cookie = first.transfer.cookie,
                      .code = corrupt_ ? Code::kCorrupt : Code::kOk,
                      .seen = {}});
    pending_.pop();
    if (sending_ > 0) --sending_;
  }
}

}  // namespace banyan::shm
