// SPDX-License-Identifier: Apache-2.0

#include "topology/compose.h"

#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace banyan {

namespace {

// The cluster under construction, with what is looked up by name.
class Merger {
 public:
  Topology take() { return std::move(merged_); }

  void add(const Topology& view) {
    std::vector<int> place(view.vertices.size(), 0);
    // Whatever order the view has, a vertex comes after its parent.
    for (const int index : parents_first(view)) {
      const auto i = static_cast<size_t>(index);
      place[i] = index == 0 ? 0 : add_one(view.vertices[i], place);
    }
    for (Edge edge : view.edges) {
      edge.from = place[static_cast<size_t>(edge.from)];
      edge.to = place[static_cast<size_t>(edge.to)];
      add_edge(edge);
    }
    ++view_;
  }

 private:
  static std::vector<int> parents_first(const Topology& view) {
    const auto children = children_of(view);
    std::vector<int> order = {0};
    for (size_t i = 0; i < order.size(); ++i)
      for (const int child : children[static_cast<size_t>(order[i])]) order.push_back(child);
    return order;
  }

  static std::string key_of(VertexKind kind, int home, const std::string& name) {
    return fmt::format("{}/{}/{}", name_of(kind), home, name);
  }

  int add_one(Vertex vertex, const std::vector<int>& place) {
    vertex.parent = place[static_cast<size_t>(vertex.parent)];
    if (vertex.kind == VertexKind::kNode) vertex.name = name_for(vertex);
    const int home = vertex.kind == VertexKind::kNode || vertex.kind == VertexKind::kSwitch
                         ? 0
                         : ancestor(merged_, vertex.parent, VertexKind::kNode);
    const auto next = static_cast<int>(merged_.vertices.size());
    int known = next;
    if (const std::string identity = identity_of(vertex); !identity.empty()) {
      known = by_identity_.emplace(key_of(vertex.kind, home, identity), next).first->second;
      if (known == next) vertex.name = free_name(vertex, home);
    }
    if (known == next)
      known = by_name_.emplace(key_of(vertex.kind, home, vertex.name), next).first->second;
    if (known == next) return add_vertex(merged_, std::move(vertex));
    Vertex& before = merged_.vertices[static_cast<size_t>(known)];
    before.cpus |= vertex.cpus;
    before.cores = std::max(before.cores, vertex.cores);
    return known;
  }

  // Tells apart what may have another's name in another view: processes that see some GPUs count
  // those. Others have names of the kernel's, and two NICs may be one PCI function.
  static std::string identity_of(const Vertex& vertex) {
    if (vertex.kind == VertexKind::kGpu) return vertex.bus_id;
    return vertex.kind == VertexKind::kPartition ? set_id(vertex.guid) : std::string();
  }

  // Its own name, or with a number where something else has it.
  std::string free_name(const Vertex& vertex, int home) const {
    std::string name = vertex.name;
    for (int number = 2; by_name_.count(key_of(vertex.kind, home, name)) != 0; ++number)
      name = fmt::format("{}.{}", vertex.name, number);
    return name;
  }

  // The node's own name, or with a number where another node has it.
  std::string name_for(const Vertex& node) {
    std::string name = node.name;
    for (int number = 2;; ++number) {
      const auto known = by_name_.find(key_of(VertexKind::kNode, 0, name));
      if (known == by_name_.end() ||
          merged_.vertices[static_cast<size_t>(known->second)].guid == node.guid)
        return name;
      name = fmt::format("{}.{}", node.name, number);
    }
  }

  void add_edge(const Edge& edge) {
    const auto key = fmt::format("{} {} {}", std::min(edge.from, edge.to),
                                 std::max(edge.from, edge.to), name_of(edge.kind));
    // A view has all cables between two vertices of its own; those of a later view are the same.
    auto& [view, seen] = edges_[key];
    if (seen && view != view_) return;
    view = view_;
    seen = true;
    merged_.edges.push_back(edge);
  }

  Topology merged_ = empty_topology();
  std::unordered_map<std::string, int> by_name_;
  std::unordered_map<std::string, int> by_identity_;
  std::unordered_map<std::string, std::pair<size_t, bool>> edges_;
  size_t view_ = 0;
};

// A node with all that is in it, in the terms of the node alone.
struct NodeShape {
  std::vector<Vertex> vertices;
  std::vector<Edge> edges;
  friend bool operator==(const NodeShape&, const NodeShape&) = default;
};

// Gives the shapes of the nodes of a canonical topology; one without vertices where a cable is
// fastened to the node.
std::unordered_map<int, NodeShape> node_shapes_of(const Topology& topology) {
  std::unordered_map<int, NodeShape> shapes;
  const auto node_of = [&](int vertex) { return ancestor(topology, vertex, VertexKind::kNode); };
  for (size_t i = 0; i < topology.vertices.size(); ++i) {
    const int node = node_of(static_cast<int>(i));
    if (node < 0) continue;
    Vertex vertex = topology.vertices[i];
    vertex.guid.clear();
    vertex.gids.clear();
    if (vertex.kind == VertexKind::kNode) vertex.name.clear();
    vertex.parent -= vertex.kind == VertexKind::kNode ? vertex.parent : node;
    shapes[node].vertices.push_back(std::move(vertex));
  }
  for (Edge edge : topology.edges) {
    const int node = node_of(edge.from);
    const int other = node_of(edge.to);
    if (node < 0 || node != other) {
      for (const int end : {node, other})
        if (end >= 0) shapes[end].vertices.clear();
      continue;
    }
    edge.from -= node;
    edge.to -= node;
    shapes[node].edges.push_back(std::move(edge));
  }
  return shapes;
}

}  // namespace

Result<Topology> multiply(const Topology& topology, int count) {
  const std::vector<int> nodes = vertices_of(topology, VertexKind::kNode);
  if (count < 1 || nodes.size() != 1)
    return Status(Code::kInvalidArgument,
                  fmt::format("{} copies of a description of {} nodes; right are 1 or more of one",
                              count, nodes.size()));
  if (count == 1) return topology;
  if (!vertices_of(topology, VertexKind::kSwitch).empty())
    return Status(Code::kInvalidArgument,
                  "the description has a network, which copies of its node cannot share");
  const auto copies = static_cast<size_t>(count);
  if ((topology.vertices.size() - 1) * copies >= kMostVertices ||
      topology.edges.size() * copies > kMostEdges)
    return Status(
        Code::kInvalidArgument,
        fmt::format("{} nodes of {} vertices and {} links are too many; right are at most "
                    "{} vertices and {} links",
                    count, topology.vertices.size() - 1, topology.edges.size(), kMostVertices,
                    kMostEdges));
  Topology cluster = empty_topology(topology.vertices.front().name);
  cluster.vertices.reserve(1 + (topology.vertices.size() - 1) * copies);
  cluster.edges.reserve(topology.edges.size() * copies);
  for (int copy = 0; copy < count; ++copy) {
    const int offset = static_cast<int>(cluster.vertices.size()) - 1;
    for (size_t i = 1; i < topology.vertices.size(); ++i) {
      Vertex vertex = topology.vertices[i];
      if (vertex.parent > 0) vertex.parent += offset;
      if (vertex.kind == VertexKind::kNode) vertex.name += fmt::format("-{}", copy);
      // What is one device's in the world is none of its copies'.
      vertex.guid.clear();
      vertex.gids.clear();
      cluster.vertices.push_back(std::move(vertex));
    }
    for (Edge edge : topology.edges) {
      edge.from += offset;
      edge.to += offset;
      cluster.edges.push_back(std::move(edge));
    }
  }
  BANYAN_TRY(check(cluster));
  return cluster;
}

Result<Topology> merge(std::span<const Topology> views) {
  Merger merger;
  for (const Topology& view : views) merger.add(view);
  Topology merged = canonical(merger.take());
  BANYAN_TRY(check(merged));
  return merged;
}

Topology folded(const Topology& topology) {
  const Topology all = canonical(topology);
  const auto shapes = node_shapes_of(all);
  std::vector<std::pair<int, int>> kept;  // nodes, and how many each stands for
  for (const int node : vertices_of(all, VertexKind::kNode)) {
    const NodeShape& shape = shapes.at(node);
    // A node with nothing in it is by itself.
    const auto same = shape.vertices.empty()
                          ? kept.end()
                          : std::find_if(kept.begin(), kept.end(), [&](const auto& one) {
                              return shapes.at(one.first) == shape;
                            });
    if (same == kept.end()) {
      kept.emplace_back(node, 1);
    } else {
      ++same->second;
    }
  }
  std::unordered_map<int, int> copies(kept.begin(), kept.end());
  Topology few;
  std::vector<int> place(all.vertices.size(), -1);
  for (size_t i = 0; i < all.vertices.size(); ++i) {
    const int node = ancestor(all, static_cast<int>(i), VertexKind::kNode);
    if (node >= 0 && copies.count(node) == 0) continue;
    place[i] = static_cast<int>(few.vertices.size());
    Vertex& vertex = few.vertices.emplace_back(all.vertices[i]);
    if (vertex.kind == VertexKind::kNode && copies[node] > 1)
      vertex.name += fmt::format(" (x {})", copies[node]);
  }
  for (Vertex& vertex : few.vertices)
    if (vertex.parent >= 0) vertex.parent = place[static_cast<size_t>(vertex.parent)];
  for (Edge edge : all.edges) {
    edge.from = place[static_cast<size_t>(edge.from)];
    edge.to = place[static_cast<size_t>(edge.to)];
    if (edge.from >= 0 && edge.to >= 0) few.edges.push_back(std::move(edge));
  }
  return few;
}

}  // namespace banyan
