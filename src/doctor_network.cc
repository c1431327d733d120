// Adapters, their ports and what they are plugged into.
// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>

#include "src/base/parse.h"
#include "src/doctor.h"

namespace banyan {

namespace {

constexpr std::string_view kRdma = "/sys/class/infiniband";
constexpr std::string_view kVerbs = "/sys/class/infiniband_verbs";
constexpr uint64_t kLockedLeast = uint64_t{64} << 20;

bool is_up(const Vertex& port) {
  return port.state == "ACTIVE" || port.state == "up" || port.state == "unknown";
}

const Vertex& parent_of(const Topology& topology, const Vertex& vertex) {
  return topology.vertices[static_cast<size_t>(vertex.parent)];
}

// "x16 of 16": a link that trained to less than both ends can do. Of idle GPUs and ports without a
// cable a low speed means nothing.
void examine_slot(const Patient& patient, const Vertex& device, bool busy,
                  std::vector<Finding>& findings) {
  const std::string folder = "/sys/bus/pci/devices/" + device.bus_id;
  const auto differ = [&](std::string_view what, std::string_view now, std::string_view most) {
    findings.push_back(
        {.id = fmt::format("pci.{}", what),
         .severity = Severity::kWarning,
         .subject = device.name,
         .seen = fmt::format("its PCI link runs at {} {}, and could at {}", what, now, most),
         .evidence = fmt::format("{}/current_link_{}: {}", folder, what, now),
         .fix = "look at the slot, the riser and the firmware's settings"});
  };
  const auto word = [&](std::string_view file) {
    return patient.root.line(fmt::format("{}/{}", folder, file));
  };
  const auto lanes = parse_integer(word("current_link_width"), 1, 32);
  const auto most = parse_integer(word("max_link_width"), 1, 32);
  if (lanes.ok() && most.ok() && *lanes < *most)
    differ("width", fmt::format("x{}", *lanes), fmt::format("x{}", *most));
  const std::string speed = word("current_link_speed"), fastest = word("max_link_speed");
  double now = 0, could = 0;
  if (busy && std::sscanf(speed.c_str(), "%lf GT/s", &now) == 1 &&
      std::sscanf(fastest.c_str(), "%lf GT/s", &could) == 1 && now < could)
    differ("speed", speed, fastest);
}

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
    examine_slot(patient, device, busy, findings);
    if (numas > 1 && ancestor(topology, static_cast<int>(i), VertexKind::kNuma) < 0)
      findings.push_back(
          {.id = "pci.numa",
           .subject = device.name,
           .seen = "nobody says which NUMA domain it is at; it counts as far from all",
           .evidence = fmt::format("/sys/bus/pci/devices/{}/numa_node: {}", device.bus_id,
                                   patient.root.line(fmt::format(
                                       "/sys/bus/pci/devices/{}/numa_node", device.bus_id)))});
  }
}

// One of several alike that is slower than the others holds up all of a collective.
void examine_rates(const Topology& topology, std::vector<Finding>& findings) {
  std::map<std::string, std::vector<const Vertex*>> by_model;
  for (const Vertex& port : topology.vertices)
    if (port.kind == VertexKind::kPort && is_up(port) && port.rate.known())
      if (const Vertex& nic = parent_of(topology, port); !nic.model.empty())
        by_model[nic.model].push_back(&port);
  for (const auto& [model, ports] : by_model) {
    const auto fastest = *std::max_element(
        ports.begin(), ports.end(),
        [](const Vertex* a, const Vertex* b) { return *a->rate.value < *b->rate.value; });
    for (const Vertex* port : ports)
      if (*port->rate.value < *fastest->rate.value)
        findings.push_back(
            {.id = "port.rate",
             .severity = Severity::kWarning,
             .subject = port->name,
             .seen = fmt::format("it carries {:g} GB/s, {} of the same model {:g}",
                                 *port->rate.value, fastest->name, *fastest->rate.value),
             .evidence = fmt::format("model {}", model),
             .fix = "look at its cable and the port of the switch"});
  }
}

void examine_port(const Vertex& port, std::vector<Finding>& findings) {
  const bool rdma = port.interface.empty() || port.state == "ACTIVE" || port.state == "INIT" ||
                    port.state == "ARMED" || port.state == "DOWN";
  if (rdma && (port.state == "INIT" || port.state == "ARMED")) {
    findings.push_back({.id = "port.subnet",
                        .severity = Severity::kWarning,
                        .subject = port.name,
                        .seen = "it has a cable, and no subnet manager has made it active",
                        .evidence = fmt::format("{}: its state is {}", port.name, port.state),
                        .fix = "start a subnet manager (opensm), or ask who runs the fabric"});
  } else if (!is_up(port)) {
    findings.push_back({.id = "port.down",
                        .subject = port.name,
                        .seen = fmt::format("it is {}", port.state.empty() ? "not up" : port.state),
                        .evidence = fmt::format("{}: its state is {}", port.name, port.state),
                        .fix = "plug in its cable, or ip link set up"});
  } else if (!port.rate.known()) {
    findings.push_back({.id = "port.speed",
                        .subject = port.name,
                        .seen = "nobody says how fast it is; --explain assumes 10 Gb/s",
                        .evidence = "sysfs and the driver (ethtool) say nothing",
                        .fix = "banyan_tune measures it"});
  }
}

// "0000:0000:0000:0000:0000:0000:0000:0000", and without an interface "fe80::".
bool is_zero(std::string_view address) {
  return address.find_first_not_of("0:") == std::string_view::npos;
}

std::string verbs_of(const SysRoot& root, const std::string& device) {
  for (const std::string& name : root.list(kVerbs))
    if (root.line(fmt::format("{}/{}/ibdev", kVerbs, name)) == device) return name;
  return {};
}

std::optional<Finding> port_obstacle(const SysRoot& root, const std::string& device) {
  std::string states;
  bool active = false;
  const std::string folder = fmt::format("{}/{}/ports", kRdma, device);
  for (const std::string& port : root.list(folder)) {
    const std::string state = root.line(fmt::format("{}/{}/state", folder, port));
    states += fmt::format("{}{}: {}", states.empty() ? "" : ", ", port, state);
    if (!state.ends_with("ACTIVE")) continue;
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

}  // namespace

std::optional<Finding> rdma_obstacle(const SysRoot& root, const std::string& device) {
  const std::string verbs = verbs_of(root, device);
  const std::string file = "/dev/infiniband/" + verbs;
  if (verbs.empty() || !root.exists(file))
    return Finding{.id = "rdma.device",
                   .severity = Severity::kWarning,
                   .subject = device,
                   .seen = "programs cannot open it",
                   .evidence = verbs.empty() ? fmt::format("{}/*/ibdev: none is {}", kVerbs, device)
                                             : fmt::format("{}: not there", file),
                   .fix = verbs.empty() ? "modprobe ib_uverbs"
                                        : fmt::format("give the container --device {}", file)};
  return port_obstacle(root, device);
}

void examine_network(const Patient& patient, std::vector<Finding>& findings) {
  bool up = false;
  for (const Vertex& vertex : patient.topology.vertices) {
    if (vertex.kind != VertexKind::kPort) continue;
    examine_port(vertex, findings);
    up = up || is_up(vertex);
  }
  if (!up)
    findings.push_back({.id = "network.none",
                        .seen = "no interface leads out of this host; ranks of other hosts cannot "
                                "be reached",
                        .evidence = "/sys/class/net, /sys/class/infiniband: no port is up"});
  const std::string* chosen = patient.raw.find("BANYAN_SOCKET_IFNAME");
  if (chosen != nullptr && !chosen->empty()) {
    const std::string file = fmt::format("/sys/class/net/{}/operstate", *chosen);
    if (const std::string state = patient.root.line(file); state == "down")
      findings.push_back({.id = "network.chosen",
                          .severity = Severity::kWarning,
                          .subject = "BANYAN_SOCKET_IFNAME",
                          .seen = fmt::format("{} is down, and ranks are to meet by it", *chosen),
                          .evidence = fmt::format("{}: {}", file, state),
                          .fix = fmt::format("ip link set {} up, or name another", *chosen)});
  }
  examine_rates(patient.topology, findings);
  examine_slots(patient, findings);
}

void examine_rdma(const Patient& patient, std::vector<Finding>& findings) {
  const auto devices = patient.root.list(kRdma);
  if (devices.empty()) return;
  for (const std::string& device : devices)
    if (auto obstacle = rdma_obstacle(patient.root, device))
      findings.push_back(std::move(*obstacle));
  if (!patient.process.no_verbs.empty())
    findings.push_back({.id = "rdma.library",
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
