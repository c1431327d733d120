// SPDX-License-Identifier: Apache-2.0

#include "src/communicator/cluster.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <string_view>
#include <utility>

#include "src/base/bytes.h"
#include "src/base/file.h"
#include "src/base/parse.h"
#include "src/base/process.h"
#include "topology/compose.h"
#include "topology/discovery/discover.h"
#include "topology/formats/import.h"
#include "topology/formats/json.h"
#include "topology/levels.h"
#include "topology/net_choice.h"

namespace banyan {
namespace {

constexpr size_t kMostDescription = size_t{16} << 20;  // of one rank's host, or of how ranks lie
constexpr uint32_t kMostLevels = 64;

Status write_dump(const Environment& environment, const Topology& topology) {
  const Status written = replace_file(environment.topology_dump, to_json(topology));
  if (written.ok()) return {};
  return {written.code(),
          fmt::format("BANYAN_TOPO_DUMP={}: {}", environment.topology_dump, written.message())};
}

std::string_view text_of(const Bytes& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string_view short_name(std::string_view name) {
  return name.substr(0, name.find('.'));
}

const Vertex& vertex(const Topology& topology, int index) {
  return topology.vertices[static_cast<size_t>(index)];
}

// The hosts without their repetitions, and which of them each rank is on.
struct DistinctHosts {
  std::vector<HostIdentity> hosts;
  std::vector<size_t> of_rank;
};

DistinctHosts distinct(std::span<const HostIdentity> host_of_rank) {
  DistinctHosts found;
  std::map<std::array<uint8_t, 32>, size_t> known;
  for (const HostIdentity& host : host_of_rank) {
    const auto [place, is_new] = known.emplace(host.digest, found.hosts.size());
    if (is_new) found.hosts.push_back(host);
    found.of_rank.push_back(place->second);
  }
  return found;
}

// The place of the only one for which `is_it` holds; -1 for none and for several.
template <typename Each, typename Predicate>
int only(const std::vector<Each>& all, Predicate is_it) {
  const auto first = std::find_if(all.begin(), all.end(), is_it);
  if (first == all.end() || std::find_if(first + 1, all.end(), is_it) != all.end()) return -1;
  return static_cast<int>(first - all.begin());
}

int place_of(const Topology& described, const std::vector<int>& nodes, const HostIdentity& host) {
  const std::string guid = guid_of(host);
  int place = only(nodes, [&](int node) { return vertex(described, node).guid == guid; });
  if (place < 0)
    place = only(nodes, [&](int node) { return vertex(described, node).name == host.name; });
  if (place >= 0) return place;
  return only(nodes, [&](int node) {
    return short_name(vertex(described, node).name) == short_name(host.name);
  });
}

// Finds for each host the place of its name. Otherwise it is the name that is like it up to the
// first dot and is no other host's. -1: there is none, or several, or it is several hosts'.
std::vector<int> places_in(const std::vector<std::string>& names,
                           const std::vector<HostIdentity>& hosts) {
  std::vector<int> places;
  for (const HostIdentity& host : hosts)
    places.push_back(only(names, [&](const std::string& name) { return name == host.name; }));
  const std::vector<int> full = places;
  for (size_t host = 0; host < hosts.size(); ++host) {
    if (full[host] >= 0) continue;
    const int place = only(names, [&](const std::string& name) {
      return short_name(name) == short_name(hosts[host].name);
    });
    if (std::find(full.begin(), full.end(), place) == full.end()) places[host] = place;
  }
  std::map<int, int> hosts_of_place;
  for (const int place : places) ++hosts_of_place[place];
  for (int& place : places)
    if (hosts_of_place[place] > 1) place = -1;
  return places;
}

// `tiers` cover the places of `hosts`, which are these.
Result<Hierarchy> on_top_of(const Hierarchy& hosts, int places,
                            std::span<const Hierarchy::Level> tiers) {
  std::vector<Hierarchy::Level> levels = hosts.written();
  levels.insert(levels.end(), tiers.begin(), tiers.end());
  const auto made = Hierarchy::make(places, levels);
  if (!made.ok()) return made.status();
  return made->simplified();
}

void put_levels(Writer& writer, std::span<const Hierarchy::Level> levels) {
  writer.put(static_cast<uint32_t>(levels.size()));
  for (const Hierarchy::Level& level : levels) {
    writer.put_text(level.name);
    std::map<int, uint32_t> part_of;
    for (size_t part = 0; part < level.parts.size(); ++part)
      for (const int place : level.parts[part]) part_of[place] = static_cast<uint32_t>(part);
    for (const auto& [place, part] : part_of) writer.put(part);
  }
}

Result<std::vector<Hierarchy::Level>> get_levels(const Bytes& bytes, int ranks) {
  const Status damaged(Code::kCorrupt, "rank 0 sent levels that cannot be read");
  Reader reader(bytes);
  const auto depth = reader.get<uint32_t>();
  if (depth > kMostLevels) return damaged;
  std::vector<Hierarchy::Level> levels;
  for (uint32_t level = 0; level < depth && !reader.bad(); ++level) {
    Hierarchy::Level read{printable(reader.get_text(kMostNameBytes)), {}};
    for (int place = 0; place < ranks; ++place) {
      const auto part = reader.get<uint32_t>();
      if (part >= static_cast<uint32_t>(ranks)) return damaged;
      if (part >= read.parts.size()) read.parts.resize(part + 1);
      read.parts[part].push_back(place);
    }
    levels.push_back(std::move(read));
  }
  if (!reader.at_end()) return damaged;
  return levels;
}

// What rank 0 makes of BANYAN_TOPO_FILE.
Result<std::vector<Hierarchy::Level>> read_tiers(const Settings& settings,
                                                 std::span<const HostIdentity> host_of_rank) {
  const Environment& environment = settings.environment;
  Notes notes;
  const auto described = import_topology_file(environment.topology_file, &notes);
  if (!described.ok())
    return Status(described.status().code(),
                  fmt::format("BANYAN_TOPO_FILE: {}", described.status().message()));
  if (!environment.topology_dump.empty()) BANYAN_TRY(write_dump(environment, *described));
  const std::string strangers = stranger_to(*described, host_of_rank);
  if (!strangers.empty() && process().first_time("BANYAN_TOPO_FILE"))
    BANYAN_LOG(settings.log, Subsystem::kEnv, LogLevel::kWarn, "BANYAN_TOPO_FILE={} {}",
               printable(environment.topology_file), strangers);
  const Topology used = with_net_devices(*described, environment.net_devices, notes);
  note_joining_switches(used, notes);
  for (const std::string& note : notes.lines())
    BANYAN_LOG(settings.log, Subsystem::kInit, LogLevel::kWarn, "BANYAN_TOPO_FILE: {}", note);
  auto tiers = tiers_of(used, host_of_rank);
  if (!tiers.ok())
    return Status(tiers.status().code(),
                  fmt::format("BANYAN_TOPO_FILE={}: {}", environment.topology_file,
                              tiers.status().message()));
  return tiers;
}

// All ranks take rank 0's word for it, so that all choose alike.
Result<std::vector<Hierarchy::Level>> spread_tiers(Exchange& exchange, const Settings& settings,
                                                   std::span<const HostIdentity> host_of_rank,
                                                   TimePoint deadline) {
  Writer writer;
  if (exchange.rank() == 0) {
    const auto tiers = read_tiers(settings, host_of_rank);
    BANYAN_TRY(tiers.status());
    put_levels(writer, *tiers);
  }
  const auto all = allgather_long(exchange, writer.bytes(), kMostDescription, deadline);
  BANYAN_TRY(all.status());
  return get_levels(all->front(), exchange.size());
}

Result<Topology> own_view(const Environment& environment, const HostIdentity& host) {
  Result<Topology> found = discover(environment.sysroot);
  BANYAN_TRY(found.status());
  for (const int node : vertices_of(*found, VertexKind::kNode))
    found->vertices[static_cast<size_t>(node)].guid = guid_of(host);
  return found;
}

// Rank 0 writes what all ranks have found.
Status dump(Exchange& exchange, const Environment& environment, const HostIdentity& host,
            TimePoint deadline) {
  const Result<Topology> mine = own_view(environment, host);
  BANYAN_TRY(mine.status());
  const std::string text = to_json(*mine);
  const auto all =
      allgather_long(exchange, std::as_bytes(std::span(text)), kMostDescription, deadline);
  BANYAN_TRY(all.status());
  if (exchange.rank() != 0) return {};
  std::vector<Topology> views;
  for (size_t rank = 0; rank < all->size(); ++rank) {
    Result<Topology> view = from_json(text_of((*all)[rank]));
    if (!view.ok())
      return {Code::kCorrupt, fmt::format("rank {} sent a description of its host that cannot be "
                                          "read: {}",
                                          rank, view.status().message())};
    views.push_back(std::move(*view));
  }
  const Result<Topology> whole = merge(views);
  BANYAN_TRY(whole.status());
  return write_dump(environment, *whole);
}

}  // namespace

ClusterWish cluster_wish(const Environment& environment) {
  if (!environment.topology_file.empty()) return ClusterWish::kLevels;
  return environment.topology_dump.empty() ? ClusterWish::kNothing : ClusterWish::kDiscovery;
}

Result<Hierarchy> learn_cluster(Exchange& exchange, ClusterWish wish, const Settings& settings,
                                std::span<const LinkPeer> peers, const Hierarchy& hosts,
                                TimePoint deadline) {
  std::vector<HostIdentity> host_of_rank;
  for (const LinkPeer& peer : peers) host_of_rank.push_back(peer.host);
  switch (wish) {
    case ClusterWish::kNothing: break;
    case ClusterWish::kDiscovery:
      BANYAN_TRY(dump(exchange, settings.environment,
                      host_of_rank[static_cast<size_t>(exchange.rank())], deadline));
      break;
    case ClusterWish::kLevels: {
      const auto tiers = spread_tiers(exchange, settings, host_of_rank, deadline);
      BANYAN_TRY(tiers.status());
      return on_top_of(hosts, exchange.size(), *tiers);
    }
  }
  return on_top_of(hosts, exchange.size(), settings.tiers);
}

void inherit_cluster(Settings& settings, const Hierarchy& whole, std::span<const int> members) {
  settings.environment.topology_file.clear();
  settings.environment.topology_dump.clear();
  settings.tiers.clear();
  for (int level = 0; level < whole.depth(); ++level) {
    if (whole.name(level) == kHostLevel) continue;  // the new ranks know their hosts themselves
    std::map<int, std::vector<int>> parts;
    for (size_t place = 0; place < members.size(); ++place)
      parts[whole.part_of(level, members[place])].push_back(static_cast<int>(place));
    Hierarchy::Level& tier = settings.tiers.emplace_back();
    tier.name = whole.name(level);
    for (auto& [part, places] : parts) tier.parts.push_back(std::move(places));
  }
}

std::string guid_of(const HostIdentity& host) {
  std::string text = "host-";
  for (const uint8_t byte : std::span(host.digest).first(16)) text += fmt::format("{:02x}", byte);
  return text;
}

Result<std::vector<int>> match_nodes(const Topology& described,
                                     std::span<const HostIdentity> hosts) {
  const std::vector<int> nodes = vertices_of(described, VertexKind::kNode);
  std::vector<int> places;
  for (const HostIdentity& host : hosts) places.push_back(place_of(described, nodes, host));
  const auto missing = std::find(places.begin(), places.end(), -1);
  if (missing == places.end()) return places;

  const bool none_found =
      std::all_of(places.begin(), places.end(), [](int place) { return place < 0; });
  const HostIdentity& host = hosts[static_cast<size_t>(missing - places.begin())];
  if (nodes.empty() || !none_found)
    return Status(Code::kInvalidArgument,
                  fmt::format("has no node for host {}; its nodes are {}", host.name,
                              nodes.empty() ? "none"
                                            : vertex(described, nodes.front()).name +
                                                  (nodes.size() > 1 ? ", ..." : "")));
  if (nodes.size() > 1 && nodes.size() < hosts.size())
    return Status(Code::kInvalidArgument,
                  fmt::format("describes {} nodes; there are {} hosts, and none has a node's name",
                              nodes.size(), hosts.size()));
  for (size_t i = 0; i < places.size(); ++i)
    places[i] = nodes.size() == 1 ? 0 : static_cast<int>(i);
  return places;
}

std::string stranger_to(const Topology& described, std::span<const HostIdentity> host_of_rank) {
  const DistinctHosts known = distinct(host_of_rank);
  const std::vector<int> nodes = vertices_of(described, VertexKind::kNode);
  const bool none_found =
      std::all_of(known.hosts.begin(), known.hosts.end(),
                  [&](const HostIdentity& host) { return place_of(described, nodes, host) < 0; });
  if (!none_found || nodes.empty()) return {};
  const size_t more = known.hosts.size() - 1;
  return fmt::format(
      "describes none of this job's hosts ({}{}); its {} taken for {}", known.hosts.front().name,
      more > 0 ? fmt::format(" and {} more", more) : "",
      nodes.size() == 1 ? fmt::format("only node ({}) is", vertex(described, nodes.front()).name)
                        : fmt::format("nodes ({}, ...) are", vertex(described, nodes.front()).name),
      nodes.size() == 1 ? "each of them" : "them in their order");
}

std::vector<int> ring_through(const Hierarchy& lie, std::span<const HostIdentity> host_of_rank,
                              const std::vector<std::string>& names) {
  const DistinctHosts known = distinct(host_of_rank);
  const std::vector<int> places = places_in(names, known.hosts);
  std::vector<int> ring = lie.ring();
  if (ring.empty()) {
    ring.resize(host_of_rank.size());
    std::iota(ring.begin(), ring.end(), 0);
  }
  // Where each host comes: one that is named by its place, others as they are met.
  std::vector<int> turns(known.hosts.size(), -1);
  int next = static_cast<int>(names.size());
  for (const int rank : ring) {
    const size_t host = known.of_rank[static_cast<size_t>(rank)];
    if (turns[host] >= 0) continue;
    turns[host] = places[host] >= 0 ? places[host] : next++;
  }
  std::stable_sort(ring.begin(), ring.end(), [&](int a, int b) {
    return turns[known.of_rank[static_cast<size_t>(a)]] <
           turns[known.of_rank[static_cast<size_t>(b)]];
  });
  return ring;
}

Result<Hierarchy> with_hosts(const Hierarchy& known, std::span<const int> host_of_rank) {
  std::vector<Hierarchy::Level> levels = Hierarchy::of_labels(kHostLevel, host_of_rank).written();
  for (Hierarchy::Level& level : known.written())
    if (level.name != kHostLevel && level.parts.size() > 1 &&
        level.parts.size() < levels.back().parts.size())
      levels.push_back(std::move(level));
  return Hierarchy::make(static_cast<int>(host_of_rank.size()), levels);
}

Result<std::vector<Hierarchy::Level>> tiers_of(const Topology& described,
                                               std::span<const HostIdentity> host_of_rank) {
  const DistinctHosts known = distinct(host_of_rank);
  const Result<std::vector<int>> node_of_host = match_nodes(described, known.hosts);
  BANYAN_TRY(node_of_host.status());
  std::vector<Hierarchy::Level> levels;
  for (const NodeTier& tier : node_tiers(described)) {
    std::map<int, std::vector<int>> parts;
    for (size_t rank = 0; rank < host_of_rank.size(); ++rank) {
      const int node = (*node_of_host)[known.of_rank[rank]];
      parts[tier.part[static_cast<size_t>(node)]].push_back(static_cast<int>(rank));
    }
    Hierarchy::Level& level = levels.emplace_back();
    level.name = tier.name;
    for (auto& [part, members] : parts) level.parts.push_back(std::move(members));
  }
  return levels;
}

}  // namespace banyan
