// A node is boxes within boxes. Chains of PCI switches are one, and NVSwitches are in what they
// join. Of what is alike only the first is shown where all were too many.
// SPDX-License-Identifier: Apache-2.0

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "topology/describe.h"
#include "topology/formats/sketch.h"
#include "topology/formats/sketch_bundles.h"
#include "topology/formats/sketch_facts.h"

namespace banyan {

namespace {

constexpr size_t kMostBoxes = 44;  // of a node: beyond, what is alike is folded
constexpr int kMostNested = 10;    // boxes in boxes
constexpr size_t kMostParts = 24;  // of one box

class Tree {
 public:
  Tree(const Topology& topology, const std::vector<std::vector<int>>& children,
       const NodeFacts& facts)
      : topology_(topology), children_(children), edges_(sort_edges(topology)), facts_(facts) {}

  NodePart part_of(int vertex, int depth = 0) const {
    NodePart part{.kind = at(vertex).kind, .name = at(vertex).name, .vertices = {vertex}};
    add_way(part, vertex);
    std::vector<int> below = drawn_children(vertex);
    add_facts(part, vertex);
    while (joins_below(part.kind, below)) {
      vertex = below.front();
      // A chain of PCI switches is drawn as the device at its end.
      if (part.kind == VertexKind::kPciSwitch)
        part = {.kind = part.kind, .way_kind = part.way_kind, .way = part.way};
      add_way(part, vertex);
      add_facts(part, vertex);
      if (part.kind != VertexKind::kNode) {
        part.kind = at(vertex).kind;
        part.name += (part.name.empty() ? "" : ", ") + at(vertex).name;
        part.vertices = {vertex};
      }
      below = drawn_children(vertex);
    }
    const bool is_nic = part.kind == VertexKind::kNic;
    const auto& ports = children_[static_cast<size_t>(vertex)];
    part.down = is_nic && !ports.empty() &&
                std::none_of(ports.begin(), ports.end(), [&](int port) { return is_up(at(port)); });
    if (depth == kMostNested) {
      part.left_out = boxes_below(vertex);
      return part;
    }
    for (const int child : below) part.parts.push_back(part_of(child, depth + 1));
    // What holds processors first, then switches, GPUs, NICs.
    std::stable_sort(part.parts.begin(), part.parts.end(),
                     [](const NodePart& a, const NodePart& b) { return a.kind < b.kind; });
    return part;
  }

 private:
  const Vertex& at(int vertex) const { return topology_.vertices[static_cast<size_t>(vertex)]; }

  bool is_plain_cache(int vertex) const {
    return at(vertex).kind == VertexKind::kCache && children_[static_cast<size_t>(vertex)].empty();
  }

  // What is a fact of something, or in a bundle.
  bool is_elsewhere(int vertex) const {
    const VertexKind kind = at(vertex).kind;
    if (kind == VertexKind::kPort || kind == VertexKind::kPartition ||
        kind == VertexKind::kNvSwitch || is_plain_cache(vertex))
      return true;
    const auto& below = children_[static_cast<size_t>(vertex)];
    return kind == VertexKind::kPciSwitch && !below.empty() &&
           std::all_of(below.begin(), below.end(), [&](int child) { return is_elsewhere(child); });
  }

  std::vector<int> drawn_children(int vertex) const {
    std::vector<int> drawn;
    const auto& all = children_[static_cast<size_t>(vertex)];
    std::copy_if(all.begin(), all.end(), std::back_inserter(drawn),
                 [&](int child) { return !is_elsewhere(child); });
    return drawn;
  }

  size_t boxes_below(int vertex) const {
    std::vector<int> open = drawn_children(vertex);
    for (size_t i = 0; i < open.size(); ++i) {
      const std::vector<int> more = drawn_children(open[i]);
      open.insert(open.end(), more.begin(), more.end());
    }
    return open.size();
  }

  void add_facts(NodePart& part, int vertex) const {
    for (std::string& fact : facts_.of(vertex))
      if (std::find(part.facts.begin(), part.facts.end(), fact) == part.facts.end())
        part.facts.push_back(std::move(fact));
  }

  // A node of one package, a package of one NUMA domain, a PCI switch that leads to one device.
  bool joins_below(VertexKind kind, const std::vector<int>& below) const {
    if (below.size() != 1) return false;
    const VertexKind only = at(below.front()).kind;
    return kind == VertexKind::kPciSwitch ||
           (kind == VertexKind::kNode && only == VertexKind::kPackage) ||
           (kind == VertexKind::kPackage && only == VertexKind::kNuma);
  }

  // Keeps the narrowest edge of a chain.
  void add_way(NodePart& part, int vertex) const {
    const int up = edges_.up[static_cast<size_t>(vertex)];
    if (up < 0) return;
    const Edge& edge = topology_.edges[static_cast<size_t>(up)];
    if (!part.way_kind.empty() && part.way.known() &&
        (!edge.bandwidth.known() || *edge.bandwidth.value >= *part.way.value))
      return;
    part.way = edge.bandwidth;
    part.way_kind = kind_text(edge);
  }

  const Topology& topology_;
  const std::vector<std::vector<int>>& children_;
  const SortedEdges edges_;
  const NodeFacts& facts_;
};

size_t boxes_in(const NodePart& part) {
  size_t sum = 1;
  for (const NodePart& each : part.parts) sum += boxes_in(each);
  return sum;
}

// Alike siblings become one with what they have in common; with `deep` also those that hold others.
void fold(NodePart& part, const std::vector<int>& shapes, bool deep) {
  for (NodePart& each : part.parts) fold(each, shapes, deep);
  std::vector<NodePart> kept;
  std::map<int, size_t> place;  // by shape
  for (NodePart& each : part.parts) {
    const int shape = shapes[static_cast<size_t>(each.vertices.front())];
    const auto known = place.find(shape);
    if (!each.parts.empty() && !deep) {
      kept.push_back(std::move(each));
    } else if (known == place.end()) {
      place.emplace(shape, kept.size());
      kept.push_back(std::move(each));
    } else {
      NodePart& first = kept[known->second];
      first.vertices.insert(first.vertices.end(), each.vertices.begin(), each.vertices.end());
      std::erase_if(first.facts, [&](const std::string& fact) {
        return std::find(each.facts.begin(), each.facts.end(), fact) == each.facts.end();
      });
    }
  }
  part.parts = std::move(kept);
}

void cut(NodePart& part) {
  for (NodePart& each : part.parts) cut(each);
  if (part.parts.size() <= kMostParts) return;
  part.left_out += part.parts.size() - kMostParts;
  part.parts.resize(kMostParts);
}

}  // namespace

NodeSketch sketch_node(const Topology& topology, const std::vector<int>& shapes, int node) {
  NodeSketch sketch;
  const auto children = children_of(topology);
  const NodeFacts facts(topology, children, node);
  sketch.node = Tree(topology, children, facts).part_of(node);
  for (const bool deep : {false, true})
    if (boxes_in(sketch.node) > kMostBoxes) fold(sketch.node, shapes, deep);
  cut(sketch.node);
  std::vector<int> alike;
  for (const int other : vertices_of(topology, VertexKind::kNode))
    if (shapes[static_cast<size_t>(other)] == shapes[static_cast<size_t>(node)])
      alike.push_back(other);
  sketch.node.vertices = std::move(alike);
  add_bundles(topology, node, sketch);
  return sketch;
}

}  // namespace banyan
