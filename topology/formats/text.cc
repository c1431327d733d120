// A topology as a tree of lines.
// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "topology/compose.h"
#include "topology/describe.h"
#include "topology/formats/print.h"
#include "topology/levels.h"
#include "topology/paths.h"

namespace banyan {

namespace {

constexpr size_t kMostDevicesInTable = 24;  // devices: what fits beside each other
constexpr size_t kMostEdgeLines = 64;       // beyond, edges of one kind and figure are counted

using Out = std::back_insert_iterator<std::string>;

std::string plural(size_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

std::string headline(const Topology& topology) {
  std::string text = topology.vertices.front().name + ":";
  std::string_view separator = " ";
  for (const auto& [kind, word] :
       {std::pair(VertexKind::kSwitch, "switch"), std::pair(VertexKind::kNode, "node"),
        std::pair(VertexKind::kGpu, "GPU"), std::pair(VertexKind::kNic, "NIC")}) {
    const size_t count = vertices_of(topology, kind).size();
    if (count == 0 && kind == VertexKind::kSwitch) continue;
    text += std::exchange(separator, ", ");
    const bool switches = kind == VertexKind::kSwitch && count != 1;
    text += switches ? fmt::format("{} switches", count) : plural(count, word);
  }
  int cpus = 0;
  for (const int node : vertices_of(topology, VertexKind::kNode))
    cpus += vertex_at(topology, node).cpus.count();
  return text + fmt::format(", {} processor{}\n", cpus, cpus == 1 ? "" : "s");
}

// Depth first; a vertex's depth is at most that of PCI, which check() leaves open, so no recursion.
void tree(std::string& out, const Topology& topology, const SortedEdges& edges) {
  const auto children = children_of(topology);
  std::vector<std::pair<int, int>> open = {{0, 0}};  // vertex, depth
  while (!open.empty()) {
    const auto [vertex, depth] = open.back();
    open.pop_back();
    const Vertex& each = vertex_at(topology, vertex);
    if (vertex != 0) {
      std::string line = fmt::format("{:{}}{}", "", 2 * (depth - 1), each.name);
      std::vector<std::string> facts = facts_of(each);
      if (const int up = edges.up[static_cast<size_t>(vertex)]; up >= 0)
        facts.push_back(text_of(topology.edges[static_cast<size_t>(up)]));
      const std::string_view kind = name_of(each.kind);
      if (!each.name.starts_with(kind)) facts.insert(facts.begin(), std::string(kind));
      fmt::format_to(Out(out), "{:<24} {}\n", line, fmt::join(facts, ", "));
    }
    const auto& below = children[static_cast<size_t>(vertex)];
    for (auto child = below.rbegin(); child != below.rend(); ++child)
      open.emplace_back(*child, depth + 1);
  }
}

void edges_beside(std::string& out, const Topology& topology, const SortedEdges& edges) {
  if (edges.beside.empty()) return;
  out += "\nlinks\n";
  if (edges.beside.size() <= kMostEdgeLines) {
    for (const int index : edges.beside) {
      const Edge& edge = topology.edges[static_cast<size_t>(index)];
      fmt::format_to(Out(out), "  {} - {}: {}\n", full_name(topology, edge.from),
                     full_name(topology, edge.to), text_of(edge));
    }
    return;
  }
  std::map<std::string, size_t> counts;
  for (const int index : edges.beside) {
    const Edge& edge = topology.edges[static_cast<size_t>(index)];
    ++counts[fmt::format("{} - {}: {}", name_of(vertex_at(topology, edge.from).kind),
                         name_of(vertex_at(topology, edge.to).kind), text_of(edge))];
  }
  for (const auto& [text, count] : counts) fmt::format_to(Out(out), "  {} x {}\n", count, text);
}

// As `nvidia-smi topo -m` shows it.
void path_table(std::string& out, const Topology& topology, int node) {
  std::vector<int> devices;
  for (const VertexKind kind : {VertexKind::kGpu, VertexKind::kNic})
    for (const int vertex : vertices_of(topology, kind))
      if (ancestor(topology, vertex, VertexKind::kNode) == node) devices.push_back(vertex);
  if (devices.size() < 2 || devices.size() > kMostDevicesInTable) return;
  size_t width = 4;
  for (const int device : devices)
    width = std::max(width, vertex_at(topology, device).name.size() + 1);
  fmt::format_to(Out(out), "\npaths in {}\n{:{}}", vertex_at(topology, node).name, "", width + 2);
  for (const int device : devices)
    fmt::format_to(Out(out), "{:<{}}", vertex_at(topology, device).name, width);
  const Paths paths(topology);
  for (const int from : devices) {
    while (out.back() == ' ') out.pop_back();
    fmt::format_to(Out(out), "\n  {:<{}}", vertex_at(topology, from).name, width);
    for (const int to : devices)
      fmt::format_to(Out(out), "{:<{}}", from == to ? "-" : name_of(paths.between(from, to).type),
                     width);
  }
  while (out.back() == ' ') out.pop_back();
  out += '\n';
}

std::string range(size_t least, size_t most, std::string_view what) {
  if (most == 0) return {};
  return least == most ? ", " + plural(most, what) : fmt::format(", {}-{} {}s", least, most, what);
}

void level_lines(std::string& out, const Topology& topology) {
  const std::vector<Level> all = levels(topology);
  if (!all.empty()) out += "\nlevels\n";
  for (const Level& level : all) {
    const auto extent = [&](auto size) {
      const auto [least, most] = std::minmax_element(
          level.groups.begin(), level.groups.end(),
          [&](const LevelGroup& a, const LevelGroup& b) { return size(a) < size(b); });
      return std::pair<size_t, size_t>(size(*least), size(*most));
    };
    const auto gpus = extent([](const LevelGroup& group) { return group.gpus.size(); });
    const auto nics = extent([](const LevelGroup& group) { return group.nics.size(); });
    const auto cpus =
        extent([](const LevelGroup& group) { return static_cast<size_t>(group.cpus); });
    std::string each = range(gpus.first, gpus.second, "GPU") +
                       range(nics.first, nics.second, "NIC") +
                       range(cpus.first, cpus.second, "processor");
    if (each.starts_with(", ")) each = " of " + each.substr(2);
    fmt::format_to(Out(out), "  {:<9}{}{}{}\n", level.name, plural(level.groups.size(), "group"),
                   each, level.regular ? "" : ", irregular");
  }
}

}  // namespace

std::string to_text(const Topology& topology) {
  const Topology shown = folded(topology);
  const SortedEdges edges = sort_edges(shown);
  std::string out = headline(topology);
  tree(out, shown, edges);
  edges_beside(out, shown, edges);
  if (const auto nodes = vertices_of(shown, VertexKind::kNode); !nodes.empty())
    path_table(out, shown, nodes.front());
  level_lines(out, topology);
  return out;
}

}  // namespace banyan
