// Reads NCCL's topology (NCCL_TOPO_FILE, NCCL_TOPO_DUMP_FILE) and RCCL's dialect of it.
//
//   <system version="1">
//     <cpu numaid="0" affinity="00000000,0000ffff" vendor="GenuineIntel" familyid="6" modelid="85">
//       <pci busid class link_speed link_width>            a switch, or a device with
//         <gpu dev sm rank> <nvlink target count tclass/> <xgmi .../> <c2c bw count/> </gpu>
//         <nic> <net name dev speed="200000" port guid/> </nic>     speed in Mb/s
//
// A file for a virtual machine may be a skeleton without <gpu> and <nic>, with invented bus ids:
// then the class says what a device is. Formats as in NCCL 2.30 (graph/xml.cc, graph/topo.cc).
// SPDX-License-Identifier: Apache-2.0

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "src/base/parse.h"
#include "topology/formats/import.h"
#include "topology/nvlink.h"
#include "topology/pci.h"
#include "topology/processors.h"

namespace banyan {

namespace {

std::string text_of(const XmlElement& element, std::string_view attribute) {
  const std::string* text = element.find(attribute);
  return text == nullptr ? std::string() : printable(std::string_view(*text).substr(0, 200));
}

// A whole number, or `otherwise` where there is no such attribute.
Status read_number(const XmlElement& element, std::string_view attribute, int64_t least,
                   int64_t most, int64_t* number) {
  const std::string* text = element.find(attribute);
  if (text == nullptr) return {};
  const auto parsed = parse_integer(*text, least, most);
  if (!parsed.ok())
    return wrong_element(
        element, fmt::format("{} of <{}>: {}", attribute, element.name, parsed.status().message()));
  *number = *parsed;
  return {};
}

Status read_version(const XmlElement& root) {
  int64_t version = -1;
  BANYAN_TRY(read_number(root, "version", 1, 2, &version));
  return version > 0 ? Status()
                     : wrong_element(
                           root, fmt::format("<{}> without a version; right is 1 or 2", root.name));
}

const XmlElement* child(const XmlElement& element, std::string_view name) {
  for (const XmlElement& each : element.children)
    if (each.name == name) return &each;
  return nullptr;
}

// RCCL's table by architecture (graph/topo.h).
Figure xgmi_of(std::string_view gcn) {
  if (gcn.starts_with("gfx94")) return {48, Source::kTable};
  if (gcn.starts_with("gfx90a")) return {36, Source::kTable};
  if (gcn.starts_with("gfx906") || gcn.starts_with("gfx908")) return {24, Source::kTable};
  return {std::nullopt, Source::kTable};
}

class System {
 public:
  explicit System(Notes& notes) : notes_(notes) {}

  Result<Topology> read(const XmlElement& root) {
    BANYAN_TRY(read_version(root));
    for (const XmlElement& cpu : root.children) {
      if (cpu.name != "cpu")
        return wrong_element(cpu, fmt::format("<{}> in <system>; right is <cpu>",
                                              printable(cpu.name.substr(0, 40))));
      BANYAN_TRY(read_cpu(cpu));
    }
    if (topology_.vertices.size() == 1) return wrong_element(root, "<system> without a <cpu>");
    join_processors();
    BANYAN_TRY(join_gpus());
    make_texts_valid(topology_);
    if (const Status status = check(topology_); !status.ok())
      return wrong_element(root, status.message());
    return canonical(topology_);
  }

 private:
  struct Cpu {
    int numa;
    int node;
    Figure interconnect;
  };
  struct Bundle {  // of a GPU to what it names
    int gpu;
    const XmlElement* element;
    Figure one;
  };

  Vertex& at(int vertex) { return topology_.vertices[static_cast<size_t>(vertex)]; }

  // The processors of one host have its hash; without one there is one host.
  int node_of(const std::string& host_hash) {
    const auto known = nodes_.find(host_hash);
    if (known != nodes_.end()) return known->second;
    const std::string name = nodes_.empty() ? "node" : fmt::format("node{}", nodes_.size() + 1);
    const int node = add_vertex(topology_, {.kind = VertexKind::kNode, .name = name, .parent = 0});
    nodes_.emplace(host_hash, node);
    return node;
  }

  Status read_cpu(const XmlElement& cpu) {
    int64_t numa = -1;
    int64_t family = -1;
    int64_t model = -1;
    constexpr int64_t kMost = std::numeric_limits<int>::max();
    BANYAN_TRY(read_number(cpu, "numaid", -1, kMostCpus, &numa));
    BANYAN_TRY(read_number(cpu, "familyid", -1, kMost, &family));
    BANYAN_TRY(read_number(cpu, "modelid", -1, kMost, &model));
    const std::string* affinity = cpu.find("affinity");
    const auto cpus = parse_cpu_mask(affinity == nullptr ? "" : *affinity);
    if (!cpus.ok())
      return wrong_element(cpu, fmt::format("affinity of <cpu>: {}", cpus.status().message()));
    const int node = node_of(text_of(cpu, "host_hash"));
    at(node).cpus |= *cpus;
    int place = node;
    if (numa >= 0) {
      place = add_vertex(topology_, {.kind = VertexKind::kNuma,
                                     .name = fmt::format("numa{}", numa),
                                     .parent = node,
                                     .cpus = *cpus,
                                     .index = static_cast<int>(numa)});
      cpus_.push_back({place, node,
                       interconnect_bandwidth(text_of(cpu, "vendor"), static_cast<int>(family),
                                              static_cast<int>(model))});
    }
    for (const XmlElement& each : cpu.children) {
      if (each.name == "pci") BANYAN_TRY(read_pci(each, place, node));
      // Interfaces that are on no PCI device, with a speed that NCCL may have made up.
      if (each.name == "nic") {
        BANYAN_TRY(read_nic(each,
                            add_vertex(topology_, {.kind = VertexKind::kNic,
                                                   .name = fmt::format("nic{}", nics_++),
                                                   .parent = place}),
                            Source::kAssumed, ""));
      }
    }
    return {};
  }

  Status read_pci(const XmlElement& pci, int parent, int node) {
    const std::string bus_id = normal_bus_id(text_of(pci, "busid"));
    if (bus_id.empty())
      return wrong_element(pci,
                           fmt::format("busid of <pci> is '{}'; right is one such as 0000:0c:00.0",
                                       text_of(pci, "busid")));
    int64_t lanes = 0;
    BANYAN_TRY(read_number(pci, "link_width", 0, 255, &lanes));
    const uint32_t vendor = hexadecimal(text_of(pci, "vendor"));
    const XmlElement* gpu = child(pci, "gpu");
    const XmlElement* nic = child(pci, "nic");
    const uint32_t class_code = hexadecimal(text_of(pci, "class"));
    PciUse use = pci_use(class_code, vendor);
    if (child(pci, "pci") != nullptr) use = PciUse::kBridge;
    if (gpu != nullptr) use = PciUse::kGpu;
    if (nic != nullptr) use = PciUse::kNic;
    if (use == PciUse::kOther) return {};
    Vertex vertex{.name = "pci-" + bus_id, .parent = parent, .bus_id = bus_id};
    vertex.vendor = pci_vendor_name(vendor);
    switch (use) {
      case PciUse::kOther:
      case PciUse::kBridge: vertex.kind = VertexKind::kPciSwitch; break;
      case PciUse::kGpu:
        vertex.kind = VertexKind::kGpu;
        vertex.name = fmt::format("gpu{}", gpus_++);
        break;
      case PciUse::kNic:
        vertex.kind = VertexKind::kNic;
        vertex.name = fmt::format("nic{}", nics_++);
        break;
      case PciUse::kNvSwitch:
        vertex.kind = VertexKind::kNvSwitch;
        vertex.name = "nvswitch-" + bus_id;
        break;
    }
    const int index = add_vertex(topology_, std::move(vertex));
    if (!by_bus_id_.emplace(fmt::format("{} {}", node, bus_id), index).second)
      return wrong_element(pci,
                           fmt::format("busid {} is there twice; right is one of its own for each "
                                       "device, also where they are invented",
                                       bus_id));
    const std::string speed = text_of(pci, "link_speed");
    const Figure edge = pcie_bandwidth(speed, static_cast<int>(lanes), Source::kHardware);
    if (edge.known())
      topology_.edges.push_back({.from = index,
                                 .to = parent,
                                 .kind = EdgeKind::kPcie,
                                 .bandwidth = edge,
                                 .text = pcie_text(speed, static_cast<int>(lanes))});
    if (gpu != nullptr) BANYAN_TRY(read_gpu(*gpu, index));
    if (nic != nullptr) {
      constexpr uint32_t kInfinibandClass = 0x0207;
      const bool infiniband = class_code >> 8 == kInfinibandClass;
      BANYAN_TRY(read_nic(*nic, index, Source::kHardware, infiniband ? "InfiniBand" : ""));
    }
    for (const XmlElement& each : pci.children) {
      if (each.name != "pci") continue;
      if (use != PciUse::kBridge)
        return wrong_element(
            each, fmt::format("a <pci> in the device {}; right is one in a switch", bus_id));
      BANYAN_TRY(read_pci(each, index, node));
    }
    return {};
  }

  Status read_gpu(const XmlElement& gpu, int index) {
    int64_t dev = -1;
    int64_t sm = -1;
    BANYAN_TRY(read_number(gpu, "dev", -1, 65535, &dev));
    BANYAN_TRY(read_number(gpu, "sm", -1, 65535, &sm));
    const std::string gcn = text_of(gpu, "gcn");
    at(index).index = static_cast<int>(dev);
    if (dev >= 0) at(index).name = fmt::format("gpu{}", dev);
    if (sm >= 0) at(index).model = fmt::format("sm_{}", sm);
    at(index).capability = static_cast<int>(std::max<int64_t>(sm, 0));
    if (!gcn.empty()) at(index).model = gcn;
    for (const XmlElement& each : gpu.children) {
      if (each.name == "nvlink") bundles_.push_back({index, &each, nvlink_of_capability(sm)});
      if (each.name == "xgmi") bundles_.push_back({index, &each, xgmi_of(gcn)});
      if (each.name == "c2c") BANYAN_TRY(read_c2c(each, index));
    }
    return {};
  }

  // To the memory of the GPU's own domain: MB/s of each of `count`.
  Status read_c2c(const XmlElement& c2c, int gpu) {
    int64_t count = 1;
    int64_t bandwidth = 0;
    BANYAN_TRY(read_number(c2c, "count", 0, 1024, &count));
    BANYAN_TRY(read_number(c2c, "bw", 0, 100'000'000, &bandwidth));
    const int numa = ancestor(topology_, gpu, VertexKind::kNuma);
    if (numa < 0 || count * bandwidth == 0) return {};
    topology_.edges.push_back(
        {.from = gpu,
         .to = numa,
         .kind = EdgeKind::kC2c,
         .bandwidth = {static_cast<double>(count * bandwidth) / 1000, Source::kHardware},
         .text = fmt::format("{} x C2C", count)});
    return {};
  }

  Status read_nic(const XmlElement& nic, int index, Source source, const char* link_layer) {
    for (const XmlElement& net : nic.children) {
      if (net.name != "net") continue;
      int64_t speed = 0;
      int64_t port = 1;
      BANYAN_TRY(read_number(net, "speed", -1, 100'000'000, &speed));
      BANYAN_TRY(read_number(net, "port", 0, 65535, &port));
      const std::string given = text_of(net, "name");
      const std::string name(trim(given));
      if (at(index).name.starts_with("nic") && !name.empty()) at(index).name = name;
      const bool unknown = speed <= 0;
      add_vertex(topology_,
                 {.kind = VertexKind::kPort,
                  .name = fmt::format("{}:{}", name.empty() ? at(index).name : name, port),
                  .parent = index,
                  .index = static_cast<int>(port),
                  .guid = set_id(text_of(net, "guid")),
                  .link_layer = link_layer,
                  .rate = {unknown ? std::nullopt
                                   : std::optional(static_cast<double>(speed) / kMbitPerGbyte),
                           source}});
    }
    return {};
  }

  void join_processors() {
    for (size_t a = 0; a < cpus_.size(); ++a)
      for (size_t b = a + 1; b < cpus_.size(); ++b)
        if (cpus_[a].node == cpus_[b].node)
          topology_.edges.push_back(
              {.from = cpus_[a].numa,
               .to = cpus_[b].numa,
               .kind = EdgeKind::kCpuInterconnect,
               .bandwidth = least(cpus_[a].interconnect, cpus_[b].interconnect)});
  }

  // The vertex that a bundle leads to. Switches of NVLinks are nowhere but in the names of targets.
  int target_of(int gpu, const std::string& bus_id, uint32_t class_code) {
    const int node = ancestor(topology_, gpu, VertexKind::kNode);
    const std::string key = fmt::format("{} {}", node, bus_id);
    const auto known = by_bus_id_.find(key);
    if (known != by_bus_id_.end()) return known->second;
    constexpr uint32_t kNvSwitchClass = 0x0680;
    constexpr uint32_t kBridgeClass = 0x0604;  // POWER's processors
    constexpr uint32_t kProcessorClass = 0x068001;
    if (class_code >> 8 == kBridgeClass || class_code == kProcessorClass)
      return ancestor(topology_, gpu, VertexKind::kNuma);
    if (class_code >> 8 != kNvSwitchClass) return -1;
    const int added = add_vertex(topology_, {.kind = VertexKind::kNvSwitch,
                                             .name = "nvswitch-" + bus_id,
                                             .parent = node,
                                             .bus_id = bus_id,
                                             .vendor = "NVIDIA"});
    by_bus_id_.emplace(key, added);
    return added;
  }

  // Gives the target of a bundle in the form of bus ids here; anything else that names an NVSwitch
  // stays as it is.
  static std::string target_in(const XmlElement& bundle) {
    std::string target = text_of(bundle, "target");
    const std::string id = normal_bus_id(target);
    return id.empty() ? target : id;
  }

  // A virtual machine has some GPUs of its host, whose bundles lead to the others, too.
  void leave_out(const std::vector<const XmlElement*>& bundles) {
    if (bundles.empty()) return;
    std::set<std::string> targets;
    for (const XmlElement* bundle : bundles) targets.insert(target_in(*bundle));
    const bool one = bundles.size() == 1;
    notes_.add(
        fmt::format("line {}: {} wire{} to devices that the file does not have {} left out: {}",
                    bundles.front()->line, bundles.size(), one ? "" : "s", one ? "is" : "are",
                    listed(targets)));
  }

  // Both GPUs name each other; a bundle that only one of them names is one, too.
  Status join_gpus() {
    std::vector<const XmlElement*> elsewhere;
    std::map<std::pair<int, int>, std::pair<int64_t, const Bundle*>> counts;
    for (const Bundle& bundle : bundles_) {
      int64_t count = 1;
      BANYAN_TRY(read_number(*bundle.element, "count", 1, 1024, &count));
      const std::string target = target_in(*bundle.element);
      const int to = target_of(bundle.gpu, target, hexadecimal(text_of(*bundle.element, "tclass")));
      if (to == bundle.gpu || (to < 0 && normal_bus_id(target).empty()))
        return wrong_element(
            *bundle.element,
            fmt::format("target of <{}> is '{}'; right is the bus id of another device, "
                        "such as 0000:0c:00.0",
                        bundle.element->name, target));
      if (to < 0) {
        elsewhere.push_back(bundle.element);
        continue;
      }
      auto& [most, one] = counts[{std::min(bundle.gpu, to), std::max(bundle.gpu, to)}];
      most = std::max(most, count);
      one = &bundle;
    }
    for (const auto& [ends, joined] : counts) {
      const auto& [count, bundle] = joined;
      const bool xgmi = bundle->element->name == "xgmi";
      topology_.edges.push_back(
          {.from = ends.first,
           .to = ends.second,
           .kind = xgmi ? EdgeKind::kXgmi : EdgeKind::kNvlink,
           .bandwidth = {bundle->one.known()
                             ? std::optional(*bundle->one.value * static_cast<double>(count))
                             : std::nullopt,
                         bundle->one.source},
           .text = fmt::format("{} x {}", count, xgmi ? "xGMI" : "NVLink")});
    }
    leave_out(elsewhere);
    return {};
  }

  Notes& notes_;
  Topology topology_ = empty_topology();
  std::map<std::string, int> nodes_;
  std::map<std::string, int> by_bus_id_;
  std::vector<Cpu> cpus_;
  std::vector<Bundle> bundles_;
  int gpus_ = 0;
  int nics_ = 0;
};

}  // namespace

Result<Topology> read_nccl_system(const XmlElement& root, Notes& notes) {
  return System(notes).read(root);
}

Result<Topology> read_nccl_graphs(const XmlElement& root) {
  BANYAN_TRY(read_version(root));
  // What channels go through; how is not in them.
  std::map<std::pair<VertexKind, int64_t>, const XmlElement*> devices;
  for (const XmlElement& graph : root.children) {
    if (graph.name != "graph")
      return wrong_element(graph, fmt::format("<{}> in <graphs>; right is <graph>",
                                              printable(graph.name.substr(0, 40))));
    for (const XmlElement& channel : graph.children) {
      for (const XmlElement& each : channel.children) {
        int64_t dev = -1;
        BANYAN_TRY(read_number(each, "dev", 0, 65535, &dev));
        if ((each.name == "gpu" || each.name == "net") && dev < 0)
          return wrong_element(each, fmt::format("<{}> without dev", each.name));
        if (each.name == "gpu") devices[{VertexKind::kGpu, dev}] = &each;
        if (each.name == "net") devices[{VertexKind::kNic, dev}] = &each;
      }
    }
  }
  Topology topology = empty_topology();
  const int node = add_vertex(topology, {.kind = VertexKind::kNode, .name = "node", .parent = 0});
  for (const auto& [key, element] : devices) {
    const auto& [kind, dev] = key;
    add_vertex(topology,
               {.kind = kind,
                .name = fmt::format("{}{}", kind == VertexKind::kGpu ? "gpu" : "nic", dev),
                .parent = node,
                .index = static_cast<int>(dev)});
  }
  BANYAN_TRY(check(topology));
  return canonical(topology);
}

}  // namespace banyan
