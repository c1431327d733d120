// The levels of a machine or cluster at which a collective may change its algorithm, and the rails:
// the NICs of equal place in every node.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <string>
#include <vector>

#include "topology/topology.h"

namespace banyan {

struct LevelGroup {
  std::string name{};  // of the vertex that holds it, or of the rail
  std::vector<int> gpus{};
  std::vector<int> nics{};
  int cpus = 0;  // logical processors; 0 where the level is one of NICs

  friend bool operator==(const LevelGroup&, const LevelGroup&) = default;
};

// A partition of the cluster. Groups need not be alike, nor need they hold everything.
struct Level {
  std::string name{};  // "l3", "numa", "package", "node", "rail", "leaf", "pod", "tier3", ...
  std::vector<LevelGroup> groups{};
  bool regular = true;  // as many GPUs, NICs and processors in every group

  friend bool operator==(const Level&, const Level&) = default;
};

// Smallest first; a group of which no GPU, NIC or processor is known is left out, as those of
// Slurm's files are, so is a level without a group, and so are tiers of switches that join
// everything. A leaf's GPUs are those whose nearest NIC is on it.
std::vector<Level> levels(const Topology& topology);

// A partition of the nodes: those that switches of at most that tier join are in one part. A switch
// is of the part that all nodes at it and below it are in, if there is one.
struct NodeTier {
  std::string name{};       // "leaf", "pod", "tier3", ...
  std::vector<int> part{};  // of each node, in the order of vertices_of(kNode); from 0
  // Of each part, GB/s each direction: all cables between switches of the part and others. Unknown
  // where that of any of them is, or where there are none.
  std::vector<Figure> uplink{};
  // Crossed from part to part: up to the tier that joins some, or one beyond all where none does,
  // and down again.
  int switches = 0;
};
// Leaves first. A node on several leaves joins them. A tier that joins as many as the one before is
// left out, and so is one that leaves every node alone or puts all of them together. Switches more
// than 15 cables above all leaves join nothing.
std::vector<NodeTier> node_tiers(const Topology& topology);

// Leaves of the same nodes that put nodes together which other leaves keep apart, so that
// node_tiers() would have more without them.
struct JoiningLeaves {
  std::vector<int> leaves{};
  std::vector<int> hosts{};           // NICs, or nodes, that are on them
  std::vector<std::string> levels{};  // that node_tiers() would have more: "leaf"
};
// Every node on them is on another leaf, too. Those of many nodes come first, and of a network that
// is very large only those are looked at.
std::vector<JoiningLeaves> joining_leaves(const Topology& topology);

// The NICs that are up, one of each node in a rail where nodes have equally many. With a network of
// several leaves NICs go by name ("mlx5_0"), and one whose name nobody else has goes with its
// leaf; without, the k-th NIC of every node is in rail k.
std::vector<LevelGroup> rails(const Topology& topology);

}  // namespace banyan
