// The board on which the first verdict of a host stands, also when a peer writes nonsense on it.
// SPDX-License-Identifier: Apache-2.0

#include "src/liveness/verdict.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "src/base/clock.h"
#include "src/liveness/failure.h"

namespace banyan::verdict_test {
namespace {

// The page as a hostile peer has it.
struct RawPage {
  explicit RawPage(const Descriptor& memory) {
    bytes = static_cast<size_t>(lseek(memory.get(), 0, SEEK_END));
    void* mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0);
    data = mapped == MAP_FAILED ? nullptr : static_cast<unsigned char*>(mapped);
  }
  RawPage(const RawPage&) = delete;
  RawPage& operator=(const RawPage&) = delete;
  ~RawPage() { munmap(data, bytes); }
  size_t bytes = 0;
  unsigned char* data = nullptr;
};

VerdictBoard make_board(int ranks) {
  Result<VerdictBoard> board = VerdictBoard::create(ranks);
  EXPECT_TRUE(board.ok()) << board.status().message();
  return std::move(*board);
}

TEST(VerdictBoard, KeepsTheFirstVerdict) {
  VerdictBoard board = make_board(4);
  EXPECT_FALSE(board.decided());
  EXPECT_EQ(board.read().code, Code::kOk);
  EXPECT_TRUE(board.decide({Code::kPeerLost, 3, "rank 3 is lost", 17}));
  EXPECT_FALSE(board.decide({Code::kMismatch, -1, "later"}));
  EXPECT_TRUE(board.decided());
  const Verdict verdict = board.read();
  EXPECT_EQ(verdict.code, Code::kPeerLost);
  EXPECT_EQ(verdict.failed_rank, 3);
  EXPECT_EQ(verdict.text, "rank 3 is lost");
  EXPECT_EQ(verdict.spares_calls_before, 17U);
}

TEST(VerdictBoard, ShowsEveryCodeAndRankAsTheyWere) {
  for (const Code code : {Code::kSystem, Code::kInternal, Code::kRemote, Code::kTimeout,
                          Code::kMismatch, Code::kAborted, Code::kPeerLost, Code::kCorrupt})
    for (const int rank : {-1, 0, 5, 8}) {
      VerdictBoard board = make_board(9);
      ASSERT_TRUE(board.decide({code, rank, ""}));
      EXPECT_EQ(board.read().code, code);
      EXPECT_EQ(board.read().failed_rank, rank);
      EXPECT_FALSE(board.read().text.empty()) << "a failure without a sentence";
    }
}

TEST(VerdictBoard, ShowsNothingThatDrivesATerminal) {
  VerdictBoard board = make_board(2);
  ASSERT_TRUE(board.decide({Code::kPeerLost, 1, "a\n\x1b[31mb"}));
  EXPECT_EQ(board.read().text, "a  [31mb");
}

TEST(VerdictBoard, CutsALongText) {
  VerdictBoard board = make_board(2);
  ASSERT_TRUE(board.decide({Code::kMismatch, 1, std::string(5000, 'x')}));
  const std::string text = board.read().text;
  EXPECT_GT(text.size(), 200u);
  EXPECT_EQ(text, std::string(text.size(), 'x'));
}

TEST(VerdictBoard, IsTheSameForWhoeverAttaches) {
  VerdictBoard board = make_board(3);
  Result<VerdictBoard> other = VerdictBoard::attach(board.memory(), 3);
  ASSERT_TRUE(other.ok()) << other.status().message();
  board.memory().close();
  ASSERT_TRUE(other->decide({Code::kTimeout, 2, "waited"}));
  EXPECT_EQ(board.read().failed_rank, 2);
  EXPECT_FALSE(board.decide({Code::kPeerLost, 0, ""}));
  board.set_waiting_for(1, 2);
  EXPECT_EQ(other->waiting_for(1).peer, 2);
  // The age of a word is what passes here, and it counts in whole milliseconds. A longer sleep only
  // makes it older.
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_GE(other->waiting_for(1).age.count(), 19);
  const TimePoint again = Clock::now();
  board.set_waiting_for(1, 2);
  const auto age = other->waiting_for(1).age;
  EXPECT_LE(age, Clock::now() - again + std::chrono::milliseconds(1)) << "said again";
  EXPECT_EQ(other->waiting_for(0).peer, -1);
  board.set_waiting_for(1, -1);
  EXPECT_EQ(other->waiting_for(1).peer, -1);
}

TEST(VerdictBoard, OneOfManyThreadsDecides) {
  for (int round = 0; round < 30; ++round) {
    VerdictBoard board = make_board(8);
    std::atomic<int> winners{0}, winner{-1};
    std::vector<std::thread> threads;
    for (int rank = 0; rank < 8; ++rank)
      threads.emplace_back([&, rank] {
        if (board.decide({Code::kPeerLost, rank, "rank " + std::to_string(rank)})) {
          ++winners;
          winner.store(rank);
        }
        // Whatever won, everybody reads the same, text included.
        const Verdict seen = board.read();
        EXPECT_EQ(seen.text, "rank " + std::to_string(seen.failed_rank));
      });
    for (std::thread& thread : threads) thread.join();
    ASSERT_EQ(winners.load(), 1);
    ASSERT_EQ(board.read().failed_rank, winner.load());
  }
}

TEST(VerdictBoard, TakesNonsenseForAnInternalError) {
  std::mt19937 random(3);
  for (int round = 0; round < 300; ++round) {
    VerdictBoard board = make_board(4);
    RawPage page(board.memory());
    ASSERT_NE(page.data, nullptr);
    for (size_t i = 0; i < page.bytes; ++i)
      page.data[i] = round == 0 ? 0xFF : static_cast<unsigned char>(random());
    const Verdict verdict = board.read();
    EXPECT_NE(verdict.code, Code::kOk);
    EXPECT_NE(describe(verdict.code), "unknown result") << static_cast<int>(verdict.code);
    EXPECT_GE(verdict.failed_rank, -1);
    EXPECT_LT(verdict.failed_rank, 4);
    EXPECT_LT(verdict.text.size(), page.bytes);
    for (int rank = 0; rank < 4; ++rank) {
      EXPECT_GE(board.waiting_for(rank).peer, -1);
      EXPECT_LT(board.waiting_for(rank).peer, 4);
    }
  }
}

// A peer that dies between the word and the text: the verdict stands without its sentence.
TEST(VerdictBoard, DoesNotWaitForATextThatNeverComes) {
  VerdictBoard board = make_board(4);
  {
    VerdictBoard source = make_board(4);
    ASSERT_TRUE(source.decide({Code::kPeerLost, 2, "rank 2 is lost"}));
    const RawPage from(source.memory()), to(board.memory());
    std::memcpy(to.data, from.data, sizeof(uint64_t));
  }
  const Verdict verdict = board.read();
  EXPECT_EQ(verdict.code, Code::kPeerLost);
  EXPECT_EQ(verdict.failed_rank, 2);
  EXPECT_NE(verdict.text.find("rank 2"), std::string::npos) << verdict.text;
}

// Whoever decided died in between: that costs the patience once.
TEST(VerdictBoard, WaitsOnceForATextThatNeverComes) {
  VerdictBoard board = make_board(4);
  // The word alone, as a process that is killed behind it leaves it.
  void* page = mmap(nullptr, 8, PROT_READ | PROT_WRITE, MAP_SHARED, board.memory().get(), 0);
  ASSERT_NE(page, MAP_FAILED);
  *static_cast<uint64_t*>(page) = uint64_t{1} << 48 | uint64_t{35} << 32 | 3;
  for (int time = 0; time < 20; ++time) {
    const TimePoint begin = Clock::now();
    EXPECT_EQ(board.read().failed_rank, 2);
    if (time > 0) {
      EXPECT_LT(Clock::now() - begin, std::chrono::milliseconds(150));
    }
  }
  munmap(page, 8);
}

TEST(VerdictBoard, RefusesMemoryOfAnotherSizeOrWithoutSeals) {
  VerdictBoard board = make_board(4);
  EXPECT_EQ(VerdictBoard::attach(board.memory(), 5).status().code(), Code::kCorrupt);
  const Descriptor open(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(open.get(), lseek(board.memory().get(), 0, SEEK_END)), 0);
  EXPECT_EQ(VerdictBoard::attach(open, 4).status().code(), Code::kCorrupt) << "could be shortened";
  EXPECT_FALSE(VerdictBoard::attach(Descriptor(), 4).ok());
}

TEST(VerdictBoard, IsAnErrorWhereNoFileMayBeThatLong) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit none{.rlim_cur = 0, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &none), 0);
  const Result<VerdictBoard> board = VerdictBoard::create(4);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_EQ(board.status().code(), Code::kSystem);
}

TEST(Failure, OfARankThatAbortsSaysSoThereAndPeerLostElsewhere) {
  VerdictBoard board = make_board(2);
  Result<VerdictBoard> other = VerdictBoard::attach(board.memory(), 2);
  ASSERT_TRUE(other.ok());
  Failure here(std::move(board)), there(std::move(*other));
  EXPECT_TRUE(here.status().ok());
  EXPECT_TRUE(here.abort());
  EXPECT_TRUE(here.decide({Code::kPeerLost, 0, "rank 0 aborted"}));
  EXPECT_EQ(here.status().code(), Code::kAborted);
  EXPECT_EQ(there.status().code(), Code::kPeerLost);
  EXPECT_EQ(there.verdict().failed_rank, 0);
  EXPECT_FALSE(there.abort());
  EXPECT_EQ(there.status().code(), Code::kPeerLost) << "the first verdict stands";
}

}  // namespace
}  // namespace banyan::verdict_test
