// A node in the format of others, for programs that read that. What it cannot say and paths
// do not depend on is left out (docs/topology.md has the list); kInvalidArgument, in one line that
// says what would be right, where paths do: several nodes, none, a number of NVLinks that nobody
// knows, wires that the format has no form for.
//
// Names from outside are escaped. A pure function, and thread-safe.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <string>

#include "topology/topology.h"

namespace banyan {

// NCCL's topology, for NCCL_TOPO_FILE; of machines with xGMI RCCL's version 2. An attribute that is
// not known is not there: NCCL then asks the machine, and would believe what is written.
Result<std::string> to_nccl_xml(const Topology& topology);

}  // namespace banyan
