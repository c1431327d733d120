// SPDX-License-Identifier: Apache-2.0

#include "topology/formats/hwloc_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <tuple>
#include <utility>

namespace banyan {

namespace {

constexpr int kMostProcessors = 8192;  // Linux's; each of them is written with its set
constexpr int kMostNested = 32;

Status wrong(std::string text) {
  return {Code::kInvalidArgument, std::move(text)};
}

bool cross(const CpuSet& a, const CpuSet& b) {
  CpuSet both = a;
  both &= b;
  return !both.empty() && both != a && both != b;
}

class Nester {
 public:
  Nester(const Topology& topology, const OneNode& one, std::string_view form)
      : topology_(topology), one_(one), form_(form) {}

  Result<HwlocParts> nest() {
    HwlocPart machine{.vertex = one_.node, .cpus = at(one_.node).cpus};
    // The larger first; among equals in hwloc's order.
    std::vector<std::tuple<int, size_t, int>> order;
    constexpr std::array kKinds = {VertexKind::kPackage, VertexKind::kCache, VertexKind::kNuma};
    for (size_t kind = 0; kind < kKinds.size(); ++kind) {
      for (const int vertex : vertices_of(topology_, kKinds[kind])) {
        machine.cpus |= at(vertex).cpus;
        order.emplace_back(-at(vertex).cpus.count(), kind, vertex);
      }
    }
    if (machine.cpus.empty())
      return wrong(fmt::format("{} wants processors, and '{}' has none that are known", form_,
                               at(one_.node).name));
    if (const int last = machine.cpus.numbers().back(); last >= kMostProcessors)
      return wrong(fmt::format("{}: '{}' has a processor of number {}; right are 0 to {}", form_,
                               at(one_.node).name, last, kMostProcessors - 1));
    parts_.all.push_back(std::move(machine));
    std::sort(order.begin(), order.end());
    for (const auto& [size, kind, vertex] : order) BANYAN_TRY(place(vertex));
    for (HwlocPart& part : parts_.all)
      std::sort(part.numas.begin(), part.numas.end(),
                [&](int a, int b) { return at(a).index < at(b).index; });
    return std::move(parts_);
  }

 private:
  const Vertex& at(int vertex) const { return topology_.vertices[static_cast<size_t>(vertex)]; }
  const Vertex& at(const HwlocPart& part) const { return at(part.vertex); }

  void attach(int numa, size_t part) {
    parts_.all[part].numas.push_back(numa);
    parts_.home[numa] = part;
  }

  // The smallest part so far that holds all of the set. Parts side by side share nothing.
  Result<size_t> holder_of(const Vertex& vertex) const {
    size_t holder = 0;
    for (bool deeper = true; deeper;) {
      deeper = false;
      for (const size_t inner : parts_.all[holder].parts) {
        const HwlocPart& part = parts_.all[inner];
        if (cross(part.cpus, vertex.cpus))
          return wrong(fmt::format("{} wants processors that nest; '{}' ({}) and '{}' ({}) cross",
                                   form_, at(part).name, part.cpus.list(), vertex.name,
                                   vertex.cpus.list()));
        if (!part.cpus.contains(vertex.cpus)) continue;
        holder = inner;
        deeper = true;
        break;
      }
    }
    return holder;
  }

  Status place(int vertex) {
    const Vertex& each = at(vertex);
    const bool numa = each.kind == VertexKind::kNuma;
    if (each.cpus.empty()) {  // memory without processors is as near to all
      if (numa) attach(vertex, 0);
      return {};
    }
    const auto holder = holder_of(each);
    BANYAN_TRY(holder.status());
    if (numa && parts_.all[*holder].cpus == each.cpus) {
      attach(vertex, *holder);
      return {};
    }
    for (size_t above = *holder; above != 0 && !numa; above = parts_.all[above].above)
      if (at(parts_.all[above]).kind == each.kind)
        return wrong(fmt::format("{}: {} '{}' is within '{}', one of its kind", form_,
                                 name_of(each.kind), each.name, at(parts_.all[above]).name));
    const int nested = parts_.all[*holder].nested + 1;
    if (nested > kMostNested)
      return wrong(
          fmt::format("{}: '{}' is within more than {} others", form_, each.name, kMostNested));
    const size_t place = parts_.all.size();
    parts_.all[*holder].parts.push_back(place);
    parts_.all.push_back({.vertex = vertex, .cpus = each.cpus, .above = *holder, .nested = nested});
    if (numa) attach(vertex, place);
    return {};
  }

  const Topology& topology_;
  const OneNode& one_;
  const std::string_view form_;
  HwlocParts parts_;
};

}  // namespace

Result<HwlocParts> nest_parts(const Topology& topology, const OneNode& one, std::string_view form) {
  return Nester(topology, one, form).nest();
}

}  // namespace banyan
