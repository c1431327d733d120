// Topology to JSON.
// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "src/base/json_value.h"
#include "topology/formats/json.h"
#include "topology/levels.h"

namespace banyan {

namespace {

using Out = std::back_insert_iterator<std::string>;

// The shortest text that reads back as the same number.
std::string number(const Figure& figure) {
  return figure.known() ? fmt::format("{}", *figure.value) : "null";
}

void member(std::string& out, std::string_view key, const std::string& text) {
  if (!text.empty()) fmt::format_to(Out(out), ", \"{}\": {}", key, json_string(text));
}

template <typename Number>
void member(std::string& out, std::string_view key, Number value, Number unset) {
  if (value != unset) fmt::format_to(Out(out), ", \"{}\": {}", key, value);
}

class Writer {
 public:
  explicit Writer(const Topology& topology)
      : topology_(topology), children_(children_of(topology)) {
    names_.reserve(topology.vertices.size());
    for (size_t i = 0; i < topology.vertices.size(); ++i)
      names_.push_back(full_name(topology, static_cast<int>(i)));
  }

  std::string write() {
    fmt::format_to(Out(out_), "{{\n  \"schema\": {},\n  \"name\": {},\n  \"nodes\": [",
                   kTopologySchema, json_string(at(0).name));
    std::string_view separator = "\n";
    for (const int node : vertices_of(topology_, VertexKind::kNode)) {
      out_ += std::exchange(separator, ",\n");
      write_node(node);
    }
    out_ += "\n  ],\n  \"switches\": ";
    write_list(vertices_of(topology_, VertexKind::kSwitch), 0, "    ");
    out_ += ",\n  \"links\": [";
    separator = "\n";
    for (const Edge& edge : topology_.edges) {
      out_ += std::exchange(separator, ",\n");
      write_edge(edge);
    }
    out_ += "\n  ],\n  \"levels\": [";
    separator = "\n";
    for (const Level& level : levels(topology_)) {
      out_ += std::exchange(separator, ",\n");
      write_level(level);
    }
    out_ += "\n  ]\n}\n";
    return std::move(out_);
  }

 private:
  const Vertex& at(int vertex) const { return topology_.vertices[static_cast<size_t>(vertex)]; }

  void write_node(int node) {
    fmt::format_to(Out(out_), "    {{\"name\": {}", json_string(at(node).name));
    write_attributes(at(node), false);
    fmt::format_to(Out(out_),
                   ",\n     \"cpus\": {{\"set\": {}, \"cores\": {},\n      \"packages\": ",
                   json_string(at(node).cpus.list()), at(node).cores);
    // Kind by kind: a canonical topology has them so.
    std::vector<std::vector<int>> of_kind(kVertexKindCount);
    std::vector<int> open = {node};
    for (size_t i = 0; i < open.size(); ++i)
      for (const int child : children_[static_cast<size_t>(open[i])]) open.push_back(child);
    std::sort(open.begin(), open.end());
    for (const int vertex : open) of_kind[static_cast<size_t>(at(vertex).kind)].push_back(vertex);
    const auto list = [&](VertexKind kind) {
      write_list(of_kind[static_cast<size_t>(kind)], node, "       ");
    };
    list(VertexKind::kPackage);
    out_ += ",\n      \"caches\": ";
    list(VertexKind::kCache);
    out_ += "},\n     \"numa\": ";
    list(VertexKind::kNuma);
    out_ += ",\n     \"pci\": ";
    list(VertexKind::kPciSwitch);
    out_ += ",\n     \"nvswitches\": ";
    list(VertexKind::kNvSwitch);
    out_ += ",\n     \"gpus\": ";
    list(VertexKind::kGpu);
    out_ += ",\n     \"nics\": ";
    list(VertexKind::kNic);
    out_ += "}";
  }

  // `home` is what a vertex without "parent" hangs on.
  void write_list(const std::vector<int>& vertices, int home, std::string_view indent) {
    std::string_view separator = "\n";
    out_ += "[";
    for (const int vertex : vertices) {
      out_ += std::exchange(separator, ",\n");
      out_ += indent;
      write_vertex(vertex, home);
    }
    out_ += "]";
  }

  void write_vertex(int vertex, int home) {
    const Vertex& each = at(vertex);
    fmt::format_to(Out(out_), "{{\"name\": {}", json_string(each.name));
    if (each.parent != home) member(out_, "parent", at(each.parent).name);
    write_attributes(each, true);
    if (each.kind == VertexKind::kPort) write_port(each);
    if (each.kind == VertexKind::kGpu || each.kind == VertexKind::kNic) {
      const auto& parts = children_[static_cast<size_t>(vertex)];
      if (!parts.empty() || each.kind == VertexKind::kNic) {
        out_ += each.kind == VertexKind::kGpu ? ", \"partitions\": " : ", \"ports\": ";
        write_list(parts, vertex, "         ");
      }
    }
    out_ += "}";
  }

  void write_port(const Vertex& port) {
    fmt::format_to(Out(out_), ", \"GBps\": {}, \"source\": \"{}\"", number(port.rate),
                   name_of(port.rate.source));
    if (port.gids.empty()) return;
    out_ += ", \"gids\": [";
    std::string_view separator;
    for (const Gid& gid : port.gids) {
      fmt::format_to(Out(out_), "{}{{\"index\": {}, \"gid\": {}", std::exchange(separator, ", "),
                     gid.index, json_string(gid.gid));
      member(out_, "type", gid.type);
      member(out_, "interface", gid.interface);
      out_ += "}";
    }
    out_ += "]";
  }

  void write_attributes(const Vertex& vertex, bool processors) {
    if (processors) {
      member(out_, "cpus", vertex.cpus.list());
      member(out_, "cores", vertex.cores, 0);
    }
    member(out_, "index", vertex.index, -1);
    member(out_, "bus_id", vertex.bus_id);
    member(out_, "vendor", vertex.vendor);
    member(out_, "model", vertex.model);
    member(out_, "memory", vertex.memory, uint64_t{0});
    member(out_, "capability", vertex.capability, 0);
    member(out_, "guid", vertex.guid);
    member(out_, "driver", vertex.driver);
    member(out_, "interface", vertex.interface);
    member(out_, "link_layer", vertex.link_layer);
    member(out_, "state", vertex.state);
    member(out_, "width", vertex.width);
  }

  const std::string& name(int vertex) const { return names_[static_cast<size_t>(vertex)]; }

  void write_edge(const Edge& edge) {
    fmt::format_to(Out(out_),
                   "    {{\"from\": {}, \"to\": {}, \"kind\": \"{}\", \"GBps\": {}, \"us\": {}, "
                   "\"source\": \"{}\"",
                   json_string(name(edge.from)), json_string(name(edge.to)), name_of(edge.kind),
                   number(edge.bandwidth), number(edge.latency), name_of(edge.bandwidth.source));
    if (edge.latency != Figure{})
      fmt::format_to(Out(out_), ", \"us_source\": \"{}\"", name_of(edge.latency.source));
    member(out_, "text", edge.text);
    out_ += "}";
  }

  void write_names(std::string_view key, const std::vector<int>& members) {
    fmt::format_to(Out(out_), ", \"{}\": [", key);
    std::string_view separator;
    for (const int vertex : members) {
      out_ += std::exchange(separator, ", ");
      out_ += json_string(name(vertex));
    }
    out_ += "]";
  }

  void write_level(const Level& level) {
    fmt::format_to(Out(out_), "    {{\"name\": \"{}\", \"regular\": {}, \"groups\": [", level.name,
                   level.regular);
    std::string_view separator = "\n";
    for (const LevelGroup& group : level.groups) {
      fmt::format_to(Out(out_), "{}      {{\"name\": {}, \"cpus\": {}",
                     std::exchange(separator, ",\n"), json_string(group.name), group.cpus);
      write_names("gpus", group.gpus);
      write_names("nics", group.nics);
      out_ += "}";
    }
    out_ += "]}";
  }

  const Topology& topology_;
  const std::vector<std::vector<int>> children_;
  std::vector<std::string> names_;
  std::string out_;
};

}  // namespace

std::string to_json(const Topology& topology) {
  const Topology sorted = canonical(topology);
  return Writer(sorted).write();
}

}  // namespace banyan
