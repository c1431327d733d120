// The algorithms, written out in one list. Each is a pure generator: every rank calls it with the
// same problem and its own place in the group, and gets its own steps.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>

#include "algorithms/builder.h"
#include "algorithms/problem.h"
#include "banyan/status.h"

namespace banyan {

using Generator = void (*)(ScheduleBuilder&, const Group&, const Problem&);

struct Algorithm {
  std::string_view name;                                 // as BANYAN_ALGO has it
  std::string_view text;                                 // one sentence with its source
  std::array<Generator, kCollectiveCount> generators{};  // null where it does not fit
  bool by_levels = false;                                // goes by the group's hierarchy

  bool fits(Collective collective) const {
    return generators[static_cast<size_t>(collective)] != nullptr;
  }
};

// recursive_doubling, circulant, ring, binomial, double_tree, bruck, pairwise, dissemination,
// direct, star, torus, hierarchical, leaders.
std::span<const Algorithm> algorithms();
// Its place in algorithms(), -1 if there is none.
int find_algorithm(std::string_view name);
// Of the algorithm at that place; false for -1.
bool fits(int algorithm, Collective collective);

// The fused schedule of this rank. Requires algorithm.fits(problem.collective). A group of one
// needs no algorithm: copies and conversions only.
Schedule build_schedule(const Problem& problem, const Group& group, const Algorithm& algorithm);
// kSend and kRecv: one step.
Schedule build_message(const Problem& problem);

}  // namespace banyan
