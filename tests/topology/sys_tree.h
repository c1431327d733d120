// A folder with files as /sys, /proc and /dev have them, made to order.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/temporary_folder.h"
#include "topology/discovery/sysfs.h"

namespace banyan::test {

class SysTree {
 public:
  std::string root() const { return folder_.path().string(); }
  SysRoot sys() const { return SysRoot(root()); }

  void write(const std::string& path, const std::string& text) const {
    const std::filesystem::path file = folder_.path() / path.substr(1);
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text << "\n";
  }
  void remove(const std::string& path) const {
    std::filesystem::remove_all(folder_.path() / path.substr(1));
  }
  void link(const std::string& path, const std::string& target) const {
    const std::filesystem::path file = folder_.path() / path.substr(1);
    std::filesystem::create_directories(file.parent_path());
    std::filesystem::create_directories(folder_.path() / target.substr(1));
    std::filesystem::create_directory_symlink(
        std::filesystem::relative(folder_.path() / target.substr(1), file.parent_path()), file);
  }

 private:
  TemporaryFolder folder_;
};

}  // namespace banyan::test
