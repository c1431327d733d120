// The transport over a wire of tagged messages is on a wire here that says how often it was turned.
// SPDX-License-Identifier: Apache-2.0

#include "transports/framed/framed.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "tests/transports/wiring.h"

namespace banyan::test {
namespace {

// Sends are done after so many turns; nothing ever comes.
class SlowWire final : public Wire {
 public:
  explicit SlowWire(int turns_of_a_send) : turns_of_a_send_(turns_of_a_send) {}
  int turns() const { return turns_; }

  void send(int /*peer*/, uint64_t /*tag*/, const std::byte* /*memory*/, size_t /*bytes*/,
            WireOperation& operation) override {
    operation = {};
    operation.state = WireOperation::State::kPending;
    sends_.push_back({&operation, turns_ + turns_of_a_send_});
    end_sends();
  }
  void receive(uint64_t /*tag*/, std::byte* /*memory*/, size_t /*bytes*/,
               WireOperation& operation) override {
    operation = {};
    operation.state = WireOperation::State::kPending;
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

  bool end_sends() {
    return std::erase_if(sends_, [&](const Send& send) {
             if (send.done_at > turns_) return false;
             send.operation->state = WireOperation::State::kDone;
             return true;
           }) > 0;
  }

  int turns_of_a_send_;
  int turns_ = 0;
  std::vector<Send> sends_;
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

  std::byte payload[4]{};
};

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
}  // namespace banyan::test
