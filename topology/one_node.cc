// SPDX-License-Identifier: Apache-2.0

#include "topology/one_node.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <utility>

#include "src/base/parse.h"
#include "topology/describe.h"
#include "topology/pci.h"

namespace banyan {

namespace {

// PCI has 256 buses, and a switch takes two of them.
constexpr int kMostSwitchesDeep = 127;

Status wrong(std::string text) {
  return {Code::kInvalidArgument, std::move(text)};
}

bool on_pci(VertexKind kind) {
  return kind == VertexKind::kPciSwitch || kind == VertexKind::kNvSwitch ||
         kind == VertexKind::kGpu || kind == VertexKind::kNic;
}

Status find_node(const Topology& topology, std::string_view form, OneNode& one) {
  const std::vector<int> nodes = vertices_of(topology, VertexKind::kNode);
  if (nodes.size() != 1)
    return wrong(nodes.empty()
                     ? fmt::format("{} is of one node, and this topology has none", form)
                     : fmt::format("{} is of one node, and this topology has {}: describe one of "
                                   "them, without --nodes",
                                   form, nodes.size()));
  one.node = nodes.front();
  return {};
}

Status find_numas(const Topology& topology, std::string_view form, OneNode& one) {
  std::map<int, int> by_number;
  for (const int numa : vertices_of(topology, VertexKind::kNuma)) {
    const Vertex& vertex = topology.vertices[static_cast<size_t>(numa)];
    if (vertex.index < 0 || vertex.index >= kMostCpus)
      return wrong(
          fmt::format("{} wants the number of every NUMA domain; '{}' has {}; right is "
                      "the system's, from 0 to {}",
                      form, vertex.name, vertex.index, kMostCpus - 1));
    const auto [known, fresh] = by_number.emplace(vertex.index, numa);
    if (!fresh)
      return wrong(fmt::format("NUMA domains '{}' and '{}' have the same number {}",
                               topology.vertices[static_cast<size_t>(known->second)].name,
                               vertex.name, vertex.index));
  }
  for (const auto& [number, numa] : by_number) one.numas.push_back(numa);
  return {};
}

Status find_bus_ids(const Topology& topology, OneNode& one) {
  one.bus_ids.resize(topology.vertices.size());
  std::map<std::string, size_t> owners;
  for (size_t i = 0; i < topology.vertices.size(); ++i) {
    const Vertex& vertex = topology.vertices[i];
    if (!on_pci(vertex.kind)) continue;
    const std::string id = normal_bus_id(vertex.bus_id);
    if (id.empty()) continue;
    const auto [owner, fresh] = owners.emplace(id, i);
    one.taken.insert(id);
    if (!fresh)
      return wrong(fmt::format("'{}' and '{}' have the same bus id {}",
                               topology.vertices[owner->second].name, vertex.name, id));
    one.bus_ids[i] = id;
  }
  for (size_t i = 0; i < topology.vertices.size(); ++i) {
    if (on_pci(topology.vertices[i].kind) && one.bus_ids[i].empty())
      one.bus_ids[i] = invent_bus_id(one);
  }
  return {};
}

Status check_depth(const Topology& topology, std::string_view form) {
  for (size_t i = 0; i < topology.vertices.size(); ++i) {
    if (topology.vertices[i].kind != VertexKind::kPciSwitch) continue;
    int deep = 0;
    for (auto at = i; topology.vertices[at].kind == VertexKind::kPciSwitch;
         at = static_cast<size_t>(topology.vertices[at].parent))
      if (++deep > kMostSwitchesDeep)
        return wrong(
            fmt::format("{}: '{}' is below {} PCI switches; right are fewer than {}, "
                        "since PCI has 256 buses",
                        form, topology.vertices[i].name, deep - 1, kMostSwitchesDeep));
  }
  return {};
}

// Whether `vertex` is in the part of the processor `above`, or is it.
bool within(const Topology& topology, int vertex, int above) {
  while (vertex >= 0 && vertex != above)
    vertex = topology.vertices[static_cast<size_t>(vertex)].parent;
  return vertex == above;
}

}  // namespace

std::string invent_bus_id(OneNode& one) {
  constexpr int kDevices = 31;
  constexpr int kBuses = 256;
  while (true) {
    const int number = one.invented++;
    std::string id = fmt::format("{:04x}:{:02x}:{:02x}.0", 0xffff - number / kDevices / kBuses,
                                 0xff - number / kDevices % kBuses, 1 + number % kDevices);
    if (one.taken.insert(id).second) return id;
  }
}

Result<OneNode> one_node(const Topology& topology, std::string_view form) {
  OneNode one;
  BANYAN_TRY(find_node(topology, form, one));
  BANYAN_TRY(check_depth(topology, form));
  BANYAN_TRY(find_numas(topology, form, one));
  BANYAN_TRY(find_bus_ids(topology, one));
  one.children = children_of(topology);
  one.up = sort_edges(topology).up;
  return one;
}

int numa_of_device(const Topology& topology, const OneNode& one, int device) {
  if (one.numas.size() == 1) return one.numas.front();
  int place = topology.vertices[static_cast<size_t>(device)].parent;
  while (on_pci(topology.vertices[static_cast<size_t>(place)].kind))
    place = topology.vertices[static_cast<size_t>(place)].parent;
  if (topology.vertices[static_cast<size_t>(place)].kind == VertexKind::kNuma) return place;
  int only = -1;
  for (const int numa : one.numas) {
    if (!within(topology, numa, place)) continue;
    if (only >= 0) return -1;
    only = numa;
  }
  return only;
}

bool is_bare(const Topology& topology, const OneNode& one, int device) {
  const Vertex& vertex = topology.vertices[static_cast<size_t>(device)];
  return vertex.kind == VertexKind::kNic && vertex.bus_id.empty() &&
         one.up[static_cast<size_t>(device)] < 0;
}

std::map<int, std::vector<int>> devices_by_numa(const Topology& topology, const OneNode& one) {
  std::map<int, std::vector<int>> devices;
  for (size_t i = 0; i < topology.vertices.size(); ++i) {
    const Vertex& vertex = topology.vertices[i];
    if (!on_pci(vertex.kind) || on_pci(topology.vertices[static_cast<size_t>(vertex.parent)].kind))
      continue;
    const auto device = static_cast<int>(i);
    devices[numa_of_device(topology, one, device)].push_back(device);
  }
  return devices;
}

}  // namespace banyan
