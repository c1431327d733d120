// SPDX-License-Identifier: Apache-2.0

#include "topology/paths.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <optional>
#include <queue>
#include <tuple>
#include <utility>

#include "topology/pci.h"

namespace banyan {

namespace {

constexpr double kUnlimited = std::numeric_limits<double>::infinity();

// What does not limit: the beginning of a chain of least().
Figure unlimited() {
  return {kUnlimited, Source::kMeasured};
}

Figure limited(const Figure& figure) {
  if (figure.known() && *figure.value == kUnlimited) return {};
  return figure;
}

// Unknown counts as nothing: any known one is better.
double worth(const Figure& figure) {
  return figure.value.value_or(0);
}

// What is not known does not limit.
Figure capped(const Figure& rate, const Figure& limit) {
  return limit.known() ? least(rate, limit) : rate;
}

}  // namespace

std::string_view name_of(PathClass type) {
  constexpr std::array<std::string_view, 7> kNames = {"LOC", "NVL", "PIX", "PXB",
                                                      "PHB", "SYS", "NET"};
  return kNames[static_cast<size_t>(type)];
}

Paths::Paths(const Topology& topology) : topology_(topology), children_(children_of(topology)) {
  const auto join = [](Adjacency& edges, const Edge& edge) {
    edges[edge.from].push_back({edge.to, edge.bandwidth});
    edges[edge.to].push_back({edge.from, edge.bandwidth});
  };
  for (const Edge& edge : topology.edges) {
    switch (edge.kind) {
      case EdgeKind::kMemory:
      case EdgeKind::kShm: break;
      case EdgeKind::kCpuInterconnect: join(interconnect_, edge); break;
      case EdgeKind::kNvlink:
      case EdgeKind::kXgmi:
      case EdgeKind::kC2c: join(nvlink_, edge); break;
      case EdgeKind::kNetwork: join(network_, edge); break;
      case EdgeKind::kPcie: {
        const bool upwards = topology.vertices[static_cast<size_t>(edge.from)].parent == edge.to;
        const Figure bandwidth = bandwidth_of(edge);
        const auto [place, fresh] = up_.emplace(upwards ? edge.from : edge.to, bandwidth);
        if (!fresh) place->second = least(place->second, bandwidth);
        break;
      }
    }
  }
  const std::vector<int> nics = vertices_of(topology, VertexKind::kNic);
  const auto count = [&](int nic) {
    const double rate = worth(rate_of(nic));
    if (rate == 0) return;
    Functions& functions = functions_[device_key(nic)];
    ++functions.count;
    functions.rates += rate;
  };
  for (const int nic : nics) count(nic);
  for (const int nic : nics)
    if (is_silent(nic) && functions_.count(device_key(nic)) == 0) by_pci_link_.insert(nic);
  for (const int nic : by_pci_link_) count(nic);
}

int Paths::device_of(int vertex) const {
  const Vertex& each = topology_.vertices[static_cast<size_t>(vertex)];
  const bool part = each.kind == VertexKind::kPartition || each.kind == VertexKind::kPort;
  return part ? each.parent : vertex;
}

bool Paths::in_processor(int vertex) const {
  const VertexKind kind = topology_.vertices[static_cast<size_t>(vertex)].kind;
  return kind == VertexKind::kNode || kind == VertexKind::kPackage || kind == VertexKind::kNuma ||
         kind == VertexKind::kCache;
}

// -1: several may be meant. Without NUMA domains the node counts as one.
int Paths::numa_of(int vertex) const {
  if (const int above = ancestor(topology_, vertex, VertexKind::kNuma); above >= 0) return above;
  while (!in_processor(vertex)) vertex = topology_.vertices[static_cast<size_t>(vertex)].parent;
  std::vector<int> found;
  std::vector<int> open = {vertex};
  while (!open.empty()) {
    const int at = open.back();
    open.pop_back();
    if (topology_.vertices[static_cast<size_t>(at)].kind == VertexKind::kNuma) found.push_back(at);
    for (const int child : children_[static_cast<size_t>(at)])
      if (in_processor(child)) open.push_back(child);
  }
  if (found.size() == 1) return found.front();
  if (!found.empty()) return -1;
  const int node = ancestor(topology_, vertex, VertexKind::kNode);
  return vertex == node ? node : numa_of(node);
}

// The device and the PCI switches above it, then the first vertex of the processor.
std::vector<int> Paths::trail_up(int vertex) const {
  std::vector<int> trail = {vertex};
  while (!in_processor(trail.back()))
    trail.push_back(topology_.vertices[static_cast<size_t>(trail.back())].parent);
  return trail;
}

Figure Paths::up(int vertex) const {
  const auto found = up_.find(vertex);
  return found == up_.end() ? Figure{std::nullopt, Source::kHardware} : found->second;
}

bool Paths::by_nvlink(int from, int to, Figure* bandwidth) const {
  const auto mine = nvlink_.find(from);
  const auto theirs = nvlink_.find(to);
  if (mine == nvlink_.end() || theirs == nvlink_.end()) return false;
  Figure direct;
  bool found = false;
  const auto add = [&](const Figure& more) {
    direct = found ? sum(direct, more) : more;
    found = true;
  };
  for (const Half& half : mine->second)
    if (half.peer == to) add(half.bandwidth);
  if (!found) {
    for (const Half& out : mine->second) {
      if (topology_.vertices[static_cast<size_t>(out.peer)].kind != VertexKind::kNvSwitch) continue;
      for (const Half& in : theirs->second)
        if (in.peer == out.peer) add(least(out.bandwidth, in.bandwidth));
    }
  }
  *bandwidth = direct;
  return found || through_nvswitches(from, to, bandwidth);
}

// The NVSwitches of a node are one fabric (NCCL counts them as one vertex). Nobody reports what
// joins them, as between the two boards of a DGX-2: it is assumed to be as wide as what leads to
// it.
bool Paths::through_nvswitches(int from, int to, Figure* bandwidth) const {
  const auto to_switches = [&](int device) {
    std::optional<Figure> all;
    for (const Half& half : nvlink_.at(device)) {
      const VertexKind kind = topology_.vertices[static_cast<size_t>(half.peer)].kind;
      if (kind == VertexKind::kNvSwitch) all = all ? sum(*all, half.bandwidth) : half.bandwidth;
    }
    return all;
  };
  const std::optional<Figure> out = to_switches(from);
  const std::optional<Figure> in = to_switches(to);
  if (!out || !in) return false;
  *bandwidth = {least(*out, *in).value, Source::kAssumed};
  return true;
}

Figure Paths::between_numas(int from, int to) const {
  Figure best{std::nullopt, Source::kHardware};
  const auto edges = interconnect_.find(from);
  if (edges == interconnect_.end()) return best;
  for (const Half& half : edges->second)
    if (half.peer == to && (!best.known() || worth(half.bandwidth) > worth(best)))
      best = half.bandwidth;
  return best;
}

Path Paths::inside(int from, int to) const {
  if (Figure bandwidth; by_nvlink(from, to, &bandwidth)) return {PathClass::kNvl, bandwidth};
  const std::vector<int> mine = trail_up(from);
  const std::vector<int> theirs = trail_up(to);
  Figure narrow = unlimited();
  // Both trails end in a processor, so PCI switches that they share are not at their ends.
  for (size_t i = 0; i < mine.size(); ++i) {
    const auto meeting = std::find(theirs.begin(), theirs.end(), mine[i]);
    if (meeting == theirs.end() || in_processor(mine[i])) continue;
    for (size_t below = 0; below < i; ++below) narrow = least(narrow, up(mine[below]));
    for (auto below = theirs.begin(); below != meeting; ++below) narrow = least(narrow, up(*below));
    // A switch between a device and the meeting place is a second one.
    const bool one = i <= 1 && meeting - theirs.begin() <= 1;
    return {one ? PathClass::kPix : PathClass::kPxb, limited(narrow)};
  }
  for (const auto& trail : {mine, theirs})
    for (size_t i = 0; i + 1 < trail.size(); ++i) narrow = least(narrow, up(trail[i]));
  const int from_numa = numa_of(from);
  const int to_numa = numa_of(to);
  if (from_numa >= 0 && from_numa == to_numa) return {PathClass::kPhb, limited(narrow)};
  const Figure bridge = from_numa < 0 || to_numa < 0 ? Figure{std::nullopt, Source::kHardware}
                                                     : between_numas(from_numa, to_numa);
  return {PathClass::kSys, limited(least(narrow, bridge))};
}

Path Paths::between(int from, int to) const {
  from = device_of(from);
  to = device_of(to);
  if (from == to) return {PathClass::kLoc, {}};
  const int node = ancestor(topology_, from, VertexKind::kNode);
  if (node < 0 || node != ancestor(topology_, to, VertexKind::kNode)) return across(from, to);
  if (in_processor(from) && in_processor(to)) {
    for (int at = from; at >= 0; at = topology_.vertices[static_cast<size_t>(at)].parent)
      if (at == to) return {PathClass::kLoc, {}};
    for (int at = to; at >= 0; at = topology_.vertices[static_cast<size_t>(at)].parent)
      if (at == from) return {PathClass::kLoc, {}};
  }
  return inside(from, to);
}

std::vector<int> Paths::within(int node, VertexKind kind) const {
  std::vector<int> found;
  std::vector<int> open = {node};
  while (!open.empty()) {
    const int at = open.back();
    open.pop_back();
    if (topology_.vertices[static_cast<size_t>(at)].kind == kind) found.push_back(at);
    for (const int child : children_[static_cast<size_t>(at)]) open.push_back(child);
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::vector<int> Paths::nics_by_distance(int vertex) const {
  const int from = device_of(vertex);
  const int node = ancestor(topology_, from, VertexKind::kNode);
  return node < 0 ? std::vector<int>() : by_distance(from, within(node, VertexKind::kNic));
}

std::vector<int> Paths::by_distance(int device, std::span<const int> nics) const {
  std::vector<std::tuple<PathClass, double, int>> keyed;
  for (const int nic : nics) {
    const Path path = between(device, nic);
    keyed.emplace_back(path.type, -worth(least(path.bandwidth, rate_of(nic))), nic);
  }
  std::sort(keyed.begin(), keyed.end());
  std::vector<int> sorted;
  for (const auto& [type, bandwidth, nic] : keyed) sorted.push_back(nic);
  return sorted;
}

// As near and as wide as the nearest.
std::vector<int> Paths::equally_near(int device, std::span<const int> of) const {
  const auto key = [&](int nic) {
    const Path path = between(device, nic);
    return std::pair(path.type, worth(least(path.bandwidth, rate_of(nic))));
  };
  std::vector<int> nics = by_distance(device, of);
  size_t equal = 0;
  while (equal < nics.size() && key(nics[equal]) == key(nics.front())) ++equal;
  nics.resize(equal);
  return nics;
}

std::vector<std::pair<int, int>> Paths::nics_of_gpus(int node) const {
  std::map<std::vector<int>, size_t> taken;  // how many GPUs share these NICs so far
  std::vector<std::pair<int, int>> chosen;
  const std::vector<int> all = within(node, VertexKind::kNic);
  if (all.empty()) return chosen;
  for (const int gpu : within(node, VertexKind::kGpu)) {
    const std::vector<int> nics = equally_near(gpu, all);
    chosen.emplace_back(gpu, nics[taken[nics]++ % nics.size()]);
  }
  return chosen;
}

int Paths::nearest_nic(int vertex) const {
  const int from = device_of(vertex);
  const Vertex& device = topology_.vertices[static_cast<size_t>(from)];
  if (device.kind == VertexKind::kNic) return from;
  if (device.kind == VertexKind::kGpu) {
    for (const auto& [gpu, nic] : nics_of_gpus(ancestor(topology_, from, VertexKind::kNode)))
      if (gpu == from) return nic;
    return -1;
  }
  const std::vector<int> nics = nics_by_distance(from);
  return nics.empty() ? -1 : nics.front();
}

bool Paths::nic_is_up(int nic) const {
  const std::vector<int>& ports = children_[static_cast<size_t>(nic)];
  return ports.empty() || std::any_of(ports.begin(), ports.end(), [&](int port) {
           return is_up(topology_.vertices[static_cast<size_t>(port)]);
         });
}

// Functions of one device differ in what is behind the dot; what is not on PCI is one of its own.
std::pair<int, std::string> Paths::device_key(int nic) const {
  const Vertex& vertex = topology_.vertices[static_cast<size_t>(nic)];
  const std::string& id = vertex.bus_id;
  return id.empty() ? std::pair(nic, id) : std::pair(vertex.parent, id.substr(0, id.rfind('.')));
}

// Whether a port for RDMA is up there, and none says its rate.
bool Paths::is_silent(int nic) const {
  bool rdma = false;
  for (const int child : children_[static_cast<size_t>(nic)]) {
    const Vertex& port = topology_.vertices[static_cast<size_t>(child)];
    if (is_up(port) && port.rate.known()) return false;
    rdma = rdma || (is_up(port) && (port.interface.empty() || port.link_layer == "InfiniBand" ||
                                    !port.gids.empty()));
  }
  return rdma;
}

// Takes the best port, within what the PCI link carries. A port that is down carries nothing.
Figure Paths::rate_of(int nic) const {
  Figure best{std::nullopt, Source::kHardware};
  for (const int child : children_[static_cast<size_t>(nic)]) {
    const Vertex& port = topology_.vertices[static_cast<size_t>(child)];
    if (is_up(port) && (!best.known() || worth(port.rate) > worth(best))) best = port.rate;
  }
  if (by_pci_link_.count(nic) != 0) {
    best = up(nic);
    best.doubtful = best.known();
  }
  return capped(best, up(nic));
}

// Within what the PCI switches above it carry.
Figure Paths::behind_switches(int nic, Figure rate) const {
  for (const int above : trail_up(nic)) rate = capped(rate, up(above));
  return rate;
}

Figure Paths::share_of(int nic, bool from_memory) const {
  Figure rate = rate_of(nic);
  Figure edge = up(nic);
  if (edge.known() && worth(rate) > 0) {
    const auto& [count, rates] = functions_.at(device_key(nic));
    edge.value = std::max(*edge.value / count, *edge.value - (rates - *rate.value));
    rate = least(rate, edge);
  }
  return from_memory ? behind_switches(nic, rate) : rate;
}

// From memory, the NIC itself or another device to the network.
Figure Paths::rate_from(int vertex, int nic) const {
  const Figure rate = rate_of(nic);
  if (in_processor(vertex)) return behind_switches(nic, rate);
  return vertex == nic ? rate : least(rate, between(vertex, nic).bandwidth);
}

// What cables may be fastened to: the NIC, its ports, or where no more is known the node.
std::vector<int> Paths::plugs_of(int nic) const {
  std::vector<int> plugs = {nic, ancestor(topology_, nic, VertexKind::kNode)};
  for (const int child : children_[static_cast<size_t>(nic)]) plugs.push_back(child);
  return plugs;
}

// Finds the widest path (Dijkstra's algorithm with the minimum in place of the sum; Pollack 1960).
// What no cable joins is limited by its ports only.
Figure Paths::fabric(int from_nic, int to_nic) const {
  std::unordered_map<int, Figure> widest;
  using Entry = std::pair<double, int>;
  std::priority_queue<Entry> open;
  for (const int plug : plugs_of(from_nic)) {
    widest[plug] = unlimited();
    open.push({kUnlimited, plug});
  }
  const std::vector<int> goals = plugs_of(to_nic);
  while (!open.empty()) {
    const auto [width, at] = open.top();
    open.pop();
    if (std::find(goals.begin(), goals.end(), at) != goals.end()) return limited(widest[at]);
    const auto edges = network_.find(at);
    if (edges == network_.end() || width < worth(widest[at])) continue;
    for (const Half& half : edges->second) {
      const Figure reached = least(widest[at], half.bandwidth);
      const auto [place, fresh] = widest.emplace(half.peer, reached);
      if (!fresh && worth(reached) <= worth(place->second)) continue;
      place->second = reached;
      open.push({worth(reached), half.peer});
    }
  }
  return unlimited();
}

Path Paths::across(int from, int to) const {
  const auto nic_of = [&](int vertex) {
    return ancestor(topology_, vertex, VertexKind::kNode) < 0 ? -1 : nearest_nic(vertex);
  };
  const int out = nic_of(from);
  const int in = nic_of(to);
  const Figure unknown{std::nullopt, Source::kHardware};
  if (out < 0 || in < 0) return {PathClass::kNet, unknown};
  const Figure narrow = least(rate_from(from, out), rate_from(to, in));
  return {PathClass::kNet, limited(least(narrow, fabric(out, in)))};
}

}  // namespace banyan
