// Ranks that meet: as they should, with ranks missing, twice there or gone.
// SPDX-License-Identifier: Apache-2.0

#include "src/bootstrap/rendezvous.h"

#include <fmt/core.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>

#include "src/bootstrap/frame_socket.h"
#include "src/bootstrap/handshake_dial.h"
#include "src/bootstrap/rendezvous_roll.h"
#include "src/bootstrap/rendezvous_socket.h"
#include "tests/support/few_descriptors.h"
#include "tests/support/rendezvous_place.h"
#include "tests/support/sanitizers.h"

namespace banyan::rendezvous_test {
namespace {

using std::chrono::milliseconds;

TEST(Rendezvous, BringsRanksTogether) {
  for (const int size : {1, 2, 3, 5, 9, 16}) {
    const Place place;
    std::vector<Key> keys(static_cast<size_t>(size));
    together(size, [&](int rank) {
      const auto exchange = place.join(rank, size);
      ASSERT_TRUE(exchange.ok()) << exchange.status().message();
      EXPECT_EQ((*exchange)->rank(), rank);
      EXPECT_EQ((*exchange)->size(), size);
      keys[static_cast<size_t>(rank)] = (*exchange)->key().value_or(Key{});
      converse(**exchange);
    });
    for (const Key& key : keys) EXPECT_EQ(key, keys[0]);
    EXPECT_NE(keys[0], place.key);
    EXPECT_NE(keys[0], Key{});
    EXPECT_FALSE(listens(place.address));
  }
}

TEST(Rendezvous, OneIdServesOneInit) {
  const Place place;
  together(3, [&place](int rank) { EXPECT_TRUE(place.join(rank, 3).ok()); });
  const auto again = place.join(0, 3);
  EXPECT_EQ(again.status().code(), Code::kInvalidUsage);
  EXPECT_TRUE(has(again.status(), "unique id")) << again.status().message();
}

TEST(Rendezvous, UnusedItCloses) {
  const Place place(0.05);
  const TimePoint limit = deadline_after(5);
  while (listens(place.address) && Clock::now() < limit) std::this_thread::yield();
  EXPECT_EQ(place.join(0, 2).status().code(), Code::kInvalidUsage);
}

TEST(Rendezvous, RanksMayComeFirst) {
  // Nothing listens yet, on either of two candidates.
  const auto free_port = listen_at(loopback(), {});
  const Address address = free_port->address;
  const Address other = listen_at(loopback(), {})->address;
  const Key key = *random_key();
  ::shutdown(free_port->socket.get(), SHUT_RDWR);
  std::atomic<int> tried{0};
  together(3, [&](int rank) {
    if (rank == 0) {
      while (tried < 2) std::this_thread::yield();
      ASSERT_TRUE(open_rendezvous({address, {}, key, deadline_after(20)}, silent()).ok());
    }
    ++tried;
    const auto exchange = join_rendezvous({.rank = rank,
                                           .size = 3,
                                           .candidates = {other, address},
                                           .must_listen = false,
                                           .key = key,
                                           .deadline = deadline_after(20)},
                                          silent());
    ASSERT_TRUE(exchange.ok()) << exchange.status().message();
    converse(**exchange);
  });
}

TEST(Rendezvous, PassesByAListenerThatNeverAnswers) {
  const Place place;
  const auto stranger = listen_at(loopback(), {});  // accepts nothing, as a store that is busy
  together(2, [&](int rank) {
    const auto exchange = join_rendezvous({.rank = rank,
                                           .size = 2,
                                           .candidates = {stranger->address, place.address},
                                           .must_listen = false,
                                           .key = place.key,
                                           .deadline = deadline_after(20)},
                                          silent());
    EXPECT_TRUE(exchange.ok()) << exchange.status().message();
  });
}

TEST(Rendezvous, PortsComeFromTheRange) {
  const auto taken = listen_at(loopback(), {});
  const uint16_t first = std::min<uint16_t>(taken->address.port, 65500);
  const PortRange range{first, static_cast<uint16_t>(first + 30)};
  const Place place(20, range);
  EXPECT_GT(place.address.port, first);
  EXPECT_LE(place.address.port, range.last);
  const PortRange full{taken->address.port, taken->address.port};
  const auto none = open_rendezvous({loopback(), full, Key{}, deadline_after(1)}, silent());
  EXPECT_EQ(none.status().code(), Code::kSystem);
  EXPECT_TRUE(has(none.status(), "BANYAN_PORT_RANGE"));
  const auto same = open_rendezvous({taken->address, {}, Key{}, deadline_after(1)}, silent());
  EXPECT_EQ(same.status().code(), Code::kBusy)
      << "the one port that was asked for may be free soon";
}

TEST(Rendezvous, NeverListensEverywhere) {
  Address anywhere;
  EXPECT_EQ(open_rendezvous({anywhere, {}, Key{}, deadline_after(1)}, silent()).status().code(),
            Code::kInvalidArgument);
  anywhere.v6 = true;
  EXPECT_EQ(open_rendezvous({anywhere, {}, Key{}, deadline_after(1)}, silent()).status().code(),
            Code::kInvalidArgument);
  Address elsewhere;
  elsewhere.ip = {192, 0, 2, 1};  // a documentation address, of no host
  elsewhere.port = 4711;
  const auto refused = open_rendezvous({elsewhere, {}, Key{}, deadline_after(1)}, silent());
  EXPECT_EQ(refused.status().code(), Code::kSystem);
  EXPECT_TRUE(has(refused.status(), "192.0.2.1:4711"));
}

TEST(Rendezvous, NamesRanksThatHaveNotArrived) {
  const Place place;
  const auto begin = Clock::now();
  together(7, [&place](int i) {
    const int rank = i < 5 ? i : i + 1 + (i > 5);  // not 5 and 7
    const auto exchange = place.join(rank, 9, 0.3);
    EXPECT_EQ(exchange.status().code(), Code::kTimeout);
    EXPECT_TRUE(has(exchange.status(), "ranks 5 and 7 of 9 have not arrived"))
        << exchange.status().message();
  });
  EXPECT_GE(Clock::now() - begin, milliseconds(290));
  EXPECT_LT(Clock::now() - begin, milliseconds(2000));
  // And who comes later is told the same.
  const auto late = place.join(7, 9, 0.3);
  EXPECT_EQ(late.status().code(), Code::kTimeout);
  EXPECT_TRUE(has(late.status(), "ranks 5 and 7")) << late.status().message();
}

TEST(Rendezvous, TheEarliestLimitCounts) {
  const Place place;
  together(2, [&place](int rank) {
    const auto exchange = place.join(rank, 3, rank == 0 ? 0.2 : 20);
    EXPECT_EQ(exchange.status().code(), Code::kTimeout);
    EXPECT_TRUE(has(exchange.status(), "rank 2 of 3 has not arrived"));
  });
}

TEST(Rendezvous, NobodyListensAtAll) {
  const Address nowhere = listen_at(loopback(), {})->address;
  const auto begin = Clock::now();
  const auto exchange = join_rendezvous({.rank = 1,
                                         .size = 2,
                                         .candidates = {nowhere},
                                         .must_listen = false,
                                         .key = Key{},
                                         .deadline = deadline_after(0.2)},
                                        silent());
  EXPECT_EQ(exchange.status().code(), Code::kTimeout);
  EXPECT_TRUE(has(exchange.status(), "rank 0")) << exchange.status().message();
  EXPECT_TRUE(has(exchange.status(), nowhere.text()));
  EXPECT_LT(Clock::now() - begin, milliseconds(1500));
}

TEST(Rendezvous, ADuplicateRankIsToldToAll) {
  const Place place;
  together(3, [&place](int i) {
    const auto exchange = place.join(i == 2 ? 1 : i, 3);
    EXPECT_EQ(exchange.status().code(), Code::kMismatch);
    EXPECT_TRUE(has(exchange.status(), "rank 1 came twice")) << exchange.status().message();
  });
  const auto late = place.join(2, 3);
  EXPECT_TRUE(has(late.status(), "rank 1 came twice")) << late.status().message();
}

TEST(Rendezvous, WhoeverBeginsAfterItHasFailedIsOfOtherRanks) {
  const Place place;
  together(3, [&place](int i) { (void)place.join(i == 2 ? 1 : i, 3); });
  // Everybody is told of a verdict that is younger than a tenth of a second.
  std::this_thread::sleep_for(milliseconds(200));
  const auto join = [&place](int rank, double seconds, int begun_before_s) {
    JoinOptions options{.rank = rank, .size = 3, .candidates = {place.address}, .key = place.key};
    options.deadline = deadline_after(seconds);
    options.begun -= std::chrono::seconds(begun_before_s);
    return join_rendezvous(options, silent()).status();
  };
  for (const int rank : {0, 1}) {
    const Status again = join(rank, 0.1, 0);
    EXPECT_EQ(again.code(), Code::kTimeout) << again.message();
  }
  EXPECT_TRUE(has(join(1, 5, 2), "rank 1 came twice"));
  // An id serves these ranks only.
  EXPECT_TRUE(has(place.join(0, 3).status(), "rank 1 came twice"));
  EXPECT_TRUE(has(place.join(0, 4).status(), "rank 1 came twice"));
}

TEST(Rendezvous, AnotherSizeIsToldToAll) {
  for (const int other : {2, 4}) {
    const Place place;
    together(3, [&place, other](int rank) {
      const auto exchange = place.join(rank == 1 ? 1 : rank, rank == 1 ? other : 3);
      EXPECT_EQ(exchange.status().code(), Code::kMismatch);
      EXPECT_TRUE(has(exchange.status(), "rank_count differs")) << exchange.status().message();
      EXPECT_TRUE(has(exchange.status(), fmt::format("says {}", other)));
      EXPECT_TRUE(has(exchange.status(), "says 3"));
    });
  }
}

// Comes in as a rank, and its process ends.
void come_and_die(const Place& place, int rank, int size) {
  auto socket = begin_connect(place.address);
  ASSERT_TRUE(socket.ok());
  auto dial = Dial::create(std::move(*socket), {place.key, 0, -1}, {rank, size, 20'000, 77});
  ASSERT_TRUE(dial.ok());
  for (auto done = dial->advance(); !done.ok() || !*done; done = dial->advance()) {
    ASSERT_TRUE(done.ok()) << done.status().message();
    ASSERT_TRUE(wait_for(dial->descriptor(), dial->events(), deadline_after(5)));
  }
}

TEST(Rendezvous, ALostRankIsToldToAll) {
  const Place place;
  std::thread dead([&place] { come_and_die(place, 2, 4); });
  together(2, [&place](int rank) {
    const auto exchange = place.join(rank, 4);
    EXPECT_EQ(exchange.status().code(), Code::kPeerLost);
    EXPECT_TRUE(has(exchange.status(), "rank 2 (process 77")) << exchange.status().message();
  });
  dead.join();
  const auto late = place.join(3, 4);
  EXPECT_EQ(late.status().code(), Code::kPeerLost);
  EXPECT_TRUE(has(late.status(), "rank 2")) << late.status().message();
  // Now everybody has been told.
  const TimePoint limit = deadline_after(5);
  while (listens(place.address) && Clock::now() < limit) std::this_thread::yield();
  EXPECT_FALSE(listens(place.address));
}

TEST(Rendezvous, ARankThatLeavesMidWayIsNamed) {
  const Place place;
  together(4, [&place](int rank) {
    auto exchange = place.join(rank, 4);
    ASSERT_TRUE(exchange.ok());
    ASSERT_TRUE((*exchange)->allgather(message(rank, 0, 10), deadline_after(20)).ok());
    if (rank == 2) return;  // closes its exchange
    const auto all = (*exchange)->allgather(message(rank, 1, 10), deadline_after(20));
    EXPECT_EQ(all.status().code(), Code::kPeerLost);
    EXPECT_TRUE(has(all.status(), "rank 2")) << all.status().message();
    EXPECT_EQ((*exchange)->allgather({}, deadline_after(20)).status().code(), Code::kPeerLost);
  });
}

TEST(Rendezvous, ARankThatStopsMidWayIsNamed) {
  const Place place;
  std::atomic<int> told{0};
  together(3, [&](int rank) {
    auto exchange = place.join(rank, 3, 0.3);
    ASSERT_TRUE(exchange.ok());
    if (rank == 1) {
      while (told < 2) std::this_thread::yield();
      return;
    }
    const auto all = (*exchange)->allgather({}, deadline_after(0.3));
    EXPECT_EQ(all.status().code(), Code::kTimeout);
    EXPECT_TRUE(has(all.status(), "rank 1 of 3 has not")) << all.status().message();
    ++told;
  });
}

TEST(Rendezvous, NewsComesBetweenRounds) {
  const Place place;
  std::atomic<int> in{0};
  together(3, [&](int rank) {
    auto exchange = place.join(rank, 3);
    ASSERT_TRUE(exchange.ok());
    ++in;
    while (in < 3) std::this_thread::yield();
    if (rank == 2) return;
    if (rank == 1) {
      EXPECT_EQ((*exchange)->allgather({}, deadline_after(20)).status().code(), Code::kPeerLost);
      return;
    }
    pollfd entry{(*exchange)->failure_descriptors().front(), POLLIN, 0};
    ASSERT_EQ(::poll(&entry, 1, 10'000), 1);
    const Status failure = (*exchange)->failure();
    EXPECT_EQ(failure.code(), Code::kPeerLost);
    EXPECT_TRUE(has(failure, "rank 2")) << failure.message();
  });
}

TEST(Rendezvous, ARankThatGivesUpIsToldToAll) {
  const Place place;
  std::atomic<int> in{0};
  together(4, [&](int rank) {
    auto exchange = place.join(rank, 4);
    ASSERT_TRUE(exchange.ok());
    ++in;
    while (in < 4) std::this_thread::yield();
    if (rank == 2) {
      const Status own(Code::kSystem, "no descriptors for\033 rank 0");
      EXPECT_TRUE((*exchange)->give_up(own));
      EXPECT_EQ((*exchange)->allgather({}, deadline_after(20)).status().message(), own.message());
      return;
    }
    Status told;
    if (rank == 1) told = (*exchange)->allgather({}, deadline_after(20)).status();
    if (rank != 1) told = news_of(**exchange, milliseconds(10'000));
    EXPECT_EQ(told.code(), Code::kSystem);
    EXPECT_EQ(told.message(), "rank 2: no descriptors for  rank 0");
  });
}

// Joins as a rank, which the last one keeps from going on, and says whether all came as it should.
char code_of_failure(const Place& place, int rank, int size) {
  const auto exchange = place.join(rank, size);
  if (!exchange.ok()) return 'j';
  if (rank == size - 1) return (*exchange)->give_up({Code::kSystem, "why"}) ? '+' : 'g';
  const TimePoint limit = deadline_after(20);
  while (Clock::now() < limit) {
    const Status failure = (*exchange)->failure();
    if (!failure.ok()) return failure.code() == Code::kSystem ? '+' : 'x';
  }
  return 't';
}

// A process that ends at once takes the rendezvous with it.
TEST(Rendezvous, AFailureIsToldToItsOwnProcessLast) {
  // The rendezvous is a thread, and the ranks are forked beside it.
  if (test::kThreadSanitizer)
    GTEST_SKIP() << "the thread sanitizer does not survive fork() beside threads";
  constexpr int kSize = 9;
  for (int round = 0; round < 10; ++round) {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    const pid_t holder = ::fork();
    if (holder == 0) {
      const Place place;
      for (int rank = 0; rank < kSize; ++rank) {
        if (rank == 1 || ::fork() != 0) continue;
        const char said = code_of_failure(place, rank, kSize);
        ::_exit(::write(ends[1], &said, 1) == 1 ? 0 : 1);
      }
      ::close(ends[1]);
      ::_exit(code_of_failure(place, 1, kSize));
    }
    ::close(ends[1]);
    std::string said(kSize - 1, '-');
    size_t got = 0;
    while (got < said.size()) {
      const ssize_t more = ::read(ends[0], said.data() + got, said.size() - got);
      if (more <= 0) break;
      got += static_cast<size_t>(more);
    }
    ::close(ends[0]);
    int status = -1;
    ::waitpid(holder, &status, 0);
    EXPECT_EQ(said, std::string(kSize - 1, '+'));
    EXPECT_EQ(WEXITSTATUS(status), '+');
  }
}

TEST(Rendezvous, AFailureElsewhereEndsEveryWait) {
  const Place place;
  const Descriptor bell(::eventfd(1, EFD_CLOEXEC));
  std::atomic<bool> failed{false};
  const Watch watch{bell.get(),
                    [&failed] { return failed ? Status(Code::kAborted, "elsewhere") : Status(); }};
  const auto join = [&](int rank, int size) {
    return join_rendezvous({.rank = rank,
                            .size = size,
                            .candidates = {place.address},
                            .must_listen = true,
                            .key = place.key,
                            .deadline = deadline_after(20),
                            .watch = watch},
                           silent());
  };
  const auto begin = Clock::now();
  std::atomic<int> in{0};
  together(3, [&](int rank) {
    auto exchange = join(rank, 3);
    ASSERT_TRUE(exchange.ok()) << exchange.status().message();
    if (++in == 3) failed = true;
    if (rank == 0) {
      while (!failed) std::this_thread::yield();
      EXPECT_EQ(news_of(**exchange, milliseconds(10'000)).code(), Code::kAborted);
      EXPECT_EQ(join(1, 2).status().code(), Code::kAborted);
    }
    if (rank == 1) {
      EXPECT_EQ((*exchange)->allgather({}, deadline_after(20)).status().code(), Code::kAborted);
    }
    while (rank == 2 && !failed) std::this_thread::yield();
  });
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(10));
}

TEST(Rendezvous, NoDescriptorIsALocalErrorAtOnce) {
  const Place place;
  const auto begin = Clock::now();
  const auto exchange = [&place] {
    const test::FewDescriptors none(test::FewDescriptors::kNone);
    return place.join(0, 2);
  }();
  EXPECT_EQ(exchange.status().code(), Code::kSystem) << exchange.status().message();
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(5));
}

TEST(Rendezvous, TooMuchAtOnceIsALocalError) {
  const Place place;
  const auto exchange = place.join(0, 1);
  ASSERT_TRUE(exchange.ok());
  EXPECT_EQ((*exchange)->allgather(Bytes(kExchangeMost + 1), deadline_after(1)).status().code(),
            Code::kInvalidArgument);
  EXPECT_TRUE((*exchange)->allgather(Bytes(kExchangeMost), deadline_after(20)).ok());
}

TEST(Roll, ListsAbsentRanks) {
  const auto absent = [](int size, const std::vector<int>& missing) {
    std::vector<bool> present(static_cast<size_t>(size), true);
    for (const int rank : missing) present[static_cast<size_t>(rank)] = false;
    return absent_ranks_have(present);
  };
  EXPECT_EQ(absent(3, {0}), "rank 0 of 3 has");
  EXPECT_EQ(absent(9, {5, 7}), "ranks 5 and 7 of 9 have");
  EXPECT_EQ(absent(3, {1, 2}), "ranks 1 and 2 of 3 have");
  EXPECT_EQ(absent(12, {1, 2, 5, 6, 7, 11}), "ranks 1, 2, 5-7 and 11 of 12 have");
  EXPECT_EQ(absent(4, {0, 1, 2, 3}), "ranks 0-3 of 4 have");
}

TEST(UniqueId, SurvivesTheTripAndNothingElse) {
  UniqueId id;
  id.address = loopback(4711);
  id.key = *random_key();
  id.token = 99;
  const auto packed = id.pack();
  const auto unpacked = unpack_unique_id(packed);
  ASSERT_TRUE(unpacked.ok());
  EXPECT_EQ(unpacked->address, id.address);
  EXPECT_EQ(unpacked->key, id.key);
  EXPECT_EQ(unpacked->token, id.token);
  for (size_t bit = 0; bit < 8 * packed.size(); ++bit) {
    auto changed = packed;
    changed[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
    EXPECT_EQ(unpack_unique_id(changed).status().code(), Code::kInvalidArgument) << bit;
  }
  for (const unsigned value : {0u, 0xffu}) {
    std::array<std::byte, 128> same{};
    same.fill(static_cast<std::byte>(value));
    EXPECT_FALSE(unpack_unique_id(same).ok());
  }
}

}  // namespace
}  // namespace banyan::rendezvous_test
