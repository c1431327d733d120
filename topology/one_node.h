// The one node that a format of others describes, with what such a format wants of it.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <map>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "topology/topology.h"

namespace banyan {

struct OneNode {
  int node = -1;
  std::vector<int> numas{};                  // by their numbers, which all have and no two share
  std::vector<std::vector<int>> children{};  // of every vertex
  std::vector<int> up{};                     // by vertex: its edge to its parent; -1: none
  // Has for each vertex that hangs on PCI its bus id, in the form of sysfs and each once. Where a
  // vertex has none it is invented as in the files for virtual machines: ffff:ff:01.0,
  // ffff:ff:02.0, ...
  std::vector<std::string> bus_ids{};
  int invented = 0;  // how many of them
  std::unordered_set<std::string> taken{};
};

// Fails with kInvalidArgument, which names `form` ("NCCL's XML"), for several nodes or none, NUMA
// domains without a number, two devices with one bus id, or more PCI switches in a row than PCI has
// buses for.
Result<OneNode> one_node(const Topology& topology, std::string_view form);

// The next bus id that nothing has.
std::string invent_bus_id(OneNode& one);

// The NUMA domain that a device is at; -1: not known, or the node has none.
int numa_of_device(const Topology& topology, const OneNode& one, int device);

// An interface that is on no PCI device, so that the formats have it beside PCI.
bool is_bare(const Topology& topology, const OneNode& one, int device);

// Gives the devices and PCI switches that are in no PCI switch, in order, by the NUMA domain that
// they are at.
std::map<int, std::vector<int>> devices_by_numa(const Topology& topology, const OneNode& one);

}  // namespace banyan
