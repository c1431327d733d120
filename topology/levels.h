// A machine or cluster has levels at which a collective may change its algorithm, and rails: the
// NICs of equal place in every node.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <string>
#include <vector>

#include "topology/topology.h"

namespace banyan {

// Nobody builds more tiers of switches; who describes more shall not wait for it.
inline constexpr int kMostSwitchTiers = 16;

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

// Gives the levels, smallest first. A leaf's GPUs are those whose nearest NIC is on it. These are
// left out:
//
//   a group of which no GPU, NIC or processor is known, as those of Slurm's files are
//   a level without a group
//   tiers of switches that join everything
std::vector<Level> levels(const Topology& topology);

// A tier is a partition of the nodes: those that switches of at most that tier join are in one
// part. A switch is of the part that all nodes at it and below it are in, if there is one.
struct NodeTier {
  std::string name{};       // "leaf", "pod", "tier3", ...
  std::vector<int> part{};  // of each node, in the order of vertices_of(kNode); from 0
  // Has for each part the GB/s each direction of all cables between switches of the part and
  // others. Unknown where that of any of them is, or where there are none.
  std::vector<Figure> uplink{};
  // Counts the switches from part to part: up to the tier that joins some, or one beyond all where
  // none does, and down again.
  int switches = 0;
};
// Gives the tiers, leaves first. A node on several leaves joins them. A tier is left out that joins
// as many as the one before, leaves every node alone, or puts all of them together. Switches more
// than 15 cables above all leaves join nothing.
std::vector<NodeTier> node_tiers(const Topology& topology);

// These leaves of the same nodes put nodes together which other leaves keep apart, so that
// node_tiers() would have more without them.
struct JoiningLeaves {
  std::vector<int> leaves{};
  std::vector<int> hosts{};           // NICs, or nodes, that are on them
  std::vector<std::string> levels{};  // that node_tiers() would have more: "leaf"
};
// Finds leaves of which every node is on another leaf, too. Those of many nodes come first. In a
// network that is very large only those are looked at.
std::vector<JoiningLeaves> joining_leaves(const Topology& topology);

// Gives the NICs that are up, one of each node in a rail where nodes have equally many.
//
//   a network of several leaves   NICs of one name ("mlx5_0") are a rail; one whose name nobody
//                                 else has goes with its leaf
//   any other                     the k-th NIC of every node is in rail k
std::vector<LevelGroup> rails(const Topology& topology);

}  // namespace banyan
