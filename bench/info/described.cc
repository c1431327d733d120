// SPDX-License-Identifier: Apache-2.0

#include "bench/info/described.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "algorithms/choice/machine_cost.h"
#include "bench/info/meeting.h"
#include "bench/info/part_costs.h"
#include "topology/levels.h"
#include "topology/paths.h"

namespace banyan::info {
namespace {

// These are assumed where nobody gives a figure.
constexpr double kAssumedNetworkGBps = 1.25;
constexpr double kAssumedNetworkUs = 10;
constexpr double kInfinibandUs = 2;
// For each switch on the way beyond the first.
constexpr Figure kSwitchUs = {1, Source::kAssumed};
constexpr Figure kInfinibandSwitchUs = {0.3, Source::kTable};
constexpr double kGpuEdgeUs = 5;  // with the start of a kernel
// Bytes of result that a GPU adds in a microsecond.
constexpr double kGpuSumGBps = 500;

struct Node {
  int vertex = 0;
  int cores = 0;  // 0: nobody says
  std::vector<int> gpus{};
  std::vector<Figure>
      nics{};  // rates of those that are up, or of which nobody says that they are not
  bool infiniband = false;
};

std::vector<Node> nodes_of(const Topology& topology, const Paths& paths) {
  std::vector<Node> nodes;
  std::vector<int> node_of(topology.vertices.size(), -1);
  for (const int vertex : vertices_of(topology, VertexKind::kNode)) {
    node_of[static_cast<size_t>(vertex)] = static_cast<int>(nodes.size());
    const Vertex& node = topology.vertices[static_cast<size_t>(vertex)];
    const int threads = static_cast<int>(node.cpus.count());
    nodes.push_back({.vertex = vertex, .cores = node.cores > 0 ? node.cores : threads});
  }
  const auto node_above = [&](int vertex) {
    const int above = ancestor(topology, vertex, VertexKind::kNode);
    return above < 0 ? -1 : node_of[static_cast<size_t>(above)];
  };
  for (const int gpu : vertices_of(topology, VertexKind::kGpu))
    if (const int node = node_above(gpu); node >= 0)
      nodes[static_cast<size_t>(node)].gpus.push_back(gpu);
  for (const int nic : vertices_of(topology, VertexKind::kNic))
    if (const int index = node_above(nic); index >= 0 && paths.nic_is_up(nic)) {
      Node& node = nodes[static_cast<size_t>(index)];
      node.nics.push_back(paths.share_of(nic, node.gpus.empty()));
    }
  for (const int port : vertices_of(topology, VertexKind::kPort)) {
    const Vertex& vertex = topology.vertices[static_cast<size_t>(port)];
    const int index = node_above(port);
    if (index >= 0 && is_up(vertex) && vertex.link_layer == "InfiniBand")
      nodes[static_cast<size_t>(index)].infiniband = true;
  }
  return nodes;
}

struct GpuEdges {
  Figure one{};       // GB/s of a message between GPUs that follow each other
  Figure together{};  // GB/s of a GPU to all others of its node at once
};

// GB/s of all its edges to others, by vertex.
std::vector<double> gpu_rates(const Topology& topology) {
  std::vector<double> rates(topology.vertices.size(), 0);
  for (const Edge& edge : topology.edges)
    if (edge.kind == EdgeKind::kNvlink || edge.kind == EdgeKind::kXgmi)
      for (const int end : {edge.from, edge.to})
        rates[static_cast<size_t>(end)] += edge.bandwidth.value.value_or(0);
  return rates;
}

// A GPU sends as much to each other one of its node at the same time. Unknown where one of these
// figures is:
//
//   GPUs with an edge of their own   each message takes it
//   through NVSwitches              all messages take a part of all edges
//   GPUs without an edge             messages share the narrowest of the ways through the processor
Figure rate_to_all(const Paths& paths, const std::vector<int>& gpus, int from, double edges) {
  double longest = 0, joined = 0, others = 0;
  Figure narrowest{std::nullopt, Source::kHardware};
  Source source = Source::kMeasured;
  for (const int to : gpus) {
    if (to == from) continue;
    const Path path = paths.between(from, to);
    if (!(path.bandwidth.value.value_or(0) > 0)) return {std::nullopt, path.bandwidth.source};
    source = std::max(source, path.bandwidth.source);
    if (path.type == PathClass::kNvl) {
      ++joined;
      longest = std::max(longest, 1 / *path.bandwidth.value);
    } else {
      ++others;
      narrowest = narrowest.known() ? least(narrowest, path.bandwidth) : path.bandwidth;
    }
  }
  if (joined > 0 && edges > 0) longest = std::max(longest, joined / edges);
  if (others > 0) longest = std::max(longest, others / *narrowest.value);
  return {(joined + others) / longest, source};
}

// The narrowest of all nodes. Of very many GPUs it is not looked at what all pairs have.
GpuEdges gpu_edges(const Topology& topology, const Paths& paths, const std::vector<Node>& nodes) {
  constexpr size_t kMostMeshed = 64;
  const std::vector<double> rates = gpu_rates(topology);
  GpuEdges found;
  bool first = true, meshed = true;
  for (const Node& node : nodes) {
    for (size_t index = 1; index < node.gpus.size(); ++index) {
      const Figure next = paths.between(node.gpus[index - 1], node.gpus[index]).bandwidth;
      found.one = first ? next : least(found.one, next);
      first = false;
    }
    meshed = meshed && node.gpus.size() <= kMostMeshed;
    for (const int gpu : meshed ? node.gpus : std::vector<int>()) {
      const Figure rate = rate_to_all(paths, node.gpus, gpu, rates[static_cast<size_t>(gpu)]);
      const bool begins = gpu == nodes.front().gpus.front();
      found.together = begins ? rate : least(found.together, rate);
    }
  }
  const bool wider = meshed && found.one.known() && found.together.known() &&
                     *found.together.value > *found.one.value;
  if (!wider) found.together = found.one;
  return found;
}

void use_gpus(DescribedMachine& machine, const GpuEdges& edges) {
  const Figure none{0, Source::kTable};
  CostModel& model = machine.model;
  model.call = {kGpuEdgeUs, Source::kTable};
  model.within = {.alpha = {kGpuEdgeUs, Source::kTable},
                  .overhead = {0.5, Source::kTable},
                  .send_byte = none,
                  .recv_byte = none,
                  .long_overhead = none,
                  .long_byte = none,
                  .far_byte = none,
                  .lane_byte = {kMicrosecondsPerGB / *edges.one.value, edges.one.source},
                  .lanes = *edges.together.value / *edges.one.value};
  model.turn = none;
  model.cores = 0;
  model.reduce_byte = {kMicrosecondsPerGB / kGpuSumGBps, Source::kTable};
  model.codec_byte = model.copy_byte = model.reduce_byte;
  model.reduce_far_byte = model.copy_far_byte = none;
  model.cache_bytes = 0;
  machine.figures.push_back({"between GPUs of a node", "gpu_GBps", edges.one, "GB/s"});
  machine.figures.push_back({"of a GPU to all others", "gpu_all_GBps", edges.together, "GB/s"});
  machine.figures.push_back({"latency there", "gpu_latency_us", model.within.alpha, "us"});
}

// GB/s, of the microseconds that a byte takes.
Figure rate_of(const Figure& byte) {
  Figure rate{std::nullopt, byte.source, byte.doubtful};
  if (byte.value.value_or(0) > 0) rate.value = kMicrosecondsPerGB / *byte.value;
  return rate;
}

void show_network(DescribedMachine& machine) {
  const CostModel& model = machine.model;
  const Figure nics{model.nics, model.wire_byte.source};
  machine.figures.push_back({"a NIC", "nic_GBps", rate_of(model.wire_byte), "GB/s"});
  machine.figures.push_back({"NICs of a node", "nics", nics});
  machine.figures.push_back(
      {"latency between nodes", "network_latency_us", model.between.alpha, "us"});
}

bool all_infiniband(const std::vector<Node>& nodes) {
  return std::all_of(nodes.begin(), nodes.end(), [](const Node& node) { return node.infiniband; });
}

// What a node has to the network, as NICs of one rate.
struct Rails {
  size_t count = 1;
  Figure each;

  double together() const { return static_cast<double>(count) * each.value.value_or(0); }
};

// Takes as many NICs as carry most if each carries what the slowest of them does: a port for
// administration beside eight rails is none.
Rails rails_of(const Node& node) {
  std::vector<Figure> rates;
  for (const Figure& nic : node.nics)
    if (nic.value.value_or(0) > 0) rates.push_back(nic);
  std::sort(rates.begin(), rates.end(),
            [](const Figure& a, const Figure& b) { return *a.value > *b.value; });
  Rails best{std::max<size_t>(node.nics.size(), 1), {kAssumedNetworkGBps, Source::kAssumed, true}};
  for (size_t i = 0; i < rates.size(); ++i)
    if (const Rails rails{i + 1, rates[i]}; i == 0 || rails.together() > best.together())
      best = rails;
  return best;
}

void use_network(DescribedMachine& machine, const std::vector<Node>& nodes) {
  CostModel& model = machine.model;
  Rails fewest = rails_of(nodes.front());
  for (const Node& node : nodes)
    if (const Rails rails = rails_of(node); rails.together() < fewest.together()) fewest = rails;
  model.nics = static_cast<double>(fewest.count);
  model.wire_byte = {kMicrosecondsPerGB / *fewest.each.value, fewest.each.source,
                     fewest.each.doubtful};
  const Figure alpha = all_infiniband(nodes) ? Figure{kInfinibandUs, Source::kTable}
                                             : Figure{kAssumedNetworkUs, Source::kAssumed};
  // The adapter moves the bytes; the wire is where they take their time.
  const Figure none{0, Source::kTable};
  model.between = {.alpha = alpha,
                   .overhead = {0.5, Source::kTable},
                   .send_byte = none,
                   .recv_byte = none,
                   .long_overhead = none,
                   .long_byte = none,
                   .far_byte = none};
  show_network(machine);
}

void show_memory(DescribedMachine& machine, int most, Source cores) {
  const PairCost& within = machine.model.within;
  const Figure number{static_cast<double>(machine.cores), cores};
  const double byte =
      std::min(within.send_byte.value.value_or(0) + within.recv_byte.value.value_or(0),
               within.long_byte.value.value_or(1));
  if (cores == Source::kMeasured)
    machine.figures.push_back({"cores of a host's ranks", "rank_cores", number});
  else
    machine.figures.push_back({"cores of a node", "cores", number});
  // A rank that shares its core waits for turns of the others, where those were measured.
  Figure latency = within.alpha;
  if (machine.model.turn.source == Source::kMeasured) {
    const double others = std::max(most / std::max(machine.model.cores, 1.0) - 1, 0.0);
    latency.value = *latency.value + others * *machine.model.turn.value;
  }
  machine.figures.push_back({"a message in memory", "memory_latency_us", latency, "us"});
  machine.figures.push_back(
      {"long messages in memory", "memory_GBps", rate_of({byte, within.long_byte.source}), "GB/s"});
}

std::string_view words_for(VertexKind part) {
  switch (part) {
    case VertexKind::kNuma: return "NUMA domain";
    case VertexKind::kPciSwitch: return "PCI switch";
    case VertexKind::kGpu: return "GPU";
    case VertexKind::kPackage:
    case VertexKind::kCluster:
    case VertexKind::kSwitch:
    case VertexKind::kNode:
    case VertexKind::kCache:
    case VertexKind::kNvSwitch:
    case VertexKind::kPartition:
    case VertexKind::kNic:
    case VertexKind::kPort: break;
  }
  return name_of(part);
}

// `joined`: ranks are on GPUs.
void use_parts(DescribedMachine& machine, const Topology& topology, const std::vector<Node>& nodes,
               bool joined, PartCosts& parts) {
  std::vector<Seated> seated;
  for (size_t index = 0; index < nodes.size(); ++index)
    seated.push_back({nodes[index].vertex, machine.hosts[index],
                      joined ? nodes[index].gpus : std::vector<int>()});
  std::map<VertexKind, Figure> shown;
  add_parts_of_nodes(topology, seated, parts, shown);
  for (const auto& [kind, bandwidth] : shown)
    machine.figures.push_back({fmt::format("edge of a {}", words_for(kind)),
                               fmt::format("{}_edge_GBps", name_of(kind)), bandwidth, "GB/s"});
}

// All NICs of a node together; what nobody knows of any is assumed of all.
void add_hosts(const std::vector<Node>& nodes, const std::vector<int>& ranks, PartCosts& parts) {
  const auto known = [](const Figure& nic) { return nic.value.value_or(0) > 0; };
  if (std::none_of(nodes.begin(), nodes.end(), [&](const Node& node) {
        return std::any_of(node.nics.begin(), node.nics.end(), known);
      }))
    return;
  for (size_t index = 0; index < nodes.size(); ++index) {
    const std::vector<Figure>& nics = nodes[index].nics;
    Figure all = nics.empty() ? Figure{std::nullopt, Source::kHardware} : nics.front();
    for (size_t nic = 1; nic < nics.size(); ++nic) all = sum(all, nics[nic]);
    parts.add(std::string(kHostLevel), ranks[index], all, false);
  }
}

// Each copy of the nodes has parts of its own.
Result<Hierarchy> hierarchy_of(const std::vector<int>& hosts, const std::vector<NodeTier>& tiers) {
  std::vector<Hierarchy::Level> levels = {{"host", {}}};
  for (const NodeTier& tier : tiers) levels.push_back({tier.name, {}});
  int rank = 0;
  for (size_t host = 0; host < hosts.size(); ++host) {
    std::vector<int> ranks(static_cast<size_t>(hosts[host]));
    std::iota(ranks.begin(), ranks.end(), rank);
    rank += hosts[host];
    for (size_t i = 0; i < tiers.size(); ++i) {
      const NodeTier& tier = tiers[i];
      const size_t copy = host / tier.part.size();
      const auto own = static_cast<size_t>(tier.part[host % tier.part.size()]);
      auto& parts = levels[i + 1].parts;
      parts.resize(std::max(parts.size(), (copy + 1) * tier.uplink.size()));
      auto& part = parts[copy * tier.uplink.size() + own];
      part.insert(part.end(), ranks.begin(), ranks.end());
    }
    levels.front().parts.push_back(std::move(ranks));
  }
  return Hierarchy::make(rank, levels);
}

// Takes the narrowest of those that are known: a node on no switch has none.
Figure narrowest(const std::vector<Figure>& uplinks) {
  Figure found{std::nullopt, uplinks.front().source};
  for (const Figure& each : uplinks)
    if (each.known() && *each.value > 0 && (!found.known() || *each.value < *found.value))
      found = each;
  return found;
}

TierCost cost_of(const NodeTier& tier, const Figure& between, const Figure& each_switch) {
  const Figure more{(tier.switches - 1) * *each_switch.value, each_switch.source};
  const Figure uplink = narrowest(tier.uplink);
  TierCost cost{.name = tier.name, .alpha = sum(between, more)};
  cost.uplink_byte.source = uplink.source;
  if (uplink.known()) cost.uplink_byte.value = kMicrosecondsPerGB / *uplink.value;
  return cost;
}

void show_tier(DescribedMachine& machine, const NodeTier& tier, const TierCost& cost) {
  std::vector<int> nodes(tier.uplink.size());
  for (const int part : tier.part) ++nodes[static_cast<size_t>(part)];
  const auto [fewest, most] = std::minmax_element(nodes.begin(), nodes.end());
  const auto show = [&](std::string_view what, std::string_view key, const Figure& figure,
                        std::string_view unit) {
    machine.figures.push_back({fmt::format("{} a {}", what, tier.name), std::string(key), figure,
                               std::string(unit), tier.name});
  };
  show("nodes of", "nodes", {static_cast<double>(*fewest), Source::kHardware}, "");
  machine.figures.back().most = *most;
  show("uplinks of", "uplinks_GBps", rate_of(cost.uplink_byte), "GB/s");
  show("latency beyond", "latency_us", cost.alpha, "us");
}

// What was measured stays. `ranks`: of each node.
void use_tiers(DescribedMachine& machine, const std::vector<NodeTier>& tiers,
               const std::vector<int>& ranks, const Figure& each_switch, PartCosts& parts) {
  std::vector<TierCost>& known = machine.model.tiers;
  for (const NodeTier& tier : tiers) {
    auto cost = std::find_if(known.begin(), known.end(),
                             [&](const TierCost& each) { return each.name == tier.name; });
    if (cost == known.end()) {
      cost = known.insert(cost, cost_of(tier, machine.model.between.alpha, each_switch));
      add_parts_of_tier(tier, ranks, parts);
    }
    show_tier(machine, tier, *cost);
  }
}

}  // namespace

std::string text_of(const ShownFigure& shown) {
  const auto& [what, key, figure, unit, level, most] = shown;
  if (!figure.known()) return fmt::format("{:<26}{:>9}", what, "unknown");
  if (most)
    return fmt::format("{:<26}{:>9}", what,
                       *figure.value == *most ? fmt::format("{}", *most)
                                              : fmt::format("{} to {}", *figure.value, *most));
  return fmt::format("{:<26}{:>9.4g} {:<6} {}{}", what, *figure.value, unit, name_of(figure.source),
                     figure.doubtful ? ", doubtful" : "");
}

Result<DescribedMachine> describe_machine(const Topology& topology, int times, int ranks_per_node,
                                          const MeasuredLinks& measured, int rank_cores,
                                          const MessageTimes& messages) {
  const Paths paths(topology);
  const std::vector<Node> nodes = nodes_of(topology, paths);
  if (nodes.empty())
    return Status(Code::kInvalidArgument, "a network without nodes: nothing runs on switches");
  DescribedMachine machine;
  int64_t ranks = 0;
  int most = 1;
  bool gpus = true;
  machine.cores = nodes.front().cores;
  for (const Node& node : nodes) {
    const int own = ranks_per_node > 0   ? ranks_per_node
                    : !node.gpus.empty() ? static_cast<int>(node.gpus.size())
                                         : std::max(node.cores, 1);
    machine.cores = std::min(machine.cores, node.cores);
    gpus = gpus && own > 1 && own <= static_cast<int>(node.gpus.size());
    most = std::max(most, own);
    machine.hosts.push_back(own);
    ranks += own;
  }
  ranks *= times;
  if (ranks < 2 || ranks > kMostRanksExplained)
    return Status(Code::kInvalidArgument,
                  fmt::format("{} rank{}; valid: 2 to {} (--nodes and --ranks-per-node say how "
                              "many)",
                              ranks, ranks == 1 ? "" : "s", kMostRanksExplained));
  const std::vector<int> one = machine.hosts;
  for (int copy = 1; copy < times; ++copy)
    machine.hosts.insert(machine.hosts.end(), one.begin(), one.end());
  const std::vector<NodeTier> tiers = node_tiers(topology);
  auto hierarchy = hierarchy_of(machine.hosts, tiers);
  BANYAN_TRY(hierarchy.status());
  machine.hierarchy = std::move(*hierarchy);

  // A fabric's description says nothing of processors: then each rank has one.
  const Source cores = rank_cores > 0      ? Source::kMeasured
                       : machine.cores > 0 ? Source::kHardware
                                           : Source::kAssumed;
  if (machine.cores == 0) machine.cores = most;
  if (rank_cores > 0) machine.cores = rank_cores;

  const bool apart = machine.hosts.size() > 1;
  machine.model =
      with_message_times(memory_model(most, machine.cores), messages, std::min(most, kMostMeeting));
  if (apart) machine.model = with_links(machine.model, measured);
  const GpuEdges edges = gpus ? gpu_edges(topology, paths, nodes) : GpuEdges();
  const bool joined = edges.one.known() && *edges.one.value > 0;
  if (joined)
    use_gpus(machine, edges);
  else
    show_memory(machine, most, cores);
  PartCosts parts;
  use_parts(machine, topology, nodes, joined, parts);
  if (machine.model.reduce_byte.source == Source::kMeasured)
    machine.figures.push_back(
        {"sums of a core", "sums_GBps", rate_of(machine.model.reduce_byte), "GB/s"});
  if (apart && measured.between) show_network(machine);
  if (apart && !measured.between) {
    use_network(machine, nodes);
    add_hosts(nodes, one, parts);
  }
  use_tiers(machine, tiers, one, all_infiniband(nodes) ? kInfinibandSwitchUs : kSwitchUs, parts);
  machine.model.parts = parts.costs(times);
  return machine;
}

}  // namespace banyan::info
