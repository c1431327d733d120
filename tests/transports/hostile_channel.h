// A channel into which a test writes what no sending port would.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <unistd.h>

#include <array>
#include <bit>
#include <cstdint>
#include <vector>

#include "tests/transports/wiring.h"
#include "transports/shm/port.h"

namespace banyan::test {

struct HostileChannel {
  static constexpr uint32_t kSlots = 4;
  static constexpr uint32_t kSlotBytes = 512;
  std::array<shm::Line, kSlots> lines{};
  std::vector<std::byte> payload = std::vector<std::byte>(kSlots * kSlotBytes);
  std::vector<std::byte> heap = std::vector<std::byte>(4096);
  shm::Word slots_read = 0;
  shm::Word withdrawn = 0;
  shm::RecvPort port{{.lines = lines.data(),
                      .payload = payload.data(),
                      .slots = kSlots,
                      .slot_bytes = kSlotBytes,
                      .slots_read = &slots_read,
                      .heap = heap,
                      .withdrawn = &withdrawn,
                      .owner = {.pid = getpid()},
                      .reads_memory = true,
                      .epoch = kEpoch,
                      .lane = Lane::kCollective}};
  std::vector<std::byte> bounce = std::vector<std::byte>(4096);
  Completions completions;

  void write(uint32_t slot, const shm::SlotWord& word, const Envelope& envelope,
             uint64_t where = 0) {
    shm::Line& line = lines[slot % kSlots];
    const auto words = std::bit_cast<std::array<uint64_t, 4>>(envelope);
    for (size_t i = 0; i < words.size(); ++i) line.envelope[i] = words[i];
    line.payload[0] = where;
    line.word = pack(word);
  }
  Code receive(const Envelope& envelope, std::byte* memory, bool up_to = false) {
    Transfer transfer;
    transfer.direction = Direction::kRecv;
    transfer.envelope = envelope;
    transfer.up_to = up_to;
    transfer.memory = memory;
    port.push(transfer);
    port.progress(completions, bounce);
    if (completions.empty()) return Code::kBusy;
    const Code code = completions.front().code;
    completions.pop();
    return code;
  }
};

}  // namespace banyan::test
