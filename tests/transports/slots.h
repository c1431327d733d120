// The memory of a channel of four slots, for a sending port, a receiving one or both.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "transports/shm/port.h"

namespace banyan::test {

struct Slots {
  explicit Slots(uint32_t bytes) : slot_bytes(bytes), payload(lines.size() * size_t{bytes}) {}

  // Those that a test does not care about are as in a communicator whose ranks have a core each.
  shm::SendPort::Channel channel(Lane lane = Lane::kCollective) {
    auto channel = end<shm::SendPort::Channel>(lane);
    channel.abilities = &abilities;
    channel.heap = &heap;
    return channel;
  }
  shm::RecvPort::Channel other_end(Lane lane = Lane::kCollective) {
    auto channel = end<shm::RecvPort::Channel>(lane);
    channel.epoch = kEpoch;
    return channel;
  }

  static constexpr uint32_t kEpoch = 77;
  uint32_t slot_bytes;
  std::array<shm::Line, 4> lines{};
  std::vector<std::byte> payload;
  shm::Word slots_read = 0;
  shm::Abilities abilities{};
  shm::Heap heap;

 private:
  template <typename Channel>
  Channel end(Lane lane) {
    Channel channel;
    channel.lines = lines.data();
    channel.payload = payload.data();
    channel.slots = static_cast<uint32_t>(lines.size());
    channel.slot_bytes = slot_bytes;
    channel.slots_read = &slots_read;
    channel.lane = lane;
    return channel;
  }
};

}  // namespace banyan::test
