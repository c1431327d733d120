// SPDX-License-Identifier: Apache-2.0

#include "src/base/processor.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string_view>

#include "src/base/parse.h"

namespace banyan {

std::string processor_model() {
  std::ifstream stream("/proc/cpuinfo");
  for (std::string line; std::getline(stream, line);) {
    const size_t colon = line.find(':');
    if (colon != std::string::npos && trim(std::string_view(line).substr(0, colon)) == "model name")
      return std::string(trim(std::string_view(line).substr(colon + 1)));
  }
  return {};
}

int online_cores() {
  return static_cast<int>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN)));
}

}  // namespace banyan
