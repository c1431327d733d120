// SPDX-License-Identifier: Apache-2.0

#include "topology/formats/sketch.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "topology/describe.h"

namespace banyan {

namespace {

using Out = std::back_insert_iterator<std::string>;

std::string figure_key(const Figure& figure) {
  return figure.known() ? fmt::format("{}", *figure.value) : "?";
}

// What a vertex is by itself.
std::string own_key(const Vertex& each) {
  return fmt::format("{}|{}|{}|{}|{}|{}|{}|{}|{}", static_cast<int>(each.kind), each.vendor,
                     each.model, each.memory, each.cpus.count(), each.cores, each.link_layer,
                     each.state, figure_key(each.rate));
}

// Gives for each node the edges within it that are not of its tree, by the shapes of their ends.
std::map<int, std::vector<std::string>> edges_within(const Topology& topology,
                                                     const SortedEdges& edges,
                                                     const std::vector<int>& shapes) {
  std::map<int, std::vector<std::string>> found;
  for (const int index : edges.beside) {
    const Edge& edge = topology.edges[static_cast<size_t>(index)];
    const int node = ancestor(topology, edge.from, VertexKind::kNode);
    if (node < 0 || node != ancestor(topology, edge.to, VertexKind::kNode)) continue;
    const auto ends =
        std::minmax(shapes[static_cast<size_t>(edge.from)], shapes[static_cast<size_t>(edge.to)]);
    found[node].push_back(fmt::format("{}:{}-{}:{}", static_cast<int>(edge.kind), ends.first,
                                      ends.second, figure_key(edge.bandwidth)));
  }
  for (auto& [node, keys] : found) std::sort(keys.begin(), keys.end());
  return found;
}

}  // namespace

std::string counted(size_t count, std::string_view what) {
  const std::string_view plural = count == 1 ? "" : what.ends_with("ch") ? "es" : "s";
  return fmt::format("{} {}{}", count, what, plural);
}

std::string range_text(const Topology& topology, const std::vector<int>& vertices, size_t most) {
  std::vector<std::string_view> names;
  for (const int each : vertices)
    names.emplace_back(topology.vertices[static_cast<size_t>(each)].name);
  // "node-9" before "node-10".
  std::sort(names.begin(), names.end(), [](std::string_view a, std::string_view b) {
    return std::pair(a.size(), a) < std::pair(b.size(), b);
  });
  if (names.size() > most) return fmt::format("{} ... {}", names.front(), names.back());
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string short_text(const Figure& figure) {
  if (!figure.known()) return "? GB/s";
  const bool said = figure.source == Source::kMeasured || figure.source == Source::kHardware;
  const double value = *figure.value;
  return fmt::format("{}{} GB/s", said ? "" : "~",
                     value >= 1000 ? fmt::format("{:.0f}", value) : fmt::format("{:.3g}", value));
}

std::vector<int> shapes_of(const Topology& topology) {
  const auto children = children_of(topology);
  const SortedEdges edges = sort_edges(topology);
  std::vector<int> order = {0};
  for (size_t i = 0; i < order.size(); ++i) {
    const auto& below = children[static_cast<size_t>(order[i])];
    order.insert(order.end(), below.begin(), below.end());
  }
  std::vector<int> shapes(topology.vertices.size(), 0);
  std::map<std::string, int> numbers;
  std::map<int, std::vector<std::string>> within;  // of nodes, once all else is known
  const auto number = [&](int vertex) {
    const auto i = static_cast<size_t>(vertex);
    std::string key = own_key(topology.vertices[i]);
    if (const int up = edges.up[i]; up >= 0) {
      const Edge& edge = topology.edges[static_cast<size_t>(up)];
      fmt::format_to(Out(key), "|{}:{}", static_cast<int>(edge.kind), figure_key(edge.bandwidth));
    }
    std::vector<int> below;
    for (const int child : children[i]) below.push_back(shapes[static_cast<size_t>(child)]);
    std::sort(below.begin(), below.end());
    fmt::format_to(Out(key), "|{}|{}", fmt::join(below, ","), fmt::join(within[vertex], ","));
    shapes[i] = numbers.emplace(std::move(key), static_cast<int>(numbers.size())).first->second;
  };
  const auto is_node = [&](int vertex) {
    return topology.vertices[static_cast<size_t>(vertex)].kind == VertexKind::kNode;
  };
  for (auto vertex = order.rbegin(); vertex != order.rend(); ++vertex)
    if (*vertex != 0 && !is_node(*vertex)) number(*vertex);
  within = edges_within(topology, edges, shapes);
  for (const int vertex : order)
    if (is_node(vertex)) number(vertex);
  return shapes;
}

std::vector<int> nodes_to_show(const Topology& topology, const std::vector<int>& shapes,
                               size_t most) {
  const auto children = children_of(topology);
  std::map<int, int> shown;  // by shape
  std::vector<int> nodes;
  for (const int node : vertices_of(topology, VertexKind::kNode)) {
    if (nodes.size() == most) break;
    const auto& below = children[static_cast<size_t>(node)];
    const bool more = std::any_of(below.begin(), below.end(), [&](int child) {
      return topology.vertices[static_cast<size_t>(child)].kind != VertexKind::kNic;
    });
    if (more && shown.emplace(shapes[static_cast<size_t>(node)], node).second)
      nodes.push_back(node);
  }
  return nodes;
}

}  // namespace banyan
