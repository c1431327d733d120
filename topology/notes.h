// A reader of a description notes, in lines for people, what it leaves out or cannot tell. Such a
// description is read all the same.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <fmt/core.h>

#include <string>
#include <utility>
#include <vector>

namespace banyan {

class Notes {
 public:
  // "line 9: ..."
  void add(std::string note) {
    if (notes_.size() < kMost) {
      notes_.push_back(std::move(note));
    } else {
      ++more_;
    }
  }
  // A hostile file could fill a screen: of more than 32 notes the rest are counted.
  std::vector<std::string> lines() const {
    std::vector<std::string> lines = notes_;
    if (more_ > 0) lines.push_back(fmt::format("{} more notes of this kind", more_));
    return lines;
  }

 private:
  static constexpr size_t kMost = 32;
  std::vector<std::string> notes_;
  size_t more_ = 0;
};

// "a, b, ...": the first eight.
template <typename Names>
std::string listed(const Names& names) {
  constexpr size_t kMost = 8;
  std::string text;
  size_t count = 0;
  for (const std::string& name : names) {
    text += count == 0 ? "" : ", ";
    if (count++ == kMost) return text + "...";
    text += name;
  }
  return text;
}

}  // namespace banyan
