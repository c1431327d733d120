// The main function of every unit test. Where all tests of a program were skipped it exits with 77,
// which the build system shows as a skip; GoogleTest alone would report success, as it would where
// none was chosen.
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <cstdio>

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const int failed = RUN_ALL_TESTS();
  const auto& unit = *testing::UnitTest::GetInstance();
  if (failed != 0 || testing::GTEST_FLAG(list_tests)) return failed;
  if (unit.test_to_run_count() == 0) {
    std::fputs("no test has such a name\n", stderr);
    return 1;
  }
  return unit.skipped_test_count() == unit.test_to_run_count() ? 77 : 0;
}
