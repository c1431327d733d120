// SPDX-License-Identifier: Apache-2.0

#include "topology/formats/sketch_facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "src/base/parse.h"
#include "topology/formats/sketch.h"

namespace banyan {

namespace {

bool has(const std::vector<std::string>& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

void add(std::vector<std::string>& words, std::string word) {
  word = trim(word);
  if (!word.empty() && !has(words, word)) words.push_back(std::move(word));
}

std::string memory_text(uint64_t bytes) {
  constexpr double kGiB = 1 << 30;
  return bytes == 0 ? std::string() : fmt::format("{:.3g} GiB", static_cast<double>(bytes) / kGiB);
}

std::string times(size_t count, const std::string& what) {
  return count == 1 ? what : fmt::format("{} x {}", count, what);
}

std::string_view short_bus(std::string_view bus) {
  return bus.starts_with("0000:") ? bus.substr(5) : bus;
}

}  // namespace

NodeFacts::NodeFacts(const Topology& topology, const std::vector<std::vector<int>>& children,
                     int node)
    : topology_(topology), children_(children) {
  std::vector<int> open = {node};
  for (size_t i = 0; i < open.size(); ++i) {
    const auto& below = children[static_cast<size_t>(open[i])];
    open.insert(open.end(), below.begin(), below.end());
    const VertexKind kind = vertex_at(topology, open[i]).kind;
    if (kind != VertexKind::kGpu && kind != VertexKind::kNic) continue;
    Common& common = common_[kind];
    const Words words = of_device(open[i]);
    if (common.count == 0) common.words = words;
    std::erase_if(common.words, [&](const std::string& word) { return !has(words, word); });
    ++common.count;
  }
  for (const Edge& edge : topology.edges)
    if (edge.from == edge.to && edge.bandwidth.known())
      add(of_itself_[edge.from],
          fmt::format("{} {}", edge.kind == EdgeKind::kShm ? "through memory" : "memory",
                      short_text(edge.bandwidth)));
}

NodeFacts::Words NodeFacts::of(int vertex) const {
  const Vertex& each = vertex_at(topology_, vertex);
  const auto common = common_.find(each.kind);
  if (common == common_.end()) return of_holder(vertex);
  Words words;
  add(words, std::string(short_bus(each.bus_id)));
  for (std::string& word : of_device(vertex))
    if (!has(common->second.words, word)) add(words, std::move(word));
  return words;
}

NodeFacts::Words NodeFacts::of_device(int vertex) const {
  const Vertex& device = vertex_at(topology_, vertex);
  Words words;
  add(words, device.model.empty() ? device.vendor : device.model);
  add(words, memory_text(device.memory));
  std::map<std::string, size_t> parts;
  for (const int child : children_[static_cast<size_t>(vertex)]) {
    const Vertex& part = vertex_at(topology_, child);
    if (part.kind == VertexKind::kPartition) ++parts[part.model.empty() ? part.name : part.model];
    if (part.kind != VertexKind::kPort) continue;
    add(words, part.link_layer);
    if (!is_up(part)) {
      ++parts["port down"];
    } else if (part.rate.known()) {
      ++parts[short_text(part.rate)];
    }
  }
  for (const auto& [what, count] : parts) add(words, times(count, what));
  return words;
}

NodeFacts::Words NodeFacts::of_holder(int vertex) const {
  const Vertex& holder = vertex_at(topology_, vertex);
  Words words;
  add(words, holder.model);
  if (holder.kind == VertexKind::kNuma || holder.kind == VertexKind::kCache)
    add(words, memory_text(holder.memory));
  if (!holder.cpus.empty()) {
    std::string cpus = "cpus " + holder.cpus.list();
    if (holder.cores > 0 && holder.cores != holder.cpus.count())
      cpus += fmt::format(" on {}", counted(static_cast<size_t>(holder.cores), "core"));
    add(words, std::move(cpus));
  }
  std::map<std::string, size_t> caches;
  for (const int child : children_[static_cast<size_t>(vertex)]) {
    const Vertex& cache = vertex_at(topology_, child);
    if (cache.kind != VertexKind::kCache || !children_[static_cast<size_t>(child)].empty())
      continue;
    ++caches[fmt::format("L3 {:.4g} MiB", static_cast<double>(cache.memory) / (1 << 20))];
  }
  for (const auto& [what, count] : caches) add(words, times(count, what));
  if (const auto itself = of_itself_.find(vertex); itself != of_itself_.end())
    words.insert(words.end(), itself->second.begin(), itself->second.end());
  if (holder.kind != VertexKind::kNode) return words;
  for (const auto& [kind, common] : common_) {
    std::string text = counted(common.count, kind == VertexKind::kGpu ? "GPU" : "NIC");
    if (!common.words.empty()) text += fmt::format(" ({})", fmt::join(common.words, ", "));
    add(words, std::move(text));
  }
  return words;
}

}  // namespace banyan
