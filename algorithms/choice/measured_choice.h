// Chooses by the links of a job as they were measured, for calls that no rule decides: it knows
// which calls those are, and what is chosen for them.
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

// Gives the network of `levels`: hosts, with so many cores each, and what is above them. Where a
// level was measured and is not among those, any two hosts may be on either side of it: if it is
// slower, they count as such. Nothing: the links between hosts were not measured, or there is one
// host.
std::optional<MeasuredNetwork> measured_network(const MeasuredLinks& links, int cores,
                                                const Hierarchy& levels);

// Tells whether links decide calls like this one: a list in measured_choice.cc says it. They never
// decide alltoallv, of which every rank knows only its own counts.
bool links_decide(const Problem& problem);

struct ChosenByLinks {
  int algorithm = -1;  // -1: none
  Parameters parameters{};
};
// Gives the algorithm of least predicted time, the first of equals, that is not in `excluded`.
// None: links do not decide such calls. It looks at nothing that ranks may differ in.
//
//   algorithms that go by levels       only where there are `levels`
//   hierarchical in segments of        only where that promises to take clearly less
//   another length than its own
ChosenByLinks choose_by_links(const Problem& problem, const MeasuredNetwork& network, bool levels,
                              const std::vector<int>& excluded);

}  // namespace banyan
