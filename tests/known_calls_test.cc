// SPDX-License-Identifier: Apache-2.0

#include "src/c_api/known_calls.h"

#include <gtest/gtest.h>

#include <array>

namespace banyan {
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

}  // namespace
}  // namespace banyan
