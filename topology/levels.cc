// SPDX-License-Identifier: Apache-2.0

#include "topology/levels.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <queue>
#include <set>
#include <unordered_map>
#include <utility>

#include "topology/paths.h"

namespace banyan {

namespace {

bool down(const Topology& topology, const std::vector<std::vector<int>>& children, int nic) {
  bool any = false;
  for (const int port : children[static_cast<size_t>(nic)]) {
    if (is_up(vertex_at(topology, port))) return false;
    any = true;
  }
  return any;
}

bool alike(const std::vector<LevelGroup>& groups) {
  const auto sizes = [](const LevelGroup& group) {
    return std::tuple(group.gpus.size(), group.nics.size(), group.cpus);
  };
  return std::all_of(groups.begin(), groups.end(), [&](const LevelGroup& group) {
    return sizes(group) == sizes(groups.front());
  });
}

// What hangs below each vertex of that kind.
std::vector<LevelGroup> below(const Topology& topology, VertexKind kind) {
  std::map<int, LevelGroup> groups;
  for (const int vertex : vertices_of(topology, kind)) {
    groups[vertex].name = full_name(topology, vertex);
    groups[vertex].cpus = vertex_at(topology, vertex).cpus.count();
  }
  for (const VertexKind device : {VertexKind::kGpu, VertexKind::kNic}) {
    for (const int vertex : vertices_of(topology, device)) {
      const auto group = groups.find(ancestor(topology, vertex, kind));
      if (group == groups.end()) continue;
      (device == VertexKind::kGpu ? group->second.gpus : group->second.nics).push_back(vertex);
    }
  }
  std::vector<LevelGroup> result;
  for (auto& [vertex, group] : groups) result.push_back(std::move(group));
  return result;
}

// The network as its switches see it.
struct Fabric {
  std::unordered_map<int, int> tier;                   // of a switch: 1 for a leaf
  std::unordered_map<int, std::vector<int>> switches;  // of a switch: those it is linked to
  std::unordered_map<int, std::vector<int>> hosts;     // of a leaf: NICs, or nodes
  int tiers = 0;
};

void keep_once(std::vector<int>& vertices) {
  std::sort(vertices.begin(), vertices.end());
  vertices.erase(std::unique(vertices.begin(), vertices.end()), vertices.end());
}

// But for some switches.
Fabric fabric_of(const Topology& topology, const std::vector<int>& without = {}) {
  const auto left_out = [&](int vertex) {
    return std::find(without.begin(), without.end(), vertex) != without.end();
  };
  Fabric fabric;
  for (const Edge& edge : topology.edges) {
    if (edge.kind != EdgeKind::kNetwork || left_out(edge.from) || left_out(edge.to)) continue;
    for (const auto& [from, to] : {std::pair(edge.from, edge.to), std::pair(edge.to, edge.from)}) {
      if (vertex_at(topology, from).kind != VertexKind::kSwitch) continue;
      if (vertex_at(topology, to).kind == VertexKind::kSwitch) {
        fabric.switches[from].push_back(to);
        continue;
      }
      const int host =
          vertex_at(topology, to).kind == VertexKind::kPort ? vertex_at(topology, to).parent : to;
      fabric.hosts[from].push_back(host);
      fabric.tier[from] = 1;
    }
  }
  for (auto& [leaf, hosts] : fabric.hosts) keep_once(hosts);
  std::queue<int> open;
  for (const auto& [leaf, tier] : fabric.tier) open.push(leaf);
  for (; !open.empty(); open.pop()) {
    const int tier = fabric.tier[open.front()];
    fabric.tiers = std::max(fabric.tiers, tier);
    if (tier == kMostSwitchTiers) continue;
    for (const int next : fabric.switches[open.front()])
      if (fabric.tier.emplace(next, tier + 1).second) open.push(next);
  }
  return fabric;
}

// The leaves that switches of at most that tier join.
std::vector<std::vector<int>> joined_leaves(const Topology& topology, const Fabric& fabric,
                                            int most) {
  std::vector<std::vector<int>> parts;
  std::unordered_map<int, bool> seen;
  for (const int start : vertices_of(topology, VertexKind::kSwitch)) {
    if (fabric.hosts.count(start) == 0 || seen[start]) continue;
    auto& leaves = parts.emplace_back();
    std::vector<int> open = {start};
    seen[start] = true;
    while (!open.empty()) {
      const int each = open.back();
      open.pop_back();
      if (fabric.hosts.count(each) != 0) leaves.push_back(each);
      const auto next = fabric.switches.find(each);
      if (next == fabric.switches.end() || most == 1) continue;
      for (const int other : next->second) {
        const auto tier = fabric.tier.find(other);
        if (tier == fabric.tier.end() || tier->second > most || seen[other]) continue;
        seen[other] = true;
        open.push_back(other);
      }
    }
    std::sort(leaves.begin(), leaves.end());
  }
  return parts;
}

std::string name_of_tier(int tier) {
  return tier == 1 ? "leaf" : tier == 2 ? "pod" : fmt::format("tier{}", tier);
}

Level tier_level(const Topology& topology, const Fabric& fabric, int tier,
                 const std::unordered_map<int, std::vector<int>>& gpus_of_host) {
  Level level;
  level.name = name_of_tier(tier);
  for (const std::vector<int>& leaves : joined_leaves(topology, fabric, tier)) {
    LevelGroup group;
    group.name = full_name(topology, leaves.front());
    std::vector<int> hosts;
    for (const int leaf : leaves)
      hosts.insert(hosts.end(), fabric.hosts.at(leaf).begin(), fabric.hosts.at(leaf).end());
    keep_once(hosts);  // some are on several leaves
    for (const int host : hosts) {
      if (vertex_at(topology, host).kind == VertexKind::kNic) group.nics.push_back(host);
      if (vertex_at(topology, host).kind == VertexKind::kNode)
        group.cpus += vertex_at(topology, host).cpus.count();
      const auto gpus = gpus_of_host.find(host);
      if (gpus == gpus_of_host.end()) continue;
      group.gpus.insert(group.gpus.end(), gpus->second.begin(), gpus->second.end());
    }
    keep_once(group.gpus);
    level.groups.push_back(std::move(group));
  }
  return level;
}

// The name that most of a leaf's NICs have; empty where less than two thirds agree.
std::string common_name(const Topology& topology, const std::vector<int>& hosts) {
  std::map<std::string, size_t> votes;
  for (const int host : hosts) ++votes[vertex_at(topology, host).name];
  const auto most = std::max_element(
      votes.begin(), votes.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  return most->second >= 2 && most->second * 3 >= hosts.size() * 2 ? most->first : std::string();
}

// NICs that a leaf's majority names.
std::unordered_map<int, std::string> names_by_leaf(const Topology& topology, const Fabric& fabric) {
  std::map<std::string, int> uses;
  for (const int nic : vertices_of(topology, VertexKind::kNic))
    ++uses[vertex_at(topology, nic).name];
  std::unordered_map<int, std::string> names;
  for (const auto& [leaf, hosts] : fabric.hosts) {
    const std::string common = common_name(topology, hosts);
    for (const int host : hosts)
      if (!common.empty() && uses[vertex_at(topology, host).name] == 1) names[host] = common;
  }
  return names;
}

// In an order that people expect: mlx5_2 before mlx5_10.
bool naturally_before(const std::string& a, const std::string& b) {
  const auto key = [](const std::string& name) {
    const size_t digits = name.find_last_not_of("0123456789") + 1;
    return std::tuple(name.substr(0, digits), name.size() - digits, name.substr(digits));
  };
  return key(a) < key(b);
}

// Sets of nodes that grow together.
class Union {
 public:
  explicit Union(size_t size) : above_(size) { std::iota(above_.begin(), above_.end(), size_t{0}); }

  size_t find(size_t one) {
    for (; above_[one] != one; one = above_[one]) above_[one] = above_[above_[one]];
    return one;
  }
  // The lower number stands for both.
  void join(size_t one, size_t other) {
    const size_t a = find(one);
    const size_t b = find(other);
    above_[std::max(a, b)] = std::min(a, b);
  }
  // Gives the part of each, numbered in the order of their first members.
  std::vector<int> parts() {
    std::vector<int> number(above_.size(), -1);
    std::vector<int> part;
    int next = 0;
    for (size_t i = 0; i < above_.size(); ++i) {
      int& of_root = number[find(i)];
      if (of_root < 0) of_root = next++;
      part.push_back(of_root);
    }
    return part;
  }

 private:
  std::vector<size_t> above_;
};

// For every NIC and node of a fabric the number of the node.
class NodeNumbers {
 public:
  explicit NodeNumbers(const Topology& topology) : topology_(topology) {
    for (const int node : vertices_of(topology, VertexKind::kNode))
      numbers_.emplace(node, numbers_.size());
  }
  size_t count() const { return numbers_.size(); }
  size_t of(int host) const { return numbers_.at(ancestor(topology_, host, VertexKind::kNode)); }

 private:
  const Topology& topology_;
  std::unordered_map<int, size_t> numbers_;
};

constexpr int kSeveral = -1;

// The part that all nodes at and below a switch are in, or kSeveral.
std::unordered_map<int, int> parts_of_switches(const Fabric& fabric, const NodeNumbers& nodes,
                                               const std::vector<int>& part_of_node) {
  std::vector<std::pair<int, int>> upwards;
  for (const auto& [each, tier] : fabric.tier) upwards.emplace_back(tier, each);
  std::sort(upwards.begin(), upwards.end());
  std::unordered_map<int, int> parts;
  for (const auto& [tier, each] : upwards) {
    const auto add = [&, each = each](int part) {
      const auto [known, fresh] = parts.emplace(each, part);
      if (!fresh && known->second != part) known->second = kSeveral;
    };
    if (const auto hosts = fabric.hosts.find(each); hosts != fabric.hosts.end())
      for (const int host : hosts->second) add(part_of_node[nodes.of(host)]);
    if (const auto others = fabric.switches.find(each); others != fabric.switches.end())
      for (const int other : others->second) {
        const auto below = fabric.tier.find(other);
        if (below != fabric.tier.end() && below->second < tier) add(parts.at(other));
      }
  }
  return parts;
}

// Gives for each part what all cables between its switches and others carry.
std::vector<Figure> uplinks_of(const Topology& topology, const Fabric& fabric,
                               const NodeNumbers& nodes, const std::vector<int>& part_of_node,
                               int parts) {
  const auto part_of_switch = parts_of_switches(fabric, nodes, part_of_node);
  const auto part_of = [&](int vertex) {
    const auto known = part_of_switch.find(vertex);
    return known == part_of_switch.end() ? kSeveral : known->second;
  };
  std::vector<std::optional<Figure>> found(static_cast<size_t>(parts));
  for (const Edge& edge : topology.edges) {
    if (edge.kind != EdgeKind::kNetwork) continue;
    if (vertex_at(topology, edge.from).kind != VertexKind::kSwitch) continue;
    if (vertex_at(topology, edge.to).kind != VertexKind::kSwitch) continue;
    const int from = part_of(edge.from);
    const int to = part_of(edge.to);
    if (from == to) continue;
    for (const int part : {from, to}) {
      if (part == kSeveral) continue;
      auto& all = found[static_cast<size_t>(part)];
      all = all ? sum(*all, edge.bandwidth) : edge.bandwidth;
    }
  }
  std::vector<Figure> uplinks;
  uplinks.reserve(found.size());
  for (const auto& all : found) uplinks.push_back(all.value_or(Figure()));
  return uplinks;
}

std::vector<NodeTier> tiers_in(const Topology& topology, const Fabric& fabric,
                               const NodeNumbers& nodes) {
  Union joined(nodes.count());
  std::vector<NodeTier> tiers;
  int parts_before = static_cast<int>(nodes.count());
  for (int tier = 1; tier <= fabric.tiers; ++tier) {
    for (const std::vector<int>& leaves : joined_leaves(topology, fabric, tier)) {
      const size_t first = nodes.of(fabric.hosts.at(leaves.front()).front());
      for (const int leaf : leaves)
        for (const int host : fabric.hosts.at(leaf)) joined.join(first, nodes.of(host));
    }
    std::vector<int> part = joined.parts();
    const int parts = *std::max_element(part.begin(), part.end()) + 1;
    // Up to that tier's switches and down again.
    if (!tiers.empty() && tiers.back().switches == 0 && parts < parts_before)
      tiers.back().switches = 2 * tier - 1;
    if (parts > 1 && parts < parts_before) {
      auto uplinks = uplinks_of(topology, fabric, nodes, part, parts);
      tiers.push_back({name_of_tier(tier), std::move(part), std::move(uplinks)});
    }
    parts_before = parts;
  }
  // What joins these is not known, or is cables between leaves.
  if (!tiers.empty() && tiers.back().switches == 0) tiers.back().switches = 2 * fabric.tiers + 1;
  return tiers;
}

}  // namespace

std::vector<NodeTier> node_tiers(const Topology& topology) {
  return tiers_in(topology, fabric_of(topology), NodeNumbers(topology));
}

std::vector<JoiningLeaves> joining_leaves(const Topology& topology) {
  const NodeNumbers nodes(topology);
  const Fabric fabric = fabric_of(topology);
  const size_t tiers = tiers_in(topology, fabric, nodes).size();
  std::map<std::vector<size_t>, std::vector<int>> leaves_of_nodes;
  std::vector<size_t> leaves_at(nodes.count());  // of each node
  for (const auto& [leaf, hosts] : fabric.hosts) {
    std::set<size_t> on;
    for (const int host : hosts) on.insert(nodes.of(host));
    for (const size_t node : on) ++leaves_at[node];
    leaves_of_nodes[{on.begin(), on.end()}].push_back(leaf);
  }
  std::vector<std::pair<std::vector<size_t>, std::vector<int>>> all;
  for (auto& [on, leaves] : leaves_of_nodes) {
    const bool elsewhere =
        std::all_of(on.begin(), on.end(),
                    [&, count = leaves.size()](size_t node) { return leaves_at[node] > count; });
    if (on.size() > 1 && elsewhere) all.emplace_back(on, std::move(leaves));
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const auto& a, const auto& b) { return a.first.size() > b.first.size(); });
  constexpr size_t kMostWork = size_t{1} << 24;  // edges looked at
  all.resize(std::min(all.size(), kMostWork / std::max<size_t>(topology.edges.size(), 1)));
  std::vector<JoiningLeaves> joining;
  for (auto& [on, leaves] : all) {
    std::sort(leaves.begin(), leaves.end());
    const std::vector<NodeTier> without = tiers_in(topology, fabric_of(topology, leaves), nodes);
    if (without.size() <= tiers) continue;
    JoiningLeaves& each = joining.emplace_back();
    each.leaves = leaves;
    for (const int leaf : leaves)
      each.hosts.insert(each.hosts.end(), fabric.hosts.at(leaf).begin(),
                        fabric.hosts.at(leaf).end());
    for (size_t more = 0; more < without.size() - tiers; ++more)
      each.levels.push_back(without[more].name);
  }
  return joining;
}

std::vector<LevelGroup> rails(const Topology& topology) {
  const auto children = children_of(topology);
  const Fabric fabric = fabric_of(topology);
  const auto leaf_names = names_by_leaf(topology, fabric);
  const bool by_name = fabric.hosts.size() > 1;
  std::map<std::string, LevelGroup, decltype(&naturally_before)> groups(&naturally_before);
  std::unordered_map<int, int> position;  // of the next NIC of a node
  for (const int nic : vertices_of(topology, VertexKind::kNic)) {
    if (down(topology, children, nic)) continue;
    const int place = position[ancestor(topology, nic, VertexKind::kNode)]++;
    const auto named = leaf_names.find(nic);
    std::string name = fmt::format("rail{}", place);
    if (by_name) name = named == leaf_names.end() ? vertex_at(topology, nic).name : named->second;
    LevelGroup& group = groups[name];
    group.name = name;
    group.nics.push_back(nic);
  }
  std::vector<LevelGroup> result;
  for (auto& [name, group] : groups) result.push_back(std::move(group));
  return result;
}

std::vector<Level> levels(const Topology& topology) {
  std::vector<Level> found;
  const auto add = [&](Level level) {
    // Memory without processors, nodes of which only the place in the network is known.
    std::erase_if(level.groups, [](const LevelGroup& group) {
      return group.gpus.empty() && group.nics.empty() && group.cpus == 0;
    });
    if (level.groups.empty()) return;
    level.regular = alike(level.groups);
    found.push_back(std::move(level));
  };
  add({"l3", below(topology, VertexKind::kCache)});
  add({"numa", below(topology, VertexKind::kNuma)});
  add({"package", below(topology, VertexKind::kPackage)});
  add({"node", below(topology, VertexKind::kNode)});

  const Paths paths(topology);
  std::unordered_map<int, std::vector<int>> gpus_of_host;  // by NIC and by node
  for (const int gpu : vertices_of(topology, VertexKind::kGpu))
    gpus_of_host[ancestor(topology, gpu, VertexKind::kNode)].push_back(gpu);
  for (const int node : vertices_of(topology, VertexKind::kNode))
    for (const auto& [gpu, nic] : paths.nics_of_gpus(node)) gpus_of_host[nic].push_back(gpu);
  Level rail{"rail", rails(topology)};
  for (LevelGroup& group : rail.groups) {
    for (const int nic : group.nics) {
      const auto gpus = gpus_of_host.find(nic);
      if (gpus == gpus_of_host.end()) continue;
      group.gpus.insert(group.gpus.end(), gpus->second.begin(), gpus->second.end());
    }
    std::sort(group.gpus.begin(), group.gpus.end());
  }
  add(std::move(rail));

  const Fabric fabric = fabric_of(topology);
  for (int tier = 1; tier <= fabric.tiers; ++tier) {
    Level level = tier_level(topology, fabric, tier, gpus_of_host);
    if (tier > 1 && level.groups.size() <= 1) break;
    add(std::move(level));
  }
  return found;
}

}  // namespace banyan
