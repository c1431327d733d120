// A topology as something a person can read. Nodes that are alike are shown once.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <string>

#include "topology/topology.h"

namespace banyan {

// Writes a tree with the bandwidth and its source behind each device, then edges beside the tree,
// classes of paths between the devices of a node, and levels.
std::string to_text(const Topology& topology);
// A Graphviz graph: edges of the tree are solid, others dashed, and parallel ones are one.
std::string to_dot(const Topology& topology);
// Draws a picture at most 1,600 wide: the network in tiers above the nodes, then a node of each
// kind with its devices, where a mesh of edges is one box. What is alike is drawn once, with its
// number, where all were too much.
std::string to_svg(const Topology& topology);

}  // namespace banyan
