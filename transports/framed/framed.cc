// The transport around the ports of framed.h.
// SPDX-License-Identifier: Apache-2.0

#include "transports/framed/framed.h"

#include <fmt/format.h>

#include "src/base/clock.h"

namespace banyan {
namespace {

struct FramedPeer {
  std::array<FramedSend, kLaneCount> send;
  std::array<FramedReceive, kLaneCount> receive;

  explicit FramedPeer(int rank)
      : send{FramedSend(rank, Lane::kCollective), FramedSend(rank, Lane::kMessage)},
        receive{FramedReceive(rank, Lane::kCollective), FramedReceive(rank, Lane::kMessage)} {}
};

// Between two ranks in the collective lane.
class FramedQuick final : public QuickLane {
 public:
  FramedQuick(FramedSend& send, FramedReceive& receive, FramedContext& context)
      : send_(&send), receive_(&receive), context_(&context) {}

  bool takes(const Transfer& transfer) const override {
    return !transfer.up_to &&
           transfer.envelope.bytes <= std::min<uint64_t>(kBytesMost, context_->short_most);
  }
  Departure send(const std::byte* memory, const Envelope& envelope) override {
    return send_->send_whole(memory, envelope, *context_);
  }
  Arrival receive(const Transfer& transfer) override {
    return receive_->receive_whole(transfer, *context_);
  }
  bool progress() override { return context_->wire.progress(); }

 private:
  FramedSend* send_;
  FramedReceive* receive_;
  FramedContext* context_;
};

class FramedTransport final : public Transport {
 public:
  FramedTransport(std::string_view name, std::unique_ptr<Wire> wire, size_t short_most,
                  Pieces pieces, const Wiring& wiring, std::span<const int> peers)
      : name_(name),
        wire_(std::move(wire)),
        index_of_rank_(wiring.size(), -1),
        context_{.wire = *wire_,
                 .rank = wiring.rank(),
                 .epoch = wiring.epoch(),
                 .short_most = short_most,
                 .pieces = pieces,
                 .frames = BufferPool(peers.empty() ? 0 : kFrames, sizeof(Envelope) + short_most),
                 .bounces = BufferPool(peers.empty() ? 0 : kPiecesInFlight,
                                       std::max(pieces.bytes, pieces.of_long)),
                 .completions = {}} {
    peers_.reserve(peers.size());
    quick_lanes_.reserve(peers.size());
    for (const int rank : peers) {
      index_of_rank_[rank] = static_cast<int>(peers_.size());
      for (FramedReceive& port : peers_.emplace_back(rank).receive) port.open(context_);
      constexpr auto kLane = static_cast<size_t>(Lane::kCollective);
      quick_lanes_.emplace_back(peers_.back().send[kLane], peers_.back().receive[kLane], context_);
    }
  }

  // Nothing of ours may be in the wire's hands when our memory goes.
  ~FramedTransport() override {
    cancel_all();
    wire_.reset();
  }

  FramedTransport(const FramedTransport&) = delete;
  FramedTransport& operator=(const FramedTransport&) = delete;

  std::string_view name() const override { return name_; }

  // What travels in frames is copied by the host.
  std::optional<uint64_t> carries_from(MemoryKind kind) const override {
    if (kind != MemoryKind::kDevice) return 0;
    return wire_->reaches_gpus() ? context_.short_most + 1 : std::optional<uint64_t>();
  }

  void abandon() override {
    wire_->close();
    cancel_all();
  }

  Status post(const Transfer& transfer) override {
    const int index = index_of(transfer.peer);
    BANYAN_TRY(check_transfer(transfer, index >= 0));
    BANYAN_TRY(check_kind(transfer));
    const auto lane = static_cast<size_t>(transfer.lane);
    flushed_.state = WireOperation::State::kIdle;
    if (transfer.direction == Direction::kRecv) {
      FramedReceive& port = peers_[index].receive[lane];
      if (port.full()) return busy_;
      port.push(transfer);
      return {};
    }
    FramedSend& port = peers_[index].send[lane];
    if (port.full()) return busy_;
    port.push(transfer);
    port.progress(context_);
    return {};
  }

  Result<size_t> poll(std::span<Completion> completions) override {
    if (context_.completions.size() < completions.size()) progress();
    return report(context_.completions, completions);
  }

  std::optional<Envelope> peek(int peer, Lane lane) override {
    const int index = index_of(peer);
    if (index < 0) return std::nullopt;
    wire_->progress();
    return peers_[index].receive[static_cast<size_t>(lane)].peek(context_);
  }

  QuickLane* quick_lane(int peer, Lane lane) override {
    const int index = index_of(peer);
    return index < 0 || lane != Lane::kCollective ? nullptr : &quick_lanes_[index];
  }

  bool arm() override {
    const bool moved = progress();
    return !moved && context_.completions.empty() && wire_->arm();
  }
  // The descriptor is readable only while the wire has something that progress() takes.
  void disarm() override { wire_->progress(); }
  int descriptor() const override { return wire_->descriptor(); }

  // Messages that have not left mostly need no more than a turn, which costs less than to wake
  // whoever would take it.
  bool settled() override {
    if (has_left()) return true;
    progress();
    return has_left();
  }

  Status flush() override {
    progress();
    if (!sends_are_done()) return busy_;
    if (flushed_.state == WireOperation::State::kIdle) wire_->flush(flushed_);
    return flushed_.done() ? Status() : busy_;
  }

 private:
  void cancel_all() {
    constexpr double kPatience = 0.2;
    const TimePoint deadline = deadline_after(kPatience);
    for (FramedPeer& peer : peers_) {
      for (FramedSend& port : peer.send) port.cancel(*wire_);
      for (FramedReceive& port : peer.receive) port.cancel(*wire_);
    }
    while (is_pending() && Clock::now() < deadline) wire_->progress();
  }

  static constexpr size_t kFrames = 32;

  Status check_kind(const Transfer& transfer) const {
    const uint64_t bytes = transfer.envelope.bytes;
    const std::optional<uint64_t> least = carries_from(transfer.kind);
    if (bytes == 0 || (least && bytes >= *least)) return {};
    return {Code::kInvalidArgument, fmt::format("{} bytes in {} memory do not travel by {}", bytes,
                                                name_of(transfer.kind), name_)};
  }

  int index_of(int rank) const {
    return rank >= 0 && rank < static_cast<int>(index_of_rank_.size()) ? index_of_rank_[rank] : -1;
  }

  bool is_pending() const {
    for (const FramedPeer& peer : peers_) {
      for (const FramedSend& port : peer.send) {
        if (port.pending()) return true;
      }
      for (const FramedReceive& port : peer.receive) {
        if (port.pending()) return true;
      }
    }
    return flushed_.pending();
  }

  // What is done leaves its queue here: that takes no turn of the wire.
  bool sends_are_done() {
    for (FramedPeer& peer : peers_) {
      for (FramedSend& port : peer.send) {
        if (!port.idle()) port.progress(context_);
        if (!port.idle()) return false;
      }
    }
    return true;
  }

  bool has_left() { return sends_are_done() && wire_->settled(); }

  bool progress() {
    const bool moved = wire_->progress();
    for (FramedPeer& peer : peers_) {
      for (FramedSend& port : peer.send) {
        if (!port.idle()) port.progress(context_);
      }
      for (FramedReceive& port : peer.receive) {
        if (!port.idle()) port.progress(context_);
      }
    }
    return moved;
  }

  std::string_view name_;
  std::unique_ptr<Wire> wire_;
  std::vector<int> index_of_rank_;
  FramedContext context_;
  std::vector<FramedPeer> peers_;
  std::vector<FramedQuick> quick_lanes_;  // of peers_
  WireOperation flushed_;
  const Status busy_{Code::kBusy, "the queue to or from this peer is full"};
};

}  // namespace

std::unique_ptr<Transport> make_framed_transport(std::string_view name, std::unique_ptr<Wire> wire,
                                                 size_t short_most, Pieces pieces,
                                                 const Wiring& wiring, std::span<const int> peers) {
  return std::make_unique<FramedTransport>(name, std::move(wire), short_most, pieces, wiring,
                                           peers);
}

}  // namespace banyan
