// This transport connects the ranks of one host: channels in sealed shared memory, a doorbell for
// those that sleep, and single copies out of the peer's heap or process where that works.
// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "transports/kinds.h"
#include "transports/shm/port.h"
#include "transports/shm/quick_slots.h"
#include "transports/shm/territory.h"

namespace banyan {
namespace {

using shm::Neighbour;
using shm::RecvPort;
using shm::SendPort;

struct Peer {
  Neighbour neighbour;
  shm::Bell bell;
  std::array<SendPort, kLaneCount> send;
  std::array<RecvPort, kLaneCount> recv;
  std::array<shm::QuickSlots, kLaneCount> quick;
};

// A port with something pending: its peer's index, lane and direction.
struct Active {
  uint32_t peer = 0;
  uint8_t lane = 0;
  Direction direction = Direction::kSend;
};

// Ranks of one process have one address space, in which a rank cannot withdraw its memory.
bool puts_between(const shm::Territory& own, const Neighbour& peer) {
  return peer.shared == nullptr && own.heap.bytes() > 0 && !peer.heap.empty();
}

SendPort::Channel channel_to(const shm::Territory& own, const Neighbour& peer, size_t index,
                             int lane, int ranks_per_core) {
  std::byte* block = own.block(index);
  const std::byte* theirs = peer.block;
  return {.lines = reinterpret_cast<shm::Line*>(block + own.layout.lines_at(lane)),
          .payload = block + own.layout.payload_at(lane),
          .slots = own.layout.slots[lane],
          .slot_bytes = own.layout.slot_bytes[lane],
          .slots_read = &reinterpret_cast<const shm::Acknowledgement*>(
                             theirs + peer.layout.acknowledgement_at(lane))
                             ->slots_read,
          .abilities = reinterpret_cast<const shm::Abilities*>(theirs + peer.layout.abilities_at()),
          .heap = &own.heap,
          .offer = puts_between(own, peer)
                       ? reinterpret_cast<const shm::Offer*>(theirs + peer.layout.offer_at(lane))
                       : nullptr,
          .peer_heap = peer.heap,
          .lane = static_cast<Lane>(lane),
          .ranks_per_core = ranks_per_core,
          .fence = peer.fence};
}

RecvPort::Channel channel_from(const shm::Territory& own, const Neighbour& peer, size_t index,
                               int lane, int ranks_per_core, uint32_t epoch) {
  const bool weighs =
      peer.reads_memory && peer.weighs_ways && lane == static_cast<int>(Lane::kCollective);
  auto* mine = reinterpret_cast<shm::Abilities*>(own.block(index) + own.layout.abilities_at());
  const auto* theirs =
      reinterpret_cast<const shm::Abilities*>(peer.block + peer.layout.abilities_at());
  return {.lines = reinterpret_cast<const shm::Line*>(peer.block + peer.layout.lines_at(lane)),
          .payload = peer.block + peer.layout.payload_at(lane),
          .slots = peer.layout.slots[lane],
          .slot_bytes = peer.layout.slot_bytes[lane],
          .slots_read = &reinterpret_cast<shm::Acknowledgement*>(
                             own.block(index) + own.layout.acknowledgement_at(lane))
                             ->slots_read,
          .offer = puts_between(own, peer)
                       ? reinterpret_cast<shm::Offer*>(own.block(index) + own.layout.offer_at(lane))
                       : nullptr,
          .own_heap = &own.heap,
          .heap = peer.heap,
          .withdrawn = &peer.header().withdrawn,
          .owner = peer.owner,
          .reads_memory = peer.reads_memory,
          .afar_least = peer.afar_least[lane],
          .wanted = weighs ? &mine->wanted : nullptr,
          .led = weighs && peer.leads ? &theirs->wanted : nullptr,
          .epoch = epoch,
          .lane = static_cast<Lane>(lane),
          .ranks_per_core = ranks_per_core,
          .fence = peer.fence};
}

// Owned by one thread at a time.
class ShmTransport final : public Transport {
 public:
  ShmTransport(shm::Neighbourhood neighbourhood, int size, uint32_t epoch)
      : own_(std::move(neighbourhood.own)),
        doorbell_(std::move(neighbourhood.doorbell)),
        cores_(neighbourhood.cores),
        times_(std::move(neighbourhood.times)),
        index_of_rank_(size, -1),
        bounce_(kBounceBytes) {
    peers_.reserve(neighbourhood.peers.size());
    for (size_t i = 0; i < neighbourhood.peers.size(); ++i) {
      Peer& peer = peers_.emplace_back();
      peer.neighbour = std::move(neighbourhood.peers[i]);
      index_of_rank_[peer.neighbour.rank] = static_cast<int>(i);
      for (int lane = 0; lane < kLaneCount; ++lane) {
        const int crowd = cores_.ranks_per_core;
        peer.send[lane] = SendPort(channel_to(*own_, peer.neighbour, i, lane, crowd));
        peer.recv[lane] = RecvPort(channel_from(*own_, peer.neighbour, i, lane, crowd, epoch));
      }
      peer.bell = shm::Bell(&peer.neighbour.header().sleeping, peer.neighbour.doorbell.get());
      for (size_t lane = 0; lane < kLaneCount; ++lane)
        peer.quick[lane] = shm::QuickSlots(&peer.send[lane], &peer.recv[lane], &peer.bell);
    }
    active_.reserve(peers_.size() * kLaneCount * 2);
  }

  std::string_view name() const override { return "shm"; }

  Status post(const Transfer& transfer) override {
    const int index = index_of(transfer.peer);
    BANYAN_TRY(check_transfer(transfer, index >= 0));
    const auto lane = static_cast<uint8_t>(transfer.lane);
    Peer& peer = peers_[index];
    const Active active{static_cast<uint32_t>(index), lane, transfer.direction};
    if (transfer.direction == Direction::kRecv) {
      RecvPort& port = peer.recv[lane];
      if (port.full()) return busy_;
      if (port.idle()) active_.push_back(active);
      port.push(transfer);
      return {};
    }
    SendPort& port = peer.send[lane];
    if (port.full()) return busy_;
    const bool first = port.idle();
    port.push(transfer);
    if (!first) return {};
    // Most messages are small and leave here.
    if (port.progress(completions_)) peer.bell.ring();
    if (!port.idle()) active_.push_back(active);
    return {};
  }

  Status report_delivery(int peer, Lane lane, uint64_t cookie) override {
    const int index = index_of(peer);
    if (index < 0) return Transport::report_delivery(peer, lane, cookie);
    const auto number = static_cast<uint8_t>(lane);
    SendPort& port = peers_[index].send[number];
    if (port.full()) return busy_;
    if (port.idle()) active_.push_back({static_cast<uint32_t>(index), number, Direction::kSend});
    port.push_delivery(cookie);
    return {};
  }

  Result<size_t> poll(std::span<Completion> completions) override {
    moved_ = false;
    if (completions_.size() < completions.size()) progress();
    return report(completions_, completions);
  }

  bool moved() const override { return moved_; }

  std::string why_failed(int peer, Lane lane) const override {
    const int index = index_of(peer);
    if (index < 0) return {};
    const int error = peers_[index].recv[static_cast<int>(lane)].read_error();
    return error != 0 ? shm::why_not_read(error) : std::string();
  }

  std::optional<Envelope> peek(int peer, Lane lane) override {
    const int index = index_of(peer);
    if (index < 0) return std::nullopt;
    RecvPort& port = peers_[index].recv[static_cast<int>(lane)];
    const auto envelope = port.peek();
    if (port.acknowledged()) peers_[index].bell.ring();
    return envelope;
  }

  int cores() const override { return cores_.count; }
  int ranks_per_core() const override { return cores_.ranks_per_core; }
  MessageTimes message_times() const override { return times_; }

  QuickLane* quick_lane(int peer, Lane lane) override {
    const int index = index_of(peer);
    return index < 0 ? nullptr : &peers_[index].quick[static_cast<size_t>(lane)];
  }

  bool arm() override {
    own_->header().sleeping.store(++sleeps_, std::memory_order_seq_cst);
    const bool fenced = !own_->fences || fence_from_afar();
    const bool ready = !fenced || !completions_.empty() ||
                       std::any_of(active_.begin(), active_.end(), [&](const Active& active) {
                         const Peer& peer = peers_[active.peer];
                         return active.direction == Direction::kSend
                                    ? peer.send[active.lane].ready()
                                    : peer.recv[active.lane].ready();
                       });
    if (ready) disarm();
    return !ready;
  }

  void disarm() override {
    if (sleeps_ % 2 == 0) return;
    own_->header().sleeping.store(++sleeps_, std::memory_order_seq_cst);
    eventfd_t rings = 0;
    eventfd_read(doorbell_.get(), &rings);
  }

  int descriptor() const override { return doorbell_.get(); }

  Result<std::byte*> allocate(size_t bytes, TimePoint deadline) override {
    if (own_->heap.bytes() == 0) {
      return Status(Code::kUnsupported,
                    "shm could not reserve address space for shared buffers; see ulimit -v");
    }
    return own_->heap.allocate(bytes, deadline);
  }

  Status release(std::byte* memory) override { return own_->heap.release(memory); }

  // Peers may still read what was sent, which counts for nothing from now on, and write where a
  // receive wanted its message.
  void abandon() override {
    own_->header().withdrawn.store(1, std::memory_order_seq_cst);
    for (Peer& peer : peers_)
      for (const RecvPort& port : peer.recv) own_->heap.withdraw(port.offered());
  }

  Status flush() override {
    for (const Active& active : active_) {
      if (active.direction == Direction::kSend) return busy_;
    }
    return {};
  }

 private:
  static constexpr size_t kBounceBytes = 256 << 10;

  int index_of(int rank) const {
    return rank >= 0 && rank < static_cast<int>(index_of_rank_.size()) ? index_of_rank_[rank] : -1;
  }

  void progress() {
    for (size_t i = 0; i < active_.size();) {
      const Active active = active_[i];
      Peer& peer = peers_[active.peer];
      RecvPort& recv = peer.recv[active.lane];
      SendPort& send = peer.send[active.lane];
      const bool sending = active.direction == Direction::kSend;
      if (sending ? send.progress(completions_) : recv.progress(completions_, bounce_))
        peer.bell.ring();
      moved_ = moved_ || (sending ? send.moved() : recv.moved());
      if (sending ? send.idle() : recv.idle()) {
        active_[i] = active_.back();
        active_.pop_back();
      } else {
        ++i;
      }
    }
  }

  // Owners: this rank and peers that are threads of this process, which read its channels.
  std::shared_ptr<shm::Territory> own_;
  Descriptor doorbell_;
  shm::SharedCores cores_;
  MessageTimes times_;
  std::vector<int> index_of_rank_;
  std::vector<std::byte> bounce_;
  std::vector<Peer> peers_;
  std::vector<Active> active_;
  Completions completions_;
  uint64_t sleeps_ = 0;  // odd while armed
  bool moved_ = false;
  const Status busy_{Code::kBusy, "shm: the queue to or from this peer is full"};
};

std::string copies_of(const Neighbour& peer) {
  if (!peer.reads_memory) return "two copies";
  const auto from = [](uint64_t least) {
    return least == 0 ? std::string("never, as two are faster here")
                      : fmt::format("from {} bytes on", least);
  };
  return fmt::format("one copy {}, in messages {}", from(peer.afar_least[0]),
                     from(peer.afar_least[1]));
}

Result<std::unique_ptr<Transport>> connect_shm(Wiring& wiring, std::span<const int> peers) {
  for (const int peer : peers) {
    if (peer < 0 || peer >= wiring.size() || peer == wiring.rank() ||
        !wiring.peer(peer).same_host) {
      return Status(Code::kInvalidArgument,
                    fmt::format("rank {} is not on the host of rank {}", peer, wiring.rank()));
    }
  }
  if (peers.empty()) {
    BANYAN_TRY(shm::tell_cores(wiring, {}).status());
    return std::unique_ptr<Transport>();
  }
  auto neighbourhood = shm::meet(wiring, peers);
  BANYAN_TRY(neighbourhood.status());
  for (const Neighbour& peer : neighbourhood->peers) {
    BANYAN_LOG(wiring.log(), Subsystem::kNet, LogLevel::kInfo,
               "shm to rank {}: {} slots of {} bytes, {}, buffers {}", peer.rank,
               peer.layout.slots[0], peer.layout.slot_bytes[0], copies_of(peer),
               peer.heap.empty() ? "not shared" : "shared");
  }
  return std::unique_ptr<Transport>(
      std::make_unique<ShmTransport>(std::move(*neighbourhood), wiring.size(), wiring.epoch()));
}

}  // namespace

TransportKind shm_kind() {
  return {.name = "shm",
          .text = "inside a host, through shared memory",
          .in_memory = true,
          .missing = [] { return std::string(); },
          .reaches = [](const Wiring::Peer& peer) { return peer.same_host; },
          .connect = connect_shm};
}

}  // namespace banyan
