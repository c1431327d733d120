// The words that all forms for people share.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "topology/topology.h"

namespace banyan {

// "31.5 GB/s [hardware]", "unknown [hardware]".
std::string text_of(const Figure& figure, std::string_view unit);
// "pcie x16 16 GT/s, 31.5 GB/s [hardware]".
std::string text_of(const Edge& edge);
// What is known of a vertex beyond its name, in parts: {"A100-SXM4-80GB", "80 GiB"}.
std::vector<std::string> facts_of(const Vertex& vertex);

// Edges of the tree, by the vertex whose way up they are (-1: none), and all others.
struct SortedEdges {
  std::vector<int> up;      // by vertex: index of its edge to its parent
  std::vector<int> beside;  // indices of the rest
};
SortedEdges sort_edges(const Topology& topology);

}  // namespace banyan
