// What one rank does where the others say nothing.
// SPDX-License-Identifier: Apache-2.0

#include "src/communicator/membership.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <climits>
#include <memory>
#include <optional>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "src/base/bell.h"
#include "src/base/clock.h"
#include "src/communicator/grace.h"
#include "tests/support/sanitizers.h"
#include "transports/transport.h"

namespace banyan::membership_test {
namespace {

// Who has no Driver gets at neither the worker nor what is in it.
template <typename Type>
concept GivesItsEngine = requires(Type& of) {
  of.engine();
};
template <typename Type>
concept GivesItsWorker = requires(Type& of) {
  of.worker();
};
static_assert(!GivesItsEngine<Membership> && !GivesItsWorker<Membership>);
static_assert(GivesItsEngine<Worker> && !std::is_copy_constructible_v<Worker>);
static_assert(!std::is_copy_constructible_v<Driver> && !std::is_copy_assignable_v<Driver>);

// Rank 1 of two on different hosts. The other end of its link is here, and no thread serves it.
struct Lonely {
  explicit Lonely(double timeout_s, std::unique_ptr<Transport> transport = nullptr) {
    std::array<int, 2> ends{};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
    other_end = Descriptor(ends[0]);
    Links links;
    links.rank = 1;
    links.size = 2;
    links.peers.resize(2);
    links.sockets.resize(2);
    links.sockets[0] = Descriptor(ends[1]);
    links.epoch = 1;
    Settings settings;
    settings.timeout_s = timeout_s;
    std::vector<std::unique_ptr<Transport>> transports;
    if (transport != nullptr) transports.push_back(std::move(transport));
    const int route = static_cast<int>(transports.size()) - 1;
    membership = std::make_unique<Membership>(
        std::move(settings), std::move(links), std::move(*VerdictBoard::alone(2)),
        Bells{std::move(*make_bell()), std::move(*make_bell())}, std::move(transports),
        std::vector<int>{route, -1}, Medium{}, Hierarchy{});
  }

  Descriptor other_end;
  std::unique_ptr<Membership> membership;
};

TEST(Membership, GivesUpInTimeWhereNobodyDecides) {
  Lonely rank(0.2);
  const TimePoint begin = Clock::now();
  const Status status = Driver(*rank.membership)->give_up("there is no memory");
  const std::chrono::duration<double> took = Clock::now() - begin;
  EXPECT_GE(took.count(), Monitor::kMostPatienceSeconds) << "others may still decide";
  EXPECT_LT(took.count(), 20);
  EXPECT_EQ(status.code(), Code::kSystem);
  EXPECT_EQ(status.message(), "rank 1 cannot take part in a call: there is no memory");
  // A proposal and then the verdict have left for the other rank.
  std::array<std::byte, 3 * kFrameBytes> frames{};
  EXPECT_EQ(recv(rank.other_end.get(), frames.data(), frames.size(), MSG_DONTWAIT),
            static_cast<ssize_t>(2 * kFrameBytes));
}

TEST(Membership, HasOneDriverAtATime) {
#ifdef NDEBUG
  GTEST_SKIP() << "assertions are off";
#else
  Lonely rank(1);
  const Driver driver(*rank.membership);
  EXPECT_DEATH(Driver(*rank.membership), "there is another Driver");
#endif
}

TEST(Grace, IsForWhoWasBackSoon) {
  using std::chrono::microseconds;
  Grace grace;
  EXPECT_EQ(grace.length(), microseconds(0)) << "nothing is known of the caller";
  grace.was_away(Grace::kLeast - microseconds(1));
  EXPECT_EQ(grace.length(), Grace::kLeast);
  grace.was_away(Grace::kLeast);
  EXPECT_EQ(grace.length(), microseconds(0)) << "it did not come";
  grace.was_away(std::chrono::seconds(1));
  EXPECT_EQ(grace.length(), microseconds(0)) << "it came late";
}

TEST(Grace, GrowsForWhoComesBackAgainAndAgain) {
  Grace grace;
  Clock::duration before{};
  for (int time = 0; time < 10; ++time) {
    EXPECT_GE(grace.length(), before);
    EXPECT_LE(grace.length(), Grace::kMost);
    before = grace.length();
    grace.was_away(before / 2);
  }
  EXPECT_EQ(grace.length(), Grace::kMost);
  grace.was_away(Grace::kMost);
  EXPECT_EQ(grace.length(), Clock::duration()) << "once is enough to be late";
}

// Takes what is posted and is never done with it. It counts the polls of other threads than the one
// that has made it.
class Endless final : public Transport {
 public:
  struct Seen {
    std::atomic<int> polls{0};  // by others
    std::atomic<TimePoint> first{TimePoint()};
  };

  explicit Endless(Seen& seen) : seen_(seen) {}

  std::string_view name() const override { return "endless"; }
  Status post(const Transfer& /*transfer*/) override { return {}; }
  Result<size_t> poll(std::span<Completion> /*completions*/) override {
    if (std::this_thread::get_id() != maker_ && seen_.polls.fetch_add(1) == 0)
      seen_.first.store(Clock::now());
    return size_t{0};
  }
  std::optional<Envelope> peek(int /*peer*/, Lane /*lane*/) override { return std::nullopt; }
  bool arm() override { return true; }
  void disarm() override {}
  int descriptor() const override { return bell_.get(); }

 private:
  Seen& seen_;
  const std::thread::id maker_ = std::this_thread::get_id();
  const Descriptor bell_ = std::move(*make_bell());
};

// Starts messages that never leave, and waits for none of them.
class LeftAlone : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(rank_.membership->start_service().ok());
    rank_.membership->open();
  }
  void TearDown() override { end(); }
  void start() {
    Call call;
    call.problem.collective = Collective::kSend;
    call.problem.count = 1;
    call.send = &value_;
    Driver driver(*rank_.membership);
    const Result<Operation*> started = driver->start(driver->plan(call), call);
    ASSERT_TRUE(started.ok()) << started.status().message();
    operation_ = *started;
  }
  void test() const { ASSERT_TRUE(Driver(*rank_.membership)->turn().ok()); }
  void end() {
    if (operation_ == nullptr) return;
    Driver driver(*rank_.membership);
    driver->engine().cancel();
    driver->finish(std::exchange(operation_, nullptr));
  }

  Endless::Seen seen_;

 private:
  Lonely rank_{60, std::make_unique<Endless>(seen_)};
  float value_ = 0;
  Operation* operation_ = nullptr;
};

// The least of many, since a busy machine may be in the way of any one of them.
TEST_F(LeftAlone, IsDrivenAtOnce) {
  constexpr auto kComputes = std::chrono::milliseconds(1);
  auto least = Clock::duration::max();
  for (int round = 0; round < 100; ++round) {
    std::this_thread::sleep_for(kComputes);
    seen_.first.store(TimePoint());
    seen_.polls.store(0);
    const TimePoint begin = Clock::now();
    start();
    while (seen_.first.load() == TimePoint()) {
      ASSERT_LT(Clock::now() - begin, std::chrono::seconds(20)) << "nobody drives it";
      std::this_thread::sleep_for(kComputes);
    }
    least = std::min(least, seen_.first.load() - begin);
    end();
  }
  constexpr bool kSlow = test::kThreadSanitizer || test::kAddressSanitizer;
  EXPECT_LT(least, std::chrono::microseconds(kSlow ? 2000 : 150));
}

// At least one of many stretches of tests in a row is not disturbed.
TEST_F(LeftAlone, StaysWithWhoTestsItInALoop) {
  start();
  while (seen_.polls.load() == 0) std::this_thread::yield();
  int least = INT_MAX;
  for (int stretch = 0; stretch < 100 && least > 0; ++stretch) {
    const int before = seen_.polls.load();
    const TimePoint end = Clock::now() + 5 * Grace::kMost;
    while (Clock::now() < end) test();
    least = std::min(least, seen_.polls.load() - before);
  }
  EXPECT_EQ(least, 0) << "polls by the service thread";
}

}  // namespace
}  // namespace banyan::membership_test
