// The main function of every program of tests. With --of=NAME it runs those alone that the source
// NAME_test.cc has. Where all of them were skipped it exits with 77, which the build system shows
// as a skip; GoogleTest alone would report success, as it would where none was chosen.
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <string_view>

namespace {

constexpr std::string_view kOf = "--of=";

// Leaves the tests of all other sources out.
void choose(std::string_view name) {
  const std::string source = "/" + std::string(name) + "_test.cc";
  std::string& filter = testing::GTEST_FLAG(filter);
  const auto& unit = *testing::UnitTest::GetInstance();
  for (int i = 0; i < unit.total_test_suite_count(); ++i) {
    const testing::TestSuite& suite = *unit.GetTestSuite(i);
    for (int j = 0; j < suite.total_test_count(); ++j) {
      const testing::TestInfo& test = *suite.GetTestInfo(j);
      if (std::string_view(test.file()).ends_with(source)) continue;
      filter += filter.find('-') == std::string::npos ? '-' : ':';
      filter += std::string(suite.name()) + "." + test.name();
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i)
    if (const std::string_view word = argv[i]; word.starts_with(kOf))
      choose(word.substr(kOf.size()));
  const int failed = RUN_ALL_TESTS();
  const auto& unit = *testing::UnitTest::GetInstance();
  if (failed != 0 || testing::GTEST_FLAG(list_tests)) return failed;
  if (unit.test_to_run_count() == 0) {
    std::fputs("no test has such a name\n", stderr);
    return 1;
  }
  return unit.skipped_test_count() == unit.test_to_run_count() ? 77 : 0;
}
