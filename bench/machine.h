// The machine that a figure was measured on, in the few words that belong beside it.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <string>

namespace banyan {

struct Machine {
  std::string host;
  std::string cpu;
  std::string kernel;
  int cores = 1;
  uint64_t memory_bytes = 0;
  uint64_t available_bytes = 0;
};
Machine this_machine();

// "0.1.0", of the library that is linked.
std::string version_text();

}  // namespace banyan
