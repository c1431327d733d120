// This transport connects ranks that are threads of one process, by queues behind mutexes. It is
// there to be obviously right, not fast.
// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>
#include <sys/eventfd.h>

#include <atomic>
#include <cerrno>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <vector>

#include "src/base/system_error.h"
#include "transports/kinds.h"
#include "transports/message.h"

namespace banyan {
namespace {

constexpr size_t kPendingMost = 8;
constexpr size_t kWaitingMost = 8;  // messages of a channel that nobody has received yet

struct Message {
  Envelope envelope;
  Bytes bytes;
};

// From one rank to another in one lane. Any thread.
struct Channel {
  std::mutex mutex;
  std::deque<Message> messages;  // the rest is guarded by the mutex
  uint64_t accepted = 0;
};

struct Sleeper {
  std::atomic<bool> sleeping = false;
  Descriptor doorbell{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
};

// What the ranks share. Channels and sleepers are made on first use and stay.
class Switchboard {
 public:
  Channel& channel(int from, int to, Lane lane) {
    const std::scoped_lock lock(mutex_);
    return channels_[{from, to, lane}];
  }
  Sleeper& sleeper(int rank) {
    const std::scoped_lock lock(mutex_);
    return sleepers_[rank];
  }

 private:
  std::mutex mutex_;
  std::map<std::tuple<int, int, Lane>, Channel> channels_;  // nodes keep their addresses
  std::map<int, Sleeper> sleepers_;
};

struct Sent {
  uint64_t cookie = 0;
  uint64_t done_at = 0;  // complete when the peer has accepted this many
};

struct Lanes {
  Channel* out = nullptr;
  Channel* in = nullptr;
  FixedQueue<Sent, kPendingMost> sends;
  FixedQueue<Transfer, kPendingMost> receives;
  uint64_t sent = 0;
};

struct LoopbackPeer {
  Sleeper* sleeper = nullptr;
  std::array<Lanes, kLaneCount> lanes;
};

class LoopbackTransport final : public Transport {
 public:
  LoopbackTransport(std::shared_ptr<Switchboard> switchboard, Wiring& wiring,
                    std::span<const int> peers)
      : switchboard_(std::move(switchboard)),
        self_(switchboard_->sleeper(wiring.rank())),
        epoch_(wiring.epoch()) {
    for (const int rank : peers) {
      LoopbackPeer& peer = peers_[rank];
      peer.sleeper = &switchboard_->sleeper(rank);
      for (const Lane lane : {Lane::kCollective, Lane::kMessage}) {
        Lanes& lanes = peer.lanes[static_cast<size_t>(lane)];
        lanes.out = &switchboard_->channel(wiring.rank(), rank, lane);
        lanes.in = &switchboard_->channel(rank, wiring.rank(), lane);
      }
    }
  }

  std::string_view name() const override { return "loopback"; }

  Status post(const Transfer& transfer) override {
    const auto found = peers_.find(transfer.peer);
    BANYAN_TRY(check_transfer(transfer, found != peers_.end()));
    Lanes& lanes = found->second.lanes[static_cast<size_t>(transfer.lane)];
    if (transfer.direction == Direction::kRecv) {
      if (lanes.receives.full()) return busy_;
      lanes.receives.push(transfer);
      return {};
    }
    if (lanes.sends.full() || completions_.full()) return busy_;
    {
      const std::scoped_lock lock(lanes.out->mutex);
      if (lanes.out->messages.size() >= kWaitingMost) return busy_;
      const std::byte* memory = transfer.memory;
      lanes.out->messages.push_back(
          {transfer.envelope, Bytes(memory, memory + transfer.envelope.bytes)});
    }
    wake(found->second);
    ++lanes.sent;
    lanes.sends.push(
        {.cookie = transfer.cookie, .done_at = transfer.lane == Lane::kMessage ? lanes.sent : 0});
    return {};
  }

  Result<size_t> poll(std::span<Completion> completions) override {
    for (auto& [rank, peer] : peers_) {
      for (Lanes& lanes : peer.lanes) {
        complete_sends(lanes);
        while (!lanes.receives.empty() && !completions_.full() && receive(lanes, peer)) continue;
      }
    }
    return report(completions_, completions);
  }

  std::optional<Envelope> peek(int peer, Lane lane) override {
    const auto found = peers_.find(peer);
    if (found == peers_.end()) return std::nullopt;
    Channel& in = *found->second.lanes[static_cast<size_t>(lane)].in;
    const std::scoped_lock lock(in.mutex);
    drop_other_epochs(in, found->second);
    if (in.messages.empty() || !is_valid(in.messages.front().envelope)) return std::nullopt;
    return in.messages.front().envelope;
  }

  bool arm() override {
    self_.sleeping = true;
    bool ready = !completions_.empty();
    for (auto& [rank, peer] : peers_) {
      for (Lanes& lanes : peer.lanes) ready = ready || has_work(lanes);
    }
    if (ready) disarm();
    return !ready;
  }

  void disarm() override {
    self_.sleeping = false;
    eventfd_t rings = 0;
    eventfd_read(self_.doorbell.get(), &rings);
  }

  int descriptor() const override { return self_.doorbell.get(); }

 private:
  // The mutex of the channel orders this after the sleeper's last look at the channel.
  static void wake(const LoopbackPeer& peer) {
    if (peer.sleeper->sleeping) eventfd_write(peer.sleeper->doorbell.get(), 1);
  }

  static bool has_work(Lanes& lanes) {
    if (!lanes.receives.empty()) {
      const std::scoped_lock lock(lanes.in->mutex);
      if (!lanes.in->messages.empty()) return true;
    }
    if (lanes.sends.empty()) return false;
    const std::scoped_lock lock(lanes.out->mutex);
    return lanes.sends.front().done_at <= lanes.out->accepted;
  }

  void complete_sends(Lanes& lanes) {
    if (lanes.sends.empty()) return;
    const std::scoped_lock lock(lanes.out->mutex);
    while (!lanes.sends.empty() && !completions_.full() &&
           lanes.sends.front().done_at <= lanes.out->accepted) {
      completions_.push({.cookie = lanes.sends.front().cookie, .code = Code::kOk, .seen = {}});
      lanes.sends.pop();
    }
  }

  // The caller has the channel's mutex.
  void drop_other_epochs(Channel& in, const LoopbackPeer& peer) const {
    while (!in.messages.empty() && in.messages.front().envelope.epoch != epoch_) {
      in.messages.pop_front();
      ++in.accepted;
      wake(peer);
    }
  }

  // Completes the first pending receive if anything is there for it.
  bool receive(Lanes& lanes, const LoopbackPeer& peer) {
    const Transfer& transfer = lanes.receives.front();
    Completion completion{.cookie = transfer.cookie, .code = Code::kOk, .seen = {}};
    {
      const std::scoped_lock lock(lanes.in->mutex);
      drop_other_epochs(*lanes.in, peer);
      if (lanes.in->messages.empty()) return false;
      const Message& message = lanes.in->messages.front();
      completion.seen = message.envelope;
      switch (judge(message.envelope, transfer, epoch_)) {
        case Judgement::kAccept:
          deliver(transfer, 0, message.bytes.data(), message.bytes.size());
          lanes.in->messages.pop_front();
          ++lanes.in->accepted;
          break;
        case Judgement::kMismatch: completion.code = Code::kMismatch; break;
        case Judgement::kDrop:
        case Judgement::kCorrupt: completion.code = Code::kCorrupt; break;
      }
    }
    wake(peer);
    completions_.push(completion);
    lanes.receives.pop();
    return true;
  }

  std::shared_ptr<Switchboard> switchboard_;  // owners: all ranks of the communicator
  Sleeper& self_;
  uint32_t epoch_;
  std::map<int, LoopbackPeer> peers_;
  Completions completions_;
  const Status busy_{Code::kBusy, "loopback: the queue to or from this peer is full"};
};

Result<std::unique_ptr<Transport>> connect_loopback(Wiring& wiring, std::span<const int> peers) {
  for (const int peer : peers) {
    if (peer < 0 || peer >= wiring.size() || peer == wiring.rank() ||
        !wiring.peer(peer).same_process) {
      return Status(Code::kInvalidArgument,
                    fmt::format("rank {} is not a thread of this process", peer));
    }
  }
  if (peers.empty()) {
    BANYAN_TRY(wiring.allgather({}).status());
    return std::unique_ptr<Transport>();
  }
  auto switchboard = std::static_pointer_cast<Switchboard>(wiring.share_in_process(
      "loopback", [] { return std::static_pointer_cast<void>(std::make_shared<Switchboard>()); }));
  if (!switchboard->sleeper(wiring.rank()).doorbell.valid()) {
    return system_error("eventfd", errno);
  }
  auto transport = std::make_unique<LoopbackTransport>(std::move(switchboard), wiring, peers);
  BANYAN_TRY(wiring.allgather({}).status());
  return std::unique_ptr<Transport>(std::move(transport));
}

}  // namespace

TransportKind loopback_kind() {
  return {.name = "loopback",
          .text = "between ranks that are threads of one process, for tests",
          .in_memory = true,
          .missing = [] { return std::string(); },
          .reaches = [](const Wiring::Peer& peer) { return peer.same_process; },
          .connect = connect_loopback};
}

}  // namespace banyan
