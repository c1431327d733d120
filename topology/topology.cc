// SPDX-License-Identifier: Apache-2.0

#include "topology/topology.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <numeric>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "src/base/parse.h"

namespace banyan {

namespace {

constexpr std::array<std::string_view, kSourceCount> kSources = {"measured", "hardware", "table",
                                                                 "assumed"};
constexpr std::array<std::string_view, kVertexKindCount> kVertexKinds = {
    "cluster",    "switch",   "node", "package",   "numa", "cache",
    "pci_switch", "nvswitch", "gpu",  "partition", "nic",  "port"};
constexpr std::array<std::string_view, kEdgeKindCount> kEdgeKinds = {
    "memory", "cpu_interconnect", "pcie", "nvlink", "xgmi", "c2c", "shm", "network"};

template <typename Enum, size_t Count>
Result<Enum> parse_word(std::string_view what, std::string_view text,
                        const std::array<std::string_view, Count>& words) {
  const auto* const found = std::find(words.begin(), words.end(), text);
  if (found == words.end()) return unknown_word(what, printable(text), words);
  return static_cast<Enum>(found - words.begin());
}

bool among(VertexKind kind, std::initializer_list<VertexKind> kinds) {
  return std::find(kinds.begin(), kinds.end(), kind) != kinds.end();
}

bool may_contain(VertexKind parent, VertexKind child) {
  using enum VertexKind;
  switch (child) {
    case kCluster: return false;
    case kSwitch:
    case kNode: return parent == kCluster;
    case kPackage: return parent == kNode;
    case kNuma: return among(parent, {kNode, kPackage, kCache});
    case kCache: return among(parent, {kNode, kPackage, kNuma});
    case kPciSwitch:
    case kNvSwitch:
    case kGpu:
    case kNic: return among(parent, {kNode, kPackage, kNuma, kPciSwitch});
    case kPartition: return parent == kGpu;
    case kPort: return parent == kNic;
  }
  return false;
}

bool may_edge(EdgeKind kind, VertexKind a, VertexKind b) {
  using enum VertexKind;
  const auto one_is = [&](VertexKind wanted) { return a == wanted || b == wanted; };
  switch (kind) {
    case EdgeKind::kMemory: return a == kNuma && b == kNuma;
    case EdgeKind::kShm: return a == kNode && b == kNode;
    case EdgeKind::kCpuInterconnect: return a == kNuma && b == kNuma;
    case EdgeKind::kPcie:
      return among(a, {kPciSwitch, kNvSwitch, kGpu, kNic}) ||
             among(b, {kPciSwitch, kNvSwitch, kGpu, kNic});
    case EdgeKind::kNvlink:
      return among(a, {kGpu, kNvSwitch, kNuma}) && among(b, {kGpu, kNvSwitch, kNuma});
    case EdgeKind::kXgmi: return a == kGpu && b == kGpu;
    case EdgeKind::kC2c: return one_is(kGpu) && (one_is(kNuma) || a == b);
    case EdgeKind::kNetwork:
      return among(a, {kSwitch, kNode, kNic, kPort}) && among(b, {kSwitch, kNode, kNic, kPort});
  }
  return false;
}

Status wrong(std::string text) {
  return {Code::kInvalidArgument, std::move(text)};
}

// All that is text but the name; of a `const` vertex or one to be changed.
template <typename AnyVertex, typename Visit>
void visit_texts(AnyVertex& vertex, const Visit& visit) {
  constexpr std::array kTexts = {&Vertex::bus_id, &Vertex::vendor,     &Vertex::model,
                                 &Vertex::guid,   &Vertex::driver,     &Vertex::interface,
                                 &Vertex::width,  &Vertex::link_layer, &Vertex::state};
  for (const auto text : kTexts) visit(vertex.*text);
  for (auto& gid : vertex.gids) {
    visit(gid.gid);
    visit(gid.type);
    visit(gid.interface);
  }
}

bool is_text(const std::string& text) {
  return text.size() <= kMostNameBytes && printable(text) == text;
}

Status check_figure(const Figure& figure, std::string_view what, std::string_view of) {
  if (!figure.known() || (*figure.value >= 0 && *figure.value <= kMostFigure)) return {};
  return wrong(fmt::format("{} of {} is {}; right is a number from 0 to {}", what, of,
                           *figure.value, kMostFigure));
}

Status check_vertex(const Topology& topology, size_t index) {
  const Vertex& vertex = topology.vertices[index];
  const std::string what =
      fmt::format("{} '{}'", name_of(vertex.kind), printable(vertex.name.substr(0, 80)));
  if (vertex.name.empty() || vertex.name.size() > kMostNameBytes)
    return wrong(fmt::format("the name of {} (vertex {}) has {} bytes; right are 1 to {}", what,
                             index, vertex.name.size(), kMostNameBytes));
  if (!is_text(vertex.name) || vertex.name.find('/') != std::string::npos)
    return wrong(fmt::format("the name of {} holds '/', a control character or no UTF-8", what));
  const std::string* bad = nullptr;
  visit_texts(vertex, [&](const std::string& text) {
    if (!is_text(text)) bad = &text;
  });
  if (bad != nullptr)
    return wrong(
        fmt::format("'{}' of {} is longer than {} bytes or holds a control character or "
                    "no UTF-8",
                    printable(bad->substr(0, 80)), what, kMostNameBytes));
  if ((vertex.kind == VertexKind::kCluster) != (index == 0))
    return wrong(fmt::format("{} is vertex {}; the one cluster is vertex 0", what, index));
  if (index == 0)
    return vertex.parent == -1 ? Status() : wrong(fmt::format("{} has a parent", what));
  if (vertex.parent < 0 || static_cast<size_t>(vertex.parent) >= topology.vertices.size())
    return wrong(fmt::format("{} has no parent", what));
  const Vertex& parent = topology.vertices[static_cast<size_t>(vertex.parent)];
  if (!may_contain(parent.kind, vertex.kind))
    return wrong(fmt::format("{} cannot be in {} '{}'", what, name_of(parent.kind),
                             printable(parent.name.substr(0, 80))));
  return check_figure(vertex.rate, "the rate", what);
}

// A vertex has one parent, so that whoever does not come to the root goes in a circle. Each is
// walked over once.
TopologyFault check_nesting(const Topology& topology) {
  std::vector<size_t> depth(topology.vertices.size(), 0);  // 0: not known
  depth[0] = 1;
  std::vector<size_t> trail;
  for (size_t i = 1; i < topology.vertices.size(); ++i) {
    const auto fault = [&](std::string_view what) {
      return TopologyFault{wrong(fmt::format("{} '{}' is {}", name_of(topology.vertices[i].kind),
                                             topology.vertices[i].name, what)),
                           static_cast<int>(i)};
    };
    trail.clear();
    size_t at = i;
    for (; depth[at] == 0; at = static_cast<size_t>(topology.vertices[at].parent)) {
      if (trail.size() > topology.vertices.size()) return fault("within itself");
      trail.push_back(at);
    }
    if (depth[at] + trail.size() > kMostDepth)
      return fault(fmt::format("within more than {} others", kMostDepth - 1));
    for (size_t left = trail.size(); left > 0; --left)
      depth[trail[left - 1]] = depth[at] + trail.size() - left + 1;
  }
  return {};
}

// The node or, of what is in none, the vertex 0.
std::vector<int> homes(const Topology& topology) {
  std::vector<int> home(topology.vertices.size(), -1);
  std::vector<size_t> trail;
  for (size_t i = 0; i < home.size(); ++i) {
    size_t at = i;
    trail.clear();
    while (home[at] < 0) {
      const Vertex& vertex = topology.vertices[at];
      trail.push_back(at);
      if (vertex.kind == VertexKind::kNode) home[at] = static_cast<int>(at);
      if (vertex.parent < 0 || vertex.kind == VertexKind::kSwitch) home[at] = 0;
      if (home[at] < 0) at = static_cast<size_t>(vertex.parent);
    }
    for (const size_t walked : trail) home[walked] = home[at];
  }
  return home;
}

TopologyFault check_names(const Topology& topology) {
  const std::vector<int> home = homes(topology);
  std::unordered_set<std::string> taken;
  taken.reserve(topology.vertices.size());
  for (size_t i = 0; i < topology.vertices.size(); ++i) {
    const Vertex& vertex = topology.vertices[i];
    const auto at = static_cast<size_t>(home[i]);
    const bool inside = at != 0 && at != i;
    if (!taken.insert(inside ? topology.vertices[at].name + '/' + vertex.name : vertex.name).second)
      return {wrong(fmt::format("two vertices have the name '{}'",
                                full_name(topology, static_cast<int>(i)))),
              static_cast<int>(i)};
  }
  return {};
}

Status check_edge(const Topology& topology, const Edge& edge, size_t index) {
  const auto exists = [&](int vertex) {
    return vertex >= 0 && static_cast<size_t>(vertex) < topology.vertices.size();
  };
  if (!exists(edge.from) || !exists(edge.to))
    return wrong(fmt::format("link {} has no two ends", index));
  const std::string what =
      fmt::format("link {} ({} from {} to {})", index, name_of(edge.kind),
                  full_name(topology, edge.from), full_name(topology, edge.to));
  const Vertex& from = topology.vertices[static_cast<size_t>(edge.from)];
  const Vertex& to = topology.vertices[static_cast<size_t>(edge.to)];
  const bool loop = edge.kind == EdgeKind::kMemory || edge.kind == EdgeKind::kShm;
  if (!may_edge(edge.kind, from.kind, to.kind) || loop != (edge.from == edge.to))
    return wrong(fmt::format("{}: no such link joins {} and {}", what, name_of(from.kind),
                             edge.from == edge.to ? "itself" : name_of(to.kind)));
  if (!is_text(edge.text))
    return wrong(
        fmt::format("the text of {} is longer than {} bytes or holds a control character "
                    "or no UTF-8",
                    what, kMostNameBytes));
  BANYAN_TRY(check_figure(edge.bandwidth, "the bandwidth", what));
  return check_figure(edge.latency, "the latency", what);
}

}  // namespace

Figure least(const Figure& a, const Figure& b) {
  const Source source = std::max(a.source, b.source);
  if (!a.known() || !b.known()) return {std::nullopt, a.known() ? b.source : a.source};
  if (*a.value != *b.value) return *a.value < *b.value ? a : b;
  return {a.value, source, a.doubtful || b.doubtful};
}

Figure sum(const Figure& a, const Figure& b) {
  const Figure narrow = least(a, b);  // for its source
  if (!narrow.known()) return narrow;
  return {*a.value + *b.value, std::max(a.source, b.source), a.doubtful || b.doubtful};
}

std::string_view name_of(Source source) {
  return kSources[static_cast<size_t>(source)];
}

std::string_view name_of(VertexKind kind) {
  return kVertexKinds[static_cast<size_t>(kind)];
}

std::string_view name_of(EdgeKind kind) {
  return kEdgeKinds[static_cast<size_t>(kind)];
}

Result<Source> parse_source(std::string_view text) {
  return parse_word<Source>("source", text, kSources);
}

Result<EdgeKind> parse_edge_kind(std::string_view text) {
  return parse_word<EdgeKind>("kind", text, kEdgeKinds);
}

Topology empty_topology(std::string name) {
  Topology topology;
  topology.vertices.push_back({.kind = VertexKind::kCluster, .name = std::move(name)});
  return topology;
}

std::string set_id(std::string text) {
  if (text.find_first_not_of("0x:-.") == std::string::npos) text.clear();
  return text;
}

int add_vertex(Topology& topology, Vertex vertex) {
  topology.vertices.push_back(std::move(vertex));
  return static_cast<int>(topology.vertices.size()) - 1;
}

TopologyFault find_fault(const Topology& topology) {
  if (topology.vertices.empty() || topology.vertices.size() > kMostVertices)
    return {wrong(
        fmt::format("{} vertices; right are 1 to {}", topology.vertices.size(), kMostVertices))};
  if (topology.edges.size() > kMostEdges)
    return {
        wrong(fmt::format("{} links; right are at most {}", topology.edges.size(), kMostEdges))};
  for (size_t i = 0; i < topology.vertices.size(); ++i)
    if (const Status status = check_vertex(topology, i); !status.ok())
      return {status, static_cast<int>(i)};
  if (TopologyFault fault = check_nesting(topology); !fault.status.ok()) return fault;
  if (TopologyFault fault = check_names(topology); !fault.status.ok()) return fault;
  for (size_t i = 0; i < topology.edges.size(); ++i)
    if (const Status status = check_edge(topology, topology.edges[i], i); !status.ok())
      return {status, -1, static_cast<int>(i)};
  return {};
}

Status check(const Topology& topology) {
  return find_fault(topology).status;
}

Topology canonical(const Topology& topology) {
  const std::vector<int> home = homes(topology);
  std::vector<int> order(topology.vertices.size());
  std::iota(order.begin(), order.end(), 0);
  // Cluster and switches have the home 0, so they come first, and the cluster before its switches.
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    const auto key = [&](int i) {
      return std::pair(home[static_cast<size_t>(i)],
                       topology.vertices[static_cast<size_t>(i)].kind);
    };
    return key(a) < key(b);
  });
  std::vector<int> place(order.size());
  const auto find_places = [&] {
    for (size_t i = 0; i < order.size(); ++i)
      place[static_cast<size_t>(order[i])] = static_cast<int>(i);
  };
  find_places();
  // Partitions and ports, which come last, in the order of what they are parts of.
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    const auto key = [&](int i) {
      const Vertex& vertex = topology.vertices[static_cast<size_t>(i)];
      const bool part = vertex.kind == VertexKind::kPartition || vertex.kind == VertexKind::kPort;
      return std::tuple(home[static_cast<size_t>(i)], vertex.kind,
                        part ? place[static_cast<size_t>(vertex.parent)] : 0);
    };
    return key(a) < key(b);
  });
  find_places();
  Topology sorted;
  sorted.vertices.reserve(order.size());
  for (const int old : order) {
    Vertex& vertex = sorted.vertices.emplace_back(topology.vertices[static_cast<size_t>(old)]);
    if (vertex.parent >= 0) vertex.parent = place[static_cast<size_t>(vertex.parent)];
  }
  sorted.edges = topology.edges;
  for (Edge& edge : sorted.edges) {
    edge.from = place[static_cast<size_t>(edge.from)];
    edge.to = place[static_cast<size_t>(edge.to)];
  }
  return sorted;
}

void make_texts_valid(Topology& topology) {
  const auto make_valid = [](std::string& text) {
    if (!is_text(text)) text = printable(std::string_view(text).substr(0, kMostNameBytes));
  };
  for (Vertex& vertex : topology.vertices) visit_texts(vertex, make_valid);
  for (Edge& edge : topology.edges) make_valid(edge.text);
  const std::vector<int> home = homes(topology);
  std::unordered_set<std::string> taken;
  std::unordered_map<std::string, int> numbers;  // the last one of those with a name
  for (size_t i = 0; i < topology.vertices.size(); ++i) {
    Vertex& vertex = topology.vertices[i];
    std::string name = printable(trim(vertex.name).substr(0, kMostNameBytes - 16));
    std::replace(name.begin(), name.end(), '/', '_');
    if (name.empty()) name = name_of(vertex.kind);
    const bool outside = home[i] == 0 || static_cast<size_t>(home[i]) == i;
    vertex.name = name;
    // What is in no node shares its names with the nodes.
    const auto full = [&] { return fmt::format("{}/{}", outside ? 0 : home[i], vertex.name); };
    int& number = numbers.emplace(full(), 1).first->second;
    while (!taken.insert(full()).second) vertex.name = fmt::format("{}.{}", name, ++number);
  }
}

std::vector<int> vertices_of(const Topology& topology, VertexKind kind) {
  std::vector<int> found;
  for (size_t i = 0; i < topology.vertices.size(); ++i)
    if (topology.vertices[i].kind == kind) found.push_back(static_cast<int>(i));
  return found;
}

bool is_up(const Vertex& port) {
  constexpr std::array<std::string_view, 5> kUp = {"", "ACTIVE", "ACTIVE_DEFER", "up", "unknown"};
  return std::find(kUp.begin(), kUp.end(), port.state) != kUp.end();
}

std::vector<std::vector<int>> children_of(const Topology& topology) {
  std::vector<std::vector<int>> children(topology.vertices.size());
  for (size_t i = 1; i < topology.vertices.size(); ++i)
    children[static_cast<size_t>(topology.vertices[i].parent)].push_back(static_cast<int>(i));
  return children;
}

int ancestor(const Topology& topology, int vertex, VertexKind kind) {
  while (vertex >= 0 && topology.vertices[static_cast<size_t>(vertex)].kind != kind)
    vertex = topology.vertices[static_cast<size_t>(vertex)].parent;
  return vertex;
}

std::string full_name(const Topology& topology, int vertex) {
  const std::string& name = topology.vertices[static_cast<size_t>(vertex)].name;
  const int node = ancestor(topology, vertex, VertexKind::kNode);
  if (node < 0 || node == vertex) return name;
  return topology.vertices[static_cast<size_t>(node)].name + '/' + name;
}

int find_vertex(const Topology& topology, std::string_view full_name) {
  for (size_t i = 0; i < topology.vertices.size(); ++i)
    if (banyan::full_name(topology, static_cast<int>(i)) == full_name) return static_cast<int>(i);
  return -1;
}

}  // namespace banyan
