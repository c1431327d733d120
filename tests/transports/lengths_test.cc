// A receive up to a length takes what is shorter, says how long it was and writes nothing else.
// SPDX-License-Identifier: Apache-2.0

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>
#include <optional>
#include <set>
#include <vector>

#include "tests/support/sanitizers.h"
#include "tests/transports/transport_fixture.h"
#include "transports/quick_lane.h"

namespace banyan::test::lengths_test {
namespace {

constexpr uint64_t kCapacity = (1 << 20) + 77;
// Around them shm changes from line to slot, from slot to heap and from one slot to several, and
// ucx from a frame to pieces and to longer ones.
constexpr uint64_t kLengths[] = {
    0,     1,     7,     24,    25,    4095,   4096,   8192,          8193,
    32767, 32768, 32769, 65535, 65536, 196608, 524289, kCapacity - 1, kCapacity};
constexpr Lane kLanes[] = {Lane::kCollective, Lane::kMessage};

// All but the length is as the receiver expects it.
Envelope envelope_up_to(uint64_t capacity, uint64_t bytes, uint32_t call = 1) {
  Envelope envelope = envelope_of(capacity, call);
  envelope.bytes = bytes;
  return envelope;
}

Transfer receive_up_to(int peer, const Envelope& longest, std::byte* memory, uint64_t cookie,
                       Lane lane) {
  Transfer transfer = receive_from(peer, longest, memory, cookie, lane);
  transfer.up_to = true;
  return transfer;
}

// Memory that shows what was written and what was not.
class Target {
 public:
  explicit Target(uint64_t capacity) : bytes_(capacity + 2 * kBeside, kUntouched) {}
  std::byte* memory() { return bytes_.data() + kBeside; }
  bool holds(const Bytes& message) const {
    Bytes expected(bytes_.size(), kUntouched);
    std::copy(message.begin(), message.end(), expected.begin() + kBeside);
    return bytes_ == expected;
  }

 private:
  static constexpr size_t kBeside = 67;
  static constexpr std::byte kUntouched{0xee};
  Bytes bytes_;
};

// Both ranks send that much of `out`. Gives the passage of what came.
Passage exchange(Driver& driver, int self, const std::byte* out, uint64_t bytes, Lane lane) {
  const int peer = 1 - self;
  const Envelope sent = envelope_up_to(kCapacity, bytes);
  Target target(kCapacity);
  Transfer receive = receive_up_to(peer, envelope_of(kCapacity), target.memory(), 1, lane);
  Transfer send = send_to(peer, sent, out, 2, lane);
  // Messages of such a call are weighed where shm measures.
  receive.usage.caller_bytes = send.usage.caller_bytes = kCapacity;
  driver.post(receive);
  driver.post(send);
  const Completion completion = driver.wait(1);
  EXPECT_EQ(completion.code, Code::kOk) << bytes;
  EXPECT_EQ(completion.seen, sent) << bytes;
  EXPECT_EQ(driver.wait(2).code, Code::kOk) << bytes;
  EXPECT_TRUE(target.holds(message_of(peer, bytes))) << bytes;
  return completion.passage;
}

// From which length on one copy is better, as shm is told; nullopt: it measures and weighs.
std::vector<std::optional<uint64_t>> single_copies_of(const TransportKind& kind) {
  if (kind.name == "shm" && kThreadSanitizer) return {64 << 10, 1};
  if (kind.name == "shm") return {64 << 10, 0, 1, std::nullopt};
  return {std::nullopt};
}

TEST_P(TransportTest, AnyLengthUpToTheLongestComes) {
  std::mutex mutex;
  std::set<Passage> passages;
  for (const std::optional<uint64_t> least : single_copies_of(kind()))
    run_threads(2, [&](MeshWiring& wiring) {
      wiring.use_single_copy(least);
      Driver driver(kind(), wiring);
      ASSERT_TRUE(driver.ok());
      const Bytes plain = message_of(wiring.rank(), kCapacity);
      std::vector<const std::byte*> sources = {plain.data()};
      const auto heap = driver->allocate(kCapacity, deadline_after(10));
      if (heap.ok()) {
        std::copy(plain.begin(), plain.end(), *heap);
        sources.push_back(*heap);
      }
      for (const Lane lane : kLanes)
        for (const std::byte* source : sources)
          for (const uint64_t bytes : kLengths) {
            const Passage passage = exchange(driver, wiring.rank(), source, bytes, lane);
            const std::scoped_lock lock(mutex);
            passages.insert(passage);
          }
    });
  using testing::UnorderedElementsAre;
  if (kind().name == "shm") {
    EXPECT_THAT(passages, UnorderedElementsAre(Passage::kSlots, Passage::kInPlace, Passage::kAfar));
  } else if (kind().name == "ucx") {
    EXPECT_THAT(passages, UnorderedElementsAre(Passage::kFrame, Passage::kPieces));
  } else {
    EXPECT_THAT(passages, UnorderedElementsAre(Passage::kOnly));
  }
}

// Every second message leaves by the quick lane, where there is one that takes it.
void send_at_once_or_post(Driver& driver, const Transfer& send) {
  QuickLane* quick = driver->quick_lane(send.peer, send.lane);
  const TimePoint deadline = deadline_after(kPatience);
  auto departure = QuickLane::Departure::kNoRoom;
  if (quick == nullptr || send.cookie % 2 == 0 || !quick->takes(send))
    departure = QuickLane::Departure::kOther;
  while (departure == QuickLane::Departure::kNoRoom && Clock::now() < deadline) {
    driver.step();
    departure = quick->send(send.memory, send.envelope);
  }
  if (departure == QuickLane::Departure::kSent) return;
  driver.post(send);
  EXPECT_EQ(driver.wait(send.cookie).code, Code::kOk) << send.cookie;
}

TEST_P(TransportTest, ReceivesOfBothKindsMeetTheirMessages) {
  run_threads(2, [](MeshWiring& wiring) {
    Driver driver(kind(), wiring);
    ASSERT_TRUE(driver.ok());
    constexpr uint32_t kMessages = 300;
    for (const Lane lane : kLanes) {
      std::vector<Target> targets;
      for (uint32_t i = 0; i < kMessages; ++i) {
        const uint64_t bytes = i % 17 == 0 ? 70'000 + i : i % 5 == 0 ? 3000 + i : i % 29;
        const bool exact = i % 3 == 0;
        const uint64_t capacity = bytes + (exact ? 0 : i % 4 * 1000);
        const Envelope sent = envelope_up_to(capacity, bytes, i);
        if (wiring.rank() == 0) {
          const Bytes body = message_of(i, bytes);
          send_at_once_or_post(driver, send_to(1, sent, body.data(), i, lane));
          continue;
        }
        Transfer receive = receive_from(0, envelope_of(capacity, i),
                                        targets.emplace_back(capacity).memory(), i, lane);
        receive.up_to = !exact;
        driver.post(receive);
        if (i < 3) continue;  // so many are under way
        const uint32_t first = i - 3;
        const Completion completion = driver.wait(first);
        EXPECT_EQ(completion.code, Code::kOk) << first;
        EXPECT_EQ(completion.seen.call, first);
        EXPECT_TRUE(targets[first].holds(message_of(first, completion.seen.bytes))) << first;
      }
      for (uint32_t i = kMessages - 3; wiring.rank() == 1 && i < kMessages; ++i)
        EXPECT_EQ(driver.wait(i).code, Code::kOk) << i;
    }
  });
}

TEST_P(TransportTest, WhatIsTooLongOrAnotherStaysAtTheHead) {
  run_threads(2, [](MeshWiring& wiring) {
    Driver driver(kind(), wiring);
    ASSERT_TRUE(driver.ok());
    for (const Lane lane : kLanes)
      for (const uint64_t bytes : {1, 8, 25, 4000, 100'000}) {
        const Envelope right = envelope_up_to(kCapacity, bytes, 9);
        const Bytes body = message_of(3, bytes);
        if (wiring.rank() == 0) {
          driver.post(send_to(1, right, body.data(), 1, lane));
          EXPECT_EQ(driver.wait(1).code, Code::kOk);
          continue;
        }
        std::vector<Envelope> wrong(5, right);
        wrong[0].bytes -= 1;
        wrong[1].bytes = 0;
        wrong[2].call += 1;
        wrong[3].bytes += 1000;
        wrong[3].signature.count += 1;
        wrong[4].bytes += 1000;
        wrong[4].signature.codec += 1;
        Target target(bytes + 1000);
        for (const Envelope& envelope : wrong) {
          driver.post(receive_up_to(0, envelope, target.memory(), 7, lane));
          const Completion completion = driver.wait(7);
          EXPECT_EQ(completion.code, Code::kMismatch);
          EXPECT_EQ(completion.seen, right);
        }
        EXPECT_TRUE(target.holds({}));
        EXPECT_EQ(driver->peek(0, lane), right) << "as long as it is";
        driver.post(receive_up_to(0, right, target.memory(), 8, lane));
        const Completion completion = driver.wait(8);
        EXPECT_EQ(completion.code, Code::kOk);
        EXPECT_EQ(completion.seen, right);
        EXPECT_TRUE(target.holds(body));
      }
  });
}

TEST_P(TransportTest, AnotherEpochIsDroppedBeforeAShorterMessage) {
  run_threads(2, [](MeshWiring& wiring) {
    Driver driver(kind(), wiring);
    ASSERT_TRUE(driver.ok());
    for (const Lane lane : kLanes)
      for (const uint64_t bytes : {0, 16, 40'000, 300'000}) {
        Envelope late = envelope_up_to(kCapacity, bytes, 5);
        late.epoch = kEpoch - 1;
        const Envelope good = envelope_up_to(kCapacity, 19, 5);
        const Bytes body = message_of(4, bytes), right = message_of(6, 19);
        if (wiring.rank() == 0) {
          driver.post(send_to(1, late, body.data(), 1, lane));
          driver.post(send_to(1, good, right.data(), 2, lane));
          for (const uint64_t cookie : {1, 2}) EXPECT_EQ(driver.wait(cookie).code, Code::kOk);
          continue;
        }
        Target target(kCapacity);
        driver.post(receive_up_to(0, envelope_of(kCapacity, 5), target.memory(), 3, lane));
        const Completion completion = driver.wait(3);
        EXPECT_EQ(completion.code, Code::kOk);
        EXPECT_EQ(completion.seen, good);
        EXPECT_TRUE(target.holds(right)) << bytes;
      }
  });
}

// A quick lane tells nobody how long a message was.
TEST_P(TransportTest, QuickLanesLeaveWhatHasNoLengthYetToTheQueues) {
  run_threads(2, [](MeshWiring& wiring) {
    Driver driver(kind(), wiring);
    ASSERT_TRUE(driver.ok());
    const Envelope sent = envelope_up_to(100, 9);
    const Bytes body = message_of(2, 9);
    QuickLane* quick = driver->quick_lane(1 - wiring.rank(), Lane::kCollective);
    if (wiring.rank() == 0) {
      driver.post(send_to(1, sent, body.data(), 1));
      EXPECT_EQ(driver.wait(1).code, Code::kOk);
      return;
    }
    Target target(100);
    const Transfer receive =
        receive_up_to(0, envelope_of(100), target.memory(), 2, Lane::kCollective);
    if (quick != nullptr) {
      EXPECT_TRUE(quick->takes(receive_from(0, envelope_of(100), target.memory(), 2)));
      EXPECT_FALSE(quick->takes(receive));
      const TimePoint deadline = deadline_after(kPatience);
      auto arrival = QuickLane::Arrival::kNotThere;
      while (arrival == QuickLane::Arrival::kNotThere && Clock::now() < deadline) {
        quick->progress();
        arrival = quick->receive(receive);
      }
      EXPECT_EQ(arrival, QuickLane::Arrival::kOther);
      EXPECT_TRUE(target.holds({}));
    }
    driver.post(receive);
    EXPECT_EQ(driver.wait(2).seen, sent);
    EXPECT_TRUE(target.holds(body));
  });
}

TEST_P(TransportTest, RefusesToSendOrCombineUpToALength) {
  run_threads(2, [](MeshWiring& wiring) {
    Driver driver(kind(), wiring);
    ASSERT_TRUE(driver.ok());
    const int peer = 1 - wiring.rank();
    std::array<std::byte, 8> memory{};
    Transfer send = send_to(peer, envelope_of(8), memory.data(), 1);
    send.up_to = true;
    Transfer combined = receive_from(peer, envelope_of(8), memory.data(), 2);
    combined.up_to = true;
    combined.combine = add_uint32;
    combined.local = memory.data();
    combined.message_element = combined.local_element = 4;
    for (const Transfer& transfer : {send, combined}) {
      const Status status = driver->post(transfer);
      EXPECT_EQ(status.code(), Code::kInvalidArgument);
      EXPECT_NE(status.message(), "");
    }
  });
}

}  // namespace
}  // namespace banyan::test::lengths_test
