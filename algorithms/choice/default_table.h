// A call that nobody has a rule for gets what these tables say by medium, size and number of ranks,
// of what was measured to be fastest. Private to this folder.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "algorithms/choice/select.h"
#include "algorithms/problem.h"

namespace banyan {

inline constexpr uint64_t kAnySize = std::numeric_limits<uint64_t>::max();

bool contains(const std::vector<int>& algorithms, int algorithm);

// The collective under which a call stands in the table.
Collective heading_of(Collective collective);

// How ranks on a network lie.
enum class Placement { kApart, kInHosts, kInTwoHosts };

struct TableChoice {
  int algorithm = -1;  // -1: all that fit are excluded
  Parameters parameters{};
};
TableChoice from_default_table(const Problem& problem, int ranks, Medium medium,
                               Placement placement, const std::vector<int>& excluded);

}  // namespace banyan
