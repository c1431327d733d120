// SPDX-License-Identifier: Apache-2.0

#include "src/c_api/known_calls.h"

#include <gtest/gtest.h>

#include <array>

#include "tests/support/addresses.h"

namespace banyan::known_calls_test {
namespace {

PlainCall sum_of(size_t count, const std::array<float, 2>& send, std::array<float, 2>& recv) {
  return {BANYAN_ALLREDUCE, BANYAN_FLOAT32, BANYAN_SUM, 0, count, send.data(), recv.data()};
}

class KnownCallsTest : public testing::Test {
 protected:
  void remember(const PlainCall& call) {
    known_->remember(call, {}, {std::make_shared<Plan>(), nullptr});
  }
  std::array<float, 2> send_{}, recv_{};
  std::unique_ptr<KnownCalls> known_ = std::make_unique<KnownCalls>();
};

// A training step makes a few dozen calls, and each of them again in the next one: powers of two,
// which hash alike easily, and whatever the layers of a network are.
TEST_F(KnownCallsTest, KeepThoseOfATrainingStep) {
  std::vector<size_t> counts{0};
  for (size_t count = 1; count <= size_t{1} << 26; count *= 2) counts.push_back(count);
  for (const size_t count : {768, 2304, 3072, 50257, 589824, 1769472, 2359296})
    counts.push_back(count);
  for (const size_t count : counts) remember(sum_of(count, send_, recv_));
  for (const size_t count : counts)
    EXPECT_NE(known_->find(sum_of(count, send_, recv_)), nullptr) << count;
  EXPECT_EQ(known_->find(sum_of(5, send_, recv_)), nullptr);
}

TEST_F(KnownCallsTest, ForgetWhatIsOldAndKeepWhatIsNew) {
  for (size_t count = 0; count < 10000; ++count) {
    remember(sum_of(count, send_, recv_));
    ASSERT_NE(known_->find(sum_of(count, send_, recv_)), nullptr) << count;
  }
  EXPECT_EQ(known_->find(sum_of(0, send_, recv_)), nullptr);
}

// Knows a sum of `bytes` in either buffer, checked with buffers that lie apart or are one.
class KnownBuffersTest : public testing::Test {
 protected:
  static PlainCall at(uintptr_t send, uintptr_t recv) {
    return {BANYAN_ALLREDUCE,    BANYAN_FLOAT32,     BANYAN_SUM, 0, 1,
            test::address(send), test::address(recv)};
  }
  void remember(const PlainCall& call, uint64_t send_bytes, uint64_t recv_bytes) {
    Call checked;
    checked.send_bytes = send_bytes;
    checked.recv_bytes = recv_bytes;
    checked.problem.in_place = call.send == call.recv;
    known_->remember(call, checked, {std::make_shared<Plan>(), nullptr});
  }
  bool knows(uintptr_t send, uintptr_t recv) const {
    return known_->find(at(send, recv)) != nullptr;
  }

  std::unique_ptr<KnownCalls> known_ = std::make_unique<KnownCalls>();
};

TEST_F(KnownBuffersTest, LieApart) {
  remember(at(1000, 5000), 100, 300);
  EXPECT_TRUE(knows(1000, 1100));
  EXPECT_FALSE(knows(1000, 1099));
  EXPECT_TRUE(knows(1300, 1000));
  EXPECT_FALSE(knows(1299, 1000));
  EXPECT_FALSE(knows(1000, 1000));
  EXPECT_FALSE(knows(0, 1000));
  EXPECT_FALSE(knows(1000, 0));
}

TEST_F(KnownBuffersTest, DoNotWrapRound) {
  remember(at(1000, 5000), 100, 300);
  EXPECT_TRUE(knows(UINTPTR_MAX - 100, 1000));
  EXPECT_FALSE(knows(UINTPTR_MAX - 99, 1000));
  EXPECT_TRUE(knows(1000, UINTPTR_MAX - 300));
  EXPECT_FALSE(knows(1000, UINTPTR_MAX - 299));
  EXPECT_FALSE(knows(UINTPTR_MAX - 7, 5000));
  remember(at(5000, 5000), 100, 100);
  EXPECT_TRUE(knows(UINTPTR_MAX - 100, UINTPTR_MAX - 100));
  EXPECT_FALSE(knows(UINTPTR_MAX - 99, UINTPTR_MAX - 99));
}

TEST_F(KnownBuffersTest, ThatNobodyTouchesLieAnywhere) {
  remember(at(0, 5000), 0, 300);
  EXPECT_TRUE(knows(0, 1000));
  EXPECT_TRUE(knows(1100, 1000));
  EXPECT_TRUE(knows(UINTPTR_MAX, 1000));
  EXPECT_FALSE(knows(1100, 0));
}

TEST_F(KnownBuffersTest, InPlaceLieToEachOtherAsTheyDid) {
  remember(at(1000, 1000), 100, 100);
  EXPECT_TRUE(knows(7, 7));
  EXPECT_FALSE(knows(0, 0));
  EXPECT_FALSE(knows(1000, 1001));
  EXPECT_FALSE(knows(1000, 5000));
}

}  // namespace
}  // namespace banyan::known_calls_test
