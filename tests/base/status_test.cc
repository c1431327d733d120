// A Result gives its value or its failure, and never an exception. The process ends where a value
// is taken that is not there.
// SPDX-License-Identifier: Apache-2.0

#include "banyan/status.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace banyan {
namespace {

struct Pair {
  int first = 0;
};

TEST(Status, IsOkOrACodeWithASentence) {
  EXPECT_TRUE(Status().ok());
  const Status failure(Code::kTimeout, "rank 3 did not come");
  EXPECT_FALSE(failure.ok());
  EXPECT_EQ(failure.code(), Code::kTimeout);
  EXPECT_EQ(failure.message(), "rank 3 did not come");
}

TEST(Result, HasWhatItWasMadeOf) {
  Result<std::unique_ptr<Pair>> owner(std::make_unique<Pair>(Pair{7}));
  ASSERT_TRUE(owner.ok());
  EXPECT_TRUE(owner.status().ok());
  EXPECT_EQ((*owner)->first, 7);
  Result<Pair> pair(Pair{8});
  pair->first += 1;
  EXPECT_EQ((*pair).first, 9);
  const Result<Pair> failed(Status(Code::kCorrupt, "cut short"));
  EXPECT_FALSE(failed.ok());
  EXPECT_EQ(failed.status().message(), "cut short");
}

// An exception would be caught here, and the process would go on.
TEST(ResultDeathTest, EndsTheProcessWhereAFailureIsTakenForAValue) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  Result<Pair> failed(Status(Code::kSystem, "no descriptors are left"));
  const Result<Pair>& same = failed;
  const auto take = [](auto&& value_of) {
    try {
      value_of();
    } catch (...) {
    }
  };
  const char* text = "it is a failure: no descriptors are left";
  EXPECT_DEATH(take([&] { (void)(*failed).first; }), text);
  EXPECT_DEATH(take([&] { (void)failed->first; }), text);
  EXPECT_DEATH(take([&] { (void)(*same).first; }), text);
  EXPECT_DEATH(take([&] { (void)same->first; }), text);
}

}  // namespace
}  // namespace banyan
