// A job may use only some of the NICs that a description has; levels follow from those.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <string_view>

#include "topology/notes.h"
#include "topology/topology.h"

namespace banyan {

// Takes out the ports and NICs that `list`, BANYAN_NET_DEVICES, leaves out, by the names of NICs,
// of ports and of their interfaces ("mlx5_0", "mlx5_0:1", "ib0"). All of them stay where the list
// is empty, or would leave a node none: then it is of other names than the description, and a note
// says so.
Topology with_net_devices(const Topology& topology, std::string_view list, Notes& notes);

// Writes a note for each switch that leaves the description without levels that it would have else,
// as one of a storage network does.
void note_joining_switches(const Topology& topology, Notes& notes);

}  // namespace banyan
