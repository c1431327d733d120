// The transport over a wire of tagged messages is on a wire here that says how often it was turned,
// and on which the test plays the peer.
// SPDX-License-Identifier: Apache-2.0

#include "transports/framed/framed.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <span>
#include <vector>

#include "tests/transports/wiring.h"

namespace banyan::test::framed_test {
namespace {

// Sends are done after so many turns; nothing comes but what arrives by hand.
class SlowWire final : public Wire {
 public:
  explicit SlowWire(int turns_of_a_send) : turns_of_a_send_(turns_of_a_send) {}
  int turns() const { return turns_; }

  bool reaches_gpus() const override { return reaches_gpus_; }
  void reach_gpus() { reaches_gpus_ = true; }
  // Says where what was sent and what is asked for lies, if it lies in a GPU.
  const std::vector<const std::byte*>& in_gpus() const { return in_gpus_; }

  void send(int /*peer*/, uint64_t /*tag*/, const std::byte* memory, size_t /*bytes*/,
            MemoryKind kind, WireOperation& operation) override {
    operation = {};
    operation.state = WireOperation::State::kPending;
    if (kind == MemoryKind::kDevice) in_gpus_.push_back(memory);
    sends_.push_back({&operation, turns_ + turns_of_a_send_});
    end_sends();
  }
  void receive(uint64_t tag, std::byte* memory, size_t bytes, MemoryKind kind,
               WireOperation& operation) override {
    operation = {};
    if (kind == MemoryKind::kDevice) in_gpus_.push_back(memory);
    operation.state = WireOperation::State::kPending;
    receives_[tag] = {&operation, {memory, bytes}};
  }
  bool is_asked_for(uint64_t tag) const { return receives_.contains(tag); }
  void arrive(uint64_t tag, std::span<const std::byte> message) {
    ASSERT_TRUE(is_asked_for(tag));
    const auto [operation, memory] = receives_.extract(tag).mapped();
    std::copy_n(message.begin(), std::min(message.size(), memory.size()), memory.begin());
    operation->code = message.size() > memory.size() ? Code::kCorrupt : Code::kOk;
    operation->bytes = message.size();
    operation->state = WireOperation::State::kDone;
  }
  // As if so many bytes had come.
  void end_receive(uint64_t tag, size_t bytes) {
    ASSERT_TRUE(is_asked_for(tag));
    WireOperation& operation = *receives_.extract(tag).mapped().operation;
    operation.bytes = bytes;
    operation.state = WireOperation::State::kDone;
  }
  void cancel(WireOperation& operation) override {
    operation.code = Code::kAborted;
    operation.state = WireOperation::State::kDone;
  }
  void close() override {}
  void flush(WireOperation& operation) override { operation.state = WireOperation::State::kDone; }
  bool progress() override {
    ++turns_;
    return end_sends();
  }
  bool lost(int /*peer*/) const override { return false; }
  bool arm() override { return true; }
  int descriptor() const override { return -1; }

 private:
  struct Send {
    WireOperation* operation;
    int done_at;
  };
  struct Receive {
    WireOperation* operation;
    std::span<std::byte> memory;
  };

  bool end_sends() {
    return std::erase_if(sends_, [&](const Send& send) {
             if (send.done_at > turns_) return false;
             send.operation->state = WireOperation::State::kDone;
             return true;
           }) > 0;
  }

  int turns_of_a_send_;
  bool reaches_gpus_ = false;
  std::vector<const std::byte*> in_gpus_;
  int turns_ = 0;
  std::vector<Send> sends_;
  std::map<uint64_t, Receive> receives_;  // by tag
};

// Rank 0 of 2, with the wire that it is over.
struct OneEnd {
  Mesh mesh{2, Mesh::Ranks::kThreads};
  MeshWiring wiring{mesh, 0};
  SlowWire* wire;
  std::unique_ptr<Transport> transport;

  explicit OneEnd(int turns_of_a_send) {
    auto owned = std::make_unique<SlowWire>(turns_of_a_send);
    wire = owned.get();
    constexpr std::array kPeers = {1};
    transport = make_framed_transport("slow", std::move(owned), 64, {.bytes = 256, .of_long = 256},
                                      wiring, kPeers);
  }

  QuickLane::Departure send() {
    const Envelope envelope{.epoch = kEpoch, .bytes = sizeof payload, .signature = {}};
    return transport->quick_lane(1, Lane::kCollective)->send(payload, envelope);
  }

  // The peer's, in the collective lane.
  static uint64_t tag(FrameKind kind, uint32_t number) {
    return frame_tag(kEpoch, kind, Lane::kCollective, 1, number);
  }
  void post_up_to(uint64_t longest, std::byte* memory) const {
    Transfer transfer;
    transfer.direction = Direction::kRecv;
    transfer.peer = 1;
    transfer.envelope = {.epoch = kEpoch, .bytes = longest, .signature = {}};
    transfer.up_to = true;
    transfer.memory = memory;
    ASSERT_TRUE(transport->post(transfer).ok());
  }
  // kBusy: nothing is complete.
  Completion poll() const {
    std::array<Completion, 1> completions{{{.code = Code::kBusy, .seen = {}}}};
    EXPECT_TRUE(transport->poll(completions).ok());
    return completions[0];
  }

  std::byte payload[4]{};
};

Bytes frame_of(uint64_t said, size_t payload) {
  const Envelope envelope{.epoch = kEpoch, .bytes = said, .signature = {}};
  Bytes frame(sizeof envelope + payload, std::byte{9});
  std::memcpy(frame.data(), &envelope, sizeof envelope);
  return frame;
}

// Memory of that length of which so much was written.
Bytes written(size_t bytes, size_t length) {
  Bytes memory(length, std::byte{0x55});
  std::fill_n(memory.begin(), bytes, std::byte{9});
  return memory;
}

TEST(Framed, WhatIsSentAtOnceHasLeftWithoutATurn) {
  OneEnd end(0);
  for (int message = 0; message < 20; ++message) {  // more than its queue holds
    ASSERT_EQ(end.send(), QuickLane::Departure::kSent) << message;
    ASSERT_TRUE(end.transport->settled()) << message;
  }
  EXPECT_EQ(end.wire->turns(), 0);
}

TEST(Framed, WhatNeedsATurnGetsOne) {
  OneEnd end(1);
  ASSERT_EQ(end.send(), QuickLane::Departure::kSent);
  EXPECT_TRUE(end.transport->settled());
  EXPECT_EQ(end.wire->turns(), 1);
}

TEST(Framed, WhatNeedsMoreTurnsHasNotLeft) {
  OneEnd end(3);
  ASSERT_EQ(end.send(), QuickLane::Departure::kSent);
  EXPECT_FALSE(end.transport->settled());
  EXPECT_EQ(end.wire->turns(), 1);
  EXPECT_FALSE(end.transport->settled());
  EXPECT_TRUE(end.transport->settled());
  EXPECT_EQ(end.wire->turns(), 3);
}

// Whatever a peer says of its message, nothing is written and no piece asked for where it cannot
// be.
TEST(Framed, AFrameIsNoLongerThanTheLongest) {
  constexpr uint64_t kLongest = 40;
  struct Case {
    uint64_t said;
    size_t payload;
    Code code;
  };
  const Case cases[] = {
      {0, 0, Code::kOk},          {7, 7, Code::kOk},
      {40, 40, Code::kOk},        {41, 41, Code::kMismatch},
      {64, 64, Code::kMismatch},  {65, 0, Code::kMismatch},
      {1000, 0, Code::kMismatch}, {UINT64_MAX, 0, Code::kMismatch},
      {0, 1, Code::kCorrupt},     {40, 39, Code::kCorrupt},
      {30, 40, Code::kCorrupt},   {40, 41, Code::kCorrupt},
      {65, 65, Code::kCorrupt},   {UINT64_MAX, 40, Code::kCorrupt},
  };
  for (const Case& row : cases) {
    OneEnd end(0);
    Bytes memory = written(0, 2 * kLongest);
    end.post_up_to(kLongest, memory.data());
    EXPECT_EQ(end.poll().code, Code::kBusy);
    end.wire->arrive(OneEnd::tag(FrameKind::kFrame, 0), frame_of(row.said, row.payload));
    const Completion completion = end.poll();
    EXPECT_EQ(completion.code, row.code) << row.said << ", " << row.payload;
    if (row.code != Code::kCorrupt) {
      EXPECT_EQ(completion.seen.bytes, row.said);
    }
    EXPECT_EQ(memory, written(row.code == Code::kOk ? row.payload : 0, 2 * kLongest));
    EXPECT_FALSE(end.wire->is_asked_for(OneEnd::tag(FrameKind::kPiece, 0)));
  }
}

TEST(Framed, PiecesAreAsLongAsTheFrameSaid) {
  constexpr uint64_t kSaid = 700;
  constexpr size_t kPieces[] = {256, 256, 188};
  for (const uint64_t longest : {uint64_t{kSaid}, uint64_t{1000}})
    for (uint32_t wrong = 0; wrong <= std::size(kPieces); ++wrong)  // the last: none
      for (const int by : {-1, 1, 300}) {
        OneEnd end(0);
        Bytes memory = written(0, 2000);
        end.post_up_to(longest, memory.data());
        end.wire->arrive(OneEnd::tag(FrameKind::kFrame, 0), frame_of(kSaid, 0));
        EXPECT_EQ(end.poll().code, Code::kBusy);
        for (uint32_t i = 0; i < std::size(kPieces); ++i)
          end.wire->arrive(OneEnd::tag(FrameKind::kPiece, i),
                           Bytes(kPieces[i] + (i == wrong ? by : 0), std::byte{9}));
        EXPECT_FALSE(end.wire->is_asked_for(OneEnd::tag(FrameKind::kPiece, 3)));
        const Completion completion = end.poll();
        EXPECT_EQ(completion.code, wrong == std::size(kPieces) ? Code::kOk : Code::kCorrupt);
        EXPECT_EQ(completion.seen.bytes, kSaid);
        memory.erase(memory.begin(), memory.begin() + kSaid);
        EXPECT_EQ(memory, written(0, 2000 - kSaid));
      }
}

// Memory that nobody may touch, as that of a GPU is for the host.
class Forbidden {
 public:
  Forbidden() : pages_(::mmap(nullptr, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {}
  Forbidden(const Forbidden&) = delete;
  Forbidden& operator=(const Forbidden&) = delete;
  ~Forbidden() { ::munmap(pages_, kBytes); }
  std::byte* begin() const { return static_cast<std::byte*>(pages_); }

  static constexpr size_t kBytes = 4096;

 private:
  void* pages_;
};

Transfer in_gpu(Direction direction, uint64_t bytes, std::byte* memory) {
  Transfer transfer;
  transfer.direction = direction;
  transfer.peer = 1;
  transfer.envelope = {.epoch = kEpoch, .bytes = bytes, .signature = {}};
  transfer.memory = memory;
  transfer.kind = MemoryKind::kDevice;
  return transfer;
}

TEST(Framed, WhatIsInAGpuIsForTheWireAlone) {
  const Forbidden gpu;
  std::byte* const memory = gpu.begin();
  const std::vector<const std::byte*> pieces{memory, memory + 256, memory + 512};
  for (const Direction direction : {Direction::kSend, Direction::kRecv}) {
    OneEnd end(0);
    end.wire->reach_gpus();
    ASSERT_TRUE(end.transport->post(in_gpu(direction, 700, memory)).ok());
    if (direction == Direction::kRecv) {
      end.wire->arrive(OneEnd::tag(FrameKind::kFrame, 0), frame_of(700, 0));
      EXPECT_EQ(end.poll().code, Code::kBusy);
      EXPECT_EQ(end.wire->in_gpus(), pieces);
      for (uint32_t i = 0; i < 3; ++i)
        end.wire->end_receive(OneEnd::tag(FrameKind::kPiece, i), i < 2 ? 256 : 188);
    }
    EXPECT_EQ(end.poll().code, Code::kOk);
    EXPECT_EQ(end.wire->in_gpus(), pieces);
  }
}

TEST(Framed, WhatTheHostWouldTouchIsNotTakenFromAGpu) {
  const Forbidden gpu;
  OneEnd end(0);
  EXPECT_FALSE(end.transport->carries_from(MemoryKind::kDevice));
  EXPECT_FALSE(end.transport->post(in_gpu(Direction::kSend, 700, gpu.begin())).ok());
  end.wire->reach_gpus();
  EXPECT_EQ(end.transport->carries_from(MemoryKind::kDevice), 65u);
  EXPECT_EQ(end.transport->carries_from(MemoryKind::kHost), 0u);
  for (const Direction direction : {Direction::kSend, Direction::kRecv})
    EXPECT_FALSE(end.transport->post(in_gpu(direction, 64, gpu.begin())).ok());
  Transfer transfer = in_gpu(Direction::kRecv, 700, gpu.begin());
  transfer.up_to = true;
  EXPECT_FALSE(end.transport->post(transfer).ok());
  transfer.up_to = false;
  transfer.combine = [](void*, const void*, const void*, size_t) {};
  EXPECT_FALSE(end.transport->post(transfer).ok());
}

TEST(Framed, PiecesMakeUpAPayload) {
  constexpr uint64_t kMiB = 1 << 20;
  constexpr Pieces kPieces{.bytes = 256 << 10, .of_long = 384 << 10};
  for (const uint64_t payload : {uint64_t{1}, kMiB / 4, kMiB / 4 + 1, kMiB, kMiB + 1, 5 * kMiB}) {
    const size_t longest = payload > kMiB ? kPieces.of_long : kPieces.bytes;
    uint64_t offset = 0;
    uint32_t count = 0;
    for (; offset < payload; ++count) {
      const size_t bytes = kPieces.at(offset, payload);
      EXPECT_EQ(bytes, std::min<uint64_t>(longest, payload - offset))
          << offset << " of " << payload;
      offset += bytes;
    }
    EXPECT_EQ(offset, payload);
    EXPECT_EQ(count, kPieces.count(payload)) << payload;
  }
}

}  // namespace
}  // namespace banyan::test::framed_test
