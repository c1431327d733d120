// SPDX-License-Identifier: Apache-2.0

#include "bench/output.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <system_error>

namespace banyan {

void Output::print(std::string_view text) {
  if (error_ == 0 && std::fwrite(text.data(), 1, text.size(), stdout) != text.size())
    error_ = errno;
}

int Output::finish() {
  if (error_ == 0 && std::fflush(stdout) != 0) error_ = errno;
  if (error_ == 0) return 0;
  std::fputs(fmt::format("{}: cannot write to stdout: {}\n", program_,
                         std::generic_category().message(error_))
                 .c_str(),
             stderr);
  return 1;
}

}  // namespace banyan
