// What joins the parts of a machine or cluster, as the cost model's cuts see it.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "algorithms/cost/cost.h"
#include "topology/levels.h"
#include "topology/topology.h"

namespace banyan::info {

inline constexpr double kMicrosecondsPerGB = 1e-3;  // of a byte, at 1 GB/s

// Takes parts one by one, and makes one PartCost of all that are alike.
class PartCosts {
 public:
  // `rate`: GB/s each direction, of all that joins the part to the others; unknown: nobody says.
  void add(const std::string& kind, int ranks, const Figure& rate, bool leaves_by_nics);
  // All of them, where the machine is there so many times.
  std::vector<PartCost> costs(int times) const;

 private:
  struct Alike {
    bool leaves_by_nics = true;
    bool all_known = true;
    double count = 0;
    Figure narrowest{}, widest{}, together{};
  };
  std::map<std::pair<std::string, int>, Alike> alike_;
};

// A node as far as its parts go.
struct Seated {
  int vertex = 0;
  int ranks = 0;
  std::vector<int> gpus{};  // that its first ranks are on; empty: all are on processors
};

// Where ranks sit: on GPUs, or spread evenly over the cores of the NUMA domains.
std::vector<int> seats_of(const Topology& topology, const std::vector<Seated>& nodes);

// Adds the parts within nodes: GPUs, PCI switches, NUMA domains and packages. The narrowest of each
// kind is in `shown`.
void add_parts_of_nodes(const Topology& topology, const std::vector<Seated>& nodes,
                        PartCosts& costs, std::map<VertexKind, Figure>& shown);
void add_parts_of_tier(const NodeTier& tier, const std::vector<int>& ranks, PartCosts& costs);

}  // namespace banyan::info
