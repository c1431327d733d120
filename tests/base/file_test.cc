// Files that are replaced whole.
// SPDX-License-Identifier: Apache-2.0

#include "src/base/file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <iterator>
#include <string>

#include "tests/support/temporary_folder.h"

namespace banyan::file_test {
namespace {

namespace fs = std::filesystem;

std::string contents(const fs::path& path) {
  const auto text = read_file(path, 1'000'000);
  EXPECT_TRUE(text.ok()) << text.status().message();
  return text.ok() ? *text : std::string();
}

std::ptrdiff_t files_in(const fs::path& folder) {
  return std::distance(fs::directory_iterator(folder), fs::directory_iterator());
}

TEST(ReplaceFile, WritesANewOneForThoseWhomTheUmaskAllows) {
  const test::TemporaryFolder folder;
  const fs::path path = folder.path() / "new";
  const mode_t before = ::umask(027);
  const Status written = replace_file(path, std::string(100'000, 'x'));
  ::umask(before);
  ASSERT_TRUE(written.ok()) << written.message();
  EXPECT_EQ(contents(path), std::string(100'000, 'x'));
  EXPECT_EQ(fs::status(path).permissions(), fs::perms(0640));
  EXPECT_EQ(files_in(folder.path()), 1);
}

TEST(ReplaceFile, ReplacesWhatALinkNames) {
  const test::TemporaryFolder folder;
  const fs::path path = folder.path() / "old", link = folder.path() / "link";
  ASSERT_TRUE(replace_file(path, "a longer text than the new one").ok());
  fs::create_symlink(path, link);
  ASSERT_TRUE(replace_file(link, "short").ok());
  EXPECT_EQ(contents(path), "short");
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_EQ(files_in(folder.path()), 2);
}

TEST(ReplaceFile, SaysWhyItCannot) {
  const test::TemporaryFolder folder;
  EXPECT_EQ(replace_file(folder.path() / "missing" / "file", "text").message(),
            "cannot make a file in its folder: No such file or directory");
  EXPECT_EQ(replace_file(folder.path(), "text").message(), "this is a folder, not a file");
  EXPECT_EQ(replace_file("/dev/full", "text").message(), "this is no regular file");
  EXPECT_EQ(files_in(folder.path()), 0);
}

TEST(ReadFile, SaysWhyItCannot) {
  const test::TemporaryFolder folder;
  const fs::path path = folder.path() / "file";
  EXPECT_EQ(read_file(path, 5).status().message(), "cannot open it: No such file or directory");
  EXPECT_EQ(read_file(folder.path(), 5).status().message(), "this is a folder, not a file");
  ASSERT_TRUE(replace_file(path, "12345").ok());
  EXPECT_EQ(contents(path), "12345");
  EXPECT_EQ(read_file(path, 4).status().message(), "larger than 4 bytes");
}

}  // namespace
}  // namespace banyan::file_test
