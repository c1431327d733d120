// Writes a node in the format of others, for programs that read that. What a format cannot say
// and paths do not depend on is left out (docs/topology.md has the list). Where paths do depend on
// it, kInvalidArgument says in one line what would be right: several nodes, none, a number of
// NVLinks that nobody knows, edges that the format has no form for.
//
// Names from outside are escaped. A pure function, and thread-safe.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <string>

#include "topology/topology.h"

namespace banyan {

// Writes NCCL's topology, for NCCL_TOPO_FILE; for machines with xGMI RCCL's version 2. An attribute
// that is not known is not there: NCCL then asks the machine, and would believe what is written.
Result<std::string> to_nccl_xml(const Topology& topology);

}  // namespace banyan
