// SPDX-License-Identifier: Apache-2.0

#include "topology/formats/sketch_bundles.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "topology/describe.h"

namespace banyan {

namespace {

constexpr size_t kMostInTable = 16;
constexpr size_t kMostPairs = 4;  // in words

std::string_view kind_name(EdgeKind kind) {
  switch (kind) {
    case EdgeKind::kMemory: return "memory";
    case EdgeKind::kCpuInterconnect: return "CPU interconnect";
    case EdgeKind::kPcie: return "PCIe";
    case EdgeKind::kNvlink: return "NVLink";
    case EdgeKind::kXgmi: return "xGMI";
    case EdgeKind::kC2c: return "NVLink-C2C";
    case EdgeKind::kShm: return "shared memory";
    case EdgeKind::kNetwork: return "network";
  }
  return "";
}

std::string_view people_name(VertexKind kind) {
  switch (kind) {
    case VertexKind::kNuma: return "NUMA domain";
    case VertexKind::kGpu: return "GPU";
    case VertexKind::kNvSwitch: return "NVSwitch";
    default: return "device";
  }
}

using Pair = std::pair<int, int>;  // the lower vertex first
struct Joined {
  std::map<Pair, Figure> pairs;  // all edges between two together
  std::vector<int> ends;
};

Joined joined_by(const std::vector<Edge>& edges) {
  Joined joined;
  std::set<int> ends;
  for (const Edge& edge : edges) {
    const Pair pair = std::minmax(edge.from, edge.to);
    const auto [known, fresh] = joined.pairs.emplace(pair, edge.bandwidth);
    if (!fresh) known->second = sum(known->second, edge.bandwidth);
    ends.insert({edge.from, edge.to});
  }
  joined.ends.assign(ends.begin(), ends.end());
  return joined;
}

bool same(const Figure& a, const Figure& b) {
  return a.value == b.value && a.source == b.source;
}

bool all_same(const std::map<Pair, Figure>& pairs) {
  return std::all_of(pairs.begin(), pairs.end(),
                     [&](const auto& pair) { return same(pair.second, pairs.begin()->second); });
}

// Edges through switches that join all: what each device has to them.
Bundle star(const Topology& topology, EdgeKind kind, const Joined& joined) {
  Bundle bundle{.kind = kind};
  std::map<int, Figure> each;  // of a device, all its edges together
  std::set<int> switches;
  for (const auto& [pair, figure] : joined.pairs) {
    for (const int end : {pair.first, pair.second}) {
      if (vertex_at(topology, end).kind == VertexKind::kNvSwitch) {
        switches.insert(end);
        continue;
      }
      const auto [known, fresh] = each.emplace(end, figure);
      if (!fresh) known->second = sum(known->second, figure);
    }
  }
  std::map<std::string, size_t> words;
  for (const auto& [device, figure] : each) {
    bundle.ends.push_back(device);
    ++words[short_text(figure)];
  }
  std::string first =
      fmt::format("{} through {}", kind_name(kind), counted(switches.size(), "NVSwitch"));
  if (words.size() == 1)
    first += fmt::format(": {} for each of {}", words.begin()->first, counted(each.size(), "GPU"));
  bundle.words.push_back(std::move(first));
  if (words.size() > 1)
    for (const auto& [text, count] : words)
      bundle.words.push_back(fmt::format("{} with {}", counted(count, "GPU"), text));
  return bundle;
}

void add_table(const Topology& topology, const Joined& joined, Bundle& bundle) {
  for (const int end : joined.ends) bundle.names.push_back(vertex_at(topology, end).name);
  for (const int row : joined.ends) {
    auto& cells = bundle.table.emplace_back();
    for (const int column : joined.ends) {
      const auto known = joined.pairs.find(std::minmax(row, column));
      cells.push_back(known == joined.pairs.end() ? Figure{0.0, Source::kHardware} : known->second);
    }
  }
}

std::string devices_text(const Topology& topology, const std::vector<int>& ends) {
  std::map<VertexKind, size_t> kinds;
  for (const int end : ends) ++kinds[vertex_at(topology, end).kind];
  std::string text;
  for (const auto& [kind, count] : kinds)
    text += (text.empty() ? "" : " and ") + counted(count, people_name(kind));
  return text;
}

// Whether every device of one kind has one edge, and that with a device of the other.
bool each_has_one(const Topology& topology, const Joined& joined, VertexKind kind) {
  std::map<int, int> uses;
  for (const auto& [pair, figure] : joined.pairs)
    for (const int end : {pair.first, pair.second})
      if (vertex_at(topology, end).kind == kind) ++uses[end];
  return uses.size() == joined.pairs.size();
}

Bundle mesh(const Topology& topology, EdgeKind kind, const Joined& joined) {
  Bundle bundle{.kind = kind};
  bundle.ends = joined.ends;
  const size_t count = joined.ends.size();
  const std::string_view name = kind_name(kind);
  const bool full = joined.pairs.size() == count * (count - 1) / 2;
  const bool uniform = all_same(joined.pairs);
  if (full && uniform && count > 2) {
    bundle.words.push_back(fmt::format("{}: each of {} to each other, {} a pair", name,
                                       devices_text(topology, joined.ends),
                                       short_text(joined.pairs.begin()->second)));
    return bundle;
  }
  if (kind != EdgeKind::kCpuInterconnect && uniform && count > 2 &&
      vertex_at(topology, joined.ends.front()).kind == VertexKind::kNuma &&
      each_has_one(topology, joined, VertexKind::kGpu)) {
    bundle.words.push_back(fmt::format("{}: each of {} to its NUMA domain, {}", name,
                                       counted(joined.pairs.size(), "GPU"),
                                       short_text(joined.pairs.begin()->second)));
    return bundle;
  }
  if (joined.pairs.size() <= kMostPairs) {
    std::string text = fmt::format("{}:", name);
    for (const auto& [pair, figure] : joined.pairs)
      text += fmt::format("{} {} - {} {}", text.ends_with(':') ? "" : ",",
                          vertex_at(topology, pair.first).name,
                          vertex_at(topology, pair.second).name, short_text(figure));
    bundle.words.push_back(std::move(text));
    return bundle;
  }
  bundle.words.push_back(fmt::format("{} between {}, {}", name, devices_text(topology, joined.ends),
                                     counted(joined.pairs.size(), "pair")));
  if (count <= kMostInTable) {
    add_table(topology, joined, bundle);
    return bundle;
  }
  std::map<std::string, size_t> kinds;
  for (const auto& [pair, figure] : joined.pairs) ++kinds[short_text(figure)];
  for (const auto& [text, pairs] : kinds)
    if (bundle.words.size() <= kMostPairs)
      bundle.words.push_back(fmt::format("{} of {}", counted(pairs, "pair"), text));
  if (kinds.size() > kMostPairs)
    bundle.words.push_back(fmt::format("{} of other figures", kinds.size() - kMostPairs));
  return bundle;
}

}  // namespace

std::string kind_text(const Edge& edge) {
  if (edge.text == "current") return fmt::format("{} as it ran", kind_name(edge.kind));
  return fmt::format("{}{}{}", kind_name(edge.kind), edge.text.empty() ? "" : " ", edge.text);
}

void add_bundles(const Topology& topology, int node, NodeSketch& sketch) {
  // By kind, and whether through switches.
  std::map<std::pair<EdgeKind, bool>, std::vector<Edge>> kinds;
  for (const int index : sort_edges(topology).beside) {
    const Edge& edge = topology.edges[static_cast<size_t>(index)];
    if (edge.from == edge.to || edge.kind == EdgeKind::kNetwork) continue;
    if (ancestor(topology, edge.from, VertexKind::kNode) != node) continue;
    const bool switched = vertex_at(topology, edge.from).kind == VertexKind::kNvSwitch ||
                          vertex_at(topology, edge.to).kind == VertexKind::kNvSwitch;
    kinds[{edge.kind, switched}].push_back(edge);
  }
  for (const auto& [key, edges] : kinds) {
    const auto& [kind, switched] = key;
    const Joined joined = joined_by(edges);
    Bundle bundle = switched ? star(topology, kind, joined) : mesh(topology, kind, joined);
    auto& into = kind == EdgeKind::kCpuInterconnect ? sketch.interconnects : sketch.bundles;
    into.push_back(std::move(bundle));
  }
}

}  // namespace banyan
