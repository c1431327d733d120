// The parts of a node's processors as hwloc wants them: by their sets, which nest and do not cross.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <map>
#include <string_view>
#include <vector>

#include "topology/one_node.h"

namespace banyan {

struct HwlocPart {
  int vertex = -1;  // the node, a package, an L3 cache, or a NUMA domain that no other part equals
  CpuSet cpus{};
  // Whose set is the same, by their numbers; of the node also those without processors.
  std::vector<int> numas{};
  std::vector<size_t> parts{};  // right within this one
  size_t above = 0;
  int nested = 0;
};

struct HwlocParts {
  std::vector<HwlocPart> all{};  // [0] is the node
  std::map<int, size_t> home{};  // of each NUMA domain
};

// kInvalidArgument: no processors, sets that cross, one of a kind within another of it.
Result<HwlocParts> nest_parts(const Topology& topology, const OneNode& one, std::string_view form);

}  // namespace banyan
