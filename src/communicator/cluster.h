// Learns what the hosts of a communicator are, beyond what the ranks see themselves.
// BANYAN_TOPO_FILE describes them, or they find themselves. BANYAN_TOPO_DUMP gets it written, and
// how ranks lie follows from a description.
//
// Rank 0's variables count: other ranks need neither the variables nor the files.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <span>
#include <string>
#include <vector>

#include "banyan/status.h"
#include "src/bootstrap/exchange.h"
#include "src/communicator/settings.h"
#include "src/liveness/links.h"
#include "topology/hierarchy.h"
#include "topology/topology.h"

namespace banyan {

// What rank 0's variables ask of all ranks.
enum class ClusterWish : uint8_t {
  kNothing,
  kLevels,     // BANYAN_TOPO_FILE: rank 0 says how hosts lie
  kDiscovery,  // BANYAN_TOPO_DUMP without it: every rank says what its host is
};
ClusterWish cluster_wish(const Environment& environment);

// All ranks of the exchange take part, with rank 0's wish. `hosts` is how the ranks lie as far as
// they know; the result has the network's levels above it where a description has some. Errors name
// the variable and the file, on every rank.
Result<Hierarchy> learn_cluster(Exchange& exchange, ClusterWish wish, const Settings& settings,
                                std::span<const LinkPeer> peers, const Hierarchy& hosts,
                                TimePoint deadline);

// Serves a communicator of some ranks of another: they lie as in the whole, and nothing is read or
// written again.
void inherit_cluster(Settings& settings, const Hierarchy& whole, std::span<const int> members);

// A host as a topology has it: its node's GUID.
std::string guid_of(const HostIdentity& host);

// Finds for each host its node, as a place among vertices_of(kNode): the one with its GUID, else
// the one with its name. Names count to the first dot, as hosts and fabrics say more or less of it.
// Where no host is found by either, the k-th host is the k-th node; an only node stands for every
// host. kInvalidArgument names a host that cannot be found where others can, or says that nodes are
// too few.
Result<std::vector<int>> match_nodes(const Topology& described,
                                     std::span<const HostIdentity> hosts);

// Says that no host is found by GUID or name, and what is done then; empty: some are found.
std::string stranger_to(const Topology& described, std::span<const HostIdentity> host_of_rank);

// Orders the ranks for a ring that enters each host once.
//
//   first   hosts that `names` has, in its order; found by their names, else up to the first dot
//   then    hosts that it does not have, and those of names that fit several, in the order of `lie`
//
// The ranks of a host keep the order of `lie`, too.
std::vector<int> ring_through(const Hierarchy& lie, std::span<const HostIdentity> host_of_rank,
                              const std::vector<std::string>& names);

// Gives `known` with the level of hosts first, as `host_of_rank` numbers them, also where it says
// nothing or was left out. Above it stay the levels of the network that have several parts and
// fewer than the one before.
Result<Hierarchy> with_hosts(const Hierarchy& known, std::span<const int> host_of_rank);

// How ranks lie in the description's network, from its leaves up.
Result<std::vector<Hierarchy::Level>> tiers_of(const Topology& described,
                                               std::span<const HostIdentity> host_of_rank);

}  // namespace banyan
