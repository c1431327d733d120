// Clusters made of descriptions of nodes.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <span>

#include "topology/topology.h"

namespace banyan {

// Makes `count` nodes like the one that there is, named NAME-0, NAME-1, ...; one stays as it is. It
// fails with kInvalidArgument where
//
//   there is not exactly one node
//   it is linked to a network, which nobody can continue
//   the result were larger than check() allows
Result<Topology> multiply(const Topology& topology, int count);

// Makes one cluster, in the order of the views, of what several nodes, or several processes of one,
// say of themselves.
//
//   nodes of one name and one GUID (boot id)  are one, with the processors and devices of all its
//                                             views; in anything else the first view is right
//   nodes of one name and different GUIDs     are different: the second becomes NAME.2
//   switches of one name                      are one
Result<Topology> merge(std::span<const Topology> views);

// Leaves out, for people, nodes that differ in nothing but names of their own and GUIDs, where no
// cable is fastened to them. The first stays, and its name says how many there are: "box-0 (x 64)".
Topology folded(const Topology& topology);

}  // namespace banyan
