// Which way a long message takes: through slots, or read from the sender's memory.
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>
#include <sched.h>

#include <array>
#include <cstring>
#include <initializer_list>
#include <utility>
#include <vector>

#include "tests/transports/slots.h"
#include "transports/shm/quick_slots.h"
#include "transports/shm/territory.h"

namespace banyan::shm::shm_ways_test {
namespace {

Envelope envelope_of(uint64_t bytes) {
  return {.call = 1, .epoch = test::Slots::kEpoch, .bytes = bytes, .signature = {}};
}

// From the length on that the peer names it reads our memory, unless there is a reason to copy.
TEST(ShmWays, OnlySomeSendsAreReadFromMemory) {
  constexpr uint32_t kBytes = 64 << 10;
  struct Case {
    uint32_t bytes;
    uint64_t afar_least;
    bool sums;  // which prefer slots
    SlotKind kind;
  };
  const Case cases[] = {
      {kBytes, kBytes, false, SlotKind::kMemory},       {kBytes, kBytes, true, SlotKind::kFragment},
      {kBytes, kBytes + 1, false, SlotKind::kFragment}, {kBytes, 1, false, SlotKind::kMemory},
      {kBytes, 0, false, SlotKind::kFragment},          {kInlineMost, 1, false, SlotKind::kInline},
  };
  for (const Case& row : cases) {
    test::Slots slots(kBytes);
    slots.abilities.afar_least[0] = row.afar_least;
    slots.abilities.flags = kReadsHeap;  // which this memory is no part of
    SendPort port(slots.channel());
    Completions completions;
    std::vector<std::byte> memory(row.bytes);
    Transfer transfer;
    transfer.envelope = envelope_of(row.bytes);
    transfer.memory = memory.data();
    transfer.usage.sums = row.sums;
    port.push(transfer);
    port.progress(completions);
    EXPECT_EQ(unpack(slots.lines[0].word).kind, row.kind) << row.bytes << ", " << row.afar_least;
    EXPECT_EQ(completions.empty(), row.kind == SlotKind::kMemory) << "done before it is read";
  }
}

// Each end goes by the length from which on the reader would rather read from afar.
TEST(ShmWays, QuickLanesLeaveAloneWhatIsReadFromAfar) {
  constexpr uint64_t kAfar = 8 << 10;
  test::Slots slots(32 << 10);
  SendPort send(slots.channel());
  RecvPort::Channel channel = slots.other_end();
  channel.afar_least = kAfar;
  RecvPort recv(channel);
  const QuickSlots quick(&send, &recv, nullptr);
  const auto takes = [&](Direction direction, uint64_t bytes) {
    Transfer transfer;
    transfer.direction = direction;
    transfer.envelope = envelope_of(bytes);
    return quick.takes(transfer);
  };
  EXPECT_TRUE(takes(Direction::kRecv, kAfar - 1));
  EXPECT_FALSE(takes(Direction::kRecv, kAfar));
  EXPECT_TRUE(takes(Direction::kSend, kAfar));
  slots.abilities.afar_least[0] = kAfar;
  EXPECT_FALSE(takes(Direction::kSend, kAfar));
}

// Whoever takes a window of messages need not acknowledge each of them, but all before it waits.
TEST(ShmWays, AWindowIsAcknowledgedBeforeItsReceiverWaits) {
  const Envelope envelope = envelope_of(8);
  std::array<std::byte, 8> memory{};
  Transfer transfer;
  transfer.direction = Direction::kRecv;
  transfer.lane = Lane::kMessage;
  transfer.envelope = envelope;
  transfer.memory = memory.data();
  enum class Next { kLast, kNotThere, kQueue };
  for (const Next next : {Next::kLast, Next::kNotThere, Next::kQueue}) {
    test::Slots slots(512);
    SendPort send(slots.channel(Lane::kMessage));
    RecvPort receive(slots.other_end(Lane::kMessage));
    for (int message = 0; message < (next == Next::kLast ? 2 : 1); ++message)
      ASSERT_EQ(send.send_whole(memory.data(), envelope), SendPort::Whole::kSent);
    EXPECT_EQ(receive.receive_whole(transfer), RecvPort::Whole::kTaken);
    EXPECT_FALSE(receive.acknowledged());
    EXPECT_EQ(slots.slots_read, 0U);
    EXPECT_FALSE(send.delivered());
    if (next == Next::kLast) {
      EXPECT_EQ(receive.receive_whole(transfer), RecvPort::Whole::kTaken);
      receive.acknowledge_rest();
    } else if (next == Next::kNotThere) {
      EXPECT_EQ(receive.receive_whole(transfer), RecvPort::Whole::kNotThere);
    } else {
      Completions completions;
      receive.push(transfer);
      EXPECT_TRUE(receive.progress(completions, {})) << "the bell is to be rung";
      EXPECT_TRUE(completions.empty());
    }
    EXPECT_EQ(slots.slots_read, next == Next::kLast ? 2U : 1U);
    EXPECT_TRUE(send.delivered());
  }
}

Bytes cores_of(std::initializer_list<int> cores) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int core : cores) CPU_SET(core, &set);
  Bytes bytes(sizeof set);
  std::memcpy(bytes.data(), &set, sizeof set);
  return bytes;
}

TEST(ShmWays, RanksShareTheCoresOfAll) {
  const std::vector<int> peers{0, 2};  // of rank 1; rank 3 is elsewhere
  const auto sharing = [&](const std::vector<Bytes>& cores) {
    const Result<SharedCores> result = shared_cores(cores, peers, 1);
    EXPECT_TRUE(result.ok()) << result.status().message();
    return result.ok() ? std::pair(result->count, result->ranks_per_core) : std::pair(-1, -1);
  };
  using Pair = std::pair<int, int>;
  EXPECT_EQ(sharing({cores_of({5}), cores_of({9}), cores_of({1000}), {}}), Pair(3, 1));
  EXPECT_EQ(sharing({cores_of({0, 1, 2}), cores_of({0, 1, 2}), cores_of({0, 1, 2}), {}}),
            Pair(3, 1));
  EXPECT_EQ(sharing({cores_of({0, 1}), cores_of({0, 1}), cores_of({0, 1}), cores_of({7})}),
            Pair(2, 2));
  EXPECT_EQ(sharing({cores_of({3}), cores_of({3}), cores_of({4}), {}}), Pair(2, 2));
  EXPECT_EQ(sharing({cores_of({3}), cores_of({3}), cores_of({3}), {}}), Pair(1, 3));
  EXPECT_EQ(sharing({cores_of({}), cores_of({}), cores_of({}), {}}), Pair(1, 3))
      << "of one, at the least";
  for (const size_t wrong : {size_t{0}, sizeof(cpu_set_t) - 1, sizeof(cpu_set_t) + 1}) {
    const std::vector<Bytes> cores{cores_of({0}), cores_of({1}), Bytes(wrong), {}};
    EXPECT_EQ(shared_cores(cores, peers, 1).status().code(), Code::kCorrupt) << wrong;
  }
}

}  // namespace
}  // namespace banyan::shm::shm_ways_test
