// What a program writes to stdout, with its failures.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <string_view>

namespace banyan {

// Guards the standard streams before anything is opened: a standard descriptor that the caller has
// closed must not become that of a file; using it stays an error. And a closed reader is a write
// that fails, not a signal.
void guard_standard_streams();

// Keeps the first failure, so that a full disk is told at the end. A reader that goes away, as head
// does, has what it wanted: that is no failure.
class Output {
 public:
  explicit Output(std::string_view program) : program_(program) {}

  void print(std::string_view text);
  // Whether it is worth going on.
  bool has_reader() const { return error_ == 0; }
  // The exit status: 0, or 1 after a line on stderr.
  int finish();

 private:
  std::string_view program_;
  int error_ = 0;
};

}  // namespace banyan
