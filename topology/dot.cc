// A topology for Graphviz.
// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include <iterator>
#include <string>
#include <vector>

#include "topology/compose.h"
#include "topology/describe.h"
#include "topology/print.h"

namespace banyan {

namespace {

using Out = std::back_insert_iterator<std::string>;

std::string quoted(std::string_view text) {
  std::string result = "\"";
  for (const char letter : text) {
    if (letter == '"' || letter == '\\') result += '\\';
    result += letter;
  }
  return result + '"';
}

// Lines within a label are separated by what Graphviz reads as a line end.
std::string label(const Vertex& vertex) {
  std::string text = quoted(vertex.name);
  text.pop_back();
  for (const std::string& fact : facts_of(vertex)) {
    const std::string line = quoted(fact);
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

}  // namespace

std::string to_dot(const Topology& topology) {
  const Topology shown = folded(topology);
  const SortedLinks links = sort_links(shown);
  std::string out =
      "graph topology {\n  rankdir=TB;\n  node [fontname=\"monospace\", fontsize=10];\n"
      "  edge [fontname=\"monospace\", fontsize=9];\n";
  for (size_t i = 0; i < shown.vertices.size(); ++i) {
    const Vertex& vertex = shown.vertices[i];
    fmt::format_to(Out(out), "  v{} [shape={}, label={}];\n", i, shape(vertex.kind), label(vertex));
    if (vertex.parent < 0) continue;
    const int up = links.up[i];
    fmt::format_to(Out(out), "  v{} -- v{}", vertex.parent, i);
    if (up >= 0)
      fmt::format_to(Out(out), " [label={}]",
                     quoted(text_of(shown.links[static_cast<size_t>(up)])));
    out += ";\n";
  }
  for (const int index : links.beside) {
    const Link& link = shown.links[static_cast<size_t>(index)];
    fmt::format_to(Out(out), "  v{} -- v{} [style=dashed, constraint={}, label={}];\n", link.from,
                   link.to, link.kind == LinkKind::kNetwork, quoted(text_of(link)));
  }
  return out + "}\n";
}

}  // namespace banyan
