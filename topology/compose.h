// Clusters made of descriptions of nodes.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <span>

#include "topology/topology.h"

namespace banyan {

// `count` nodes like the one that there is, named NAME-0, NAME-1, ...; one stays as it is.
// kInvalidArgument where there is not exactly one node, where it is linked to a network (which
// nobody can continue), or where the result were larger than check() allows.
Result<Topology> multiply(const Topology& topology, int count);

// What several nodes, or several processes of one, say of themselves, as one cluster in the order
// of the views. Nodes of one name and GUID (boot id) are one node: it has the processors and
// devices of all its views, and where views disagree in anything else the first is right. Nodes of
// one name and different GUIDs are different: the second becomes NAME.2. Switches are one by name.
Result<Topology> merge(std::span<const Topology> views);

// For people: of nodes that no cable is fastened to and that differ in nothing but names of their
// own and GUIDs, only the first, whose name says how many there are: "box-0 (x 64)".
Topology folded(const Topology& topology);

}  // namespace banyan
