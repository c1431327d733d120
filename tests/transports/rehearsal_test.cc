// Which way long messages take is measured among ranks that keep step, and not waited for.
// SPDX-License-Identifier: Apache-2.0

#include "transports/shm/rehearsal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <new>
#include <optional>
#include <thread>
#include <vector>

#include "src/base/clock.h"
#include "tests/support/sanitizers.h"

namespace banyan::shm::rehearsal_test {
namespace {

using testing::AnyOf;

TEST(Rehearsal, TheLengthFromWhichOnOneCopyIsNoSlower) {
  struct Case {
    std::vector<WayTimes> times;
    uint64_t least;
  };
  const Case cases[] = {
      {{}, 0},
      {{{16, 5, 4}, {64, 9, 8}}, 16},
      {{{16, 5, 5}, {64, 9, 9}}, 16},
      {{{16, 5, 6}, {64, 9, 8}, {256, 40, 20}}, 64},
      {{{16, 5, 4}, {64, 9, 10}, {256, 40, 20}}, 256},
      {{{16, 5, 4}, {64, 9, 8}, {256, 40, 41}}, 0},
  };
  for (const Case& row : cases) EXPECT_EQ(choose_afar_least(row.times), row.least);
  for (const Case& row : cases) {
    const bool near = row.least == 0 && !row.times.empty();
    EXPECT_EQ(choose_afar_least_of_collectives(row.times), near ? 1 << 20 : row.least);
  }
  EXPECT_EQ(choose_afar_least_of_collectives(std::vector<WayTimes>{{256, 40, 59}}), 1 << 20);
  EXPECT_EQ(choose_afar_least_of_collectives(std::vector<WayTimes>{{256, 40, 60}}), 0);
}

// Ranks of this process that have met.
class Host {
 public:
  explicit Host(const std::vector<int>& ranks, uint32_t slot_bytes = 0)
      : ranks_(ranks), members_(ranks.size()) {
    for (size_t i = 0; i < ranks.size(); ++i) {
      Member& member = members_[i];
      member.probe.resize(kProbeBytes);
      member.territory.layout = choose_layout(ranks.size() - 1);
      if (slot_bytes != 0) {
        member.territory.layout.slots = {8, 8};
        member.territory.layout.slot_bytes = {slot_bytes, slot_bytes};
      }
      const size_t bytes = member.territory.layout.segment_bytes();
      const auto memory = create_memory(bytes, Pages::kSparse);
      member.territory.segment =
          std::move(*Mapping::map(*memory, bytes, Mapping::Access::kReadWrite));
      auto* header = new (member.territory.segment.base()) SegmentHeader;
      header->facts.probe_address = reinterpret_cast<uintptr_t>(member.probe.data());
    }
    for (size_t i = 0; i < ranks.size(); ++i)
      for (size_t j = 0; j < ranks.size(); ++j)
        if (j != i) members_[i].peers.push_back(neighbour(i, j));
  }

  std::optional<Rehearsed> play(size_t i) {
    Member& member = members_[i];
    return rehearse(member.territory, member.peers, ranks_[i], member.probe);
  }

  void hide_memory(size_t of) {
    members_[of].territory.header().facts.probe_address = 8;  // nobody has anything there
  }

 private:
  struct Member {
    Territory territory;
    std::vector<std::byte> probe;
    std::vector<Neighbour> peers;
  };

  // Rank j as rank i sees it: peers are listed in the order of the ranks.
  Neighbour neighbour(size_t i, size_t j) {
    const Territory& territory = members_[j].territory;
    Neighbour peer;
    peer.rank = ranks_[j];
    peer.owner.pid = getpid();
    peer.reads_memory = true;
    peer.layout = territory.layout;
    peer.segment = territory.segment.base();
    peer.block = territory.block(i < j ? i : i - 1);
    return peer;
  }

  std::vector<int> ranks_;
  std::vector<Member> members_;
};

// All of them at once.
std::vector<std::optional<Rehearsed>> play_all(Host& host, size_t size) {
  std::vector<std::optional<Rehearsed>> results(size);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < size; ++i) threads.emplace_back([&, i] { results[i] = host.play(i); });
  for (std::thread& thread : threads) thread.join();
  return results;
}

TEST(Rehearsal, CopiesOverlapButForASlot) {
  EXPECT_EQ(overlapping_ns(100, 300, 32 << 10, 32 << 10), 400U);
  EXPECT_EQ(overlapping_ns(100, 300, 64 << 10, 32 << 10), 350U);
  EXPECT_EQ(overlapping_ns(800, 300, 320 << 10, 32 << 10), 830U);
  EXPECT_EQ(overlapping_ns(UINT64_MAX, 300, 64, 32), UINT64_MAX);  // not measured
}

// As on a Xeon: 256 KiB that were written are read in 21 us, and in 9 the next time.
TEST(Rehearsal, KnownMemoryCountsAsMuchAsFresh) {
  EXPECT_EQ(afar_ns(400, 100), 200U);
  const auto chosen = [](uint64_t first, uint64_t again) {
    const WayTimes message{.bytes = 256 << 10,
                           .slots_ns = overlapping_ns(12200, 13400, 256 << 10, 32 << 10),
                           .afar_ns = afar_ns(first, again)};
    return choose_afar_least(std::span(&message, 1));
  };
  EXPECT_EQ(chosen(21000, 9000), 256U << 10);
  EXPECT_EQ(chosen(21000, 21000), 0U);
}

// What predictions go by.
void expect_plausible(const MessageTimes& times) {
  EXPECT_GT(times.word_us, 0);
  EXPECT_LT(times.word_us, 50'000);
  ASSERT_FALSE(times.messages.empty());
  EXPECT_EQ(times.messages.back().bytes, kProbeBytes);
  uint64_t before = 0;
  for (const MessageTime& each : times.messages) {
    EXPECT_GT(each.bytes, before);
    before = each.bytes;
    for (const double us : {each.slots_us, each.first_us, each.again_us, each.write_us}) {
      EXPECT_GT(us, 1e-6 * static_cast<double>(each.bytes));  // a thousand GB/s
      EXPECT_LT(us, 50'000);                                  // what the ranks wait for each other
    }
  }
}

// Lengths that the choice may come to, of collectives and of messages between two.
void expect_possible(const AfarLeast& least) {
  const auto lane = [&](Lane which) { return least[static_cast<size_t>(which)]; };
  EXPECT_THAT(lane(Lane::kCollective), AnyOf(0, 32 << 10, 64 << 10, 256 << 10, 1 << 20));
  EXPECT_THAT(lane(Lane::kMessage), AnyOf(0, 16 << 10, 32 << 10, 64 << 10, 256 << 10));
}

// A machine may be too busy for ranks to keep step, but not every time, unless they are slowed down
// as the thread sanitizer does.
TEST(Rehearsal, RanksOfAHostComeToAResult) {
  constexpr int kTries = 100;
  for (const std::vector<int>& ranks :
       {std::vector<int>{0, 1}, {1, 7}, {0, 1, 2}, {3, 4, 8, 9, 11}}) {
    bool came = false;
    for (int tried = 0; !came && tried < kTries; ++tried) {
      Host host(ranks);
      for (const auto& result : play_all(host, ranks.size())) {
        if (!result) continue;
        came = true;
        expect_possible(result->least);
        expect_plausible(result->times);
      }
    }
    if (test::kThreadSanitizer && !came)
      GTEST_SKIP() << "this machine is too busy for ranks under the thread sanitizer to keep step";
    EXPECT_TRUE(came) << "ranks " << ranks.front() << " and others, " << ranks.size() << " in all";
  }
}

TEST(Rehearsal, NobodyWaitsForOneThatDoesNotCome) {
  Host host({0, 1, 2});
  const TimePoint begin = Clock::now();
  EXPECT_FALSE(host.play(0));
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(10));
  // Nor for one that has given up.
  EXPECT_FALSE(host.play(1));
  EXPECT_FALSE(host.play(2));
}

TEST(Rehearsal, GivesUpWhereMemoryIsNotToBeRead) {
  Host host({0, 1});
  host.hide_memory(1);
  const auto results = play_all(host, 2);
  EXPECT_FALSE(results[0]);
}

TEST(Rehearsal, SlotsThatHoldNoLongMessageSayNothing) {
  Host host({0, 1}, kSlotBytesLeast);
  for (const auto& result : play_all(host, 2)) EXPECT_FALSE(result);
}

TEST(Rehearsal, ARankAloneHasNothingToMeasure) {
  Host host({0});
  EXPECT_FALSE(host.play(0));
}

}  // namespace
}  // namespace banyan::shm::rehearsal_test
