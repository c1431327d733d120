// The main function of every unit test. Where all tests of a program were skipped it exits with 77,
// which the build system shows as a skip; GoogleTest alone would report success.
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const int failed = RUN_ALL_TESTS();
  const auto& unit = *testing::UnitTest::GetInstance();
  const bool all_skipped =
      unit.test_to_run_count() > 0 && unit.skipped_test_count() == unit.test_to_run_count();
  return failed == 0 && all_skipped ? 77 : failed;
}
