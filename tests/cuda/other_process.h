// A test that needs another process runs a disabled one of its own program there.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <vector>

namespace banyan::test {

// What the program ended with, as waitpid() says it; -1: it could not be had.
inline int run_disabled_test(const std::string& filter, const std::string& variable,
                             const std::string& value) {
  std::string given = variable + "=" + value;
  std::vector<char*> variables;
  for (char** at = environ; *at != nullptr; ++at) variables.push_back(*at);
  variables.insert(variables.end(), {given.data(), nullptr});
  std::string program = "/proc/self/exe", some = "--gtest_filter=" + filter,
              all = "--gtest_also_run_disabled_tests";
  char* arguments[] = {program.data(), some.data(), all.data(), nullptr};
  pid_t child = 0;
  if (::posix_spawn(&child, program.c_str(), nullptr, nullptr, arguments, variables.data()) != 0)
    return -1;
  int status = -1;
  return ::waitpid(child, &status, 0) == child ? status : -1;
}

}  // namespace banyan::test
