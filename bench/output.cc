// SPDX-License-Identifier: Apache-2.0

#include "bench/output.h"

#include <fcntl.h>
#include <fmt/core.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <system_error>

namespace banyan {

// Each takes the lowest number that is free.
void guard_standard_streams() {
  ::signal(SIGPIPE, SIG_IGN);
  for (const int descriptor : {0, 1, 2})
    if (::fcntl(descriptor, F_GETFD) < 0)
      (void)::open("/dev/null", descriptor == 0 ? O_WRONLY : O_RDONLY);
}

void Output::print(std::string_view text) {
  if (error_ == 0 && std::fwrite(text.data(), 1, text.size(), stdout) != text.size())
    error_ = errno;
}

int Output::finish() {
  if (error_ == 0 && std::fflush(stdout) != 0) error_ = errno;
  if (error_ == 0 || error_ == EPIPE) return 0;
  std::fputs(fmt::format("{}: cannot write to stdout: {}\n", program_,
                         std::generic_category().message(error_))
                 .c_str(),
             stderr);
  return 1;
}

}  // namespace banyan
