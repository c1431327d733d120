// What the hosts of a communicator are, beyond what the ranks see themselves: as BANYAN_TOPO_FILE
// describes them or as they find themselves, written to BANYAN_TOPO_DUMP, and what follows from a
// description for how ranks lie.
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

// Collective over the ranks of the exchange, all with rank 0's wish. `hosts` is how the ranks lie
// as far as they know; the result has the network's levels above it where a description has some.
// Errors name the variable and the file, on every rank.
Result<Hierarchy> learn_cluster(Exchange& exchange, ClusterWish wish, const Settings& settings,
                                std::span<const LinkPeer> peers, const Hierarchy& hosts,
                                TimePoint deadline);

// For a communicator of some ranks of another: they lie as in the whole, and nothing is read or
// written again.
void inherit_cluster(Settings& settings, const Hierarchy& whole, std::span<const int> members);

// ---- Its parts, pure ----------------------------------------------------------------------------

// A host as a topology has it: its node's GUID.
std::string guid_of(const HostIdentity& host);

// For each host the place of its node among vertices_of(kNode): the one with its GUID, else with
// its name (to the first dot, as hosts and fabrics say more or less of it). Where no host is found
// by either, the k-th host is the k-th node, and every host like the only one. kInvalidArgument
// names a host that cannot be found where others can, or says that nodes are too few.
Result<std::vector<int>> match_nodes(const Topology& described,
                                     std::span<const HostIdentity> hosts);

// Says that no host is found by GUID or name, and what is done then; empty: some are found.
std::string stranger_to(const Topology& described, std::span<const HostIdentity> host_of_rank);

// The ranks in the order of a ring that enters each host once. Hosts that `names` has come first,
// in its order; they are found by their names, else up to the first dot. Those that it does not
// have, and those of names that fit several, come after them in the order of `lie`, as the ranks of
// a host do.
std::vector<int> ring_through(const Hierarchy& lie, std::span<const HostIdentity> host_of_rank,
                              const std::vector<std::string>& names);

// `known` with the level of hosts first, as `host_of_rank` numbers them, also where it says nothing
// or was left out; above it those levels of the network that have several parts and fewer than the
// one before.
Result<Hierarchy> with_hosts(const Hierarchy& known, std::span<const int> host_of_rank);

// How ranks lie in the description's network, from its leaves up.
Result<std::vector<Hierarchy::Level>> tiers_of(const Topology& described,
                                               std::span<const HostIdentity> host_of_rank);

}  // namespace banyan
