// The quick lane of shared memory: a message is a slot that the peer reads.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <sys/eventfd.h>

#include <cstdint>

#include "transports/quick_lane.h"
#include "transports/shm/port.h"

namespace banyan::shm {

// Wakes a peer that sleeps. Once for each sleep: it looks at all its channels when it wakes.
class Bell {
 public:
  Bell() = default;
  Bell(const Word* sleeping, int doorbell) : sleeping_(sleeping), doorbell_(doorbell) {}

  void ring() {
    const uint64_t sleep = sleeping_->load(std::memory_order_seq_cst);
    if (sleep % 2 == 0 || sleep == rung_) return;
    rung_ = sleep;
    eventfd_write(doorbell_, 1);
  }

 private:
  const Word* sleeping_ = nullptr;  // the peer writes it; odd: it sleeps
  int doorbell_ = -1;
  uint64_t rung_ = 0;  // the sleep for which it was rung
};

class QuickSlots final : public QuickLane {
 public:
  QuickSlots() = default;
  QuickSlots(SendPort* send, RecvPort* recv, Bell* bell) : send_(send), recv_(recv), bell_(bell) {}

  bool takes(const Transfer& transfer) const override {
    return transfer.direction == Direction::kSend ? send_->is_quick(transfer)
                                                  : recv_->is_quick(transfer);
  }
  Departure send(const std::byte* memory, const Envelope& envelope) override {
    const Departure departure = send_->send_whole(memory, envelope);
    if (departure == Departure::kSent) bell_->ring();
    return departure;
  }
  Arrival receive(const Transfer& transfer) override {
    const Arrival arrival = recv_->receive_whole(transfer);
    if (recv_->acknowledged()) bell_->ring();
    return arrival;
  }
  void acknowledge() override {
    recv_->acknowledge_rest();
    if (recv_->acknowledged()) bell_->ring();
  }
  bool delivered() override { return send_->delivered(); }
  void prepare_likely() const override { send_->prepare_likely(); }

 private:
  SendPort* send_ = nullptr;
  RecvPort* recv_ = nullptr;
  Bell* bell_ = nullptr;
};

}  // namespace banyan::shm
