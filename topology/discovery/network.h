// The NICs and ports of a node, as sysfs has them.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <string>
#include <string_view>

#include "topology/discovery/sysfs.h"
#include "topology/topology.h"

namespace banyan {

// Adds RDMA devices with their ports, then network interfaces, which join the port of an RDMA
// device where they are on the same function. An interface without a device is a NIC where it leads
// out of a container (veth, macvlan); loopback, bridges and the like are not.
//
// A port that is not up has no rate, and neither has one whose driver does not know it (-1).
void add_network(Topology& topology, int node, const SysRoot& root);

// "400 Gb/sec (4X NDR)": 50 GB/s.
Figure rdma_rate(std::string_view text);
std::string rdma_width(std::string_view text);  // "4X NDR"

}  // namespace banyan
