// A mirror is one rank that has all messages to itself: what it sends to a peer comes back as from
// that peer, through a channel in its own memory. So a call runs without anybody to wait for.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "bench/micro/channel.h"
#include "transports/shm/quick_slots.h"
#include "transports/transport.h"

namespace banyan {

class Mirror : public Transport {
 public:
  explicit Mirror(int peers) {
    for (int peer = 0; peer < peers; ++peer) peers_.push_back(std::make_unique<Peer>(sleeping_));
  }

  std::string_view name() const override { return "mirror"; }
  QuickLane* quick_lane(int peer, Lane) override {
    return &peers_[static_cast<size_t>(peer)]->link;
  }
  // Receives that come before their sends.
  Status post(const Transfer& transfer) override {
    if (transfer.direction == Direction::kSend) return {Code::kInternal, "a mirror is full"};
    waiting_.push_back(transfer);
    return {};
  }
  Result<size_t> poll(std::span<Completion> completions) override {
    size_t count = 0;
    std::erase_if(waiting_, [&](const Transfer& transfer) {
      if (count == completions.size() ||
          quick_lane(transfer.peer, transfer.lane)->receive(transfer) != QuickLane::Arrival::kTaken)
        return false;
      completions[count++] = {
          .cookie = transfer.cookie, .code = Code::kOk, .seen = transfer.envelope};
      return true;
    });
    return count;
  }
  std::optional<Envelope> peek(int /*peer*/, Lane /*lane*/) override { return {}; }
  bool arm() override { return false; }
  void disarm() override {}
  int descriptor() const override { return -1; }

 private:
  struct Peer {
    explicit Peer(const shm::Word& sleeping) : bell(&sleeping, -1) {}
    shm::Channel channel;
    shm::Bell bell;
    shm::QuickSlots link{&channel.send(), &channel.recv(), &bell};
  };

  shm::Word sleeping_ = 0;  // nobody does
  std::vector<std::unique_ptr<Peer>> peers_;
  std::vector<Transfer> waiting_;
};

}  // namespace banyan
