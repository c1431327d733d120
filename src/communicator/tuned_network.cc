// SPDX-License-Identifier: Apache-2.0

#include "src/communicator/tuned_network.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <string>

#include "src/communicator/agreement.h"
#include "src/communicator/assembly.h"
#include "src/communicator/cluster.h"

namespace banyan {
namespace {

int count_of(std::span<const int> host_of_rank) {
  return 1 + *std::max_element(host_of_rank.begin(), host_of_rank.end());
}

// As Membership::transport_names() of rank 0.
std::string transports_of_first(std::span<const LinkPeer> peers, std::span<const int> offered) {
  const Result<std::vector<int>> routes = choose_routes(peers, 0, offered);
  if (!routes.ok()) return "";
  std::vector<int> used;
  for (const int kind : offered)
    if (std::find(routes->begin(), routes->end(), kind) != routes->end()) used.push_back(kind);
  return transport_list(used);
}

}  // namespace

std::vector<int> host_numbers(std::span<const LinkPeer> peers) {
  std::map<std::array<uint8_t, 32>, int> known;
  std::vector<int> hosts;
  for (const LinkPeer& peer : peers)
    hosts.push_back(known.emplace(peer.host.digest, static_cast<int>(known.size())).first->second);
  return hosts;
}

bool tuned_for(const Fingerprint& tuned_on, std::span<const LinkPeer> peers,
               std::span<const int> offered) {
  return tuned_on.ranks == static_cast<int>(peers.size()) &&
         tuned_on.hosts == count_of(host_numbers(peers)) &&
         tuned_on.transports == transports_of_first(peers, offered);
}

std::optional<MeasuredNetwork> network_of(const MeasuredLinks& links, int cores,
                                          std::span<const int> host_of_rank, Medium medium,
                                          const Hierarchy& hierarchy) {
  const auto ranks = static_cast<int>(host_of_rank.size());
  if (medium != Medium::kNetwork || nodes_of(ranks, medium, &hierarchy) != count_of(host_of_rank))
    return std::nullopt;
  const Result<Hierarchy> levels = with_hosts(hierarchy, host_of_rank);
  if (!levels.ok()) return std::nullopt;
  return measured_network(links, cores, *levels);
}

}  // namespace banyan
