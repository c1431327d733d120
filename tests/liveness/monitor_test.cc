// Ranks tell each other about failures: frames that are forged, repeated, cut or reordered are
// recognised, and what comes over the links becomes a verdict.
// SPDX-License-Identifier: Apache-2.0

#include "src/liveness/monitor.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <functional>
#include <random>

namespace banyan::monitor_test {
namespace {

Key key_of(int seed) {
  Key key{};
  for (size_t i = 0; i < key.size(); ++i) key[i] = static_cast<std::byte>(seed * 31 + i);
  return key;
}

LinkFrame final_frame(int rank, const std::string& text) {
  return {LinkFrameType::kFinal, {Code::kPeerLost, rank, text}};
}

TEST(LinkFrame, ComesBackAsItWas) {
  const Key key = key_of(1);
  for (const LinkFrameType type : {LinkFrameType::kPropose, LinkFrameType::kFinal})
    for (const Code code : {Code::kMismatch, Code::kTimeout, Code::kPeerLost, Code::kCorrupt})
      for (const int rank : {-1, 0, 6}) {
        const LinkFrame frame{type, {code, rank, "rank 6 is lost", 0xfedcba98}};
        const auto back = decode_frame(encode_frame(frame, key, 9), key, 9, 7);
        ASSERT_TRUE(back.has_value());
        EXPECT_EQ(back->type, type);
        EXPECT_EQ(back->verdict.code, code);
        EXPECT_EQ(back->verdict.failed_rank, rank);
        EXPECT_EQ(back->verdict.text, frame.verdict.text);
        EXPECT_EQ(back->verdict.spares_calls_before, 0xfedcba98);
      }
  const auto goodbye = decode_frame(encode_frame({LinkFrameType::kGoodbye, {}}, key, 0), key, 0, 2);
  ASSERT_TRUE(goodbye.has_value());
  EXPECT_EQ(goodbye->type, LinkFrameType::kGoodbye);
}

TEST(LinkFrame, CutsALongText) {
  const Key key = key_of(1);
  const auto back =
      decode_frame(encode_frame(final_frame(1, std::string(9000, 'y')), key, 0), key, 0, 2);
  ASSERT_TRUE(back.has_value());
  EXPECT_GT(back->verdict.text.size(), 200u);
  EXPECT_EQ(back->verdict.text, std::string(back->verdict.text.size(), 'y'));
}

TEST(LinkFrame, ShowsNothingThatDrivesATerminal) {
  const Key key = key_of(1);
  const auto back = decode_frame(encode_frame(final_frame(1, "a\n\x1b[31mb"), key, 0), key, 0, 2);
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(back->verdict.text, "a  [31mb");
}

TEST(LinkFrame, WithAnyBitChangedIsNotAuthentic) {
  const Key key = key_of(2);
  const FrameBytes good = encode_frame(final_frame(2, "rank 2 is lost"), key, 5);
  ASSERT_TRUE(decode_frame(good, key, 5, 4).has_value());
  for (size_t bit = 0; bit < good.size() * 8; ++bit) {
    FrameBytes bad = good;
    bad[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    ASSERT_FALSE(decode_frame(bad, key, 5, 4).has_value()) << "bit " << bit;
  }
}

TEST(LinkFrame, OfAnotherMomentLinkDirectionOrCommunicatorIsNotAuthentic) {
  const Key key = key_of(3);
  const Key there = link_key(key, 0, 1);
  const FrameBytes frame = encode_frame(final_frame(2, "x"), there, 5);
  ASSERT_TRUE(decode_frame(frame, there, 5, 4).has_value());
  EXPECT_FALSE(decode_frame(frame, there, 4, 4).has_value()) << "too early";
  EXPECT_FALSE(decode_frame(frame, there, 6, 4).has_value()) << "repeated";
  EXPECT_FALSE(decode_frame(frame, link_key(key, 1, 0), 5, 4).has_value()) << "sent back";
  EXPECT_FALSE(decode_frame(frame, link_key(key, 0, 2), 5, 4).has_value()) << "of another link";
  EXPECT_FALSE(decode_frame(frame, link_key(key_of(4), 0, 1), 5, 4).has_value());
}

// Authentic, but from a peer that is not to be believed.
TEST(LinkFrame, WithImpossibleContentIsRefused) {
  const Key key = key_of(5);
  const auto accepted = [&](const LinkFrame& frame, int ranks) {
    return decode_frame(encode_frame(frame, key, 0), key, 0, ranks).has_value();
  };
  EXPECT_TRUE(accepted(final_frame(3, ""), 4));
  EXPECT_FALSE(accepted(final_frame(4, ""), 4));
  EXPECT_FALSE(accepted(final_frame(-2, ""), 4));
  EXPECT_FALSE(accepted({LinkFrameType::kFinal, {Code::kOk, 1, ""}}, 4))
      << "a failure that is none";
  EXPECT_FALSE(accepted({LinkFrameType::kFinal, {Code::kBusy, 1, ""}}, 4));
  EXPECT_FALSE(accepted({LinkFrameType::kFinal, {static_cast<Code>(77), 1, ""}}, 4));
  EXPECT_FALSE(accepted({static_cast<LinkFrameType>(0), {Code::kPeerLost, 1, ""}}, 4));
  EXPECT_FALSE(accepted({static_cast<LinkFrameType>(4), {Code::kPeerLost, 1, ""}}, 4));
}

TEST(LinkFrame, OfNoiseIsRefused) {
  std::mt19937 random(7);
  const Key key = key_of(6);
  for (int round = 0; round < 200; ++round) {
    FrameBytes noise{};
    for (std::byte& byte : noise) byte = static_cast<std::byte>(random());
    ASSERT_FALSE(decode_frame(noise, key, 0, 4).has_value());
  }
}

// `hosts[r]`: on which host rank r claims to be; ranks of one host share a board.
class Ranks {
 public:
  explicit Ranks(const std::vector<int>& hosts) {
    const auto size = static_cast<int>(hosts.size());
    links_.resize(hosts.size());
    for (int rank = 0; rank < size; ++rank) {
      Links& links = at(rank);
      links.rank = rank;
      links.size = size;
      links.key = key_of(8);
      links.peers.resize(hosts.size());
      links.sockets.resize(hosts.size());
      for (size_t peer = 0; peer < hosts.size(); ++peer)
        links.peers[peer].same_host = hosts[peer] == hosts[static_cast<size_t>(rank)];
      for (int peer = 0; peer < rank; ++peer) {
        int ends[2] = {-1, -1};
        EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
        at(rank).sockets[static_cast<size_t>(peer)] = Descriptor(ends[0]);
        at(peer).sockets[static_cast<size_t>(rank)] = Descriptor(ends[1]);
      }
    }
    for (int rank = 0; rank < size; ++rank) {
      failures_.push_back(std::make_unique<Failure>(board_of(hosts, rank)));
      monitors_.push_back(std::make_unique<Monitor>(at(rank), *failures_.back(), log_));
    }
  }

  Links& at(int rank) { return links_[static_cast<size_t>(rank)]; }
  Failure& failure(int rank) { return *failures_[static_cast<size_t>(rank)]; }
  Monitor& monitor(int rank) { return *monitors_[static_cast<size_t>(rank)]; }

  // Until nobody has anything to read; ranks in `deaf` do not read.
  void settle(const std::vector<int>& deaf = {}) {
    for (int quiet = 0; quiet < 2;) {
      bool any = false;
      for (int rank = 0; rank < static_cast<int>(monitors_.size()); ++rank) {
        if (std::count(deaf.begin(), deaf.end(), rank) != 0) continue;
        std::vector<pollfd> descriptors;
        monitor(rank).add_to(descriptors);
        if (poll(descriptors.data(), descriptors.size(), 0) <= 0) continue;
        any = true;
        monitor(rank).handle(descriptors);
      }
      quiet = any ? 0 : quiet + 1;
    }
  }
  void settle_one(int rank) {
    std::vector<pollfd> descriptors;
    monitor(rank).add_to(descriptors);
    if (poll(descriptors.data(), descriptors.size(), 0) > 0) monitor(rank).handle(descriptors);
  }
  // What a process wrote before it ended.
  void say(int from, int to, const LinkFrame& frame, uint64_t counter) {
    const FrameBytes bytes = encode_frame(frame, link_key(at(from).key, from, to), counter);
    EXPECT_EQ(send(at(from).sockets[static_cast<size_t>(to)].get(), bytes.data(), bytes.size(), 0),
              static_cast<ssize_t>(bytes.size()));
  }
  // A process that ends: its sockets are closed.
  void die(int rank) {
    for (Descriptor& socket : at(rank).sockets) socket.close();
  }

 private:
  VerdictBoard board_of(const std::vector<int>& hosts, int rank) {
    const auto own = static_cast<size_t>(rank);
    const auto first = std::find(hosts.begin(), hosts.end(), hosts[own]) - hosts.begin();
    const auto ranks = static_cast<int>(hosts.size());
    Result<VerdictBoard> board =
        first == rank
            ? VerdictBoard::create(ranks)
            : VerdictBoard::attach(failures_[static_cast<size_t>(first)]->board().memory(), ranks);
    EXPECT_TRUE(board.ok()) << board.status().message();
    return std::move(*board);
  }

  Log log_;
  std::vector<Links> links_;
  std::vector<std::unique_ptr<Failure>> failures_;
  std::vector<std::unique_ptr<Monitor>> monitors_;
};

const std::vector<std::vector<int>> placements = {{0, 0, 0, 0}, {0, 1, 2, 3}, {0, 0, 1, 1}};

TEST(Monitor, TellsTheSameDeathToAll) {
  for (const auto& hosts : placements)
    for (int victim = 0; victim < 4; ++victim) {
      Ranks ranks(hosts);
      ranks.die(victim);
      ranks.settle({victim});
      for (int rank = 0; rank < 4; ++rank) {
        if (rank == victim) continue;
        EXPECT_EQ(ranks.failure(rank).status().code(), Code::kPeerLost);
        EXPECT_EQ(ranks.failure(rank).verdict().failed_rank, victim);
      }
    }
}

TEST(Monitor, DoesNotTakeALeaverForDead) {
  for (const auto& hosts : placements) {
    Ranks ranks(hosts);
    for (const int leaver : {2, 0, 1}) {
      ranks.monitor(leaver).say_goodbye();
      ranks.die(leaver);
      ranks.settle({0, 1, 2});
    }
    EXPECT_TRUE(ranks.failure(3).status().ok()) << ranks.failure(3).status().message();
  }
}

TEST(Monitor, SaysAbortedHereAndPeerLostElsewhere) {
  for (const auto& hosts : placements)
    for (int aborter = 0; aborter < 4; ++aborter) {
      Ranks ranks(hosts);
      ranks.monitor(aborter).abort();
      ranks.monitor(aborter).abort();
      ranks.settle();
      EXPECT_EQ(ranks.failure(aborter).status().code(), Code::kAborted);
      for (int rank = 0; rank < 4; ++rank) {
        if (rank == aborter) continue;
        EXPECT_EQ(ranks.failure(rank).status().code(), Code::kPeerLost)
            << "rank " << rank << ", aborted by " << aborter << ", hosts " << hosts[1] << hosts[2];
        EXPECT_EQ(ranks.failure(rank).verdict().failed_rank, aborter);
      }
    }
}

// On each placement, for each two ranks.
void for_each_pair(const std::function<void(Ranks&, int first, int second)>& visit) {
  for (const auto& hosts : placements)
    for (int first = 0; first < 4; ++first)
      for (int second = 0; second < 4; ++second) {
        if (first == second) continue;
        SCOPED_TRACE(testing::Message() << first << " and " << second << ", hosts " << hosts[1]
                                        << hosts[2] << hosts[3]);
        Ranks ranks(hosts);
        visit(ranks, first, second);
      }
}

// An abort is one report among others: whoever shares a host with it waits for the same decider.
TEST(Monitor, MakesOneVerdictOfAReportAndAnAbort) {
  for_each_pair([](Ranks& ranks, int reporter, int aborter) {
    ranks.monitor(reporter).report({Code::kMismatch, -1, "count differs"});
    ranks.monitor(aborter).abort();
    ranks.settle();
    EXPECT_EQ(ranks.failure(aborter).status().code(), Code::kAborted);
    for (int rank = 0; rank < 4; ++rank) {
      if (rank == aborter) continue;
      EXPECT_EQ(ranks.failure(rank).status().message(), ranks.failure(reporter).status().message())
          << "rank " << rank;
    }
  });
}

// A rank that leaves after it reported a mismatch is no lost peer.
TEST(Monitor, LetsAMismatchWinOverTheDeathThatFollows) {
  for (const auto& hosts : placements)
    for (int reporter = 0; reporter < 4; ++reporter) {
      Ranks ranks(hosts);
      ranks.monitor(reporter).report({Code::kMismatch, -1, "count differs"});
      ranks.settle();
      ranks.die(reporter);
      ranks.settle({reporter});
      for (int rank = 0; rank < 4; ++rank) {
        EXPECT_EQ(ranks.failure(rank).status().code(), Code::kMismatch);
        EXPECT_EQ(ranks.failure(rank).status().message(), "count differs");
      }
    }
}

// Two find something at the same time: everybody ends with the same one of the two.
TEST(Monitor, MakesOneVerdictOfTwoReports) {
  for_each_pair([](Ranks& ranks, int first, int second) {
    ranks.monitor(first).report({Code::kMismatch, -1, "first"});
    ranks.monitor(second).report({Code::kTimeout, 2, "second"});
    ranks.settle();
    for (int rank = 1; rank < 4; ++rank)
      EXPECT_EQ(ranks.failure(rank).status().message(), ranks.failure(0).status().message())
          << "rank " << rank;
    EXPECT_TRUE(ranks.failure(0).failed());
  });
}

// Rank 0 decides and dies before it has told all; then rank 1, who has told as many, may die, too.
TEST(Monitor, KeepsTheVerdictOfADeciderThatDiedWhileTelling) {
  std::mt19937 random(9);
  for (const auto& hosts : {placements[1], placements[2], {0, 1, 1, 0}})
    for (unsigned told = 0; told < 8; ++told)
      for (int round = 0; round < 40; ++round) {
        Ranks ranks(hosts);
        const bool reports = round % 3 == 0;
        if (reports) ranks.monitor(3).report({Code::kTimeout, 2, "another"});
        for (int rank = 1; rank < 4; ++rank)
          if ((told >> (rank - 1) & 1) != 0)
            ranks.say(0, rank, {LinkFrameType::kFinal, {Code::kMismatch, -1, "the first"}}, 0);
        ranks.die(0);
        const bool second_death = round % 4 == 3;
        for (int turn = 0; turn < 6; ++turn) ranks.settle_one(1 + static_cast<int>(random() % 3));
        if (second_death) ranks.die(1);
        ranks.settle({0, second_death ? 1 : 0});
        const std::string text(ranks.failure(3).status().message());
        EXPECT_TRUE(ranks.failure(3).failed());
        EXPECT_EQ(ranks.failure(2).status().message(), text) << told << ", round " << round;
        if (!second_death) {
          EXPECT_EQ(ranks.failure(1).status().message(), text) << told << ", round " << round;
        }
        if ((told & 6) != 0) {
          EXPECT_EQ(text, "the first") << told << ", round " << round;
        }
      }
}

TEST(Monitor, DecidesWithoutARankThatSaysNothing) {
  Ranks ranks({0, 1, 2, 3});
  ranks.die(0);
  ranks.settle({0, 2});
  EXPECT_FALSE(ranks.failure(1).failed()) << "rank 2 may have the verdict of rank 0";
  ranks.monitor(1).lose_patience(Clock::now());
  EXPECT_FALSE(ranks.failure(1).failed());
  ranks.monitor(1).lose_patience(ranks.monitor(1).patience_ends());
  ranks.settle({0});
  for (int rank = 1; rank < 4; ++rank)
    EXPECT_EQ(ranks.failure(rank).verdict().failed_rank, 0) << rank;
}

// As serving threads do in the end; `deaf` ones do nothing.
void lose_patience(Ranks& ranks, const std::vector<int>& deaf) {
  for (int rank = 0; rank < 4; ++rank)
    if (std::count(deaf.begin(), deaf.end(), rank) == 0)
      ranks.monitor(rank).lose_patience(ranks.monitor(rank).patience_ends());
  ranks.settle(deaf);
}

// Frozen, not dead: its links stay open. Every rank has something else to report.
TEST(Monitor, PassesByWhoeverShouldDecideAndIsSilent) {
  for (const auto& hosts : {placements[1], placements[2]})
    for (const std::vector<int>& deaf : {std::vector{0}, {0, 1}, {1}}) {
      Ranks ranks(hosts);
      for (int rank = 0; rank < 4; ++rank)
        if (std::count(deaf.begin(), deaf.end(), rank) == 0)
          ranks.monitor(rank).report(
              {Code::kTimeout, deaf[0], "rank " + std::to_string(rank) + " timed out"});
      ranks.settle(deaf);
      for (size_t turn = 0; turn < 2 * deaf.size(); ++turn) lose_patience(ranks, deaf);
      for (int rank = 2; rank < 4; ++rank) {
        EXPECT_EQ(ranks.failure(rank).status().code(), Code::kTimeout) << rank;
        EXPECT_EQ(ranks.failure(rank).status().message(), ranks.failure(2).status().message())
            << "rank " << rank << ", hosts " << hosts[1] << hosts[2] << ", silent " << deaf.size();
      }
      // They look again, late.
      ranks.settle();
      EXPECT_TRUE(ranks.failure(deaf[0]).failed());
    }
}

// Only one rank has anything to report: the next one hears of it.
TEST(Monitor, AsksTheNextWhereTheFirstIsSilent) {
  Ranks ranks({0, 1, 2, 3});
  EXPECT_TRUE(ranks.monitor(3).report({Code::kTimeout, 0, "late"}));
  EXPECT_FALSE(ranks.monitor(3).report({Code::kTimeout, 0, "later"}));
  ranks.settle({0});
  EXPECT_EQ(ranks.monitor(1).patience_ends(), TimePoint::max());
  ranks.monitor(3).lose_patience(ranks.monitor(3).patience_ends());
  ranks.settle({0});
  EXPECT_FALSE(ranks.failure(1).failed()) << "it, too, asks rank 0 first";
  for (int turn = 0; turn < 2; ++turn)
    ranks.monitor(1).lose_patience(ranks.monitor(1).patience_ends());
  ranks.settle({0});
  for (int rank = 1; rank < 4; ++rank)
    EXPECT_EQ(ranks.failure(rank).status().message(), "late") << rank;
}

// A peer that sends what is not authentic is lost, and nothing that it says is believed.
TEST(Monitor, CutsOffWhoSendsNoise) {
  Ranks ranks({0, 0});
  std::byte noise[kFrameBytes] = {};
  ASSERT_EQ(send(ranks.at(1).sockets[0].get(), noise, sizeof noise, 0),
            static_cast<ssize_t>(sizeof noise));
  ranks.settle({1});
  EXPECT_EQ(ranks.failure(0).status().code(), Code::kPeerLost);
  EXPECT_EQ(ranks.failure(0).verdict().failed_rank, 1);
}

TEST(Monitor, WaitsForTheRestOfAFrame) {
  Ranks ranks({0, 1});
  const Key key = link_key(key_of(8), 1, 0);
  const FrameBytes frame = encode_frame(final_frame(1, "in pieces"), key, 0);
  for (size_t from = 0; from < frame.size();) {
    EXPECT_TRUE(ranks.failure(0).status().ok());
    const size_t part = std::min<size_t>(100, frame.size() - from);
    ASSERT_EQ(send(ranks.at(1).sockets[0].get(), frame.data() + from, part, 0),
              static_cast<ssize_t>(part));
    ranks.settle({1});
    from += part;
  }
  EXPECT_EQ(ranks.failure(0).status().message(), "in pieces");
}

TEST(Monitor, RefusesARepeatedFrame) {
  Ranks ranks({0, 1});
  const FrameBytes goodbye =
      encode_frame({LinkFrameType::kGoodbye, {}}, link_key(key_of(8), 1, 0), 0);
  for (int time = 0; time < 2; ++time)
    ASSERT_EQ(send(ranks.at(1).sockets[0].get(), goodbye.data(), goodbye.size(), 0),
              static_cast<ssize_t>(goodbye.size()));
  ranks.settle({1});
  ranks.die(1);
  ranks.settle({1});
  std::vector<pollfd> open;
  ranks.monitor(0).add_to(open);
  EXPECT_TRUE(open.empty()) << "the link stays open after a repeated frame";
}

}  // namespace
}  // namespace banyan::monitor_test
