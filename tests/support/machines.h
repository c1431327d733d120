// Machines that nobody owns, made to order, for the tests of topology/.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <string>
#include <vector>

#include "topology/topology.h"

namespace banyan::test {

// A GPU server: two packages or one, NUMA domains, PCI switches with GPUs and NICs on them.
struct Box {
  std::string name = "box";
  int packages = 2;
  int numas_per_package = 1;
  int cpus_per_numa = 4;
  int gpus = 8;
  int gpus_per_switch = 2;               // 0: on root ports
  std::vector<int> nics = {1, 1, 1, 1};  // of each PCI switch, or NUMA domain where there is none
  int nvswitches = 0;                    // each GPU has two NVLinks to each
  bool numa_known = true;                // else devices hang on the node
};
Topology machine(const Box& box);

// Boxes of 1 to 16 GPUs, with and without PCI switches, NVSwitches and NICs, some irregular.
std::vector<Box> boxes();

// Nodes of NICs only on two leaves a pod, their NICs alternating, pods joined by two spines.
Topology fabric(int pods, int nodes_per_pod);

}  // namespace banyan::test
