// SPDX-License-Identifier: Apache-2.0

#include "topology/discovery/network.h"

#include <fmt/core.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <limits>
#include <string>

#include "src/base/descriptor.h"
#include "src/base/parse.h"
#include "topology/pci.h"

namespace banyan {

namespace {

constexpr std::string_view kRdma = "/sys/class/infiniband";
constexpr std::string_view kNet = "/sys/class/net";
constexpr int64_t kMostMbit = 10'000'000;  // ten times the fastest port that is announced

// A text that is kept has at most so many characters. Names in sysfs are short, and JSON has room
// for three times that, which bytes that are no UTF-8 take.
constexpr size_t kMostOfLine = 80;

std::string last_of(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

// The PCI function that a device is, or is a part of: the last bus id in its path.
std::string bus_id_in(const std::string& path) {
  std::string found;
  for (const std::string_view part : split(path, '/'))
    if (std::string id = normal_bus_id(part); !id.empty()) found = id;
  return found;
}

int64_t number(const std::string& text, int64_t otherwise) {
  const auto parsed = parse_integer(text, 0, std::numeric_limits<int32_t>::max());
  return parsed.ok() ? *parsed : otherwise;
}

// What the driver says where sysfs does not: Mb/s, or -1.
int64_t ask_ethtool(const std::string& interface) {
  const Descriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket.valid() || interface.size() >= IFNAMSIZ) return -1;
  ethtool_cmd command{};
  command.cmd = ETHTOOL_GSET;
  ifreq request{};
  std::memcpy(request.ifr_name, interface.data(), interface.size());
  request.ifr_data = reinterpret_cast<char*>(&command);
  if (::ioctl(socket.get(), SIOCETHTOOL, &request) != 0) return -1;
  const uint32_t speed = ethtool_cmd_speed(&command);
  return speed == static_cast<uint32_t>(SPEED_UNKNOWN) ? -1 : static_cast<int64_t>(speed);
}

class Network {
 public:
  Network(Topology& topology, int node, const SysRoot& root)
      : topology_(topology), node_(node), root_(root) {}

  void add_rdma(const std::string& name) {
    const std::string folder = fmt::format("{}/{}", kRdma, name);
    const int nic = nic_at(bus_id_in(root_.resolve(folder + "/device")), name);
    at(nic).name = name;
    at(nic).driver = last_of(root_.resolve(folder + "/device/driver"));
    at(nic).guid = set_id(text_of(folder + "/node_guid"));
    if (at(nic).model.empty()) at(nic).model = text_of(folder + "/hca_type");
    for (const std::string& each : root_.list(folder + "/ports")) {
      const auto index = parse_integer(each, 1, 255);
      if (index.ok())
        add_rdma_port(nic, static_cast<int>(*index), fmt::format("{}/ports/{}", folder, each));
    }
  }

  void add_interface(const std::string& name) {
    constexpr std::string_view kEthernet = "1";
    constexpr std::string_view kInfiniband = "32";
    const std::string folder = fmt::format("{}/{}", kNet, name);
    const std::string type = root_.line(folder + "/type");
    if (type != kEthernet && type != kInfiniband) return;
    const std::string device = root_.resolve(folder + "/device");
    if (device.empty() && !leads_out(folder)) return;
    const std::string bus_id = bus_id_in(device);
    const int nic = nic_at(bus_id, name);
    const int index = static_cast<int>(number(root_.line(folder + "/dev_port"), 0)) + 1;
    if (const int port = port_of(nic, index); port >= 0 && at(port).interface.empty()) {
      at(port).interface = name;
      return;
    }
    if (at(nic).name == "nic-" + bus_id) at(nic).name = name;
    if (at(nic).driver.empty()) at(nic).driver = last_of(root_.resolve(folder + "/device/driver"));
    Vertex port{.kind = VertexKind::kPort,
                .name = fmt::format("{}:{}", name, index),
                .parent = nic,
                .index = index,
                .interface = name,
                .link_layer = type == kEthernet ? "Ethernet" : "InfiniBand",
                .state = text_of(folder + "/operstate"),
                .rate = {std::nullopt, Source::kHardware}};
    if (is_up(port)) port.rate = speed_of(name, folder);
    add_vertex(topology_, std::move(port));
  }

 private:
  void add_rdma_port(int nic, int index, const std::string& folder) {
    // "4: ACTIVE"
    const std::string state = text_of(folder + "/state");
    const size_t colon = state.find(':');
    Vertex port{.kind = VertexKind::kPort,
                .name = fmt::format("{}:{}", at(nic).name, index),
                .parent = nic,
                .index = index,
                .guid = set_id(text_of(folder + "/gids/0")),
                .link_layer = text_of(folder + "/link_layer"),
                .state = std::string(trim(
                    std::string_view(state).substr(colon == std::string::npos ? 0 : colon + 1))),
                .gids = gids_in(folder),
                .rate = {std::nullopt, Source::kHardware}};
    // What a port that is not connected reports is its slowest.
    if (is_up(port)) {
      const std::string rate = text_of(folder + "/rate");
      port.rate = rdma_rate(rate);
      port.width = rdma_width(rate);
    }
    add_vertex(topology_, std::move(port));
  }

  std::vector<Gid> gids_in(const std::string& port) const {
    std::vector<int> indices;
    for (const std::string& name : root_.list(port + "/gids"))
      if (const auto index = parse_integer(name, 0, 65535); index.ok())
        indices.push_back(static_cast<int>(*index));
    std::sort(indices.begin(), indices.end());
    indices.resize(std::min(indices.size(), kMostGids));
    std::vector<Gid> gids;
    for (const int index : indices) {
      std::string gid = set_id(text_of(fmt::format("{}/gids/{}", port, index)));
      if (gid.empty()) continue;
      const auto attribute = [&](std::string_view name) {
        return text_of(fmt::format("{}/gid_attrs/{}/{}", port, name, index));
      };
      gids.push_back({.index = index,
                      .gid = std::move(gid),
                      .type = attribute("types"),
                      .interface = attribute("ndevs")});
    }
    return gids;
  }

  std::string text_of(const std::string& file) const {
    return root_.line(file).substr(0, kMostOfLine);
  }

  Vertex& at(int vertex) { return topology_.vertices[static_cast<size_t>(vertex)]; }

  // The NIC of that function, or a new one.
  int nic_at(const std::string& bus_id, const std::string& name) {
    const int known = find_bus_id(topology_, node_, bus_id);
    if (known >= 0 && at(known).kind == VertexKind::kNic) return known;
    return add_vertex(topology_,
                      {.kind = VertexKind::kNic, .name = name, .parent = node_, .bus_id = bus_id});
  }

  int port_of(int nic, int index) const {
    for (size_t i = 0; i < topology_.vertices.size(); ++i) {
      const Vertex& vertex = topology_.vertices[i];
      if (vertex.kind == VertexKind::kPort && vertex.parent == nic && vertex.index == index)
        return static_cast<int>(i);
    }
    return -1;
  }

  // Tells whether the other end of an interface without a device is in another network namespace.
  bool leads_out(const std::string& folder) const {
    if (root_.line(folder + "/ifindex") == root_.line(folder + "/iflink")) return false;
    for (const std::string& entry : root_.list(folder))
      if (entry == "master" || entry == "bridge" || entry == "tun_flags" ||
          entry.starts_with("lower_"))
        return false;
    return true;
  }

  Figure speed_of(const std::string& name, const std::string& folder) const {
    const std::string text = root_.line(folder + "/speed");
    int64_t mbit = number(text, -1);
    if (mbit <= 0 && root_.real()) mbit = ask_ethtool(name);
    if (mbit <= 0 || mbit > kMostMbit) return {std::nullopt, Source::kHardware};
    return {static_cast<double>(mbit) / kMbitPerGbyte, Source::kHardware};
  }

  Topology& topology_;
  const int node_;
  const SysRoot& root_;
};

}  // namespace

Figure rdma_rate(std::string_view text) {
  double gbit = 0;
  const auto [stopped, error] = std::from_chars(text.data(), text.data() + text.size(), gbit);
  const std::string_view unit = trim(text.substr(static_cast<size_t>(stopped - text.data())));
  if (error != std::errc() || !unit.starts_with("Gb/sec") || !(gbit > 0 && gbit < 100000))
    return {std::nullopt, Source::kHardware};
  return {gbit / 8, Source::kHardware};
}

std::string rdma_width(std::string_view text) {
  const size_t open = text.find('(');
  const size_t close = text.find(')');
  if (open == std::string_view::npos || close == std::string_view::npos || close < open) return {};
  return std::string(trim(text.substr(open + 1, close - open - 1)));
}

void add_network(Topology& topology, int node, const SysRoot& root) {
  Network network(topology, node, root);
  for (const std::string& name : root.list(kRdma)) network.add_rdma(name);
  for (const std::string& name : root.list(kNet)) network.add_interface(name);
}

}  // namespace banyan
