// SPDX-License-Identifier: Apache-2.0

#include "topology/describe.h"

#include <fmt/core.h>

#include "topology/pci.h"

namespace banyan {

namespace {

std::string bytes_text(uint64_t bytes) {
  const auto value = static_cast<double>(bytes);
  if (bytes >= uint64_t{1} << 30) return fmt::format("{:.4g} GiB", value / (1 << 30));
  return fmt::format("{:.4g} MiB", value / (1 << 20));
}

std::string cpus_text(const Vertex& vertex) {
  std::string text = "cpus " + vertex.cpus.list();
  if (vertex.cores > 0 && vertex.cores != vertex.cpus.count())
    text += fmt::format(" on {} core{}", vertex.cores, vertex.cores == 1 ? "" : "s");
  return text;
}

}  // namespace

std::string text_of(const Figure& figure, std::string_view unit) {
  if (!figure.known()) return fmt::format("unknown [{}]", name_of(figure.source));
  return fmt::format("{:.4g} {} [{}{}]", *figure.value, unit, name_of(figure.source),
                     figure.doubtful ? ", doubtful" : "");
}

std::string text_of(const Edge& edge) {
  std::string text(name_of(edge.kind));
  if (!edge.text.empty()) text += ' ' + edge.text;
  text += ", " + text_of(bandwidth_of(edge), "GB/s");
  if (edge.latency.known()) text += ", " + text_of(edge.latency, "us");
  return text;
}

std::vector<std::string> facts_of(const Vertex& vertex) {
  std::vector<std::string> facts;
  const auto add = [&](std::string text) {
    if (!text.empty()) facts.push_back(std::move(text));
  };
  add(vertex.bus_id);
  if (vertex.model.empty()) add(vertex.vendor);
  add(vertex.model);
  if (vertex.memory > 0) add(bytes_text(vertex.memory));
  if (!vertex.cpus.empty()) add(cpus_text(vertex));
  add(vertex.driver);
  add(vertex.link_layer);
  add(vertex.interface);
  add(vertex.state);
  add(vertex.width);
  if (vertex.kind == VertexKind::kPort) add(text_of(vertex.rate, "GB/s"));
  return facts;
}

SortedEdges sort_edges(const Topology& topology) {
  SortedEdges sorted;
  sorted.up.assign(topology.vertices.size(), -1);
  for (size_t i = 0; i < topology.edges.size(); ++i) {
    const Edge& edge = topology.edges[i];
    const bool from_below = topology.vertices[static_cast<size_t>(edge.from)].parent == edge.to;
    const bool to_below = topology.vertices[static_cast<size_t>(edge.to)].parent == edge.from;
    int* up = from_below || to_below
                  ? &sorted.up[static_cast<size_t>(from_below ? edge.from : edge.to)]
                  : nullptr;
    if (up != nullptr && *up < 0) {
      *up = static_cast<int>(i);
    } else {
      sorted.beside.push_back(static_cast<int>(i));
    }
  }
  return sorted;
}

}  // namespace banyan
