// The words in the boxes of a node.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "topology/topology.h"

namespace banyan {

// What all GPUs, or all NICs, of a node have in common is said once, of the node.
class NodeFacts {
 public:
  NodeFacts(const Topology& topology, const std::vector<std::vector<int>>& children, int node);

  // Tells what a device has that not all of its kind have. Of anything else it tells what is known.
  std::vector<std::string> of(int vertex) const;

 private:
  using Words = std::vector<std::string>;
  struct Common {
    size_t count = 0;
    Words words{};
  };

  Words of_device(int vertex) const;
  Words of_holder(int vertex) const;

  const Topology& topology_;
  const std::vector<std::vector<int>>& children_;
  std::map<VertexKind, Common> common_;
  std::map<int, Words> of_itself_;  // edges that begin and end at one vertex
};

}  // namespace banyan
