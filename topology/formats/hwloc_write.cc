// A node as hwloc's XML, version 2.0: what `lstopo --of xml` writes.
//
//   <topology version="2.0">
//     <object type="Machine" gp_index os_index cpuset complete_cpuset allowed_cpuset nodeset ...>
//       <object type="Package|Group|L3Cache|Core|PU" gp_index os_index cpuset nodeset ...>
//         <object type="NUMANode" gp_index os_index cpuset nodeset ... local_memory/>
//         <object type="Bridge" gp_index bridge_type="0-1|1-1" depth bridge_pci pci_busid ...>
//           <object type="PCIDev" gp_index pci_busid pci_type pci_link_speed>     GB/s
//             <object type="OSDev" gp_index name osdev_type/>
//     <distances2[hetero] nbobjs kind name> <indexes length/> <u64values length/>
//
// The set of a NUMA domain is that of the object that it is in, so that one with no equal gets a
// Group.
// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "src/base/parse.h"
#include "topology/describe.h"
#include "topology/formats/export.h"
#include "topology/formats/hwloc_parts.h"
#include "topology/formats/hwloc_text.h"
#include "topology/one_node.h"
#include "topology/pci.h"

namespace banyan {

namespace {

constexpr std::string_view kForm = "hwloc's XML";

CpuSet set_of(int number) {
  CpuSet set;
  set.add(number);
  return set;
}

// As the kernel numbers the states of ports; 0 stands for what nobody says.
int number_of_state(std::string_view state) {
  constexpr std::array<std::string_view, 6> kStates = {"NOP",   "DOWN",   "INIT",
                                                       "ARMED", "ACTIVE", "ACTIVE_DEFER"};
  if (state == "up") return 4;
  if (state == "down") return 1;
  const auto* const found = std::find(kStates.begin(), kStates.end(), state);
  return found == kStates.end() ? 0 : static_cast<int>(found - kStates.begin());
}

// MB/s, in which hwloc's matrices of bandwidths are; 0: not known.
uint64_t megabytes(const Figure& figure) {
  constexpr double kMost = 1e9;
  return figure.known() && *figure.value < kMost
             ? static_cast<uint64_t>(std::llround(*figure.value * 1000))
             : 0;
}

using Matrix = std::vector<std::vector<uint64_t>>;

class HwlocWriter {
 public:
  HwlocWriter(const Topology& topology, OneNode one, HwlocParts parts)
      : topology_(topology), one_(std::move(one)), parts_(std::move(parts)) {}

  std::string write() {
    for (const auto& [numa, devices] : devices_by_numa(topology_, one_))
      for (const int device : devices) io_[numa < 0 ? 0 : parts_.home.at(numa)].push_back(device);
    write_part(0, {}, false);
    write_latencies();
    write_interconnect();
    write_gpu_links(LinkKind::kNvlink, "NVLinkBandwidth");
    write_gpu_links(LinkKind::kXgmi, "XGMIBandwidth");
    return out_.finish();
  }

 private:
  const Vertex& at(int vertex) const { return topology_.vertices[static_cast<size_t>(vertex)]; }
  const std::string& bus_id(int vertex) const { return one_.bus_ids[static_cast<size_t>(vertex)]; }
  const std::vector<int>& children(int vertex) const {
    return one_.children[static_cast<size_t>(vertex)];
  }
  const Link* up(int vertex) const {
    const int link = one_.up[static_cast<size_t>(vertex)];
    return link < 0 ? nullptr : &topology_.links[static_cast<size_t>(link)];
  }

  // ---- processors

  CpuSet own_nodes(size_t part) const {
    CpuSet nodes;
    for (const int numa : parts_.all[part].numas) nodes.add(at(numa).index);
    // hwloc has no machine without memory.
    if (part == 0 && one_.numas.empty()) nodes.add(0);
    return nodes;
  }

  CpuSet nodes_in(size_t part) const {
    CpuSet nodes = own_nodes(part);
    for (const size_t inner : parts_.all[part].parts) nodes |= nodes_in(inner);
    return nodes;
  }

  void write_sets(const CpuSet& cpus, const CpuSet& nodes) {
    for (const char* name : {"cpuset", "complete_cpuset"}) out_.attribute(name, hwloc_bitmap(cpus));
    for (const char* name : {"nodeset", "complete_nodeset"})
      out_.attribute(name, hwloc_bitmap(nodes));
  }

  void begin_part(const HwlocPart& part, const CpuSet& nodes) {
    const Vertex& vertex = at(part.vertex);
    const VertexKind kind = vertex.kind;
    out_.begin(kind == VertexKind::kNode      ? "Machine"
               : kind == VertexKind::kPackage ? "Package"
               : kind == VertexKind::kCache   ? "L3Cache"
                                              : "Group");
    if (kind == VertexKind::kNode) out_.attribute("os_index", "0");
    if (kind == VertexKind::kPackage && vertex.index >= 0)
      out_.attribute("os_index", static_cast<uint64_t>(vertex.index));
    write_sets(part.cpus, nodes);
    if (kind == VertexKind::kNode) {
      out_.attribute("allowed_cpuset", hwloc_bitmap(part.cpus));
      out_.attribute("allowed_nodeset", hwloc_bitmap(nodes));
    }
    if (kind == VertexKind::kCache) {
      out_.attribute("cache_size", vertex.memory);
      out_.attribute("depth", "3");
      out_.attribute("cache_type", "0");
    }
    if (kind == VertexKind::kNuma) {  // 1001: made for a NUMA domain
      out_.attribute("kind", "1001");
      out_.attribute("subkind", "0");
    }
    out_.open();
  }

  // `single`: each processor here is a core of its own.
  void write_part(size_t index, CpuSet nodes_above, bool single) {
    const HwlocPart& part = parts_.all[index];
    const Vertex& vertex = at(part.vertex);
    CpuSet nodes = nodes_in(index);
    nodes |= nodes_above;
    nodes_above |= own_nodes(index);
    single = single || (vertex.cores > 0 && vertex.cores == vertex.cpus.count());
    begin_part(part, nodes);
    write_facts(part.vertex);
    for (const int numa : part.numas) write_numa(numa, part.cpus);
    if (index == 0 && one_.numas.empty()) write_numa(-1, part.cpus);
    write_within(part, nodes_above, single);
    if (const auto devices = io_.find(index); devices != io_.end()) write_io(devices->second);
    out_.close();
  }

  void begin_core(const CpuSet& cpus, const CpuSet& nodes) {
    out_.begin("Core");
    write_sets(cpus, nodes);
    out_.open();
  }

  void write_pu(int cpu, const CpuSet& nodes) {
    out_.begin("PU");
    out_.attribute("os_index", static_cast<uint64_t>(cpu));
    write_sets(set_of(cpu), nodes);
    out_.end();
  }

  // Parts, and the processors that are in none of them, by their numbers. Which processors are
  // a core together is known where each is one, or all are.
  void write_within(const HwlocPart& part, const CpuSet& nodes, bool single) {
    std::map<int, size_t> inner;  // by its first processor
    CpuSet covered;
    for (const size_t each : part.parts) {
      inner[parts_.all[each].cpus.numbers().front()] = each;
      covered |= parts_.all[each].cpus;
    }
    const Vertex& vertex = at(part.vertex);
    const bool one_core =
        covered.empty() && vertex.cores == 1 && vertex.cpus == part.cpus && !single;
    if (one_core) begin_core(part.cpus, nodes);
    for (const int cpu : part.cpus.numbers()) {
      if (const auto starts = inner.find(cpu); starts != inner.end())
        write_part(starts->second, nodes, single);
      if (covered.has(cpu)) continue;
      if (single) begin_core(set_of(cpu), nodes);
      write_pu(cpu, nodes);
      if (single) out_.close();
    }
    if (one_core) out_.close();
  }

  // -1: one that stands for memory that nobody describes.
  void write_numa(int numa, const CpuSet& cpus) {
    const int number = numa < 0 ? 0 : at(numa).index;
    out_.begin("NUMANode");
    out_.attribute("os_index", static_cast<uint64_t>(number));
    write_sets(cpus, set_of(number));
    out_.attribute("local_memory", numa < 0 ? uint64_t{0} : at(numa).memory);
    out_.open();
    for (const Link& link : topology_.links) {
      const bool ours = numa >= 0 && (link.from == numa || link.to == numa);
      if (ours && (link.kind == LinkKind::kMemory || link.kind == LinkKind::kCpuInterconnect))
        write_link(link, numa);
    }
    out_.close();
  }

  void write_facts(int vertex) {
    const Vertex& each = at(vertex);
    if (each.kind == VertexKind::kNode) {
      out_.info("HostName", each.name);
      out_.info("DMISysVendor", each.vendor);
      out_.info("DMIProductName", each.model);
      for (const Link& link : topology_.links)
        if (link.kind == LinkKind::kShm && link.from == vertex) write_link(link, vertex);
    }
    if (each.kind == VertexKind::kPackage) {
      out_.info("CPUVendor", each.vendor);
      out_.info("CPUModel", each.model);
    }
  }

  // ---- devices

  // One host bridge for each PCI domain; interfaces that are on no PCI device beside them.
  void write_io(const std::vector<int>& devices) {
    std::map<std::string, std::vector<int>> domains;
    for (const int device : devices) {
      if (is_bare(topology_, one_, device)) {
        write_nic(device);
      } else {
        domains[bus_id(device).substr(0, 4)].push_back(device);
      }
    }
    for (const auto& [domain, inner] : domains) {
      out_.begin("Bridge");
      out_.attribute("bridge_type", "0-1");
      out_.attribute("depth", "0");
      out_.attribute("bridge_pci", buses_of(domain, inner));
      out_.open();
      for (const int device : inner) write_pci(device, 1);
      out_.close();
    }
  }

  // "0000:[0c-2f]": the buses of that domain that the devices and what is in them are on.
  std::string buses_of(const std::string& domain, const std::vector<int>& devices) const {
    int least = 255;
    int most = 0;
    std::vector<int> open = devices;
    while (!open.empty()) {
      const std::string& id = bus_id(open.back());
      const std::vector<int>& within = children(open.back());
      open.pop_back();
      open.insert(open.end(), within.begin(), within.end());
      if (!id.starts_with(domain)) continue;
      int bus = 0;
      std::from_chars(id.data() + 5, id.data() + 7, bus, 16);
      least = std::min(least, bus);
      most = std::max(most, bus);
    }
    return fmt::format("{}:[{:02x}-{:02x}]", domain, std::min(least, most), most);
  }

  void write_speed(int device) {
    constexpr double kMost = 1e6;
    const Link* link = up(device);
    if (link != nullptr && link->bandwidth.known() && *link->bandwidth.value < kMost)
      out_.attribute("pci_link_speed", fmt::format("{:.6f}", *link->bandwidth.value));
  }

  void begin_bridge(int pci_switch, const std::string& id, int depth) {
    out_.begin("Bridge");
    out_.attribute("bridge_type", "1-1");
    out_.attribute("depth", static_cast<uint64_t>(depth));
    out_.attribute("bridge_pci", buses_of(bus_id(pci_switch).substr(0, 4), {pci_switch}));
    out_.attribute("pci_busid", id);
    out_.attribute("pci_type", fmt::format("0604 [{:04x}:0000] [0000:0000] 00",
                                           pci_vendor_number(at(pci_switch).vendor)));
    write_speed(pci_switch);
    out_.open();
  }

  // A switch is two bridges: its own upstream port, below the root port or the downstream port of
  // another switch, which has no vertex here and so an invented bus id.
  void write_pci(int device, int depth) {
    if (at(device).kind != VertexKind::kPciSwitch) {
      write_device(device);
      return;
    }
    begin_bridge(device, invent_bus_id(one_), depth);
    begin_bridge(device, bus_id(device), depth + 1);
    if (const Link* link = up(device); link != nullptr) write_link(*link, device);
    for (const int child : children(device)) write_pci(child, depth + 2);
    out_.close();
    out_.close();
  }

  std::string_view class_of(int device) const {
    const Vertex& vertex = at(device);
    if (vertex.kind == VertexKind::kNvSwitch) return "0680";
    if (vertex.kind == VertexKind::kGpu) return vertex.vendor == "AMD" ? "1200" : "0302";
    for (const int port : children(device))
      if (at(port).link_layer == "InfiniBand") return "0207";
    return "0200";
  }

  void write_device(int device) {
    const Vertex& vertex = at(device);
    const bool nvswitch = vertex.kind == VertexKind::kNvSwitch;
    const int number = out_.begin("PCIDev");
    if (nvswitch) {
      objects_[device] = fmt::format("PCIDev:{}", number);
      out_.attribute("subtype", "NVSwitch");
    }
    out_.attribute("pci_busid", bus_id(device));
    out_.attribute("pci_type", fmt::format("{} [{:04x}:0000] [0000:0000] 00", class_of(device),
                                           pci_vendor_number(nvswitch ? "NVIDIA" : vertex.vendor)));
    write_speed(device);
    out_.open();
    if (const Link* link = up(device); link != nullptr) write_link(*link, device);
    for (const Link& link : topology_.links)
      if (link.from == device && at(device).parent != link.to) write_link(link, device);
    if (vertex.kind == VertexKind::kGpu) write_gpu(device);
    if (vertex.kind == VertexKind::kNic) write_nic(device);
    out_.close();
  }

  int begin_os_device(const std::string& name, const char* type) {
    const int number = out_.begin("OSDev");
    out_.attribute("name", name);
    out_.attribute("osdev_type", type);
    out_.open();
    return number;
  }

  void write_gpu(int gpu) {
    const Vertex& vertex = at(gpu);
    const bool amd = vertex.vendor == "AMD";
    const std::string name =
        vertex.index < 0 ? vertex.name : fmt::format("{}{}", amd ? "rsmi" : "nvml", vertex.index);
    objects_[gpu] = fmt::format("OSDev:{}", begin_os_device(name, "1"));
    if (vertex.index >= 0) out_.info("Backend", amd ? "RSMI" : "NVML");
    out_.info("GPUVendor", vertex.vendor);
    out_.info("GPUModel", vertex.model);
    out_.info(amd ? "AMDUUID" : "NVIDIAUUID", vertex.guid);
    if (vertex.memory >= 1024)  // KiB
      out_.info(amd ? "RSMIVRAMSize" : "CUDAGlobalMemorySize",
                fmt::format("{}", vertex.memory / 1024));
    out_.close();
  }

  // An adapter for RDMA, or one whose ports are interfaces and nothing else.
  void write_nic(int nic) {
    bool rdma = !at(nic).guid.empty() || children(nic).empty();
    for (const int port : children(nic))
      rdma = rdma || at(port).interface.empty() || at(port).link_layer == "InfiniBand";
    if (!rdma) {
      for (const int port : children(nic)) {
        begin_os_device(at(port).interface, "2");
        out_.info("BanyanRate", text_of(at(port).rate, "GB/s"));
        out_.close();
      }
      return;
    }
    begin_os_device(at(nic).name, "3");
    out_.info("NodeGUID", at(nic).guid);
    for (const int port : children(nic)) {
      const std::string name = fmt::format("Port{}", at(port).index);
      out_.info(name + "State", fmt::format("{}", number_of_state(at(port).state)));
      if (at(port).gids.empty()) out_.info(name + "GID0", at(port).guid);
      for (const Gid& gid : at(port).gids)
        out_.info(fmt::format("{}GID{}", name, gid.index), gid.gid);
      out_.info("BanyanRate", fmt::format("{}: {}", name, text_of(at(port).rate, "GB/s")));
    }
    out_.close();
  }

  // "pcie x16 16 GT/s, 31.5 GB/s [hardware]"; of a link beside the tree also where it leads.
  void write_link(const Link& link, int of) {
    const int peer = link.from == of ? link.to : link.from;
    const bool here = peer == of || at(of).parent == peer;
    out_.info("BanyanLink",
              here ? text_of(link) : fmt::format("to {}: {}", at(peer).name, text_of(link)));
  }

  // ---- matrices

  std::vector<std::string> numbers_of_numas() const {
    std::vector<std::string> numbers;
    for (const int numa : one_.numas) numbers.push_back(fmt::format("{}", at(numa).index));
    return numbers;
  }

  // What `value` says of each link between NUMA domains; 0 where there is none.
  template <typename Value>
  Matrix between_numas(uint64_t same, const Value& value) const {
    std::map<int, size_t> places;
    for (size_t i = 0; i < one_.numas.size(); ++i) places[one_.numas[i]] = i;
    Matrix matrix(places.size(), std::vector<uint64_t>(places.size(), 0));
    for (size_t i = 0; i < matrix.size(); ++i) matrix[i][i] = same;
    for (const Link& link : topology_.links) {
      if (link.kind != LinkKind::kCpuInterconnect) continue;
      const size_t from = places.at(link.from);
      const size_t to = places.at(link.to);
      matrix[from][to] = matrix[to][from] = value(link);
    }
    return matrix;
  }

  // The firmware's "distance 21", where it says that of all.
  void write_latencies() {
    constexpr std::string_view kPrefix = "distance ";
    const Matrix matrix = between_numas(10, [&](const Link& link) {
      if (!link.text.starts_with(kPrefix)) return uint64_t{0};
      const auto number = parse_integer(link.text.substr(kPrefix.size()), 1, 1'000'000);
      return number.ok() ? static_cast<uint64_t>(*number) : uint64_t{0};
    });
    bool all = matrix.size() > 1;
    for (const auto& row : matrix)
      for (const uint64_t value : row) all = all && value != 0;
    if (all)  // 5: from the system, latencies
      out_.matrix("distances2", "NUMALatency", "type=\"NUMANode\" kind=\"5\" indexing=\"os\"",
                  numbers_of_numas(), matrix);
  }

  // hwloc has no matrix of these; a program may add its own (10: a user's, bandwidths).
  void write_interconnect() {
    const Matrix matrix =
        between_numas(0, [](const Link& link) { return megabytes(link.bandwidth); });
    bool any = false;
    for (const auto& row : matrix)
      for (const uint64_t value : row) any = any || value != 0;
    if (any)
      out_.matrix("distances2", "BanyanNUMABandwidth",
                  "type=\"NUMANode\" kind=\"10\" indexing=\"os\"", numbers_of_numas(), matrix);
  }

  // Of GPUs and NVSwitches that are joined (25: from the system, bandwidths, of several types).
  void write_gpu_links(LinkKind kind, std::string_view name) {
    std::map<std::pair<int, int>, uint64_t> sums;
    std::set<int> joined;
    for (const Link& link : topology_.links) {
      if (link.kind != kind || objects_.count(link.from) == 0 || objects_.count(link.to) == 0)
        continue;
      sums[std::minmax(link.from, link.to)] += megabytes(link.bandwidth);
      joined.insert({link.from, link.to});
    }
    if (joined.empty()) return;
    std::vector<std::string> objects;
    Matrix matrix;
    for (const int from : joined) {
      objects.push_back(objects_.at(from));
      auto& row = matrix.emplace_back();
      for (const int to : joined) {
        const auto sum = sums.find(std::minmax(from, to));
        row.push_back(sum == sums.end() ? 0 : sum->second);
      }
    }
    out_.matrix("distances2hetero", name, "kind=\"25\"", objects, matrix);
  }

  const Topology& topology_;
  OneNode one_;
  const HwlocParts parts_;
  std::map<size_t, std::vector<int>> io_;  // what is at each part
  std::map<int, std::string> objects_;     // what matrices call GPUs and NVSwitches
  HwlocText out_;
};

}  // namespace

Result<std::string> to_hwloc_xml(const Topology& topology) {
  auto one = one_node(topology, kForm);
  if (!one.ok()) return one.status();
  for (const std::string& id : one->bus_ids)
    if (!id.empty() && id.find(':') > 4)
      return Status(
          Code::kInvalidArgument,
          fmt::format("{} has PCI domains up to ffff, and this topology the bus id {}", kForm, id));
  auto parts = nest_parts(topology, *one, kForm);
  if (!parts.ok()) return parts.status();
  return HwlocWriter(topology, *std::move(one), *std::move(parts)).write();
}

}  // namespace banyan
