// How a message had better go between two ranks of a host, by what its call does.
// SPDX-License-Identifier: Apache-2.0

#include "transports/shm/choice.h"

#include <gtest/gtest.h>

namespace banyan::shm::choice_test {
namespace {

constexpr uint64_t kKiB = 1 << 10;
constexpr uint64_t kMiB = 1 << 20;

Transfer message_of(uint64_t bytes, const Usage& usage, Lane lane = Lane::kCollective) {
  Transfer transfer;
  transfer.lane = lane;
  transfer.envelope.bytes = bytes;
  transfer.usage = usage;
  return transfer;
}

Usage copies(uint64_t output, uint64_t input) {
  return {.output_bytes = output, .caller_bytes = output + input};
}
Usage sums(uint64_t output, bool given) {
  return {.output_bytes = output, .caller_bytes = 2 * output, .sums = true, .given = given};
}

// A peer that shares its core with others reads faster from afar than through slots, but not what
// may just have been summed, what leaves the caches, or what is short where two share a core.
TEST(Choice, SomeMessagesPreferSlots) {
  struct Case {
    uint64_t bytes;
    Usage usage;
    int ranks_per_core;
    bool slots;
  };
  const Case cases[] = {
      {kMiB, copies(2 * kMiB, 2 * kMiB), 1, false},
      {kMiB, copies(2 * kMiB, 2 * kMiB), 2, false},
      {kMiB, copies(16 * kMiB, 16 * kMiB), 2, false},
      {kMiB, copies(16 * kMiB, 16 * kMiB + 1), 2, true},
      {kMiB, copies(16 * kMiB, 16 * kMiB + 1), 1, false},
      {kSharedCoreMost, copies(kMiB, kMiB), 2, true},
      {kSharedCoreMost + 1, copies(kMiB, kMiB), 2, false},
      {kSharedCoreMost, copies(kMiB, kMiB), 3, false},
      {kSharedCoreMost, copies(kMiB, kMiB), 1, false},
      {kMiB - 1, sums(2 * kMiB, true), 1, false},
      {kMiB - 1, sums(2 * kMiB, false), 1, true},
      {kMiB, sums(2 * kMiB, false), 1, false},
      {kMiB, sums(2 * kMiB, false), 2, true},
      {kMiB, sums(kUncachedLeast - 1, true), 1, false},
      {kMiB, sums(kUncachedLeast, true), 1, true},
  };
  for (const Case& row : cases)
    EXPECT_EQ(prefers_slots(message_of(row.bytes, row.usage), row.ranks_per_core), row.slots)
        << row.bytes << " bytes, " << row.ranks_per_core << " ranks a core, row " << &row - cases;
}

TEST(Choice, AMessageIsOfTheFlowOfItsCall) {
  struct Case {
    uint64_t bytes;
    Usage usage;
    Flow flow;
    int ranks_per_core = 1;
    Lane lane = Lane::kCollective;
  };
  const Case cases[] = {
      {kMiB, copies(kMiB, kMiB), Flow::kData},
      {kMiB, sums(kMiB, true), Flow::kTerms},
      {kMiB, sums(kMiB, false), Flow::kSums},
      {kMiB, sums(kUncachedLeast, true), Flow::kFarSums},
      {kMiB, copies(kUncachedLeast, 0), Flow::kFarData},
      {kWeighedLeast, copies(kMiB, 0), Flow::kData},
      {kWeighedLeast - 1, copies(kMiB, 0), Flow::kAny},
      {kMiB, copies(kMiB, 0), Flow::kAny, 2},
      {kMiB, copies(kUncachedLeast, 0), Flow::kFarData, 2},
      {kMiB, copies(kUncachedLeast, 0), Flow::kAny, 1, Lane::kMessage},
      {kMiB, {}, Flow::kAny},
  };
  for (const Case& row : cases)
    EXPECT_EQ(flow_of(message_of(row.bytes, row.usage, row.lane), row.ranks_per_core), row.flow)
        << "row " << &row - cases;
}

// A program knows slots only, so what it had better not send goes to the queues.
TEST(Choice, AQuickMessageFitsASlotAndIsNotReadFromAfar) {
  struct Case {
    uint64_t bytes;
    Usage usage;
    uint64_t slot_bytes, afar_least;
    bool quick;
    int ranks_per_core = 1;
  };
  const Usage data = copies(kMiB, 0);
  const Case cases[] = {
      {16 * kKiB, data, 16 * kKiB, 0, true},
      {16 * kKiB + 1, data, 16 * kKiB, 0, false},
      {QuickLane::kBytesMost, data, kMiB, 0, true},
      {QuickLane::kBytesMost + 1, data, kMiB, 0, false},
      {8 * kKiB - 1, data, 16 * kKiB, 8 * kKiB, true},
      {8 * kKiB, data, 16 * kKiB, 8 * kKiB, false},
      {8 * kKiB, data, 16 * kKiB, 8 * kKiB, true, 2},
      {8 * kKiB, sums(kMiB, true), 16 * kKiB, 8 * kKiB, true},
  };
  for (const Case& row : cases)
    EXPECT_EQ(is_quick(message_of(row.bytes, row.usage), row.ranks_per_core, row.slot_bytes,
                       row.afar_least),
              row.quick)
        << "row " << &row - cases;
}

}  // namespace
}  // namespace banyan::shm::choice_test
