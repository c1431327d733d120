// A machine or cluster as the cost model sees it.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "algorithms/cost/cost.h"
#include "algorithms/cost/measured_links.h"
#include "banyan/status.h"
#include "src/base/message_times.h"
#include "topology/hierarchy.h"
#include "topology/topology.h"

namespace banyan::info {

// A figure that predictions go by, as it is shown.
struct ShownFigure {
  std::string what{};  // for people: "latency between nodes"
  std::string key{};   // for programs, with the unit: "network_latency_us"
  Figure figure{};
  std::string unit{};   // "us"
  std::string level{};  // of switches, "leaf", that it is of; empty: of nodes
  // Is there where parts differ: figure is then the least, a number.
  std::optional<double> most{};
};
// "latency between nodes           10 us     assumed".
std::string text_of(const ShownFigure& shown);

struct DescribedMachine {
  CostModel model;
  int cores = 1;           // of the smallest node
  std::vector<int> hosts;  // ranks of each node
  Hierarchy hierarchy;     // level "host" of these, and the tiers of switches above it
  std::vector<ShownFigure> figures;
};

inline constexpr int kMostRanksExplained = 1 << 20;
// Describes a machine or cluster `times` times. A node has a rank for each GPU, else for each core,
// unless `ranks_per_node` is not 0. Where several GPUs of a node are joined and the figures of the
// edges are known, these are the figures within a host; otherwise those of shared memory. What
// joins copies of a cluster nobody knows: each has its tiers, and no level is above them.
// kInvalidArgument: fewer than 2 ranks, or more than kMostRanksExplained.
//
//   measured     what is known of messages between such nodes; it goes before what their NICs and
//                switches say
//   rank_cores   cores of a node that its ranks are known to have; 0: all
//   messages     what was measured of messages in the memory of such a node
Result<DescribedMachine> describe_machine(const Topology& topology, int times, int ranks_per_node,
                                          const MeasuredLinks& measured = {}, int rank_cores = 0,
                                          const MessageTimes& messages = {});

}  // namespace banyan::info
