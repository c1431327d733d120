// Frames, pieces and acceptances of one lane between two ranks.
// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cstring>

#include "transports/framed/framed.h"

namespace banyan {
namespace {

Passage passage_of(const Envelope& envelope, const FramedContext& context) {
  return envelope.bytes <= context.short_most ? Passage::kFrame : Passage::kPieces;
}

uint64_t tag_of(const FramedContext& context, FrameKind kind, Lane lane, int sender,
                uint32_t number) {
  return frame_tag(context.epoch, kind, lane, sender, number);
}

void cancel_pending(Wire& wire, WireOperation& operation) {
  if (operation.pending()) wire.cancel(operation);
}

}  // namespace

uint64_t frame_tag(uint32_t epoch, FrameKind kind, Lane lane, int sender, uint32_t number) {
  return uint64_t{epoch & 0xffff} << 48 | static_cast<uint64_t>(kind) << 46 |
         static_cast<uint64_t>(lane) << 45 |
         uint64_t{static_cast<uint32_t>(sender) & 0x1ffff} << 28 | (number & 0xfffffff);
}

BufferPool::BufferPool(size_t count, size_t bytes) : bytes_(bytes), memory_(count * bytes) {
  for (size_t i = count; i > 0; --i) free_.push_back(static_cast<int>(i - 1));
}

int BufferPool::take() {
  if (free_.empty()) return -1;
  const int index = free_.back();
  free_.pop_back();
  return index;
}

size_t short_payload_most(size_t best, int ranks) {
  const size_t share = (size_t{1} << 20) / static_cast<size_t>(ranks);
  return std::clamp<size_t>(share / 64 * 64, 256, best);
}

bool FramedSend::Entry::pending() const {
  return frame.pending() || acceptance.pending() ||
         std::any_of(pieces.begin(), pieces.end(),
                     [](const WireOperation& piece) { return piece.pending(); });
}

bool FramedSend::pending() const {
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (entries_[i].pending()) return true;
  }
  return false;
}

void FramedSend::cancel(Wire& wire) {
  for (size_t i = 0; i < entries_.size(); ++i) cancel_pending(wire, entries_[i].acceptance);
}

void FramedSend::push(const Transfer& transfer) {
  Entry entry;
  entry.transfer = transfer;
  entry.number = messages_++;
  entries_.push(entry);
}

QuickLane::Departure FramedSend::send_whole(const std::byte* memory, const Envelope& envelope,
                                            FramedContext& context) {
  if (envelope.bytes > context.short_most || context.wire.lost(peer_))
    return QuickLane::Departure::kOther;
  progress(context);
  const bool waits = !entries_.empty() && !entries_[entries_.size() - 1].started;
  if (waits || entries_.full() || context.frames.empty()) return QuickLane::Departure::kNoRoom;
  Entry entry;
  entry.transfer.memory = const_cast<std::byte*>(memory);
  entry.transfer.envelope = envelope;
  entry.whole = true;
  entry.number = messages_++;
  entries_.push(entry);
  start(entries_[entries_.size() - 1], context);
  return QuickLane::Departure::kSent;
}

void FramedSend::start(Entry& entry, FramedContext& context) {
  entry.buffer = context.frames.take();
  if (entry.buffer < 0) return;
  entry.started = true;
  std::byte* frame = context.frames.at(entry.buffer);
  const Transfer& transfer = entry.transfer;
  const uint64_t bytes = transfer.envelope.bytes;
  size_t length = sizeof(Envelope);
  std::memcpy(frame, &transfer.envelope, length);
  if (bytes <= context.short_most) {
    if (bytes > 0) copy_bytes(frame + length, transfer.memory, bytes);
    length += bytes;
    entry.bytes_posted = bytes;
  } else {
    entry.next_piece = pieces_;
    pieces_ += context.pieces.count(bytes);
  }
  context.wire.send(peer_, tag_of(context, FrameKind::kFrame, lane_, context.rank, entry.number),
                    frame, length, MemoryKind::kHost, entry.frame);
  if (lane_ != Lane::kMessage) return;
  // Nothing is in it, but a receive needs somewhere to put nothing.
  context.wire.receive(tag_of(context, FrameKind::kAcceptance, lane_, peer_, entry.number), frame,
                       0, MemoryKind::kHost, entry.acceptance);
}

void FramedSend::settle(Entry& entry, WireOperation& operation) const {
  if (!operation.done()) return;
  // What is cancelled because the peer is lost does not hide that it is.
  if (operation.code != Code::kOk && entry.code == Code::kOk)
    entry.code = operation.code == Code::kAborted ? Code::kPeerLost : operation.code;
  operation.state = WireOperation::State::kIdle;
}

void FramedSend::advance(Entry& entry, FramedContext& context) {
  settle(entry, entry.frame);
  if (entry.buffer >= 0 && !entry.frame.pending()) {
    context.frames.give(entry.buffer);
    entry.buffer = -1;
  }
  const Transfer& transfer = entry.transfer;
  for (WireOperation& piece : entry.pieces) {
    settle(entry, piece);
    if (piece.pending() || entry.code != Code::kOk) continue;
    if (entry.bytes_posted == transfer.envelope.bytes) continue;
    const size_t bytes = context.pieces.at(entry.bytes_posted, transfer.envelope.bytes);
    context.wire.send(peer_,
                      tag_of(context, FrameKind::kPiece, lane_, context.rank, entry.next_piece++),
                      transfer.memory + entry.bytes_posted, bytes, transfer.kind, piece);
    entry.bytes_posted += bytes;
  }
}

bool FramedSend::is_done(const Entry& entry, const FramedContext& context) const {
  if (entry.code != Code::kOk || context.wire.lost(peer_)) return !entry.pending();
  return entry.started && entry.bytes_posted == entry.transfer.envelope.bytes && !entry.pending();
}

void FramedSend::progress(FramedContext& context) {
  for (size_t i = 0; i < entries_.size(); ++i) {
    Entry& entry = entries_[i];
    const bool lost = context.wire.lost(peer_);
    if (lost && entry.code == Code::kOk) {
      // An acceptance that is already here still counts.
      settle(entry, entry.acceptance);
      if (!is_done(entry, context) || !entry.started) entry.code = Code::kPeerLost;
    }
    if (!entry.started && entry.code == Code::kOk) start(entry, context);
    if (!entry.started && entry.code == Code::kOk) break;  // no buffer; nobody overtakes
    if (entry.started) advance(entry, context);
    if (entry.code != Code::kOk) cancel_pending(context.wire, entry.acceptance);
  }
  while (!entries_.empty() && !context.completions.full() && is_done(entries_.front(), context)) {
    Entry& entry = entries_.front();
    settle(entry, entry.acceptance);
    if (!entry.whole)
      context.completions.push({.cookie = entry.transfer.cookie,
                                .code = entry.code,
                                .passage = passage_of(entry.transfer.envelope, context),
                                .seen = entry.transfer.envelope});
    entries_.pop();
  }
}

void FramedReceive::open(FramedContext& context) {
  frame_.resize(sizeof(Envelope) + context.short_most);
  ask_for_frame(context);
}

bool FramedReceive::pending() const {
  const auto is_pending = [](const WireOperation& operation) { return operation.pending(); };
  return frame_operation_.pending() ||
         std::any_of(acceptances_.begin(), acceptances_.end(), is_pending) ||
         std::any_of(pieces_.begin(), pieces_.end(),
                     [](const Piece& piece) { return piece.operation.pending(); });
}

void FramedReceive::cancel(Wire& wire) {
  cancel_pending(wire, frame_operation_);
  for (Piece& piece : pieces_) cancel_pending(wire, piece.operation);
}

void FramedReceive::ask_for_frame(FramedContext& context) {
  has_head_ = false;
  frame_operation_.state = WireOperation::State::kIdle;
  context.wire.receive(tag_of(context, FrameKind::kFrame, lane_, peer_, messages_++), frame_.data(),
                       frame_.size(), MemoryKind::kHost, frame_operation_);
}

bool FramedReceive::is_consistent(const FramedContext& context) const {
  if (frame_operation_.bytes < sizeof(Envelope)) return false;
  const size_t payload = frame_operation_.bytes - sizeof(Envelope);
  return payload == (head_.bytes <= context.short_most ? head_.bytes : 0);
}

// Whether a frame of this epoch is at the head and in head_.
bool FramedReceive::find_head(FramedContext& context) {
  if (moving_ || broken_ != Code::kOk) return false;
  if (has_head_) return true;
  if (!frame_operation_.done()) return false;
  if (frame_operation_.code != Code::kOk) {
    broken_ = frame_operation_.code == Code::kAborted ? Code::kPeerLost : frame_operation_.code;
    return false;
  }
  head_ = {};
  if (frame_operation_.bytes >= sizeof head_) std::memcpy(&head_, frame_.data(), sizeof head_);
  if (!is_consistent(context)) {
    broken_ = Code::kCorrupt;
    return false;
  }
  if (head_.epoch != context.epoch) {
    begin(context, true);
    return false;
  }
  has_head_ = true;
  return true;
}

std::optional<Envelope> FramedReceive::peek(FramedContext& context) {
  progress(context);
  if (!find_head(context) || !is_valid(head_)) return std::nullopt;
  return head_;
}

void FramedReceive::complete(FramedContext& context, Code code) {
  context.completions.push({.cookie = transfers_.front().cookie,
                            .code = code,
                            .passage = passage_of(head_, context),
                            .seen = head_});
  transfers_.pop();
}

void FramedReceive::fail_all(FramedContext& context, Code code) {
  while (!transfers_.empty() && !context.completions.full()) complete(context, code);
}

void FramedReceive::begin(FramedContext& context, bool dropping) {
  moving_ = true;
  dropping_ = dropping;
  code_ = Code::kOk;
  bytes_asked_ = 0;
  if (head_.bytes > context.short_most) return;
  bytes_asked_ = head_.bytes;
  if (!dropping) {
    deliver(transfers_.front(), 0, frame_.data() + sizeof(Envelope), head_.bytes);
  }
}

// Brings the first receive and the head together. Whether that changed anything.
bool FramedReceive::match(FramedContext& context) {
  if (!find_head(context)) return moving_ || broken_ != Code::kOk;
  switch (judge(head_, transfers_.front(), context.epoch)) {
    case Judgement::kAccept: begin(context, false); return true;
    case Judgement::kMismatch: complete(context, Code::kMismatch); return true;
    case Judgement::kDrop:  // find_head() has seen to those
    case Judgement::kCorrupt: broken_ = Code::kCorrupt; return true;
  }
  return false;
}

QuickLane::Arrival FramedReceive::receive_whole(const Transfer& transfer, FramedContext& context) {
  if (!transfers_.empty()) return QuickLane::Arrival::kOther;
  if (!find_head(context)) {
    const bool never =
        moving_ || broken_ != Code::kOk || (context.wire.lost(peer_) && !frame_operation_.done());
    return never ? QuickLane::Arrival::kOther : QuickLane::Arrival::kNotThere;
  }
  if (transfer.up_to || head_.bytes > context.short_most ||
      judge(head_, transfer, context.epoch) != Judgement::kAccept)
    return QuickLane::Arrival::kOther;
  deliver(transfer, 0, frame_.data() + sizeof(Envelope), head_.bytes);
  ask_for_frame(context);
  return QuickLane::Arrival::kTaken;
}

bool FramedReceive::ask_for_piece(Piece& piece, FramedContext& context) {
  const bool bounces = dropping_ || transfers_.front().combine != nullptr;
  if (bounces) {
    piece.bounce = context.bounces.take();
    if (piece.bounce < 0) return false;
  }
  piece.offset = bytes_asked_;
  piece.bytes = context.pieces.at(bytes_asked_, head_.bytes);
  bytes_asked_ += piece.bytes;
  std::byte* memory =
      bounces ? context.bounces.at(piece.bounce) : transfers_.front().memory + piece.offset;
  const MemoryKind kind = bounces ? MemoryKind::kHost : transfers_.front().kind;
  context.wire.receive(tag_of(context, FrameKind::kPiece, lane_, peer_, pieces_asked_++), memory,
                       piece.bytes, kind, piece.operation);
  return true;
}

void FramedReceive::settle(Piece& piece, FramedContext& context) {
  if (!piece.operation.done()) return;
  piece.operation.state = WireOperation::State::kIdle;
  Code code = piece.operation.code;
  if (code == Code::kAborted) code = Code::kPeerLost;
  if (code == Code::kOk && piece.operation.bytes != piece.bytes) code = Code::kCorrupt;
  if (code != Code::kOk) code_ = code;
  if (piece.bounce < 0) return;
  if (code == Code::kOk && !dropping_) {
    deliver(transfers_.front(), piece.offset, context.bounces.at(piece.bounce), piece.bytes);
  }
  context.bounces.give(piece.bounce);
  piece.bounce = -1;
}

// Whether all pieces are there, or none will come any more.
bool FramedReceive::move(FramedContext& context) {
  bool pending = false;
  const bool lost = context.wire.lost(peer_);
  for (Piece& piece : pieces_) {
    settle(piece, context);
    if (piece.operation.pending() && lost) context.wire.cancel(piece.operation);
    settle(piece, context);
    const bool more = bytes_asked_ < head_.bytes && code_ == Code::kOk;
    if (!piece.operation.pending() && more && lost) code_ = Code::kPeerLost;
    if (!piece.operation.pending() && more && !lost && ask_for_piece(piece, context)) {
      settle(piece, context);
    }
    pending = pending || piece.operation.pending();
  }
  return !pending && (code_ != Code::kOk || bytes_asked_ == head_.bytes);
}

WireOperation* FramedReceive::spare_acceptance() {
  const auto spare =
      std::find_if(acceptances_.begin(), acceptances_.end(),
                   [](const WireOperation& operation) { return !operation.pending(); });
  return spare == acceptances_.end() ? nullptr : &*spare;
}

// Whether the message could be finished: its acceptance has to leave.
bool FramedReceive::finish(FramedContext& context) {
  if (code_ != Code::kOk) {
    broken_ = code_;
    moving_ = false;
    return true;
  }
  if (lane_ == Lane::kMessage) {
    WireOperation* acceptance = spare_acceptance();
    if (acceptance == nullptr) return false;
    context.wire.send(peer_,
                      tag_of(context, FrameKind::kAcceptance, lane_, context.rank, messages_ - 1),
                      frame_.data(), 0, MemoryKind::kHost, *acceptance);
  }
  if (!dropping_) complete(context, Code::kOk);
  moving_ = false;
  ask_for_frame(context);
  return true;
}

void FramedReceive::progress(FramedContext& context) {
  // Bounded, so that lanes share the thread.
  for (int i = 0; i < 16 && !context.completions.full(); ++i) {
    if (moving_) {
      if (!move(context) || !finish(context)) return;
      continue;
    }
    if (transfers_.empty()) return;
    if (broken_ != Code::kOk) return fail_all(context, broken_);
    if (context.wire.lost(peer_) && !frame_operation_.done()) {
      return fail_all(context, Code::kPeerLost);
    }
    if (!match(context)) return;
  }
}

}  // namespace banyan
