// Real machines have descriptions, which are no part of the project: tests that want them skip
// without.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>

#include "tests/support/temporary_folder.h"

namespace banyan::test {

inline constexpr const char* kNoRealMachines =
    "BANYAN_TEST_TOPOLOGIES names no folder of descriptions";

// Their folder.
inline std::optional<std::filesystem::path> real_machines() {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): tests read the environment before they begin threads
  const char* folder = std::getenv("BANYAN_TEST_TOPOLOGIES");
  return folder == nullptr ? std::nullopt : std::optional<std::filesystem::path>(folder);
}

// Gives the content of a file, unpacked where its name ends with ".gz".
inline std::string content_of(const std::filesystem::path& path) {
  const TemporaryFolder folder;
  std::filesystem::path plain = path;
  if (path.extension() == ".gz") {
    plain = folder.path() / "plain";
    const std::string unpack = fmt::format("gzip -dc '{}' > '{}'", path.string(), plain.string());
    // NOLINTNEXTLINE(concurrency-mt-unsafe,cert-env33-c): no threads, and names of these tests' own
    EXPECT_EQ(std::system(unpack.c_str()), 0);
  }
  std::ifstream file(plain);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

}  // namespace banyan::test
