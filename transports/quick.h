// Small messages past the queues: for whoever sends and receives them one after another and has
// nothing else under way with that peer in that lane. On the wire they look like all others, so
// the peer need not do the same.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <sys/eventfd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "transports/port.h"

namespace banyan {

// Wakes a peer that sleeps. Once for each sleep: it looks at all its channels when it wakes.
class Bell {
 public:
  Bell() = default;
  Bell(const shm::Word* sleeping, int doorbell) : sleeping_(sleeping), doorbell_(doorbell) {}

  void ring() {
    const uint64_t sleep = sleeping_->load(std::memory_order_seq_cst);
    if (sleep % 2 == 0 || sleep == rung_) return;
    rung_ = sleep;
    eventfd_write(doorbell_, 1);
  }

 private:
  const shm::Word* sleeping_ = nullptr;  // the peer writes it; odd: it sleeps
  int doorbell_ = -1;
  uint64_t rung_ = 0;  // the sleep for which it was rung
};

// Both directions to one peer in one lane. Belongs to its transport, and to the same thread.
class QuickLink {
 public:
  using Departure = shm::SendPort::Whole;
  using Arrival = shm::RecvPort::Whole;

  // Longer messages are better left to the queues, which need not copy them twice.
  static constexpr uint64_t kBytesMost = 32 << 10;

  QuickLink() = default;
  QuickLink(shm::SendPort* send, shm::RecvPort* recv, Bell* bell)
      : send_(send), recv_(recv), bell_(bell) {}

  // The longest message that leaves or comes this way.
  uint64_t most() const { return std::min({kBytesMost, send_->whole_most(), recv_->whole_most()}); }

  // kOther: post the send and poll, which deals with everything.
  Departure send(const std::byte* memory, const Envelope& envelope) {
    const Departure departure = send_->send_whole(memory, envelope);
    if (departure == Departure::kSent) bell_->ring();
    return departure;
  }

  // While nobody waits: makes the next send sooner, if it is like the last ones.
  void prepare_likely() const { send_->prepare_likely(); }

  // kOther: post the receive and poll, which deals with everything.
  Arrival receive(const Transfer& transfer) {
    const Arrival arrival = recv_->receive_whole(transfer);
    if (recv_->acknowledged()) bell_->ring();
    return arrival;
  }

 private:
  shm::SendPort* send_ = nullptr;
  shm::RecvPort* recv_ = nullptr;
  Bell* bell_ = nullptr;
};

}  // namespace banyan
