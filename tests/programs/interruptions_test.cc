// A signal keeps memory from coming: the kernel gives back what it had of it, so that whoever only
// repeats the call may do so for ever.
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <limits>

#include "bench/info/doctor/doctor.h"
#include "src/base/clock.h"
#include "src/base/sealed_memory.h"
#include "src/liveness/verdict.h"
#include "transports/shm/heap.h"

namespace {

constexpr int kAlways = std::numeric_limits<int>::max();

int interruptions = 0;  // calls that are still to be interrupted
off_t longest = 0;      // longer ones are, too; 0: none is
int calls = 0;

}  // namespace

// It stands for fallocate, by the name that this has where files may be long, and does what the
// kernel does in a process that gets many signals.
extern "C" int interrupted(int file, int mode, off_t offset, off_t length) __asm__("fallocate64");
extern "C" int interrupted(int file, int mode, off_t offset, off_t length) {
  if (mode == 0) {
    ++calls;
    const bool long_one = longest != 0 && length > longest;
    if (interruptions > 0 || long_one) {
      if (interruptions != kAlways && !long_one) --interruptions;
      errno = EINTR;
      return -1;
    }
  }
  return static_cast<int>(::syscall(SYS_fallocate, file, mode, offset, length));
}

namespace banyan::interruptions_test {
namespace {

constexpr size_t kBytes = size_t{8} << 20;

size_t held_by(const Descriptor& memory) {
  struct stat info {};
  ::fstat(memory.get(), &info);
  return static_cast<size_t>(info.st_blocks) * 512;
}

class Interruptions : public testing::Test {
 protected:
  void TearDown() override {
    interruptions = 0;
    longest = 0;
  }
};

TEST_F(Interruptions, ThatEndAreNoFailure) {
  interruptions = 100;
  const auto memory = create_memory(kBytes, Pages::kReserved, deadline_after(60));
  ASSERT_TRUE(memory.ok()) << memory.status().message();
  EXPECT_EQ(held_by(*memory), kBytes);
}

// What is short enough comes between two signals of a fast timer.
TEST_F(Interruptions, OfWhatTakesLongAreOutrun) {
  longest = 64 << 10;
  calls = 0;
  const auto memory = create_memory(kBytes, Pages::kReserved, deadline_after(60));
  ASSERT_TRUE(memory.ok()) << memory.status().message();
  EXPECT_EQ(held_by(*memory), kBytes);
  EXPECT_LT(calls, 200) << "parts are no shorter than they must be";
  auto heap = shm::Heap::create(size_t{64} << 20);
  ASSERT_TRUE(heap.ok());
  EXPECT_TRUE(heap->allocate(kBytes).ok());
  EXPECT_EQ(held_by(heap->memory()), kBytes);
}

TEST_F(Interruptions, WithoutEndEndWellBeforeTheDeadline) {
  interruptions = kAlways;
  constexpr double kSeconds = 2;
  const TimePoint deadline = deadline_after(kSeconds);
  const auto memory = create_memory(4096, Pages::kReserved, deadline);
  EXPECT_EQ(memory.status().code(), Code::kTimeout);
  EXPECT_NE(memory.status().message().find("signals interrupt it"), std::string_view::npos);
  EXPECT_LT(Clock::now(), deadline);
  EXPECT_EQ(VerdictBoard::create(2, Clock::now()).status().code(), Code::kTimeout);
}

TEST_F(Interruptions, OfAHeapLeaveItAsItWas) {
  auto heap = shm::Heap::create(size_t{64} << 20);
  ASSERT_TRUE(heap.ok());
  interruptions = kAlways;
  const auto none = heap->allocate(kBytes, deadline_after(0.2));
  EXPECT_EQ(none.status().code(), Code::kSystem);
  EXPECT_NE(none.status().message().find("signals interrupt"), std::string_view::npos);
  EXPECT_EQ(held_by(heap->memory()), 0U);
  interruptions = 0;
  const auto some = heap->allocate(kBytes);
  ASSERT_TRUE(some.ok()) << some.status().message();
  EXPECT_EQ(*some, heap->base()) << "nothing is lost";
}

TEST_F(Interruptions, AreSeenByTheDoctor) {
  interruptions = kAlways;
  const TimePoint begin = Clock::now();
  const ProcessFacts facts = facts_of_process();
  EXPECT_NE(facts.no_shared_memory.find("signals interrupt"), std::string::npos);
  EXPECT_TRUE(facts.interrupted);
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(10));
}

}  // namespace
}  // namespace banyan::interruptions_test
