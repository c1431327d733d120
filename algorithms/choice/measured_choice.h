// Choices by the links of a job as they were measured, for calls that no rule decides: which calls
// those are, and what is chosen for them.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <optional>
#include <span>
#include <vector>

#include "algorithms/cost/cost.h"
#include "algorithms/cost/measured_links.h"

namespace banyan {

// What ranks on several hosts know of the network between them: the same on all of them.
struct MeasuredNetwork {
  CostModel model;
  Hierarchy levels;  // hosts, also where each has one rank, and what is above them
};

// `levels`: hosts, with so many cores each, and what is above them. Of a level that was measured
// and is not among those, any two hosts may be on either side: if it is slower, they count as such.
// Nothing: the links between hosts were not measured, or there is one host.
std::optional<MeasuredNetwork> measured_network(const MeasuredLinks& links, int cores,
                                                const Hierarchy& levels);

// Whether links decide calls like this one: a list in measured_choice.cc says it. Never of
// alltoallv, whose counts every rank knows only its own of.
bool links_decide(const Problem& problem);

struct ChosenByLinks {
  int algorithm = -1;  // -1: none
  Parameters parameters{};
};
// The algorithm of least predicted time, the first of equals, that is not in `excluded`; those that
// go by levels only where there are `levels`, and hierarchical in segments of another length than
// its own where that promises to take clearly less. None where links do not decide such calls.
// Looks at nothing that ranks may differ in.
ChosenByLinks choose_by_links(const Problem& problem, const MeasuredNetwork& network, bool levels,
                              const std::vector<int>& excluded);

}  // namespace banyan
