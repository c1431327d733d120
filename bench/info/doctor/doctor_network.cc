// Adapters, their ports and what they are plugged into.
// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/info/doctor/doctor.h"
#include "src/base/parse.h"

namespace banyan {

namespace {

constexpr std::string_view kRdma = "/sys/class/infiniband";
constexpr std::string_view kVerbs = "/sys/class/infiniband_verbs";
constexpr uint64_t kLockedLeast = uint64_t{64} << 20;

const Vertex& parent_of(const Topology& topology, const Vertex& vertex) {
  return topology.vertices[static_cast<size_t>(vertex.parent)];
}

double transfers(const std::string& speed) {  // GT/s; 0: not known
  double found = 0;
  return std::sscanf(speed.c_str(), "%lf GT/s", &found) == 1 ? found : 0;
}

double lanes(const std::string& width) {  // 0: not known
  const auto found = parse_integer(width, 1, 32);
  return found.ok() ? static_cast<double>(*found) : 0;
}

// Examines a link: it may have trained to less than both of its ends can do, or its other end can
// do less than the device.
void examine_link(const SysRoot& root, const Vertex& device, std::string_view what,
                  double (*value)(const std::string&), bool trained,
                  std::vector<Finding>& findings) {
  const std::string folder = root.resolve("/sys/bus/pci/devices/" + device.bus_id);
  if (folder.empty()) return;
  const std::string above = folder.substr(0, folder.rfind('/'));
  const auto word = [&](const std::string& end, std::string_view when) {
    return root.line(fmt::format("{}/{}_link_{}", end, when, what));
  };
  const std::string own = word(folder, "max"), other = word(above, "max");
  const std::string now = word(folder, "current");
  const bool narrow = value(other) > 0 && value(other) < value(own);
  const std::string& most = narrow ? other : own;
  if (trained && value(now) > 0 && value(now) < value(most))
    findings.push_back(
        {.id = fmt::format("pci.{}", what),
         .severity = Severity::kWarning,
         .subject = device.name,
         .seen = fmt::format("its PCI link has a {} of {}, and could have {}", what, now, most),
         .evidence = fmt::format("{}/current_link_{}: {}", folder, what, now),
         .fix = "look at the slot, the riser and the firmware's settings"});
  else if (narrow)
    findings.push_back({.id = "pci.slot",
                        .subject = device.name,
                        .seen = fmt::format("in its place the PCI link has a {} of {} at most; the "
                                            "device could have {}",
                                            what, other, own),
                        .evidence = fmt::format("{}/max_link_{}: {}", above, what, other)});
}

void examine_numa(const Patient& patient, int device, std::vector<Finding>& findings) {
  const Vertex& vertex = patient.topology.vertices[static_cast<size_t>(device)];
  if (ancestor(patient.topology, device, VertexKind::kNuma) >= 0) return;
  const std::string file = fmt::format("/sys/bus/pci/devices/{}/numa_node", vertex.bus_id);
  findings.push_back({.id = "pci.numa",
                      .subject = vertex.name,
                      .seen = "nobody says which NUMA domain it is at; it counts as far from all",
                      .evidence = fmt::format("{}: {}", file, patient.root.line(file))});
}

// Examines the slots. A low speed means nothing where a GPU is idle or a port has no cable.
void examine_slots(const Patient& patient, std::vector<Finding>& findings) {
  const Topology& topology = patient.topology;
  const auto children = children_of(topology);
  const size_t numas = vertices_of(topology, VertexKind::kNuma).size();
  for (size_t i = 0; i < topology.vertices.size(); ++i) {
    const Vertex& device = topology.vertices[i];
    const bool nic = device.kind == VertexKind::kNic;
    if ((!nic && device.kind != VertexKind::kGpu) || device.bus_id.empty()) continue;
    const bool busy = nic && std::any_of(children[i].begin(), children[i].end(), [&](int child) {
                        return is_up(topology.vertices[static_cast<size_t>(child)]);
                      });
    examine_link(patient.root, device, "width", lanes, true, findings);
    examine_link(patient.root, device, "speed", transfers, busy, findings);
    if (numas > 1) examine_numa(patient, static_cast<int>(i), findings);
  }
}

// A few of many alike that are slower hold up all of a collective. Other mixtures may be meant so.
void examine_rates(const Topology& topology, std::vector<Finding>& findings) {
  std::map<std::pair<std::string, std::string>, std::vector<const Vertex*>> alike;
  for (const Vertex& port : topology.vertices)
    if (port.kind == VertexKind::kPort && is_up(port) && port.rate.known())
      if (const Vertex& nic = parent_of(topology, port); !nic.model.empty())
        alike[{nic.model, port.link_layer}].push_back(&port);
  for (const auto& [kind, ports] : alike) {
    const Vertex& fastest = **std::max_element(
        ports.begin(), ports.end(),
        [](const Vertex* a, const Vertex* b) { return *a->rate.value < *b->rate.value; });
    const auto slow = std::count_if(ports.begin(), ports.end(), [&](const Vertex* port) {
      return *port->rate.value < *fastest.rate.value;
    });
    const bool few = 2 * slow < static_cast<int64_t>(ports.size());
    for (const Vertex* port : ports)
      if (*port->rate.value < *fastest.rate.value)
        findings.push_back(
            {.id = "port.rate",
             .severity = few ? Severity::kWarning : Severity::kNote,
             .subject = port->name,
             .seen = fmt::format("it carries {:g} GB/s, {} of the same model {:g}",
                                 *port->rate.value, fastest.name, *fastest.rate.value),
             .evidence = fmt::format("model {}, {}", kind.first, kind.second),
             .fix = "look at its cable and the port of the switch"});
  }
}

// Where the system says what state it is in.
std::string state_file(const SysRoot& root, const Topology& topology, const Vertex& port) {
  const std::string rdma =
      fmt::format("{}/{}/ports/{}/state", kRdma, parent_of(topology, port).name, port.index);
  return root.exists(rdma) ? rdma : fmt::format("/sys/class/net/{}/operstate", port.interface);
}

void examine_port(const Patient& patient, const Vertex& port, std::vector<Finding>& findings) {
  const std::string evidence =
      fmt::format("{}: {}", state_file(patient.root, patient.topology, port), port.state);
  if (port.state == "INIT" || port.state == "ARMED")
    findings.push_back({.id = "port.subnet",
                        .severity = Severity::kWarning,
                        .subject = port.name,
                        .seen = "it has a cable, and no subnet manager has made it active",
                        .evidence = evidence,
                        .fix = "start a subnet manager (opensm), or ask who runs the fabric"});
  else if (!is_up(port))
    findings.push_back({.id = "port.down",
                        .subject = port.name,
                        .seen = fmt::format("it is {}", port.state),
                        .evidence = evidence,
                        .fix = "plug in its cable, or ip link set up"});
  else if (!port.rate.known())
    findings.push_back({.id = "port.speed",
                        .subject = port.name,
                        .seen = "nobody says how fast it is; --explain assumes 10 Gb/s",
                        .evidence = "sysfs and the driver (ethtool) say nothing",
                        .fix = "banyan_tune measures it"});
}

void examine_choice(const Patient& patient, const std::string& interface,
                    std::vector<Finding>& findings) {
  const std::string file = fmt::format("/sys/class/net/{}/operstate", interface);
  const std::string state = patient.root.line(file);
  const bool there = patient.root.exists(file);
  if (there && state != "down") return;
  findings.push_back({.id = "network.chosen",
                      .severity = there ? Severity::kWarning : Severity::kError,
                      .subject = "BANYAN_SOCKET_IFNAME",
                      .seen = fmt::format("{} is {}, and ranks are to meet by it", interface,
                                          there ? "down" : "no interface of this host"),
                      .evidence = fmt::format("{}: {}", file, there ? state : "not there"),
                      .fix = there ? fmt::format("ip link set {} up, or name another", interface)
                                   : "name one that there is"});
}

bool is_zero(std::string_view address) {
  return address.find_first_not_of("0:") == std::string_view::npos;
}

std::optional<Finding> port_obstacle(const SysRoot& root, const std::string& device) {
  std::string states;
  bool active = false;
  const std::string folder = fmt::format("{}/{}/ports", kRdma, device);
  for (const std::string& port : root.list(folder)) {
    const std::string state = root.line(fmt::format("{}/{}/state", folder, port));
    states += fmt::format("{}{}: {}", states.empty() ? "" : ", ", port, state);
    if (state.find("ACTIVE") == std::string::npos) continue;
    active = true;
    const std::string gids = fmt::format("{}/{}/gids", folder, port);
    for (const std::string& index : root.list(gids))
      if (!is_zero(root.line(fmt::format("{}/{}", gids, index)))) return std::nullopt;
  }
  if (!active)
    return Finding{.id = "rdma.port",
                   .severity = Severity::kWarning,
                   .subject = device,
                   .seen = "none of its ports is active",
                   .evidence = fmt::format("{}/*/state: {}", folder, states),
                   .fix = "plug in a cable; InfiniBand needs a subnet manager"};
  return Finding{
      .id = "rdma.gid",
      .severity = Severity::kWarning,
      .subject = device,
      .seen = "it has no address (GID)",
      .evidence = fmt::format("{}/*/gids/*: all zero", folder),
      .fix = "give its interface an address (RoCE), or see whether the container hides it"};
}

// `verbs`: the name of its device file; empty: it has none.
std::optional<Finding> device_obstacle(const SysRoot& root, const std::string& device,
                                       const std::string& verbs) {
  const std::string file = "/dev/infiniband/" + verbs;
  if (!verbs.empty() && root.exists(file)) return port_obstacle(root, device);
  return Finding{.id = "rdma.device",
                 .severity = Severity::kWarning,
                 .subject = device,
                 .seen = "programs cannot open it",
                 .evidence = verbs.empty() ? fmt::format("{}/*/ibdev: none is {}", kVerbs, device)
                                           : fmt::format("{}: not there", file),
                 .fix = verbs.empty() ? "modprobe ib_uverbs"
                                      : fmt::format("give the container --device {}", file)};
}

}  // namespace

std::map<std::string, Finding> rdma_obstacles(const SysRoot& root) {
  std::map<std::string, std::string> verbs;  // by device
  for (const std::string& name : root.list(kVerbs))
    verbs[root.line(fmt::format("{}/{}/ibdev", kVerbs, name))] = name;
  std::map<std::string, Finding> obstacles;
  for (const std::string& device : root.list(kRdma))
    if (auto obstacle = device_obstacle(root, device, verbs[device]))
      obstacles.emplace(device, std::move(*obstacle));
  return obstacles;
}

void examine_network(const Patient& patient, std::vector<Finding>& findings) {
  bool up = false;
  for (const Vertex& vertex : patient.topology.vertices) {
    if (vertex.kind != VertexKind::kPort) continue;
    examine_port(patient, vertex, findings);
    up = up || is_up(vertex);
  }
  if (!up)
    findings.push_back({.id = "network.none",
                        .seen = "no interface leads out of this host; ranks of other hosts cannot "
                                "be reached",
                        .evidence = "/sys/class/net, /sys/class/infiniband: no port is up"});
  if (!patient.process.no_loopback.empty())
    findings.push_back({.id = "network.loopback",
                        .severity = Severity::kError,
                        .subject = "lo",
                        .seen = "ranks of this host cannot meet, since loopback does not work",
                        .evidence = patient.process.no_loopback,
                        .fix = "ip link set lo up"});
  const std::string* chosen = patient.raw.find("BANYAN_SOCKET_IFNAME");
  if (chosen != nullptr && !chosen->empty()) examine_choice(patient, *chosen, findings);
  examine_rates(patient.topology, findings);
  examine_slots(patient, findings);
}

void examine_rdma(const Patient& patient, std::vector<Finding>& findings) {
  const size_t devices = patient.root.list(kRdma).size();
  if (devices == 0) return;
  auto obstacles = rdma_obstacles(patient.root);
  const bool some_work = obstacles.size() < devices;
  for (auto& [device, obstacle] : obstacles) {
    // One port of a card with two often has no cable.
    if (some_work && obstacle.id == "rdma.port") obstacle.severity = Severity::kNote;
    findings.push_back(std::move(obstacle));
  }
  if (!patient.process.no_verbs.empty())
    findings.push_back({.id = "rdma.verbs",
                        .severity = Severity::kWarning,
                        .seen = "there are RDMA devices, and no library to use them",
                        .evidence = patient.process.no_verbs,
                        .fix = "install libibverbs1 and ibverbs-providers"});
  if (patient.process.locked_bytes_most < kLockedLeast)
    findings.push_back({.id = "rdma.locked",
                        .severity = Severity::kWarning,
                        .seen = "processes may lock little memory, so buffers cannot be registered",
                        .evidence = fmt::format("RLIMIT_MEMLOCK: {}",
                                                format_size(patient.process.locked_bytes_most)),
                        .fix = "ulimit -l unlimited, or --ulimit memlock=-1 for a container"});
}

}  // namespace banyan
