// SPDX-License-Identifier: Apache-2.0

#include "topology/formats/sketch_bundles.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "topology/describe.h"

namespace banyan {

namespace {

constexpr size_t kMostInTable = 16;
constexpr size_t kMostPairs = 4;  // in words

const Vertex& at(const Topology& topology, int vertex) {
  return topology.vertices[static_cast<size_t>(vertex)];
}

std::string_view kind_name(LinkKind kind) {
  switch (kind) {
    case LinkKind::kMemory: return "memory";
    case LinkKind::kCpuInterconnect: return "CPU interconnect";
    case LinkKind::kPcie: return "PCIe";
    case LinkKind::kNvlink: return "NVLink";
    case LinkKind::kXgmi: return "xGMI";
    case LinkKind::kC2c: return "NVLink-C2C";
    case LinkKind::kShm: return "shared memory";
    case LinkKind::kNetwork: return "network";
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
struct Wires {
  std::map<Pair, Figure> pairs;  // all links between two together
  std::vector<int> ends;
};

Wires wires_of(const std::vector<Link>& links) {
  Wires wires;
  std::set<int> ends;
  for (const Link& link : links) {
    const Pair pair = std::minmax(link.from, link.to);
    const auto [known, fresh] = wires.pairs.emplace(pair, link.bandwidth);
    if (!fresh) known->second = sum(known->second, link.bandwidth);
    ends.insert({link.from, link.to});
  }
  wires.ends.assign(ends.begin(), ends.end());
  return wires;
}

bool same(const Figure& a, const Figure& b) {
  return a.value == b.value && a.source == b.source;
}

bool all_same(const std::map<Pair, Figure>& pairs) {
  return std::all_of(pairs.begin(), pairs.end(),
                     [&](const auto& pair) { return same(pair.second, pairs.begin()->second); });
}

// Links through switches that join all: what each device has to them.
Bundle star(const Topology& topology, LinkKind kind, const Wires& wires) {
  Bundle bundle{.kind = kind};
  std::map<int, Figure> each;  // of a device, all its links together
  std::set<int> switches;
  for (const auto& [pair, figure] : wires.pairs) {
    for (const int end : {pair.first, pair.second}) {
      if (at(topology, end).kind == VertexKind::kNvSwitch) {
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

void add_table(const Topology& topology, const Wires& wires, Bundle& bundle) {
  for (const int end : wires.ends) bundle.names.push_back(at(topology, end).name);
  for (const int row : wires.ends) {
    auto& cells = bundle.table.emplace_back();
    for (const int column : wires.ends) {
      const auto known = wires.pairs.find(std::minmax(row, column));
      cells.push_back(known == wires.pairs.end() ? Figure{0.0, Source::kHardware} : known->second);
    }
  }
}

std::string devices_text(const Topology& topology, const std::vector<int>& ends) {
  std::map<VertexKind, size_t> kinds;
  for (const int end : ends) ++kinds[at(topology, end).kind];
  std::string text;
  for (const auto& [kind, count] : kinds)
    text += (text.empty() ? "" : " and ") + counted(count, people_name(kind));
  return text;
}

// Whether every device of one kind has one link, and that with a device of the other.
bool each_has_one(const Topology& topology, const Wires& wires, VertexKind kind) {
  std::map<int, int> uses;
  for (const auto& [pair, figure] : wires.pairs)
    for (const int end : {pair.first, pair.second})
      if (at(topology, end).kind == kind) ++uses[end];
  return uses.size() == wires.pairs.size();
}

Bundle mesh(const Topology& topology, LinkKind kind, const Wires& wires) {
  Bundle bundle{.kind = kind};
  bundle.ends = wires.ends;
  const size_t count = wires.ends.size();
  const std::string_view name = kind_name(kind);
  const bool full = wires.pairs.size() == count * (count - 1) / 2;
  const bool uniform = all_same(wires.pairs);
  if (full && uniform && count > 2) {
    bundle.words.push_back(fmt::format("{}: each of {} to each other, {} a pair", name,
                                       devices_text(topology, wires.ends),
                                       short_text(wires.pairs.begin()->second)));
    return bundle;
  }
  if (kind != LinkKind::kCpuInterconnect && uniform && count > 2 &&
      at(topology, wires.ends.front()).kind == VertexKind::kNuma &&
      each_has_one(topology, wires, VertexKind::kGpu)) {
    bundle.words.push_back(fmt::format("{}: each of {} to its NUMA domain, {}", name,
                                       counted(wires.pairs.size(), "GPU"),
                                       short_text(wires.pairs.begin()->second)));
    return bundle;
  }
  if (wires.pairs.size() <= kMostPairs) {
    std::string text = fmt::format("{}:", name);
    for (const auto& [pair, figure] : wires.pairs)
      text += fmt::format("{} {} - {} {}", text.ends_with(':') ? "" : ",",
                          at(topology, pair.first).name, at(topology, pair.second).name,
                          short_text(figure));
    bundle.words.push_back(std::move(text));
    return bundle;
  }
  bundle.words.push_back(fmt::format("{} between {}, {}", name, devices_text(topology, wires.ends),
                                     counted(wires.pairs.size(), "pair")));
  if (count <= kMostInTable) {
    add_table(topology, wires, bundle);
    return bundle;
  }
  std::map<std::string, size_t> kinds;
  for (const auto& [pair, figure] : wires.pairs) ++kinds[short_text(figure)];
  for (const auto& [text, pairs] : kinds)
    if (bundle.words.size() <= kMostPairs)
      bundle.words.push_back(fmt::format("{} of {}", counted(pairs, "pair"), text));
  if (kinds.size() > kMostPairs)
    bundle.words.push_back(fmt::format("{} of other figures", kinds.size() - kMostPairs));
  return bundle;
}

}  // namespace

std::string kind_text(const Link& link) {
  if (link.text == "current") return fmt::format("{} as it ran", kind_name(link.kind));
  return fmt::format("{}{}{}", kind_name(link.kind), link.text.empty() ? "" : " ", link.text);
}

void add_bundles(const Topology& topology, int node, NodeSketch& sketch) {
  // By kind, and whether through switches.
  std::map<std::pair<LinkKind, bool>, std::vector<Link>> kinds;
  for (const int index : sort_links(topology).beside) {
    const Link& link = topology.links[static_cast<size_t>(index)];
    if (link.from == link.to || link.kind == LinkKind::kNetwork) continue;
    if (ancestor(topology, link.from, VertexKind::kNode) != node) continue;
    const bool switched = at(topology, link.from).kind == VertexKind::kNvSwitch ||
                          at(topology, link.to).kind == VertexKind::kNvSwitch;
    kinds[{link.kind, switched}].push_back(link);
  }
  for (const auto& [key, links] : kinds) {
    const auto& [kind, switched] = key;
    const Wires wires = wires_of(links);
    Bundle bundle = switched ? star(topology, kind, wires) : mesh(topology, kind, wires);
    auto& into = kind == LinkKind::kCpuInterconnect ? sketch.interconnects : sketch.bundles;
    into.push_back(std::move(bundle));
  }
}

}  // namespace banyan
