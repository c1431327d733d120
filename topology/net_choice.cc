// SPDX-License-Identifier: Apache-2.0

#include "topology/net_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "src/base/parse.h"
#include "topology/levels.h"

namespace banyan {

namespace {

// What BANYAN_NET_DEVICES says: words, or all but these.
class Choice {
 public:
  explicit Choice(std::string_view list) {
    excluding_ = trim(list).starts_with('^');
    for (const std::string_view word : split(trim(list).substr(excluding_ ? 1 : 0), ','))
      words_.insert(trim(word));
  }

  bool takes(const Vertex& nic) const { return named({nic.name}) != excluding_; }
  bool takes(const Vertex& nic, const Vertex& port) const {
    const std::string numbered = fmt::format("{}:{}", nic.name, port.index);
    return named({nic.name, port.name, port.interface, numbered}) != excluding_;
  }

 private:
  bool named(std::initializer_list<std::string_view> names) const {
    return words_.count("all") != 0 ||
           std::any_of(names.begin(), names.end(),
                       [&](std::string_view name) { return words_.count(name) != 0; });
  }

  bool excluding_ = false;
  std::set<std::string_view> words_;
};

// By vertex. A NIC goes with the last of its ports.
std::vector<bool> left_out(const Topology& topology, const Choice& choice) {
  const auto children = children_of(topology);
  std::vector<bool> out(topology.vertices.size());
  for (const int nic : vertices_of(topology, VertexKind::kNic)) {
    const auto& ports = children[static_cast<size_t>(nic)];
    bool used = ports.empty() && choice.takes(vertex_at(topology, nic));
    for (const int port : ports) {
      const bool taken = choice.takes(vertex_at(topology, nic), vertex_at(topology, port));
      out[static_cast<size_t>(port)] = !taken;
      used = used || taken;
    }
    out[static_cast<size_t>(nic)] = !used;
  }
  return out;
}

// A node that has NICs, and none that is used; -1: there is none.
int node_without(const Topology& topology, const std::vector<bool>& out) {
  std::set<int> with;
  std::set<int> without;
  for (const int nic : vertices_of(topology, VertexKind::kNic))
    (out[static_cast<size_t>(nic)] ? without : with)
        .insert(ancestor(topology, nic, VertexKind::kNode));
  for (const int node : without)
    if (with.count(node) == 0) return node;
  return -1;
}

Topology rest_of(const Topology& topology, const std::vector<bool>& out) {
  Topology rest;
  std::vector<int> place(topology.vertices.size(), -1);
  for (size_t i = 0; i < topology.vertices.size(); ++i) {
    if (out[i]) continue;
    place[i] = static_cast<int>(rest.vertices.size());
    rest.vertices.push_back(topology.vertices[i]);
  }
  for (Vertex& vertex : rest.vertices)
    if (vertex.parent >= 0) vertex.parent = place[static_cast<size_t>(vertex.parent)];
  for (Edge edge : topology.edges) {
    edge.from = place[static_cast<size_t>(edge.from)];
    edge.to = place[static_cast<size_t>(edge.to)];
    if (edge.from >= 0 && edge.to >= 0) rest.edges.push_back(std::move(edge));
  }
  return rest;
}

}  // namespace

Topology with_net_devices(const Topology& topology, std::string_view list, Notes& notes) {
  if (trim(list).empty()) return topology;
  const std::vector<bool> out = left_out(topology, Choice(list));
  const int bare = node_without(topology, out);
  if (bare < 0) return rest_of(topology, out);
  notes.add(
      fmt::format("BANYAN_NET_DEVICES={} leaves node {} no NIC of the description: levels go "
                  "by all of them",
                  printable(trim(list).substr(0, 200)), vertex_at(topology, bare).name));
  return topology;
}

void note_joining_switches(const Topology& topology, Notes& notes) {
  for (const JoiningLeaves& each : joining_leaves(topology)) {
    std::vector<std::string> switches;
    for (const int leaf : each.leaves) switches.push_back(vertex_at(topology, leaf).name);
    std::set<std::string> nics;
    for (const int host : each.hosts)
      if (vertex_at(topology, host).kind == VertexKind::kNic)
        nics.insert(vertex_at(topology, host).name);
    const bool one = switches.size() == 1;
    notes.add(fmt::format(
        "switch{} {} join{} nodes that others keep apart: without {}, there would be levels ({}){}",
        one ? "" : "es", listed(switches), one ? "s" : "", one ? "it" : "them", listed(each.levels),
        nics.empty() ? std::string()
                     : fmt::format("; BANYAN_NET_DEVICES=^{} leaves out the NICs there",
                                   fmt::join(nics, ","))));
  }
}

}  // namespace banyan
