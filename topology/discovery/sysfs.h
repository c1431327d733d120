// Linux describes a machine by these files, below a root that tests replace.
//
// They come from drivers, containers and, below another root, from anybody: a file may be missing,
// unreadable or hold anything. What cannot be read is empty; nothing here fails.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace banyan {

class SysRoot {
 public:
  explicit SysRoot(std::string root = "/") : root_(std::move(root)) {}

  // Whether this is the machine that we run on, whose system calls say the same.
  bool real() const { return root_ == "/"; }
  // The first line, without blanks around it; at most 4 KiB.
  std::string line(std::string_view path) const;
  // The whole file; at most 1 MiB.
  std::string text(std::string_view path) const;
  // Names in a folder, sorted; at most 65,536.
  std::vector<std::string> list(std::string_view folder) const;
  bool exists(std::string_view path) const;
  // Tells where a path leads when all links in it have been followed, below the root
  // ("/sys/devices/..."). It is empty where the path leads out of that.
  std::string resolve(std::string_view path) const;

 private:
  std::string root_;
};

}  // namespace banyan
