// The network is sites within sites: what a leaf, a pod and so on join, with the switches that do
// it above what they join. Sites and nodes that are alike are one.
// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <queue>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "topology/formats/sketch.h"
#include "topology/levels.h"

namespace banyan {

namespace {

constexpr size_t kMostSingle = 32;  // nodes: beyond, those that are alike are one card
constexpr size_t kMostInAll = 36;   // sites, and cards, in the outermost site
constexpr size_t kMostInSite = 8;   // in one of others, where nodes are many

// Cables between the same two things.
class Cables {
 public:
  void add(const Figure& figure) {
    total_ = count_ == 0 ? figure : sum(total_, figure);
    uniform_ = uniform_ && (count_ == 0 || figure == first_);
    if (count_ == 0) first_ = figure;
    ++count_;
  }
  std::string text() const {
    if (count_ == 0) return {};
    if (!total_.known()) return counted(count_, "cable");
    if (count_ == 1) return short_text(first_);
    if (uniform_) return fmt::format("{} x {}", count_, short_text(first_));
    return fmt::format("{}, {}", counted(count_, "cable"), short_text(total_));
  }

 private:
  size_t count_ = 0;
  bool uniform_ = true;
  Figure first_{};
  Figure total_{};
};

// Sites as a list; [0] holds all.
struct Plan {
  std::vector<int> parent = {-1};
  std::unordered_map<int, int> site_of;  // of nodes and switches
  std::unordered_map<int, int> tier;     // of nodes 0, of switches that are near them more

  int tier_of(int vertex) const {
    const auto known = tier.find(vertex);
    return known == tier.end() ? 0 : known->second;
  }
};

int host_of(const Topology& topology, int end) {
  return vertex_at(topology, end).kind == VertexKind::kSwitch
             ? end
             : ancestor(topology, end, VertexKind::kNode);
}

// By how many cables it is above the nodes.
std::unordered_map<int, int> tiers_of(const Topology& topology,
                                      const std::unordered_map<int, std::vector<int>>& neighbours) {
  std::unordered_map<int, int> tier;
  std::queue<int> open;
  for (const int node : vertices_of(topology, VertexKind::kNode)) {
    tier.emplace(node, 0);
    open.push(node);
  }
  for (; !open.empty(); open.pop()) {
    const auto next = neighbours.find(open.front());
    if (next == neighbours.end() || tier.at(open.front()) == kMostSwitchTiers) continue;
    for (const int other : next->second)
      if (tier.emplace(other, tier.at(open.front()) + 1).second) open.push(other);
  }
  return tier;
}

// A home has for every level, largest first, the part that a switch and all below it are in; -1:
// several.
using Home = std::vector<int>;

std::unordered_map<int, Home> homes_of(const Plan& plan,
                                       const std::unordered_map<int, std::vector<int>>& neighbours,
                                       const std::unordered_map<int, Home>& of_nodes) {
  std::unordered_map<int, Home> homes = of_nodes;
  std::vector<std::pair<int, int>> upwards;
  for (const auto& [vertex, tier] : plan.tier)
    if (tier > 0) upwards.emplace_back(tier, vertex);
  std::sort(upwards.begin(), upwards.end());
  for (const auto& [tier, vertex] : upwards) {
    Home& home = homes[vertex];
    bool first = true;
    for (const int other : neighbours.at(vertex)) {
      const auto below = plan.tier.find(other);
      if (below == plan.tier.end() || below->second >= tier) continue;
      const Home& theirs = homes.at(other);
      if (std::exchange(first, false)) {
        home = theirs;
        continue;
      }
      for (size_t i = 0; i < home.size(); ++i)
        if (home[i] != theirs[i]) home[i] = -1;
    }
  }
  return homes;
}

Plan plan_of(const Topology& topology) {
  std::unordered_map<int, std::vector<int>> neighbours;
  for (const Edge& edge : topology.edges) {
    if (edge.kind != EdgeKind::kNetwork) continue;
    const int from = host_of(topology, edge.from);
    const int to = host_of(topology, edge.to);
    neighbours[from].push_back(to);
    neighbours[to].push_back(from);
  }
  Plan plan;
  plan.tier = tiers_of(topology, neighbours);
  auto tiers = node_tiers(topology);
  std::reverse(tiers.begin(), tiers.end());
  std::unordered_map<int, Home> of_nodes;
  const auto nodes = vertices_of(topology, VertexKind::kNode);
  for (size_t i = 0; i < nodes.size(); ++i)
    for (const NodeTier& tier : tiers) of_nodes[nodes[i]].push_back(tier.part[i]);
  for (const int node : nodes) of_nodes[node];
  const auto homes = homes_of(plan, neighbours, of_nodes);
  std::map<Home, int> sites = {{Home(), 0}};
  const auto site_of = [&](const Home& home) {
    Home path;
    int site = 0;
    for (const int part : home) {
      if (part < 0) break;
      path.push_back(part);
      const auto [known, fresh] = sites.emplace(path, static_cast<int>(plan.parent.size()));
      if (fresh) plan.parent.push_back(site);
      site = known->second;
    }
    return site;
  };
  for (const int node : nodes) plan.site_of[node] = site_of(homes.at(node));
  for (const int each : vertices_of(topology, VertexKind::kSwitch)) {
    const auto home = homes.find(each);
    plan.site_of[each] = home == homes.end() ? 0 : site_of(home->second);
  }
  return plan;
}

// The sites that a thing is in, and itself below them as -1 - vertex where it is a node.
std::vector<int> path_of(const Topology& topology, const Plan& plan, int vertex) {
  std::vector<int> path;
  if (vertex_at(topology, vertex).kind == VertexKind::kNode) path.push_back(-1 - vertex);
  for (int site = plan.site_of.at(vertex); site > 0; site = plan.parent[static_cast<size_t>(site)])
    path.push_back(site);
  return path;
}

struct AllCables {
  std::map<int, Cables> out_of;  // of sites, and of nodes as -1 - vertex
  std::map<std::tuple<int, int, int>, Cables> between_tiers;  // site, lower tier, upper

  std::string text_out_of(int site) const {
    const auto known = out_of.find(site);
    return known == out_of.end() ? std::string() : known->second.text();
  }
  std::string text_between(int site, int lower, int upper) const {
    const auto known = between_tiers.find({site, lower, upper});
    return known == between_tiers.end() ? std::string() : known->second.text();
  }
};

AllCables cables_of(const Topology& topology, const Plan& plan) {
  AllCables all;
  for (const Edge& edge : topology.edges) {
    if (edge.kind != EdgeKind::kNetwork) continue;
    const int from = host_of(topology, edge.from);
    const int to = host_of(topology, edge.to);
    const auto a = path_of(topology, plan, from);
    const auto b = path_of(topology, plan, to);
    for (const auto& [one, other] : {std::pair(&a, &b), std::pair(&b, &a)})
      for (const int site : *one)
        if (std::find(other->begin(), other->end(), site) == other->end())
          all.out_of[site].add(edge.bandwidth);
    const bool switches = vertex_at(topology, from).kind == VertexKind::kSwitch &&
                          vertex_at(topology, to).kind == VertexKind::kSwitch;
    if (!switches || plan.site_of.at(from) != plan.site_of.at(to)) continue;
    const auto [low, high] = std::minmax({plan.tier_of(from), plan.tier_of(to)});
    all.between_tiers[{plan.site_of.at(from), low, high}].add(edge.bandwidth);
  }
  return all;
}

std::vector<std::string> node_facts(
    const Topology& topology, const std::unordered_map<int, std::map<VertexKind, size_t>>& has,
    int node) {
  std::vector<std::string> facts;
  const auto known = has.find(node);
  if (known != has.end())
    for (const auto& [kind, count] : known->second)
      facts.push_back(counted(count, kind == VertexKind::kGpu ? "GPU" : "NIC"));
  if (facts.empty() && !vertex_at(topology, node).cpus.empty())
    facts.push_back(
        counted(static_cast<size_t>(vertex_at(topology, node).cpus.count()), "processor"));
  return facts;
}

std::string key_of(const Card& card, int shape) {
  return fmt::format("{}|{}", shape, card.cables);
}

// Gives the key of a site that is complete but for its copies.
std::string key_of(const NetworkSite& site, const std::vector<int>& shapes) {
  std::string key = site.cables;
  for (const Tier& tier : site.tiers)
    key += fmt::format("|t{}:{}:{}:{}", tier.number, tier.switches.size(), tier.among, tier.cables);
  std::vector<std::string> parts;
  for (const NetworkSite& each : site.sites)
    parts.push_back(fmt::format("s{}({})", each.copies, key_of(each, shapes)));
  for (const Card& card : site.cards)
    parts.push_back(fmt::format("n{}({})", card.nodes.size(),
                                key_of(card, shapes[static_cast<size_t>(card.nodes.front())])));
  std::sort(parts.begin(), parts.end());
  return fmt::format("{}|{}|{}", key, site.left_out, fmt::join(parts, ""));
}

size_t nodes_of(const NetworkSite& site) {
  return site.copies * site.nodes;
}

size_t nodes_of(const Card& card) {
  return card.nodes.size();
}

// Those of more nodes first, and not all of them.
template <typename Thing>
void keep_largest(std::vector<Thing>& things, size_t most, size_t& left_out) {
  std::stable_sort(things.begin(), things.end(),
                   [](const Thing& a, const Thing& b) { return nodes_of(a) > nodes_of(b); });
  for (; things.size() > most; things.pop_back()) left_out += nodes_of(things.back());
}

void fold(std::vector<NetworkSite>& sites, const std::vector<int>& shapes) {
  std::map<std::string, size_t> place;
  std::vector<NetworkSite> kept;
  for (NetworkSite& each : sites) {
    const auto [known, fresh] = place.emplace(key_of(each, shapes), kept.size());
    if (fresh) {
      kept.push_back(std::move(each));
    } else {
      ++kept[known->second].copies;
    }
  }
  sites = std::move(kept);
}

void fold(std::vector<Card>& cards, const std::vector<int>& shapes) {
  std::map<std::string, size_t> place;
  std::vector<Card> kept;
  for (Card& each : cards) {
    const int node = each.nodes.front();
    const auto [known, fresh] =
        place.emplace(key_of(each, shapes[static_cast<size_t>(node)]), kept.size());
    if (fresh) {
      kept.push_back(std::move(each));
    } else {
      kept[known->second].nodes.push_back(node);
    }
  }
  cards = std::move(kept);
}

// Each with the nodes and switches that are in it and in no smaller one.
std::vector<NetworkSite> filled_sites(const Topology& topology, const Plan& plan,
                                      const AllCables& cables) {
  std::unordered_map<int, std::map<VertexKind, size_t>> has;
  for (const VertexKind kind : {VertexKind::kGpu, VertexKind::kNic})
    for (const int device : vertices_of(topology, kind))
      ++has[ancestor(topology, device, VertexKind::kNode)][kind];
  std::vector<NetworkSite> sites(plan.parent.size());
  for (const int node : vertices_of(topology, VertexKind::kNode)) {
    NetworkSite& site = sites[static_cast<size_t>(plan.site_of.at(node))];
    ++site.nodes;
    site.cards.push_back({{node}, node_facts(topology, has, node), cables.text_out_of(-1 - node)});
  }
  for (const int each : vertices_of(topology, VertexKind::kSwitch)) {
    auto& tiers = sites[static_cast<size_t>(plan.site_of.at(each))].tiers;
    const int number = plan.tier_of(each);
    auto same = std::find_if(tiers.begin(), tiers.end(),
                             [&](const Tier& tier) { return tier.number == number; });
    if (same == tiers.end()) same = tiers.insert(tiers.end(), Tier{.number = number});
    same->switches.push_back(each);
  }
  return sites;
}

void order_tiers(NetworkSite& site, int number, const AllCables& cables) {
  // Those beside the tiers first.
  std::sort(site.tiers.begin(), site.tiers.end(), [](const Tier& a, const Tier& b) {
    return static_cast<unsigned>(a.number - 1) > static_cast<unsigned>(b.number - 1);
  });
  for (Tier& tier : site.tiers) {
    tier.cables = cables.text_between(number, tier.number - 1, tier.number);
    tier.among = cables.text_between(number, tier.number, tier.number);
  }
}

}  // namespace

std::optional<NetworkSite> sketch_network(const Topology& topology,
                                          const std::vector<int>& shapes) {
  const size_t nodes = vertices_of(topology, VertexKind::kNode).size();
  if (nodes < 2 && vertices_of(topology, VertexKind::kSwitch).empty()) return std::nullopt;
  const Plan plan = plan_of(topology);
  const AllCables cables = cables_of(topology, plan);
  std::vector<NetworkSite> sites = filled_sites(topology, plan, cables);
  // What is within another comes after it.
  for (size_t i = sites.size(); i-- > 0;) {
    NetworkSite& site = sites[i];
    site.cables = cables.text_out_of(static_cast<int>(i));
    order_tiers(site, static_cast<int>(i), cables);
    // They came last first.
    std::reverse(site.sites.begin(), site.sites.end());
    fold(site.sites, shapes);
    if (nodes > kMostSingle) fold(site.cards, shapes);
    const size_t most = i == 0 || nodes <= kMostSingle ? kMostInAll : kMostInSite;
    keep_largest(site.sites, most, site.left_out);
    keep_largest(site.cards, most, site.left_out);
    if (i == 0) break;
    NetworkSite& parent = sites[static_cast<size_t>(plan.parent[i])];
    parent.nodes += site.nodes;
    parent.sites.push_back(std::move(site));
  }
  return std::move(sites.front());
}

}  // namespace banyan
