// Exchanges over a caller's allgather.
// SPDX-License-Identifier: Apache-2.0

#include "src/bootstrap/exchange.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <barrier>
#include <cstring>
#include <functional>
#include <thread>

#include "src/base/bell.h"

namespace banyan::exchange_test {
namespace {

// An allgather between threads, as a caller might have it.
class Board {
 public:
  explicit Board(int size) : size_(size), barrier_(size) {}

  FixedAllgather of(int rank) {
    return [this, rank](const void* send, void* recv, size_t bytes) {
      barrier_.arrive_and_wait();
      if (rank == 0) all_.assign(bytes * static_cast<size_t>(size_), std::byte{});
      barrier_.arrive_and_wait();
      std::memcpy(all_.data() + bytes * static_cast<size_t>(rank), send, bytes);
      barrier_.arrive_and_wait();
      std::memcpy(recv, all_.data(), all_.size());
      return 0;
    };
  }

 private:
  int size_;
  std::barrier<> barrier_;
  Bytes all_;
};

Bytes message(int rank, int round, size_t bytes) {
  Bytes made(bytes);
  for (size_t i = 0; i < bytes; ++i) {
    made[i] = static_cast<std::byte>(i * 7 + static_cast<size_t>(rank * 31 + round));
  }
  return made;
}

void on_every_rank(int size, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) threads.emplace_back(body, rank);
  for (std::thread& thread : threads) thread.join();
}

TEST(ExchangeOver, CarriesAnyLengths) {
  for (const int size : {1, 2, 3, 7}) {
    Board board(size);
    on_every_rank(size, [&board, size](int rank) {
      const auto exchange = exchange_over(rank, size, board.of(rank));
      EXPECT_EQ(exchange->rank(), rank);
      EXPECT_EQ(exchange->size(), size);
      EXPECT_FALSE(exchange->key().has_value());
      const auto length = [](int who, int round) {
        return round == 0 ? size_t{0}
               : who == 1 ? kExchangeMost
                          : static_cast<size_t>(who * round * 13);
      };
      for (int round = 0; round < 3; ++round) {
        const auto all =
            exchange->allgather(message(rank, round, length(rank, round)), TimePoint::max());
        ASSERT_TRUE(all.ok()) << all.status().message();
        ASSERT_EQ(all->size(), static_cast<size_t>(size));
        for (int who = 0; who < size; ++who) {
          EXPECT_EQ((*all)[static_cast<size_t>(who)], message(who, round, length(who, round)));
        }
      }
    });
  }
}

// Ranks give nothing, a round's worth, a byte more, and several rounds' worth.
TEST(AllgatherLong, CarriesMoreThanARoundTakes) {
  constexpr size_t kMost = 4 * kExchangeMost;
  const size_t lengths[] = {0, kExchangeMost - 1024, kExchangeMost - 1023, 3 * kExchangeMost + 7};
  Board board(4);
  on_every_rank(4, [&](int rank) {
    const auto exchange = exchange_over(rank, 4, board.of(rank));
    const auto all =
        allgather_long(*exchange, message(rank, 0, lengths[rank]), kMost, TimePoint::max());
    ASSERT_TRUE(all.ok()) << all.status().message();
    for (int who = 0; who < 4; ++who)
      EXPECT_EQ((*all)[static_cast<size_t>(who)], message(who, 0, lengths[who])) << who;
  });
}

// All ranks see the same lengths, and none of them waits for what another will not send.
TEST(AllgatherLong, RefusesMoreThanWasAgreed) {
  Board board(2);
  on_every_rank(2, [&](int rank) {
    const auto exchange = exchange_over(rank, 2, board.of(rank));
    const auto all =
        allgather_long(*exchange, message(rank, 0, rank == 1 ? 101 : 100), 100, TimePoint::max());
    EXPECT_EQ(all.status().code(), Code::kCorrupt);
    EXPECT_EQ(all.status().message(), "rank 1 announces 101 bytes, the most is 100");
  });
}

// All three of them come back, with the same result.
TEST(CallRoll, SaysTheSameToAll) {
  struct Case {
    std::array<int, 3> ranks;
    std::array<int, 3> sizes;
    int unable;
    Code wanted;
    const char* part;
  };
  for (const Case& one : std::initializer_list<Case>{
           {{0, 1, 2}, {3, 3, 3}, -1, Code::kOk, ""},
           {{0, 1, 1}, {3, 3, 3}, -1, Code::kMismatch, "rank 1 of 3 came to the place of rank 2"},
           {{0, 2, 1}, {3, 3, 3}, -1, Code::kMismatch, "rank 2 of 3 came to the place of rank 1"},
           {{0, 1, 2}, {3, 3, 4}, -1, Code::kMismatch, "of 4 "},
           {{0, 1, 2}, {3, 3, 3}, 1, Code::kRemote, "rank 1 cannot take part"}}) {
    Board board(3);
    on_every_rank(3, [&](int place) {
      const auto i = static_cast<size_t>(place);
      const Status own =
          place == one.unable ? Status(Code::kUnsupported, "no such thing") : Status();
      const Status said = call_roll(one.ranks[i], one.sizes[i], board.of(place), own);
      EXPECT_EQ(said.code(), own.ok() ? one.wanted : own.code());
      const bool told = said.message().find(one.part) != std::string_view::npos;
      EXPECT_TRUE(told || !own.ok()) << said.message();
    });
  }
  EXPECT_EQ(call_roll(0, 2, [](const void*, void*, size_t) { return 17; }, {}).code(),
            Code::kRemote);
  EXPECT_EQ(call_roll(0, 2, [](const void*, void*, size_t) { return 0; }, {}).code(),
            Code::kInvalidArgument);
}

TEST(ExchangeOver, NamesTheCallersFailureAndKeepsIt) {
  int calls = 0;
  const auto exchange = exchange_over(0, 2, [&calls](const void*, void*, size_t) {
    ++calls;
    return 17;
  });
  for (int i = 0; i < 2; ++i) {
    const auto all = exchange->allgather(Bytes(3), TimePoint::max());
    EXPECT_EQ(all.status().code(), Code::kRemote);
    EXPECT_NE(all.status().message().find("17"), std::string_view::npos);
  }
  EXPECT_EQ(calls, 1);
}

TEST(ExchangeOver, RefusesImpossibleLengths) {
  const auto exchange = exchange_over(0, 2, [](const void* send, void* recv, size_t bytes) {
    std::memcpy(recv, send, bytes);
    std::memset(static_cast<char*>(recv) + bytes, 0xff, bytes);
    return 0;
  });
  EXPECT_EQ(exchange->allgather(Bytes(3), TimePoint::max()).status().code(), Code::kCorrupt);
}

TEST(ExchangeOver, NoticesAnAllgatherThatIsNone) {
  const auto exchange = exchange_over(1, 2, [](const void*, void* recv, size_t bytes) {
    std::memset(recv, 0, 2 * bytes);
    return 0;
  });
  EXPECT_EQ(exchange->allgather(Bytes(3), TimePoint::max()).status().code(),
            Code::kInvalidArgument);
}

TEST(ExchangeOver, RefusesTooMuchAndTooLate) {
  Board board(1);
  const auto exchange = exchange_over(0, 1, board.of(0));
  EXPECT_EQ(exchange->allgather(Bytes(kExchangeMost + 1), TimePoint::max()).status().code(),
            Code::kInvalidArgument);
  EXPECT_TRUE(exchange->allgather(Bytes(1), TimePoint::max()).ok());
  EXPECT_EQ(exchange->allgather(Bytes(1), Clock::now()).status().code(), Code::kTimeout);
}

// Whoever is refused where a dead rank listened hears of its death a moment later.
TEST(EarlierNews, ExplainWhyOthersHaveGone) {
  for (const Code gone : {Code::kInvalidUsage, Code::kPeerLost, Code::kRemote}) {
    const Result<Descriptor> bell = make_bell();
    ASSERT_TRUE(bell.ok());
    std::atomic<bool> failed{false};
    const Watch watch{bell->get(), [&] {
                        quiet(*bell);
                        return failed ? Status(Code::kPeerLost, "rank 3 has died") : Status();
                      }};
    std::thread later([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));  // the news is late
      failed = true;
      ring(*bell);
    });
    EXPECT_EQ(or_earlier_news(watch, {gone, "refused"}).message(), "rank 3 has died");
    later.join();
    EXPECT_EQ(or_earlier_news(watch, {Code::kTimeout, "late"}).message(), "rank 3 has died");
    EXPECT_TRUE(or_earlier_news(watch, {}).ok());
  }
}

TEST(EarlierNews, LeaveWhatTheyDoNotExplain) {
  const Watch nothing{-1, [] { return Status(); }};
  EXPECT_EQ(or_earlier_news(nothing, {Code::kInvalidUsage, "refused"}).message(), "refused");
  EXPECT_EQ(or_earlier_news(nothing, {Code::kSystem, "no sockets"}).message(), "no sockets");
}

}  // namespace
}  // namespace banyan::exchange_test
