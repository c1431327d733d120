// Which way a long message takes: through slots, or read from the sender's memory.
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>
#include <sched.h>

#include <array>
#include <cstring>
#include <initializer_list>
#include <vector>

#include "tests/slots.h"
#include "transports/territory.h"

namespace banyan::shm {
namespace {

Envelope envelope_of(uint64_t bytes) {
  return {.call = 1, .epoch = 77, .bytes = bytes, .signature = {}};
}

// From 64 KiB on the peer reads our memory, unless there is a reason to copy.
TEST(ShmWays, OnlySomeSendsAreReadFromMemory) {
  constexpr uint32_t kBytes = 64 << 10;
  struct Case {
    uint32_t bytes;
    uint64_t abilities;
    bool stream;
    SlotKind kind;
  };
  const Case cases[] = {
      {kBytes, kReadsMemory, false, SlotKind::kMemory},
      {kBytes, kReadsMemory, true, SlotKind::kFragment},
      {kBytes, kReadsHeap, false, SlotKind::kFragment},
      {kBytes - 1, kReadsMemory, false, SlotKind::kFragment},
  };
  for (const Case& row : cases) {
    test::Slots slots(kBytes);
    slots.abilities = row.abilities;
    SendPort port(slots.channel());
    Completions completions;
    std::vector<std::byte> memory(row.bytes);
    Transfer transfer;
    transfer.envelope = envelope_of(row.bytes);
    transfer.memory = memory.data();
    transfer.stream = row.stream;
    port.push(transfer);
    port.progress(completions);
    EXPECT_EQ(unpack(slots.lines[0].word).kind, row.kind) << row.bytes << ", " << row.abilities;
    EXPECT_EQ(completions.empty(), row.kind == SlotKind::kMemory) << "done before it is read";
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
    const Result<int> result = ranks_per_core(cores, peers, 1);
    EXPECT_TRUE(result.ok()) << result.status().message();
    return result.ok() ? *result : -1;
  };
  EXPECT_EQ(sharing({cores_of({5}), cores_of({9}), cores_of({1000}), {}}), 1);
  EXPECT_EQ(sharing({cores_of({0, 1, 2}), cores_of({0, 1, 2}), cores_of({0, 1, 2}), {}}), 1);
  EXPECT_EQ(sharing({cores_of({0, 1}), cores_of({0, 1}), cores_of({0, 1}), cores_of({7})}), 2);
  EXPECT_EQ(sharing({cores_of({3}), cores_of({3}), cores_of({4}), {}}), 2);
  EXPECT_EQ(sharing({cores_of({3}), cores_of({3}), cores_of({3}), {}}), 3);
  EXPECT_EQ(sharing({cores_of({}), cores_of({}), cores_of({}), {}}), 3) << "of one, at the least";
  for (const size_t wrong : {size_t{0}, sizeof(cpu_set_t) - 1, sizeof(cpu_set_t) + 1}) {
    const std::vector<Bytes> cores{cores_of({0}), cores_of({1}), Bytes(wrong), {}};
    EXPECT_EQ(ranks_per_core(cores, peers, 1).status().code(), Code::kCorrupt) << wrong;
  }
}

}  // namespace
}  // namespace banyan::shm
