// An algorithm by levels goes through these layers, as its costs see them. Private to this folder.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <vector>

#include "algorithms/cost/cost_rounds.h"

namespace banyan {

// Teams of one rank of each part of the layer below, or, in the lowest, of all ranks of a part.
struct Layer {
  CostTeam team;     // its count: as many as there are parts, which is one at the top
  Reach reach;       // of messages inside a team
  double below = 1;  // ranks of a part of the layer below
};

// Gives a layer for each level of a site of several hosts that says something, as
// Hierarchy::simplified() has them, and the top. Where no level does, there is one for that of
// hosts, and the top.
std::vector<Layer> layers_of(const Site& site);

}  // namespace banyan
