// Describes a network interface of this host, and whether ranks of other hosts reach it by one of
// its addresses.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <string>

namespace banyan {

struct Interface {
  std::string name{};
  std::string dead_end{};  // why nobody does, for people; empty: it leads here
  bool loopback = false;
};

}  // namespace banyan
