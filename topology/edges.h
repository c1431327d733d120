// The edges of parts of a node: of a package, a NUMA domain, what is below a PCI switch, a GPU.
// Whatever ranks inside have for those outside goes over the links that cross it.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <span>
#include <vector>

#include "topology/topology.h"

namespace banyan {

struct PartEdge {
  int vertex = -1;     // that holds the part
  int seats = 0;       // in it; above 0, and not all of its node's
  Figure bandwidth{};  // GB/s each direction, of all links that cross the edge; known, above 0
};

// `seats`: a vertex within a node for each rank, a GPU or a NUMA domain; where all are NUMA domains
// only what joins these carries anything. An edge is left out where
// a link across it has no figure, and one of processors also where not all NUMA domains outside are
// linked, one of a GPU also where its own way to the processor is no link: nobody says what else
// joins them. Ascending by vertices.
std::vector<PartEdge> part_edges(const Topology& topology, std::span<const int> seats);

}  // namespace banyan
