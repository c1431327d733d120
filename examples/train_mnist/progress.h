// A line that is written over and over, on a terminal only.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <utility>

namespace banyan::example {

class Progress {
 public:
  Progress(bool wanted, std::string text, int total)
      : text_(std::move(text)), total_(total), shown_(wanted && isatty(STDERR_FILENO) == 1) {}
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress() {
    if (shown_) fmt::print(stderr, "\r{:{}}\r", "", text_.size() + 30);
  }

  // At most ten times a second.
  void show(int done) {
    const auto now = std::chrono::steady_clock::now();
    if (!shown_ || now < next_) return;
    next_ = now + std::chrono::milliseconds(100);
    fmt::print(stderr, "\r{}  step {}/{}", text_, done, total_);
  }

 private:
  std::string text_;
  int total_;
  bool shown_;
  std::chrono::steady_clock::time_point next_;
};

}  // namespace banyan::example
