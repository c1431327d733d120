// JSON to topology. Every value is checked before it is used; the rules that join vertices and
// edges are check()'s.
// SPDX-License-Identifier: Apache-2.0

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "src/base/json_value.h"
#include "src/base/parse.h"
#include "topology/formats/json.h"

namespace banyan {

namespace {

using Kind = JsonValue::Kind;
using Words = std::vector<std::string_view>;

// A node has objects, lists of vertices, vertices, lists of ports and ports below it.
constexpr JsonLimits kLimits = {.depth = 12, .values = size_t{1} << 25};
constexpr double kMostBytes = 9007199254740992;  // 2^53: exact in a double
constexpr double kMostIndex = 1 << 30;

Status wrong(const JsonValue& value, std::string_view what) {
  return {Code::kInvalidArgument, fmt::format("line {}: {}", value.line, what)};
}

std::string shown(std::string_view text) {
  return printable(text.substr(0, 80));
}

Status expect(const JsonValue& value, Kind kind) {
  if (value.kind == kind) return {};
  return wrong(value, fmt::format("'{}' is {}; right is {}", shown(value.key), name_of(value.kind),
                                  name_of(kind)));
}

// An object with no other members than these; the first `required` must be there.
Status expect_members(const JsonValue& object, std::string_view what, const Words& members,
                      size_t required) {
  if (object.kind != Kind::kObject)
    return wrong(object, fmt::format("{} is {}; right is an object", what, name_of(object.kind)));
  for (const JsonValue& child : object.children) {
    if (std::find(members.begin(), members.end(), child.key) == members.end())
      return wrong(child, fmt::format("{} has no member '{}'; valid: {}", what, shown(child.key),
                                      join(members)));
  }
  for (size_t i = 0; i < required; ++i)
    if (object.find(members[i]) == nullptr)
      return wrong(object, fmt::format("{} without the member '{}'", what, members[i]));
  return {};
}

Status read_text(const JsonValue& object, std::string_view key, std::string* text) {
  const JsonValue* value = object.find(key);
  if (value == nullptr) return {};
  BANYAN_TRY(expect(*value, Kind::kString));
  if (value->text.size() > kMostNameBytes || printable(value->text) != value->text)
    return wrong(*value, fmt::format("'{}' is longer than {} bytes or holds a control character",
                                     key, kMostNameBytes));
  *text = value->text;
  return {};
}

// A whole number within [0, most].
Status read_number(const JsonValue& object, std::string_view key, double most, double* number) {
  const JsonValue* value = object.find(key);
  if (value == nullptr) return {};
  BANYAN_TRY(expect(*value, Kind::kNumber));
  if (!(value->number >= 0 && value->number <= most) || std::floor(value->number) != value->number)
    return wrong(*value, fmt::format("'{}' is {}; right is a whole number from 0 to {}", key,
                                     value->number, most));
  *number = value->number;
  return {};
}

Status read_cpus(const JsonValue& object, std::string_view key, CpuSet* cpus) {
  const JsonValue* value = object.find(key);
  if (value == nullptr) return {};
  BANYAN_TRY(expect(*value, Kind::kString));
  const auto set = parse_cpu_list(value->text);
  if (!set.ok()) return wrong(*value, set.status().message());
  *cpus = *set;
  return {};
}

// A number from 0 or null, and its source beside it.
Status read_figure(const JsonValue& object, std::string_view key, std::string_view source_key,
                   Figure* figure) {
  if (const JsonValue* value = object.find(key); value != nullptr && value->kind != Kind::kNull) {
    BANYAN_TRY(expect(*value, Kind::kNumber));
    if (!std::isfinite(value->number) || value->number < 0)
      return wrong(*value,
                   fmt::format("'{}' is {}; right is null or a number from 0", key, value->number));
    figure->value = value->number;
  }
  if (const JsonValue* value = object.find(source_key); value != nullptr) {
    BANYAN_TRY(expect(*value, Kind::kString));
    const auto source = parse_source(value->text);
    if (!source.ok()) return wrong(*value, source.status().message());
    figure->source = *source;
  }
  return {};
}

// What an entry of a list may have.
Words members_of(VertexKind kind) {
  Words names = {"name",  "parent", "cpus", "cores",  "index",     "bus_id",     "vendor",
                 "model", "memory", "guid", "driver", "interface", "link_layer", "state"};
  if (kind == VertexKind::kPort) names.insert(names.end(), {"width", "gids", "GBps", "source"});
  if (kind == VertexKind::kGpu) names.insert(names.end(), {"capability", "partitions"});
  if (kind == VertexKind::kNic) names.push_back("ports");
  return names;
}

class Reader {
 public:
  Result<Topology> read(const JsonValue& root) {
    // The schema first: another version may have other members.
    if (root.kind != Kind::kObject || root.find("schema") == nullptr)
      return wrong(root, "not a topology: right is an object with the member 'schema'");
    const JsonValue& schema = *root.find("schema");
    if (schema.kind != Kind::kNumber || schema.number != kTopologySchema)
      return wrong(schema, fmt::format("this version reads schema {} only", kTopologySchema));
    BANYAN_TRY(expect_members(root, "a topology",
                              {"schema", "nodes", "links", "levels", "name", "switches"}, 4));
    BANYAN_TRY(read_text(root, "name", &topology_.vertices.front().name));
    line_.push_back(root.line);
    BANYAN_TRY(expect(*root.find("nodes"), Kind::kArray));
    for (const JsonValue& node : root.find("nodes")->children) BANYAN_TRY(read_node(node));
    if (const JsonValue* switches = root.find("switches"); switches != nullptr)
      BANYAN_TRY(read_list(*switches, VertexKind::kSwitch, 0));
    BANYAN_TRY(resolve_parents());
    BANYAN_TRY(expect(*root.find("links"), Kind::kArray));
    for (const JsonValue& edge : root.find("links")->children) BANYAN_TRY(read_edge(edge));
    BANYAN_TRY(check_levels(*root.find("levels")));
    if (const TopologyFault fault = find_fault(topology_); !fault.status.ok()) {
      const int line = fault.edge >= 0     ? edge_line_[static_cast<size_t>(fault.edge)]
                       : fault.vertex >= 0 ? line_[static_cast<size_t>(fault.vertex)]
                                           : root.line;
      return Status(Code::kInvalidArgument,
                    fmt::format("line {}: {}", line, fault.status.message()));
    }
    return canonical(topology_);
  }

 private:
  struct Wanted {
    int vertex;
    int node;  // that it is in; found before parents may go in a circle
    const JsonValue* parent;
  };

  Status read_node(const JsonValue& json) {
    const Words members = {"name", "cpus",   "numa",  "gpus",   "nics",  "pci",    "nvswitches",
                           "guid", "vendor", "model", "bus_id", "index", "memory", "driver"};
    BANYAN_TRY(expect_members(json, "a node", members, 5));
    Vertex vertex{.kind = VertexKind::kNode, .parent = 0};
    BANYAN_TRY(read_attributes(json, &vertex));
    const JsonValue& cpus = *json.find("cpus");
    BANYAN_TRY(expect_members(cpus, "'cpus'", {"set", "cores", "packages", "caches"}, 1));
    BANYAN_TRY(read_cpus(cpus, "set", &vertex.cpus));
    double cores = 0;
    BANYAN_TRY(read_number(cpus, "cores", kMostCpus, &cores));
    vertex.cores = static_cast<int>(cores);
    const int node = add(std::move(vertex), json);
    const std::vector<std::pair<const JsonValue*, VertexKind>> lists = {
        {cpus.find("packages"), VertexKind::kPackage},
        {cpus.find("caches"), VertexKind::kCache},
        {json.find("numa"), VertexKind::kNuma},
        {json.find("pci"), VertexKind::kPciSwitch},
        {json.find("nvswitches"), VertexKind::kNvSwitch},
        {json.find("gpus"), VertexKind::kGpu},
        {json.find("nics"), VertexKind::kNic}};
    for (const auto& [list, kind] : lists)
      if (list != nullptr) BANYAN_TRY(read_list(*list, kind, node));
    return {};
  }

  // Vertices below `home`, unless they name a parent.
  Status read_list(const JsonValue& list, VertexKind kind, int home) {
    BANYAN_TRY(expect(list, Kind::kArray));
    for (const JsonValue& json : list.children) {
      const std::string what = fmt::format("an entry of '{}'", list.key);
      BANYAN_TRY(expect_members(json, what, members_of(kind), 1));
      Vertex vertex{.kind = kind, .parent = home};
      BANYAN_TRY(read_attributes(json, &vertex));
      BANYAN_TRY(read_cpus(json, "cpus", &vertex.cpus));
      BANYAN_TRY(read_gids(json, &vertex.gids));
      const int index = add(std::move(vertex), json);
      if (const JsonValue* parent = json.find("parent"); parent != nullptr) {
        BANYAN_TRY(expect(*parent, Kind::kString));
        wanted_.push_back({index, ancestor(topology_, home, VertexKind::kNode), parent});
      }
      if (const JsonValue* parts = json.find("partitions"); parts != nullptr)
        BANYAN_TRY(read_list(*parts, VertexKind::kPartition, index));
      if (const JsonValue* parts = json.find("ports"); parts != nullptr)
        BANYAN_TRY(read_list(*parts, VertexKind::kPort, index));
    }
    return {};
  }

  static Status read_attributes(const JsonValue& json, Vertex* vertex) {
    const std::vector<std::pair<std::string_view, std::string*>> texts = {
        {"name", &vertex->name},           {"bus_id", &vertex->bus_id},
        {"vendor", &vertex->vendor},       {"model", &vertex->model},
        {"guid", &vertex->guid},           {"driver", &vertex->driver},
        {"interface", &vertex->interface}, {"link_layer", &vertex->link_layer},
        {"state", &vertex->state},         {"width", &vertex->width}};
    for (const auto& [key, text] : texts) BANYAN_TRY(read_text(json, key, text));
    double index = -1;
    double cores = 0;
    double memory = 0;
    double capability = 0;
    BANYAN_TRY(read_number(json, "index", kMostIndex, &index));
    BANYAN_TRY(read_number(json, "cores", kMostCpus, &cores));
    BANYAN_TRY(read_number(json, "memory", kMostBytes, &memory));
    BANYAN_TRY(read_number(json, "capability", kMostIndex, &capability));
    vertex->index = static_cast<int>(index);
    vertex->cores = static_cast<int>(cores);
    vertex->memory = static_cast<uint64_t>(memory);
    vertex->capability = static_cast<int>(capability);
    return read_figure(json, "GBps", "source", &vertex->rate);
  }

  static Status read_gids(const JsonValue& json, std::vector<Gid>* gids) {
    const JsonValue* list = json.find("gids");
    if (list == nullptr) return {};
    BANYAN_TRY(expect(*list, Kind::kArray));
    if (list->children.size() > kMostGids)
      return wrong(*list, fmt::format("'gids' has {} entries; right are at most {}",
                                      list->children.size(), kMostGids));
    for (const JsonValue& entry : list->children) {
      BANYAN_TRY(
          expect_members(entry, "an entry of 'gids'", {"index", "gid", "type", "interface"}, 2));
      Gid gid;
      double index = 0;
      BANYAN_TRY(read_number(entry, "index", kMostIndex, &index));
      gid.index = static_cast<int>(index);
      BANYAN_TRY(read_text(entry, "gid", &gid.gid));
      BANYAN_TRY(read_text(entry, "type", &gid.type));
      BANYAN_TRY(read_text(entry, "interface", &gid.interface));
      gids->push_back(std::move(gid));
    }
    return {};
  }

  int add(Vertex vertex, const JsonValue& json) {
    const int index = add_vertex(topology_, std::move(vertex));
    line_.push_back(json.line);
    by_name_.emplace(full_name(topology_, index), index);  // of two, check() tells
    return index;
  }

  Status resolve_parents() {
    for (const Wanted& each : wanted_) {
      const std::string name = each.node < 0
                                   ? each.parent->text
                                   : full_name(topology_, each.node) + '/' + each.parent->text;
      const auto found = by_name_.find(name);
      if (found == by_name_.end())
        return wrong(*each.parent,
                     fmt::format("'parent' is '{}', which its node does not have", shown(name)));
      topology_.vertices[static_cast<size_t>(each.vertex)].parent = found->second;
    }
    return {};
  }

  Status read_edge(const JsonValue& json) {
    const Words members = {"from", "to", "kind", "GBps", "us", "source", "us_source", "text"};
    BANYAN_TRY(expect_members(json, "an entry of 'links'", members, 6));
    Edge edge;
    for (const auto& [key, end] : {std::pair("from", &edge.from), std::pair("to", &edge.to)}) {
      const JsonValue& value = *json.find(key);
      BANYAN_TRY(expect(value, Kind::kString));
      const auto found = by_name_.find(value.text);
      if (found == by_name_.end())
        return wrong(value, fmt::format("'{}' is '{}', which is no vertex; right is NODE/NAME or "
                                        "the name of a switch",
                                        key, shown(value.text)));
      *end = found->second;
    }
    const JsonValue& kind = *json.find("kind");
    BANYAN_TRY(expect(kind, Kind::kString));
    const auto parsed = parse_edge_kind(kind.text);
    if (!parsed.ok()) return wrong(kind, parsed.status().message());
    edge.kind = *parsed;
    BANYAN_TRY(read_figure(json, "GBps", "source", &edge.bandwidth));
    BANYAN_TRY(read_figure(json, "us", "us_source", &edge.latency));
    BANYAN_TRY(read_text(json, "text", &edge.text));
    topology_.edges.push_back(std::move(edge));
    edge_line_.push_back(json.line);
    return {};
  }

  // They are derived from the rest; whoever wrote something else here has not written a topology.
  static Status check_levels(const JsonValue& list) {
    BANYAN_TRY(expect(list, Kind::kArray));
    for (const JsonValue& level : list.children) {
      BANYAN_TRY(expect_members(level, "an entry of 'levels'", {"name", "regular", "groups"}, 3));
      BANYAN_TRY(expect(*level.find("name"), Kind::kString));
      BANYAN_TRY(expect(*level.find("regular"), Kind::kBoolean));
      BANYAN_TRY(expect(*level.find("groups"), Kind::kArray));
    }
    return {};
  }

  Topology topology_ = empty_topology();
  std::vector<int> line_;       // of each vertex
  std::vector<int> edge_line_;  // of each edge
  std::unordered_map<std::string, int> by_name_;
  std::vector<Wanted> wanted_;
};

}  // namespace

Result<Topology> from_json(std::string_view text) {
  const auto root = parse_json(text, kLimits);
  if (!root.ok()) return root.status();
  return Reader().read(*root);
}

}  // namespace banyan
