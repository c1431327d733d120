// A Result gives its value or its failure, and never an exception. The process ends where a value
// is taken that is not there.
// SPDX-License-Identifier: Apache-2.0

#include "banyan/status.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <set>
#include <string>

#include "src/base/failure_code.h"

namespace banyan::status_test {
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

TEST(Status, KnowsTheNumbersOfFailures) {
  const std::set<uint64_t> failures = {1, 2, 3, 4, 5, 6, 8, 32, 33, 34, 35, 36, 37};
  for (uint64_t number = 0; number < 300; ++number)
    EXPECT_EQ(is_failure_code(number), failures.count(number) == 1) << number;
  for (const uint64_t wraps : {UINT64_MAX, uint64_t{1} << 31, (uint64_t{1} << 32) + 1})
    EXPECT_FALSE(is_failure_code(wraps)) << wraps;
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
}  // namespace banyan::status_test
