// A variable of the environment, for tests.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <stdlib.h>

#include <string>
#include <utility>

namespace banyan::test {

// Set while it lives. The environment belongs to the process: not where other threads read it.
class Variable {
 public:
  Variable(std::string name, const std::string& value) : name_(std::move(name)) {
    ::setenv(name_.c_str(), value.c_str(), 1);  // NOLINT(concurrency-mt-unsafe): as said above
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;
  ~Variable() { ::unsetenv(name_.c_str()); }  // NOLINT(concurrency-mt-unsafe): as said above

 private:
  std::string name_;
};

}  // namespace banyan::test
