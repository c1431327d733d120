// SPDX-License-Identifier: Apache-2.0

#include "transports/shm/segment.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <string_view>

namespace banyan::shm {
namespace {

struct Slots {
  uint32_t count, bytes;
};

// The slots of the collective lane. A core takes a line sooner from the cache that all share than
// from the own one of another core, in which it would still be if the rings were shorter. Of many
// short slots more messages pass before the first comes round again.
Slots slots_for_collectives(size_t peers) {
  constexpr size_t kRings = size_t{2} << 20;  // to all peers, which no core's own cache holds
  constexpr size_t kSlotsLeast = 8;
  const uint32_t bytes = peers <= 1 ? 16 << 10 : 32 << 10;
  const size_t count = std::bit_floor(kRings / (bytes * std::max<size_t>(peers, 1)));
  return {static_cast<uint32_t>(std::clamp<size_t>(count, kSlotsLeast, kSlotsMost)), bytes};
}

}  // namespace

Layout choose_layout(size_t peers) {
  constexpr size_t kMost = size_t{8} << 20;
  // A window of messages goes twice as fast where all of them find a slot.
  constexpr std::array<Slots, 5> kForWindows{
      {{64, 32 << 10}, {64, 16 << 10}, {64, 8 << 10}, {32, 8 << 10}, {16, 8 << 10}}};
  const Slots collectives = slots_for_collectives(peers);
  Layout layout{.peer_count = static_cast<uint32_t>(peers),
                .slots = {collectives.count, 4},
                .slot_bytes = {}};
  for (uint32_t bytes = collectives.bytes; bytes >= kSlotBytesLeast; bytes /= 2) {
    layout.slot_bytes = {bytes, std::max(bytes / 4, kSlotBytesLeast)};
    if (layout.segment_bytes() <= kMost) break;
  }
  for (const Slots& messages : kForWindows) {
    Layout better = layout;
    better.slots[1] = messages.count;
    better.slot_bytes[1] = messages.bytes;
    if (better.segment_bytes() <= kMost) return better;
  }
  return layout;
}

Result<Layout> checked_layout(const SegmentFacts& facts, size_t bytes, int peer, uint32_t epoch) {
  const auto refuse = [&](std::string_view what) {
    return Status(Code::kCorrupt, fmt::format("shared memory of rank {}: {}", peer, what));
  };
  if (facts.magic != kMagic) return refuse("not a segment of this version of the library");
  if (facts.rank != peer) return refuse(fmt::format("it says it is of rank {}", facts.rank));
  if (facts.epoch != epoch) return refuse("it belongs to another communicator");
  const Layout layout{
      .peer_count = facts.peer_count, .slots = facts.slots, .slot_bytes = facts.slot_bytes};
  for (int lane = 0; lane < kLaneCount; ++lane) {
    if (!std::has_single_bit(layout.slots[lane]) || layout.slots[lane] > kSlotsMost ||
        !std::has_single_bit(layout.slot_bytes[lane]) ||
        layout.slot_bytes[lane] < kSlotBytesLeast || layout.slot_bytes[lane] > kSlotBytesMost) {
      return refuse(fmt::format("{} slots of {} bytes in lane {}", layout.slots[lane],
                                layout.slot_bytes[lane], lane));
    }
  }
  if (layout.peer_count > kPeersMost || layout.segment_bytes() != bytes) {
    return refuse(fmt::format("{} bytes are not a segment for {} peers", bytes, layout.peer_count));
  }
  return layout;
}

}  // namespace banyan::shm
