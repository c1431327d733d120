// Cuts around the parts of a node: a package, a NUMA domain, what is below a PCI switch, a GPU.
// Whatever ranks inside have for those outside goes over the edges that cross it. Programs print
// such a cut as the edge of the part.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <span>
#include <vector>

#include "topology/topology.h"

namespace banyan {

struct PartCut {
  int vertex = -1;     // that holds the part
  int seats = 0;       // in it; above 0, and not all of its node's
  Figure bandwidth{};  // GB/s each direction, of all edges that cross the cut; known, above 0
};

// Gives the cuts, ascending by vertices. `seats`: a vertex within a node for each rank, a GPU or a
// NUMA domain; where all are NUMA domains only what joins these carries anything. Nobody says what
// else joins the inside and the outside in these cases, so the cut is left out:
//
//   any            an edge across it has no figure
//   of processors  not all NUMA domains outside are linked
//   of a GPU       its own way to the processor is no edge
std::vector<PartCut> part_cuts(const Topology& topology, std::span<const int> seats);

}  // namespace banyan
