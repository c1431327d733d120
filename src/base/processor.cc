// SPDX-License-Identifier: Apache-2.0

#include "src/base/processor.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <memory>
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

std::vector<int> usable_cores() {
  // Machines with more cores than a cpu_set_t holds need a larger set.
  for (size_t most = CPU_SETSIZE; most <= size_t{64} * CPU_SETSIZE; most *= 2) {
    const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> set(
        CPU_ALLOC(most), [](cpu_set_t* held) { CPU_FREE(held); });
    const size_t bytes = CPU_ALLOC_SIZE(most);
    if (set == nullptr) break;
    if (::sched_getaffinity(0, bytes, set.get()) != 0) continue;
    std::vector<int> cores;
    for (size_t core = 0; core < most; ++core) {
      if (CPU_ISSET_S(core, bytes, set.get())) cores.push_back(static_cast<int>(core));
    }
    return cores;
  }
  return {0};
}

}  // namespace banyan
