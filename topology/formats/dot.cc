// A topology for Graphviz.
// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "topology/compose.h"
#include "topology/describe.h"
#include "topology/formats/draw.h"
#include "topology/formats/print.h"

namespace banyan {

namespace {

using Out = std::back_insert_iterator<std::string>;

std::string dot_string(std::string_view text) {
  std::string result = "\"";
  for (const char letter : text) {
    if (letter == '"' || letter == '\\') result += '\\';
    result += letter;
  }
  return result + '"';
}

// Lines within a label are separated by what Graphviz reads as a line end.
std::string label(const Vertex& vertex) {
  std::string text = dot_string(vertex.name);
  text.pop_back();
  for (const std::string& fact : facts_of(vertex)) {
    const std::string line = dot_string(fact);
    text += "\\n" + line.substr(1, line.size() - 2);
  }
  return text + '"';
}

std::string_view shape(VertexKind kind) {
  switch (kind) {
    case VertexKind::kCluster:
    case VertexKind::kNode: return "folder";
    case VertexKind::kSwitch:
    case VertexKind::kPciSwitch:
    case VertexKind::kNvSwitch: return "hexagon";
    case VertexKind::kPackage:
    case VertexKind::kNuma:
    case VertexKind::kCache: return "box";
    case VertexKind::kGpu:
    case VertexKind::kPartition: return "component";
    case VertexKind::kNic:
    case VertexKind::kPort: return "cds";
  }
  return "box";
}

// Edges in parallel, as one.
struct Cable {
  const Edge* first = nullptr;
  size_t count = 0;
};

std::vector<Cable> cables_of(const Topology& topology, const std::vector<int>& edges) {
  std::vector<Cable> cables;
  std::map<std::tuple<int, int, EdgeKind, std::string>, size_t> place;
  for (const int index : edges) {
    const Edge& edge = topology.edges[static_cast<size_t>(index)];
    const auto [low, high] = std::minmax(edge.from, edge.to);
    const auto [known, fresh] =
        place.emplace(std::tuple(low, high, edge.kind, text_of(edge)), cables.size());
    if (fresh) cables.push_back({&edge});
    ++cables[known->second].count;
  }
  return cables;
}

}  // namespace

std::string to_dot(const Topology& topology) {
  const Topology shown = folded(topology);
  const SortedEdges edges = sort_edges(shown);
  std::string out =
      "graph topology {\n  rankdir=TB;\n  node [fontname=\"monospace\", fontsize=10, "
      "style=filled];\n"
      "  edge [fontname=\"monospace\", fontsize=9];\n";
  for (size_t i = 0; i < shown.vertices.size(); ++i) {
    const Vertex& vertex = shown.vertices[i];
    fmt::format_to(Out(out), "  v{} [shape={}, fillcolor=\"{}\", label={}];\n", i,
                   shape(vertex.kind), colours_of(vertex.kind).fill, label(vertex));
    if (vertex.parent < 0) continue;
    const int up = edges.up[i];
    fmt::format_to(Out(out), "  v{} -- v{}", vertex.parent, i);
    if (up >= 0) {
      const Edge& edge = shown.edges[static_cast<size_t>(up)];
      fmt::format_to(Out(out), " [label={}, tooltip={}]", dot_string(short_text(edge.bandwidth)),
                     dot_string(text_of(edge)));
    }
    out += ";\n";
  }
  for (const auto& [edge, count] : cables_of(shown, edges.beside)) {
    const std::string times = count == 1 ? std::string() : fmt::format("{} x ", count);
    fmt::format_to(Out(out),
                   "  v{} -- v{} [style=dashed, color=\"{}\", constraint={}, label={}, "
                   "tooltip={}];\n",
                   edge->from, edge->to, colour_of(edge->kind), edge->kind == EdgeKind::kNetwork,
                   dot_string(times + short_text(edge->bandwidth)), dot_string(text_of(*edge)));
  }
  return out + "}\n";
}

}  // namespace banyan
