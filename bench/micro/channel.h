// This channel has both ends here. As in a segment, what one end writes shares no cache line with
// what the other end does.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <vector>

#include "transports/shm/port.h"

namespace banyan::shm {

class Channel {
 public:
  static constexpr uint32_t kSlotBytes = 32 << 10;
  struct alignas(kPageBytes) Slot {
    std::byte bytes[kSlotBytes];
  };

  SendPort& send() { return send_; }
  RecvPort& recv() { return recv_; }

 private:
  static constexpr uint32_t kSlots = 8;

  std::vector<Line> lines_ = std::vector<Line>(kSlots);
  std::vector<Slot> payload_ = std::vector<Slot>(kSlots);
  Acknowledgement acknowledgement_{};
  Abilities abilities_{};
  Heap heap_;
  alignas(kLineBytes) SendPort send_{{.lines = lines_.data(),
                                      .payload = payload_.front().bytes,
                                      .slots = kSlots,
                                      .slot_bytes = kSlotBytes,
                                      .slots_read = &acknowledgement_.slots_read,
                                      .abilities = &abilities_,
                                      .heap = &heap_}};
  alignas(kLineBytes) RecvPort recv_{{.lines = lines_.data(),
                                      .payload = payload_.front().bytes,
                                      .slots = kSlots,
                                      .slot_bytes = kSlotBytes,
                                      .slots_read = &acknowledgement_.slots_read,
                                      .heap = {},
                                      .owner = {}}};
};

}  // namespace banyan::shm
