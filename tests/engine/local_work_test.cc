// Local steps that end later, run by turns, wait for gates, tell of their end, write two ranges,
// and go by the kind of their memory.
// SPDX-License-Identifier: Apache-2.0

#include "src/engine/local_work.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "algorithms/builder.h"
#include "tests/engine/engine_parts.h"
#include "tests/support/toy_codec.h"

namespace banyan::test::local_work_test {
namespace {

using testing::Each;
using testing::ElementsAre;

// Completes sends at once, keeps receives, and remembers what was posted.
class Outbox final : public Transport {
 public:
  explicit Outbox(bool device = false) : device_(device) {}

  std::string_view name() const override { return "outbox"; }
  std::optional<uint64_t> carries_from(MemoryKind kind) const override {
    return (kind == MemoryKind::kDevice) == device_ ? std::optional<uint64_t>(0) : std::nullopt;
  }
  Status post(const Transfer& transfer) override {
    if (transfer.direction == Direction::kSend) sent.push_back(transfer);
    done_.push_back({.cookie = transfer.cookie, .code = Code::kOk, .seen = {}});
    return {};
  }
  Result<size_t> poll(std::span<Completion> completions) override {
    const size_t count = std::min(done_.size(), completions.size());
    std::copy_n(done_.begin(), count, completions.begin());
    done_.erase(done_.begin(), done_.begin() + static_cast<ptrdiff_t>(count));
    return count;
  }
  std::optional<Envelope> peek(int, Lane) override { return waiting; }
  bool arm() override { return done_.empty(); }
  void disarm() override {}
  int descriptor() const override { return 7; }

  std::vector<Transfer> sent;
  std::optional<Envelope> waiting;  // from whomever

 private:
  bool device_;
  std::vector<Completion> done_;
};

// Rank 0 of two, whose messages end in outboxes.
struct Rank {
  Rank() {
    std::vector<std::unique_ptr<Transport>> transports;
    for (const bool gpu : {false, true}) transports.push_back(std::make_unique<Outbox>(gpu));
    host = static_cast<Outbox*>(transports[0].get());
    device = static_cast<Outbox*>(transports[1].get());
    engine =
        std::make_unique<Engine>(std::move(transports), std::vector<int>{-1, 0}, best_kernels());
    engine->use_codecs(toy_codecs());
  }
  void start(Execution& execution, Bytes& memory, uint32_t call = 1) const {
    Envelope envelope;
    envelope.call = call;
    engine->start(execution, Spaces(memory.data(), memory.data(), memory.data()), {}, envelope,
                  Lane::kCollective);
  }
  Trouble turn() const {
    Trouble trouble;
    EXPECT_TRUE(engine->progress(trouble).ok());
    return trouble;
  }
  void run() const {
    for (int turns = 0; turns < 1000 && !engine->idle(); ++turns) EXPECT_FALSE(turn());
    EXPECT_TRUE(engine->idle());
  }

  Outbox* host;
  Outbox* device;
  std::unique_ptr<Engine> engine;
};

Slice scratch(uint64_t offset, uint64_t bytes) {
  return {Space::kScratch, offset, bytes};
}

// Copies pieces from the first half of the memory to the second one, and sends each.
Schedule copies(int pieces, uint64_t bytes) {
  ScheduleBuilder builder;
  for (int i = 0; i < pieces; ++i) {
    const uint64_t at = bytes * static_cast<uint64_t>(i);
    const Slice copy = scratch(bytes * static_cast<uint64_t>(pieces) + at, bytes);
    builder.copy(scratch(at, bytes), copy);
    builder.send(copy, 1);
  }
  return std::move(builder).finish();
}

// What is ready leaves while the rest is still to be copied, the first first.
TEST(LocalWork, TakesTurnsWithSending) {
  constexpr int kPieces = 8;
  constexpr uint64_t kBytes = 512 << 10;
  Rank rank;
  const Schedule schedule = copies(kPieces, kBytes);
  Execution execution(schedule);
  Bytes memory(kPieces * 2 * kBytes);
  rank.start(execution, memory);
  rank.turn();
  ASSERT_GT(rank.host->sent.size(), 0U);
  EXPECT_LT(rank.host->sent.size(), size_t{kPieces});
  EXPECT_FALSE(execution.done());
  rank.run();
  ASSERT_EQ(rank.host->sent.size(), size_t{kPieces});
  for (size_t i = 0; i < kPieces; ++i)
    EXPECT_EQ(rank.host->sent[i].memory, memory.data() + (kPieces + i) * kBytes);
}

TEST(LocalWork, OfOneOperationKeepsNoOtherWaiting) {
  constexpr uint64_t kBytes = 512 << 10;
  Rank rank;
  const Schedule long_one = copies(16, kBytes), short_one = copies(1, 64);
  Execution first(long_one), second(short_one);
  Bytes memory(32 * kBytes), little(128);
  little[0] = std::byte{5};
  rank.start(first, memory, 1);
  rank.start(second, little, 2);
  for (int turns = 0; turns < 4; ++turns) rank.turn();
  // It cannot be sent before what was started earlier, but it is copied.
  EXPECT_EQ(little[64], std::byte{5});
  EXPECT_FALSE(first.done());
  rank.run();
}

class TestGate final : public StartGate {
 public:
  bool is_open() override { return open; }
  int descriptor() const override { return 9; }
  bool open = false;
};

class TestHook final : public Hook {
 public:
  void ended(const Execution& execution) override { ends.push_back(execution.cancelled()); }
  std::vector<bool> ends;  // by calls of it: whether it was cancelled
};

TEST(LocalWork, BeginsWhenItsGateOpens) {
  Rank rank;
  const Schedule schedule = copies(2, 64);
  Execution execution(schedule), next(schedule);
  TestGate gate;
  TestHook hook;
  execution.gate = &gate;
  execution.hook = &hook;
  execution.timeout_s = 50;
  execution.deadline = TimePoint::min();
  Bytes memory(256, std::byte{1});
  std::fill(memory.begin() + 128, memory.end(), std::byte{0});
  rank.start(execution, memory, 1);
  rank.start(next, memory, 2);
  for (int turns = 0; turns < 5; ++turns) rank.turn();
  EXPECT_TRUE(rank.host->sent.empty()) << "what was started later overtakes nothing";
  EXPECT_EQ(rank.engine->deadline(), TimePoint::max()) << "its time has not begun";
  std::vector<pollfd> descriptors;
  EXPECT_TRUE(rank.engine->arm(descriptors));
  EXPECT_EQ(descriptors.back().fd, 9);
  EXPECT_EQ(rank.engine->name_of_armed(descriptors.size() - 1), "a gate");
  gate.open = true;
  descriptors.clear();
  EXPECT_FALSE(rank.engine->arm(descriptors)) << "there is something to do";
  rank.engine->disarm();
  const TimePoint before = Clock::now();
  rank.turn();
  EXPECT_GE(execution.deadline, before + std::chrono::seconds(49));
  EXPECT_LE(execution.deadline, Clock::now() + std::chrono::seconds(50));
  rank.run();
  EXPECT_EQ(rank.host->sent.size(), 4U);
  EXPECT_EQ(rank.host->sent[0].envelope.call, 1U);
  EXPECT_THAT(hook.ends, ElementsAre(false));
}

TEST(LocalWork, BehindAGateIsCancelledLikeAnyOther) {
  Rank rank;
  const Schedule schedule = copies(2, 64);
  Execution execution(schedule);
  TestGate gate;
  TestHook hook;
  execution.gate = &gate;
  execution.hook = &hook;
  Bytes memory(256);
  rank.start(execution, memory);
  rank.turn();
  rank.engine->cancel();
  EXPECT_TRUE(execution.done());
  EXPECT_THAT(hook.ends, ElementsAre(true));
  gate.open = true;
  rank.turn();
  EXPECT_TRUE(rank.host->sent.empty());
  execution.gate = nullptr;
  rank.start(execution, memory);
  rank.run();
  EXPECT_THAT(hook.ends, ElementsAre(true, false));
}

TEST(LocalWork, TellsOfTheEndOfAnOperationWithoutSteps) {
  Rank rank;
  const Schedule nothing = ScheduleBuilder().finish();
  Execution execution(nothing);
  TestHook hook;
  execution.hook = &hook;
  Bytes memory(1);
  rank.start(execution, memory);
  EXPECT_THAT(hook.ends, ElementsAre(false));
}

// Never ends a step by itself.
class Hesitant final : public LocalWork {
 public:
  End run(const LocalStep& step, uint64_t cookie) override {
    begun.push_back(step.step.op);
    cookies.push_back(cookie);
    return {cookie, Outcome::kPending, 0};
  }
  size_t poll(std::span<End> ends) override {
    if (!ends_now || cookies.empty()) return 0;
    ends[0] = {cookies.back(), Outcome::kDone, 0};
    cookies.pop_back();
    return 1;
  }
  bool arm() override { return !ends_now; }
  void disarm() override { ++disarmed; }
  int descriptor() const override { return 11; }
  void abandon() override { abandoned = true; }

  bool ends_now = false, abandoned = false;
  int disarmed = 0;
  std::vector<Op> begun;
  std::vector<uint64_t> cookies;
};

Schedule on(MemoryKind kind, Schedule schedule) {
  for (Step& step : schedule.steps) step.memory = kind;
  return schedule;
}

// A kind of memory has who works on it, and its routes.
TEST(LocalWork, GoesByTheKindOfItsMemory) {
  Rank rank;
  EXPECT_TRUE(rank.engine->serves(MemoryKind::kHost));
  EXPECT_TRUE(rank.engine->serves(MemoryKind::kManaged));
  EXPECT_FALSE(rank.engine->serves(MemoryKind::kDevice));
  auto owned = std::make_unique<Hesitant>();
  Hesitant& work = *owned;
  rank.engine->serve(MemoryKind::kDevice, std::move(owned), {-1, 1});
  EXPECT_TRUE(rank.engine->serves(MemoryKind::kDevice));
  const Schedule host = copies(1, 64), device = on(MemoryKind::kDevice, copies(1, 64));
  Execution first(device), second(host);
  Bytes memory(128), other(128);
  rank.start(first, memory, 1);
  for (int turns = 0; turns < 3; ++turns) rank.turn();
  EXPECT_THAT(work.begun, ElementsAre(Op::kCopy));
  EXPECT_TRUE(rank.device->sent.empty());
  std::vector<pollfd> descriptors;
  EXPECT_TRUE(rank.engine->arm(descriptors));
  EXPECT_EQ(descriptors.back().fd, 11);
  EXPECT_EQ(rank.engine->name_of_armed(descriptors.size() - 1), "local work");
  rank.engine->disarm();
  EXPECT_EQ(work.disarmed, 1);
  work.ends_now = true;
  rank.start(second, other, 2);
  rank.run();
  EXPECT_EQ(rank.device->sent.size(), 1U);
  EXPECT_EQ(rank.host->sent.size(), 1U);
  EXPECT_EQ(work.begun.size(), 1U) << "the host's kernels ran the other";
}

TEST(LocalWork, NeedsARouteToEachPeerThatCarriesItsMemory) {
  Rank rank;
  rank.engine->serve(MemoryKind::kDevice, std::make_unique<Hesitant>(), {-1, 0});
  EXPECT_FALSE(rank.engine->serves(MemoryKind::kDevice)) << "that transport does not carry it";
  rank.engine->serve(MemoryKind::kDevice, std::make_unique<Hesitant>(), {-1, -1});
  EXPECT_FALSE(rank.engine->serves(MemoryKind::kDevice));
}

// A rank whose memory is of another kind sends by another route.
TEST(LocalWork, FindsACallOnAnotherKindOfMemory) {
  Rank rank;
  const Schedule schedule = copies(1, 64);
  Execution execution(schedule);
  Bytes memory(128);
  rank.start(execution, memory, 5);
  EXPECT_FALSE(rank.engine->find_other_call());
  Envelope theirs;
  theirs.call = 5;
  theirs.signature.memory = MemoryKind::kDevice;
  rank.device->waiting = theirs;
  const Trouble found = rank.engine->find_other_call();
  EXPECT_EQ(found.code, Code::kMismatch);
  EXPECT_EQ(found.seen.signature.memory, MemoryKind::kDevice);
  rank.engine->cancel();
}

TEST(LocalWork, ThatIsPendingIsAbandonedWithItsOperation) {
  Rank rank;
  auto owned = std::make_unique<Hesitant>();
  Hesitant& work = *owned;
  rank.engine->serve(MemoryKind::kDevice, std::move(owned), {-1, 1});
  const Schedule device = on(MemoryKind::kDevice, copies(1, 64));
  Execution execution(device);
  Bytes memory(128);
  rank.start(execution, memory);
  rank.turn();
  rank.engine->cancel();
  EXPECT_TRUE(work.abandoned);
  EXPECT_TRUE(execution.cancelled());
}

// What an encoding does not say is left over, and the two make up the values.
TEST(LocalWork, OfACodecWritesTwoRangesAndALength) {
  constexpr uint64_t kCount = 1000;
  Rank rank;
  ScheduleBuilder builder;
  const Slice values{Space::kInput, 0, kCount * 4};
  const Slice left{Space::kOutput, kCount * 4, kCount * 4};
  const Slice decoded{Space::kOutput, kCount * 8, kCount * 4};
  const Slice slot = builder.wire_slot(kCount * 2);
  builder.encode_by(kToy, DataType::kFloat32, values, slot, left);
  builder.send(slot, 1);
  builder.decode_by(kToy, DataType::kFloat32, slot, decoded);
  const Schedule schedule = std::move(builder).finish();
  std::vector<float> memory(3 * kCount);
  for (size_t i = 0; i < kCount; ++i) memory[i] = static_cast<float>(i) * 1.000123F;
  Bytes scratch(schedule.scratch_size);
  auto* bytes = reinterpret_cast<std::byte*>(memory.data());
  Execution execution(schedule);
  rank.engine->start(execution, Spaces(bytes, bytes, scratch.data()), {}, {}, Lane::kCollective);
  rank.run();
  ASSERT_EQ(rank.host->sent.size(), 1U);
  const uint64_t length = rank.host->sent[0].envelope.bytes;
  EXPECT_LT(length, kCount * 2) << "what it keeps is a matter of these values";
  EXPECT_GE(length, kCount);
  for (size_t i = 0; i < kCount; ++i)
    ASSERT_EQ(memory[kCount + i] + memory[2 * kCount + i], memory[i]) << i;
}

// It says in its messages by which numbers it chooses, and takes its time if there are many values.
constexpr auto kLong = std::chrono::milliseconds(200);
constexpr Codec kTeller = {
    "teller", [](const Coding&, DataType, uint64_t) { return uint64_t{16}; },
    [](const Coding& coding, DataType, const std::byte*, uint64_t count, std::byte* message,
       std::byte*) {
      if (count > 1) std::this_thread::sleep_for(kLong);  // a time to be seen
      std::memcpy(message, &coding.step, 8);
      std::memcpy(message + 8, &coding.tensor, 8);
      return Encoded{.size = 16};
    },
    [](const Coding&, DataType, CodecMessage, uint64_t, std::byte*) { return true; },
    [](const Coding&, DataType, CodecMessage, uint64_t, const std::byte*, std::byte*) {
      return true;
    }};

// Sends what it says of so many values.
Schedule telling(uint64_t count) {
  ScheduleBuilder builder;
  const Slice slot = builder.wire_slot(16);
  builder.encode_by(1, DataType::kFloat32, builder.scratch(4 * count), slot);
  builder.send(slot, 1);
  return std::move(builder).finish();
}

TEST(LocalWork, OfACodecGoesByTheNumbersOfItsCall) {
  Rank rank;
  rank.engine->use_codecs({&kTeller, 1});
  const Schedule schedule = telling(1);
  Execution execution(schedule);
  const auto told = [&](uint32_t call) {
    rank.host->sent.clear();
    Bytes memory(schedule.scratch_size);
    rank.start(execution, memory, call);
    rank.run();
    std::pair<uint64_t, uint64_t> numbers;
    std::memcpy(&numbers.first, memory.data(), 8);
    std::memcpy(&numbers.second, memory.data() + 8, 8);
    return numbers;
  };
  EXPECT_EQ(told(7), std::pair(uint64_t{7}, uint64_t{0}));
  const Chance chance{uint64_t{1} << 40, 12};
  execution.chance = &chance;
  EXPECT_EQ(told(8), std::pair(uint64_t{1} << 40, uint64_t{12}));
  execution.chance = nullptr;
  EXPECT_EQ(told(9), std::pair(uint64_t{9}, uint64_t{0}));
}

// The time is that of the last run, and only where what is left is kept.
TEST(LocalWork, OfACodecIsTimed) {
  Problem problem;
  const auto time_of = [&](uint64_t count) {
    Rank rank;
    rank.engine->use_codecs({&kTeller, 1});
    const Schedule schedule = telling(count);
    Execution execution(schedule);
    execution.problem = &problem;
    Bytes memory(schedule.scratch_size);
    rank.start(execution, memory);
    rank.run();
    const Clock::duration first = execution.codec_time();
    rank.start(execution, memory);
    EXPECT_EQ(execution.codec_time(), Clock::duration());
    rank.engine->cancel();
    return first;
  };
  EXPECT_EQ(time_of(2), Clock::duration());
  problem.keeps_left = true;
  EXPECT_GE(time_of(2), kLong);
  EXPECT_LT(time_of(1), kLong);
}

// A peer's message that no encoder writes ends the operation, and names the peer.
TEST(LocalWork, OfACodecFindsWhatIsNoMessage) {
  for (const bool adds : {false, true}) {
    Engines engines(3, {});
    ScheduleBuilder builder;
    const Slice slot = builder.wire_slot(20);
    const Slice values{Space::kOutput, 0, 40};
    builder.recv(slot, 2);
    if (adds)
      builder.decode_add_by(kToy, DataType::kFloat32, values, slot, values);
    else
      builder.decode_by(kToy, DataType::kFloat32, slot, values);
    const Schedule schedule = std::move(builder).finish();
    Bytes output(40), scratch(schedule.scratch_size);
    Envelope envelope;
    envelope.bytes = 7;
    engines.hub().inject(2, 0, Lane::kCollective, envelope);
    Execution execution(schedule);
    engines.of(0).start(execution, Spaces(nullptr, output.data(), scratch.data()), {}, {},
                        Lane::kCollective);
    Trouble trouble;
    for (int turns = 0; turns < 5 && !trouble; ++turns)
      ASSERT_TRUE(engines.of(0).progress(trouble).ok());
    EXPECT_EQ(trouble.code, Code::kCorrupt);
    EXPECT_EQ(trouble.peer, 2);
    EXPECT_EQ(trouble.text, "what has come is no message of its codec");
    EXPECT_FALSE(execution.done());
    engines.of(0).cancel();
    EXPECT_THAT(output, Each(std::byte{0}));
  }
}

}  // namespace
}  // namespace banyan::test::local_work_test
