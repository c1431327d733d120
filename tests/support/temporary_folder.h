// A folder of a test's own, which goes with all that is in it.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <string>

namespace banyan::test {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    // mkdtemp() replaces the last six letters by ones that nobody else has.
    std::string name = testing::TempDir() + "/banyan_XXXXXX";
    EXPECT_NE(::mkdtemp(name.data()), nullptr) << name;
    path_ = name;
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;  // a test that has failed may have left anything
    std::filesystem::remove_all(path_, ignored);
  }

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace banyan::test
