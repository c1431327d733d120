// The memory of a channel of four slots, for a sending port, a receiving one or both.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "transports/port.h"

namespace banyan::test {

struct Slots {
  explicit Slots(uint32_t bytes) : slot_bytes(bytes), payload(lines.size() * size_t{bytes}) {}

  // Those that a test does not care about are as in a communicator whose ranks have a core each.
  shm::SendPort::Channel channel(Lane lane = Lane::kCollective) {
    return {.lines = lines.data(),
            .payload = payload.data(),
            .slots = static_cast<uint32_t>(lines.size()),
            .slot_bytes = slot_bytes,
            .slots_read = &slots_read,
            .abilities = &abilities,
            .heap = &heap,
            .lane = lane};
  }

  shm::RecvPort::Channel other_end(Lane lane = Lane::kCollective) {
    return {.lines = lines.data(),
            .payload = payload.data(),
            .slots = static_cast<uint32_t>(lines.size()),
            .slot_bytes = slot_bytes,
            .slots_read = &slots_read,
            .epoch = kEpoch,
            .lane = lane};
  }

  static constexpr uint32_t kEpoch = 77;
  uint32_t slot_bytes;
  std::array<shm::Line, 4> lines{};
  std::vector<std::byte> payload;
  shm::Word slots_read = 0;
  shm::Word abilities = 0;
  shm::Heap heap;
};

}  // namespace banyan::test
