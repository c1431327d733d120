// SPDX-License-Identifier: Apache-2.0

#include "topology/pci.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <utility>

#include "src/base/parse.h"
#include "topology/processors.h"

namespace banyan {

namespace {

constexpr std::array<std::pair<uint32_t, std::string_view>, 7> kVendors = {{{0x10de, "NVIDIA"},
                                                                            {0x1002, "AMD"},
                                                                            {0x8086, "Intel"},
                                                                            {0x15b3, "Mellanox"},
                                                                            {0x14e4, "Broadcom"},
                                                                            {0x1d0f, "Amazon"},
                                                                            {0x17db, "Cray"}}};

// GT/s of "16.0 GT/s PCIe"; 0: not known.
double transfers(std::string_view speed) {
  double value = 0;
  const std::string_view text = trim(speed);
  const auto [stopped, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view unit = trim(text.substr(static_cast<size_t>(stopped - text.data())));
  return error == std::errc() && unit.starts_with("GT/s") && value > 0 && value < 1000 ? value : 0;
}

bool plausible(int lanes) {
  return lanes > 0 && lanes <= 32;  // 63 and 255 are what drivers say when they do not know
}

class Adder {
 public:
  Adder(Topology& topology, int node, const std::vector<PciFunction>& functions)
      : topology_(topology), node_(node) {
    for (const PciFunction& function : functions) by_id_.emplace(function.bus_id, &function);
  }

  void add_all() {
    int gpus = 0;
    int nvswitches = 0;
    for (const auto& [bus_id, function] : by_id_) {
      switch (function->use) {
        case PciUse::kOther:
        case PciUse::kBridge: break;
        case PciUse::kGpu: add(*function, VertexKind::kGpu, fmt::format("gpu{}", gpus++)); break;
        case PciUse::kNic: add(*function, VertexKind::kNic, "nic-" + bus_id); break;
        case PciUse::kNvSwitch:
          add(*function, VertexKind::kNvSwitch, fmt::format("nvswitch{}", nvswitches++));
          break;
      }
    }
  }

 private:
  // Gives the bridges above, the root port first. Who lies about parents may go in a circle: no
  // more than PCI's 256 buses.
  std::vector<const PciFunction*> bridges_of(const PciFunction& function) const {
    std::vector<const PciFunction*> chain;
    for (auto at = by_id_.find(function.parent); at != by_id_.end() && chain.size() < 256;
         at = by_id_.find(at->second->parent))
      chain.push_back(at->second);
    std::reverse(chain.begin(), chain.end());
    return chain;
  }

  static Figure narrower(const Figure& device, const Figure& above) {
    if (!above.known()) return device;  // many bridges do not say
    return device.known() ? least(device, above) : above;
  }

  int add_below(const PciFunction& function, const PciFunction* above, VertexKind kind,
                std::string name, int parent) {
    const int vertex = add_vertex(topology_, {.kind = kind,
                                              .name = std::move(name),
                                              .parent = parent,
                                              .bus_id = function.bus_id,
                                              .vendor = pci_vendor_name(function.vendor),
                                              .model = function.model});
    const Figure edge = narrower(function.edge, above == nullptr ? Figure() : above->edge);
    if (edge.known() || !function.text.empty()) {
      const bool by_above = above != nullptr && above->edge.known() && edge != function.edge;
      topology_.edges.push_back({.from = vertex,
                                 .to = parent,
                                 .kind = EdgeKind::kPcie,
                                 .bandwidth = edge,
                                 .text = by_above ? above->text : function.text});
    }
    return vertex;
  }

  // The switch that the device is in, made where it is the first there.
  int switch_above(const std::vector<const PciFunction*>& chain, int numa) {
    int parent = numa;
    for (size_t i = 1; i < chain.size(); i += 2) {
      const auto known = switches_.find(chain[i]->bus_id);
      parent = known != switches_.end() ? known->second
                                        : add_below(*chain[i], chain[i - 1], VertexKind::kPciSwitch,
                                                    "pci-" + chain[i]->bus_id, parent);
      switches_.emplace(chain[i]->bus_id, parent);
    }
    return parent;
  }

  void add(const PciFunction& function, VertexKind kind, const std::string& name) {
    const std::vector<const PciFunction*> chain = bridges_of(function);
    int numa = function.numa;
    for (const PciFunction* bridge : chain) numa = numa < 0 ? bridge->numa : numa;
    const int parent = switch_above(chain, numa_vertex(topology_, node_, numa));
    const PciFunction* above = chain.size() % 2 == 1 ? chain.back() : nullptr;
    add_below(function, above, kind, function.name.empty() ? name : function.name, parent);
  }

  Topology& topology_;
  const int node_;
  std::map<std::string, const PciFunction*> by_id_;
  std::map<std::string, int> switches_;
};

}  // namespace

PciUse pci_use(uint32_t class_code, uint32_t vendor) {
  // Screens of management controllers, of hypervisors, and of processors for people.
  constexpr std::array<uint32_t, 8> kScreens = {0x1a03, 0x102b, 0x1013, 0x1234,
                                                0x1af4, 0x15ad, 0x1414, 0x1d0f};
  switch (class_code >> 8) {
    case 0x0604: return PciUse::kBridge;
    case 0x0300:
      return std::find(kScreens.begin(), kScreens.end(), vendor) == kScreens.end() ? PciUse::kGpu
                                                                                   : PciUse::kOther;
    case 0x0302:
    case 0x1200: return PciUse::kGpu;
    case 0x0380: return vendor == 0x1002 || vendor == 0x8086 ? PciUse::kGpu : PciUse::kOther;
    case 0x0200:
    case 0x0207: return PciUse::kNic;
    case 0x0680: return vendor == 0x10de ? PciUse::kNvSwitch : PciUse::kOther;
    default: return PciUse::kOther;  // numbers, of which the standard has many
  }
}

std::string pci_vendor_name(uint32_t vendor) {
  for (const auto& [number, name] : kVendors)
    if (number == vendor) return std::string(name);
  return vendor == 0 ? std::string() : fmt::format("0x{:04x}", vendor);
}

uint32_t pci_vendor_number(std::string_view name) {
  for (const auto& [number, known] : kVendors)
    if (known == name) return number;
  uint32_t number = 0;
  if (!name.starts_with("0x") || name.size() > 6) return 0;
  const char* end = name.data() + name.size();
  const auto [stopped, error] = std::from_chars(name.data() + 2, end, number, 16);
  return error == std::errc() && stopped == end ? number : 0;
}

uint32_t hexadecimal(std::string_view text) {
  uint32_t value = 0;
  if (text.starts_with("0x")) text.remove_prefix(2);
  std::from_chars(text.data(), text.data() + text.size(), value, 16);
  return value;
}

std::string normal_bus_id(std::string_view text) {
  const std::string_view given = trim(text);
  const auto parts = split(given, ':');
  if (parts.size() < 2 || parts.size() > 3) return {};
  const size_t dot = parts.back().find('.');
  if (dot == std::string_view::npos) return {};
  const std::array<std::string_view, 4> digits = {
      parts.size() == 3 ? parts[0] : std::string_view("0"), parts[parts.size() - 2],
      parts.back().substr(0, dot), parts.back().substr(dot + 1)};
  std::array<uint32_t, 4> numbers{};
  for (size_t i = 0; i < digits.size(); ++i) {
    const char* end = digits[i].data() + digits[i].size();
    const auto [stopped, error] = std::from_chars(digits[i].data(), end, numbers[i], 16);
    if (error != std::errc() || stopped != end) return {};
  }
  if (numbers[1] > 0xff || numbers[2] > 0x1f || numbers[3] > 7) return {};
  return fmt::format("{:04x}:{:02x}:{:02x}.{:x}", numbers[0], numbers[1], numbers[2], numbers[3]);
}

Figure pcie_bandwidth(std::string_view speed, int lanes, Source source) {
  const double rate = transfers(speed);
  if (rate == 0 || !plausible(lanes)) return {std::nullopt, source};
  // 8b/10b up to 5 GT/s, 128b/130b up to 32, flits of 242 in 256 bytes beyond.
  const double coding = rate <= 5 ? 8.0 / 10 : rate <= 32 ? 128.0 / 130 : 242.0 / 256;
  return {rate * coding * lanes / 8, source};
}

std::string pcie_text(std::string_view speed, int lanes) {
  const double rate = transfers(speed);
  return rate == 0 || !plausible(lanes) ? std::string() : fmt::format("x{} {} GT/s", lanes, rate);
}

PcieLink pcie_link(std::string_view text, const Figure& bandwidth) {
  constexpr std::array<std::string_view, 6> kSpeeds = {"2.5 GT/s PCIe",  "5.0 GT/s PCIe",
                                                       "8.0 GT/s PCIe",  "16.0 GT/s PCIe",
                                                       "32.0 GT/s PCIe", "64.0 GT/s PCIe"};
  constexpr std::array<int, 6> kLanes = {32, 16, 8, 4, 2, 1};
  for (const std::string_view speed : kSpeeds)
    for (const int lanes : kLanes)
      if (pcie_text(speed, lanes) == text) return {std::string(speed), lanes};
  if (!(text.empty() || text == kCurrentLink) || !bandwidth.known()) return {};
  // Others round: hwloc to a float.
  constexpr double kAlike = 1e-3;
  for (const int lanes : {16, 8, 4, 2, 1})
    for (const std::string_view speed : kSpeeds) {
      const double exactly = *pcie_bandwidth(speed, lanes, bandwidth.source).value;
      if (std::abs(exactly - *bandwidth.value) < kAlike * exactly)
        return {std::string(speed), lanes};
    }
  return {};
}

Figure bandwidth_of(const Edge& edge) {
  Figure bandwidth = edge.bandwidth;
  bandwidth.doubtful =
      bandwidth.known() && edge.kind == EdgeKind::kPcie && edge.text == kCurrentLink;
  return bandwidth;
}

void add_pci(Topology& topology, int node, const std::vector<PciFunction>& functions) {
  Adder(topology, node, functions).add_all();
}

int find_bus_id(const Topology& topology, int node, std::string_view bus_id) {
  for (size_t i = 0; !bus_id.empty() && i < topology.vertices.size(); ++i)
    if (topology.vertices[i].bus_id == bus_id &&
        ancestor(topology, static_cast<int>(i), VertexKind::kNode) == node)
      return static_cast<int>(i);
  return -1;
}

}  // namespace banyan
