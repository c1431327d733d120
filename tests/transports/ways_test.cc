// Which way long messages take: what a receiver makes of their costs, and how the sender hears.
// SPDX-License-Identifier: Apache-2.0

#include "transports/shm/ways.h"

#include <gtest/gtest.h>

#include <array>
#include <deque>
#include <optional>
#include <vector>

#include "tests/transports/slots.h"

namespace banyan::shm::ways_test {
namespace {

struct Costs {
  double slots, afar;  // ns of a byte
};
constexpr Costs kNear{0.13, 0.2};
constexpr Costs kApart{0.55, 0.25};

// A sender that hears three messages late what is wanted.
class Traffic {
 public:
  explicit Traffic(Way settled, bool measured = false) : settled_(settled), measured_(measured) {}

  // How many of them went through slots.
  int pass(int messages, const Costs& costs) {
    int by_slots = 0;
    for (int i = 0; i < messages; ++i) {
      const Way wanted = heard_.front() == Way::kUnknown ? settled_ : heard_.front();
      heard_.pop_front();
      by_slots += wanted == Way::kSlots ? 1 : 0;
      judge_.took(wanted, {settled_, measured_}, wanted == Way::kSlots ? costs.slots : costs.afar);
      heard_.push_back(judge_.wanted());
    }
    return by_slots;
  }

 private:
  Way settled_;
  bool measured_;
  WayJudge judge_;
  std::deque<Way> heard_{Way::kUnknown, Way::kUnknown, Way::kUnknown};
};

TEST(Ways, TheCheaperOneIsFoundWhateverWasSettled) {
  for (const Way settled : {Way::kSlots, Way::kAfar}) {
    Traffic near(settled);
    near.pass(64, kNear);
    EXPECT_GE(near.pass(64, kNear), 64);
    Traffic apart(settled);
    apart.pass(64, kApart);
    EXPECT_EQ(apart.pass(64, kApart), 0);
  }
}

TEST(Ways, WhatWasMeasuredIsTriedLater) {
  Traffic traffic(Way::kSlots, true);
  EXPECT_EQ(traffic.pass(WayJudge::kTryAgain, kApart), WayJudge::kTryAgain);
  traffic.pass(64, kApart);
  EXPECT_EQ(traffic.pass(64, kApart), 0);
}

// A few in a hundred find out, of the first ones; of thousands hardly any.
TEST(Ways, FewMessagesTakeTheDearOne) {
  Traffic traffic(Way::kSlots);
  EXPECT_GT(traffic.pass(1000, kNear), 900);
  EXPECT_GT(traffic.pass(20000, kNear), 19800);
}

TEST(Ways, TheyChangeWithWhatTheyCost) {
  Traffic traffic(Way::kSlots);
  traffic.pass(20000, kNear);
  for (int turn = 0; turn < 3; ++turn) {
    EXPECT_LT(traffic.pass(200, kApart), 120) << turn;
    EXPECT_LT(traffic.pass(128, kApart), 20) << turn << ", but for a try";
    // What reading from afar takes has changed little: only the next try tells.
    traffic.pass(WayJudge::kTrySeldom, kNear);
    EXPECT_GT(traffic.pass(128, kNear), 108) << turn << ", but for a try";
  }
}

TEST(Ways, AWaySlightlyCheaperIsNotWorthAChange) {
  Traffic traffic(Way::kSlots);
  traffic.pass(100, {1, 0.95});
  EXPECT_EQ(traffic.pass(20, {1, 0.95}), 20);
}

TEST(Ways, OneThatTakesLongForOnceIsForgiven) {
  Traffic traffic(Way::kAfar);
  traffic.pass(100, kApart);
  traffic.pass(1, {1e6, 1e6});
  EXPECT_EQ(traffic.pass(50, kApart), 0);
}

// A try of what is out of the question costs three messages, and those under way.
TEST(Ways, AHopelessTryEndsSoon) {
  const Costs costs{1, 10};
  Traffic traffic(Way::kSlots);
  const int by_slots = traffic.pass(64, costs);
  EXPECT_LT(by_slots, 64);
  EXPECT_GE(by_slots, 64 - (WayJudge::kTryLength - 4));
  EXPECT_EQ(traffic.pass(20, costs), 20);
}

// One that is dearer once the caches have settled need not go on to its end.
TEST(Ways, AVainTryEndsWithTheFirstThatCounts) {
  const Costs costs{1, 1.5};
  Traffic traffic(Way::kSlots);
  const int by_slots = traffic.pass(64, costs);
  constexpr int kUnderWay = 3;
  EXPECT_GE(by_slots, 64 - (WayJudge::kSettle + 1 + kUnderWay));
  EXPECT_LT(by_slots, 64 - WayJudge::kSettle);
}

// A sender that cannot or will not: the receiver goes on with what it gets.
TEST(Ways, ATryThatNobodyFollowsEnds) {
  WayJudge judge;
  int tries = 0;
  for (int i = 0; i < 2000; ++i) {
    judge.took(Way::kSlots, {Way::kSlots}, 1);
    tries += judge.wanted() == Way::kAfar ? 1 : 0;
  }
  EXPECT_GT(tries, 0);
  EXPECT_LT(tries, 2000 / 3);
  EXPECT_EQ(judge.wanted(), Way::kSlots);
}

TEST(Ways, AWordHoldsOneForEachKind) {
  uint64_t word = 0;
  const size_t sums = kind_of(Flow::kSums, 64 << 10);
  const size_t long_sums = kind_of(Flow::kSums, 512 << 10);
  const size_t far_sums = kind_of(Flow::kFarSums, uint64_t{1} << 40);
  word = with_way(word, sums, Way::kAfar);
  word = with_way(word, far_sums, Way::kSlots);
  EXPECT_EQ(way_in(word, sums), Way::kAfar);
  EXPECT_EQ(way_in(word, far_sums), Way::kSlots);
  EXPECT_EQ(way_in(word, long_sums), Way::kUnknown);
  EXPECT_EQ(way_in(with_way(word, sums, Way::kUnknown), sums), Way::kUnknown);
  EXPECT_EQ(way_in(UINT64_MAX, sums), Way::kUnknown) << "of a peer that writes anything";
}

TEST(Ways, AKindIsAFlowAndALength) {
  EXPECT_EQ(kind_of(Flow::kSums, 0), kind_of(Flow::kSums, 127 << 10));
  EXPECT_EQ(kind_of(Flow::kSums, 128 << 10), kind_of(Flow::kSums, 64 << 10) + 1);
  EXPECT_EQ(kind_of(Flow::kSums, 2 << 20), kind_of(Flow::kSums, UINT64_MAX));
  EXPECT_EQ(kind_of(Flow::kData, 0), 0U);
  EXPECT_LT(kind_of(Flow::kData, UINT64_MAX), kind_of(Flow::kTerms, 0));
  EXPECT_LT(kind_of(Flow::kTerms, UINT64_MAX), kind_of(Flow::kSums, 0));
  EXPECT_LT(kind_of(Flow::kFarSums, UINT64_MAX), kKindCount);
}

constexpr uint32_t kBytes = 64 << 10;
constexpr size_t kSums = kind_of(Flow::kSums, kBytes);

// Gives the usage of a message of that flow, of which sums prefer slots.
Usage usage_of(Flow flow) {
  const bool sums = flow != Flow::kData;
  return {.output_bytes = kBytes,
          .caller_bytes = flow == Flow::kAny ? 0 : kBytes,
          .sums = sums,
          .given = flow == Flow::kTerms};
}

Transfer message_of(Flow flow, std::vector<std::byte>& memory, Direction direction) {
  Transfer transfer;
  transfer.direction = direction;
  transfer.envelope = {.call = 1, .epoch = test::Slots::kEpoch, .bytes = kBytes, .signature = {}};
  transfer.memory = memory.data();
  transfer.usage = usage_of(flow);
  return transfer;
}

TEST(Ways, ASenderGoesByWhatItsPeerWants) {
  struct Case {
    Flow flow;
    Way wanted;
    SlotKind kind;
  };
  // The peer reads from afar what is no part of a sum.
  const Case cases[] = {{Flow::kSums, Way::kAfar, SlotKind::kMemory},
                        {Flow::kSums, Way::kUnknown, SlotKind::kFragment},
                        {Flow::kData, Way::kSlots, SlotKind::kFragment},
                        {Flow::kData, Way::kUnknown, SlotKind::kMemory},
                        {Flow::kAny, Way::kAfar, SlotKind::kFragment}};
  for (const Case& row : cases) {
    test::Slots slots(kBytes);
    slots.abilities.afar_least[0] = kBytes;
    const Flow weighed = row.flow == Flow::kAny ? Flow::kData : row.flow;
    slots.abilities.wanted = with_way(0, kind_of(weighed, kBytes), row.wanted);
    SendPort port(slots.channel());
    Completions completions;
    std::vector<std::byte> memory(kBytes);
    port.push(message_of(row.flow, memory, Direction::kSend));
    port.progress(completions);
    EXPECT_EQ(unpack(slots.lines[0].word).kind, row.kind)
        << static_cast<int>(row.flow) << ", " << static_cast<int>(row.wanted);
  }
}

// A channel whose receiver weighs ways. One message after the other.
class Weighed {
 public:
  explicit Weighed(const Word* led = nullptr) : send_(slots_.channel()) {
    RecvPort::Channel channel = slots_.other_end();
    channel.wanted = &slots_.abilities.wanted;
    channel.led = led;
    receive_ = RecvPort(channel);
  }

  // One, whose first line gets `said` into a word of its payload on its way.
  void pass(Flow sent, Flow expected, size_t word = 0, std::optional<uint64_t> said = {}) {
    Completions completions;
    send_.push(message_of(sent, source_, Direction::kSend));
    send_.progress(completions);
    if (said) slots_.lines[passed_ % slots_.lines.size()].payload[word] = *said;
    receive_.push(message_of(expected, target_, Direction::kRecv));
    receive_.progress(completions, {});
    EXPECT_EQ(completions.size(), 2U);
    EXPECT_EQ(target_, source_);
    ++passed_;
  }
  // One that is shorter than its receiver knows, at once, in a line where an earlier message has
  // left what it preferred.
  void pass_short(const Preference& left) {
    constexpr uint64_t kShort = 1000;
    slots_.lines[passed_ % slots_.lines.size()].payload[1] = pack(left);
    Transfer receive = message_of(left.flow, target_, Direction::kRecv);
    Envelope sent = receive.envelope;
    sent.bytes = kShort;
    ASSERT_EQ(send_.send_whole(source_.data(), sent), SendPort::Whole::kSent);
    receive.up_to = true;
    receive_.push(receive);
    Completions completions;
    receive_.progress(completions, {});
    ASSERT_EQ(completions.size(), 1U);
    EXPECT_EQ(completions.front().seen, sent);
    EXPECT_TRUE(std::equal(source_.begin(), source_.begin() + kShort, target_.begin()));
    ++passed_;
  }
  uint64_t wanted() const { return slots_.abilities.wanted; }
  Way wanted_of_sums() const { return way_in(wanted(), kSums); }

 private:
  test::Slots slots_{kBytes};
  SendPort send_;
  RecvPort receive_;
  std::vector<std::byte> source_ = std::vector<std::byte>(kBytes, std::byte{7});
  std::vector<std::byte> target_ = std::vector<std::byte>(kBytes);
  size_t passed_ = 0;
};

// What the sender says of its time may be anything.
TEST(Ways, AReceiverAsksForATryAfterSomeMessages) {
  for (const Flow flow : {Flow::kSums, Flow::kAny}) {
    for (const uint64_t said : {uint64_t{0}, UINT64_MAX}) {
      Weighed channel;
      for (int i = 0; i < WayJudge::kTryFirst; ++i) {
        EXPECT_NE(channel.wanted_of_sums(), Way::kAfar) << i;
        channel.pass(flow, flow, 0, said);
      }
      EXPECT_EQ(channel.wanted_of_sums(), flow == Flow::kSums ? Way::kAfar : Way::kUnknown);
    }
  }
}

// A receiver does not know whether its peer sends terms or sums.
TEST(Ways, TheSendersFlowCounts) {
  Weighed channel;
  channel.pass(Flow::kTerms, Flow::kSums, 1, UINT64_MAX);
  EXPECT_EQ(channel.wanted(), 0U) << "of a peer that writes anything";
  channel.pass(Flow::kTerms, Flow::kSums);
  EXPECT_EQ(channel.wanted(), with_way(0, kind_of(Flow::kTerms, kBytes), Way::kSlots));
}

TEST(Ways, AMessageThatTurnsOutToBeShortIsNotWeighed) {
  Weighed channel;
  channel.pass_short({.flow = Flow::kSums, .slots = true});
  EXPECT_EQ(channel.wanted(), 0U);
}

// Two that go different ways may each find that its own is the better one.
TEST(Ways, OneThatIsLedWantsWhatItsPeerWants) {
  Word wanted_by_peer = 0;
  Weighed channel(&wanted_by_peer);
  const auto pass = [&] {
    channel.pass(Flow::kSums, Flow::kSums);
    return channel.wanted_of_sums();
  };
  EXPECT_EQ(pass(), Way::kSlots) << "the peer has not said anything";
  for (int i = 0; i < 2 * WayJudge::kTryFirst; ++i) {
    wanted_by_peer = with_way(0, kSums, Way::kSlots);
    EXPECT_EQ(pass(), Way::kSlots) << i << ": no try of ours";
  }
  wanted_by_peer = with_way(0, kSums, Way::kAfar);
  EXPECT_EQ(pass(), Way::kAfar);
}

}  // namespace
}  // namespace banyan::shm::ways_test
