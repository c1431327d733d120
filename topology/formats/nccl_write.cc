// Writes a node as NCCL's topology; nccl_xml.cc has the format.
//
// NCCL believes what is in such a file, and asks the machine for what is missing (graph/xml.cc):
//
//   <cpu>  affinity, arch, vendor, familyid, modelid
//   <pci>  class, vendor, device, subsystem_*, link_*
//   <gpu>  dev, sm, rank, gdr
//   <net>  dev, speed, port, guid, latency, maxconn, gdr
//
// So nothing is written that is not known, and rank, gdr, latency and maxconn, which are of a job,
// never. Its parser is no XML parser: there is no <?xml?>, one blank before each attribute, and a
// value has less than 255 bytes.
// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "src/base/markup.h"
#include "src/base/parse.h"
#include "topology/formats/export.h"
#include "topology/nvlink.h"
#include "topology/one_node.h"
#include "topology/pci.h"

namespace banyan {

namespace {

using Out = std::back_insert_iterator<std::string>;

constexpr std::string_view kForm = "NCCL's XML";
constexpr size_t kMostNcclBytes = 254;
constexpr int kMostInBundle = 1024;
constexpr int kMostNumber = 65535;  // of devices, ports

Status without_form(std::string text) {
  return {Code::kInvalidArgument, std::move(text)};
}

// What is too long for NCCL loses its end.
std::string value_of(std::string_view text) {
  std::string escaped = escape_markup(text);
  while (escaped.size() > kMostNcclBytes) {
    text.remove_suffix(1);
    escaped = escape_markup(text);
  }
  return escaped;
}

// CUDA's compute capability of what has NVLinks (its programming guide, appendix on capabilities).
constexpr std::array<std::pair<std::string_view, int>, 14> kCapabilities = {{{"P100", 60},
                                                                             {"V100", 70},
                                                                             {"V100S", 70},
                                                                             {"A100", 80},
                                                                             {"A800", 80},
                                                                             {"A30", 80},
                                                                             {"H100", 90},
                                                                             {"H200", 90},
                                                                             {"H800", 90},
                                                                             {"H20", 90},
                                                                             {"GH200", 90},
                                                                             {"B100", 100},
                                                                             {"B200", 100},
                                                                             {"GB200", 100}}};

// As the driver says, else of "sm_90" and "NVIDIA A100-SXM4-80GB"; -1: not known.
int capability_of(const Vertex& gpu) {
  if (gpu.capability > 0) return std::min(gpu.capability, kMostNumber);
  const std::string_view model = gpu.model;
  if (model.starts_with("sm_")) {
    const auto number = parse_integer(model.substr(3), 0, kMostNumber);
    return number.ok() ? static_cast<int>(*number) : -1;
  }
  std::string words(model);
  std::replace(words.begin(), words.end(), '-', ' ');
  for (const std::string_view word : split(words, ' '))
    for (const auto& [name, capability] : kCapabilities)
      if (word == name) return capability;
  return -1;
}

// The number that "12 x NVLink 3" begins with; 0: none.
int count_in(std::string_view text) {
  const size_t end = text.find(" x ");
  if (end == std::string_view::npos) return 0;
  const auto number = parse_integer(text.substr(0, end), 1, kMostInBundle);
  return number.ok() ? static_cast<int>(*number) : 0;
}

// NCCL's are numbers: "0xf01cbc0103dd6838". What the system says of ports is an address.
bool is_guid(std::string_view text) {
  return text.starts_with("0x") && text.size() > 2 && text.size() <= 18 &&
         text.find_first_not_of("0123456789abcdef", 2) == std::string_view::npos;
}

class NcclWriter {
 public:
  NcclWriter(const Topology& topology, OneNode one)
      : topology_(topology), one_(std::move(one)), devices_(devices_by_numa(topology_, one_)) {}

  Result<std::string> write() {
    BANYAN_TRY(find_bundles());
    fmt::format_to(Out(out_), "<system version=\"{}\">\n", xgmi_ ? 2 : 1);
    find_interconnect();
    for (const int numa : one_.numas) write_cpu(numa);
    // In NCCL, too, processors of no known domain have the number -1.
    if (one_.numas.empty() || devices_.count(-1) != 0) write_cpu(-1);
    return std::move(out_) + "</system>\n";
  }

 private:
  struct Bundle {  // of edges from a GPU to one vertex
    int count = 0;
    EdgeKind kind = EdgeKind::kNvlink;
    double bandwidth = 0;  // of C2C
  };

  const Vertex& at(int vertex) const { return topology_.vertices[static_cast<size_t>(vertex)]; }
  const std::string& bus_id(int vertex) const { return one_.bus_ids[static_cast<size_t>(vertex)]; }

  Status no_form(const Edge& edge) const {
    return without_form(fmt::format("{} has no form for {} from '{}' to '{}'", kForm,
                                    name_of(edge.kind), at(edge.from).name, at(edge.to).name));
  }

  Status find_bundles() {
    for (const Edge& edge : topology_.edges) {
      switch (edge.kind) {
        case EdgeKind::kMemory:
        case EdgeKind::kCpuInterconnect:
        case EdgeKind::kPcie:
        case EdgeKind::kShm:
        case EdgeKind::kNetwork: break;
        case EdgeKind::kNvlink:
        case EdgeKind::kXgmi: BANYAN_TRY(add_bundle(edge)); break;
        case EdgeKind::kC2c: BANYAN_TRY(add_c2c(edge)); break;
      }
    }
    return check_counts();
  }

  Status add_bundle(const Edge& edge) {
    const VertexKind from = at(edge.from).kind;
    const VertexKind to = at(edge.to).kind;
    // To NCCL the NVSwitches of a node are one.
    if (from == VertexKind::kNvSwitch && to == VertexKind::kNvSwitch) return {};
    if (from != VertexKind::kGpu && to != VertexKind::kGpu) return no_form(edge);
    const int gpu = from == VertexKind::kGpu ? edge.from : edge.to;
    const int peer = gpu == edge.from ? edge.to : edge.from;
    if (at(peer).kind == VertexKind::kNuma && numa_of_device(topology_, one_, gpu) != peer)
      return without_form(
          fmt::format("{} joins a GPU to its own NUMA domain only, and NVLinks lead from "
                      "'{}' to '{}'",
                      kForm, at(gpu).name, at(peer).name));
    const int count = count_of(edge, gpu);
    if (count == 0)
      return without_form(fmt::format(
          "how many {0} join '{1}' and '{2}' is not known, and {3} wants the number; right is a "
          "link whose text has it, such as '12 x {0}'",
          edge.kind == EdgeKind::kXgmi ? "xGMI" : "NVLink", at(gpu).name, at(peer).name, kForm));
    xgmi_ = xgmi_ || edge.kind == EdgeKind::kXgmi;
    for (const auto& [near, far] : {std::pair(gpu, peer), std::pair(peer, gpu)}) {
      if (at(near).kind != VertexKind::kGpu) continue;
      Bundle& bundle = bundles_[near][far];
      bundle.kind = edge.kind;
      bundle.count += count;
      if (bundle.count > kMostInBundle)
        return without_form(fmt::format(
            "'{}' and '{}' would be joined by {} {}; right are at most {}", at(near).name,
            at(far).name, bundle.count, name_of(edge.kind), kMostInBundle));
    }
    return {};
  }

  // As the text says, else as many as have that bandwidth together; 0: not known.
  int count_of(const Edge& edge, int gpu) const {
    if (const int count = count_in(edge.text); count > 0) return count;
    const Figure one = nvlink_of_capability(capability_of(at(gpu)));
    if (edge.kind != EdgeKind::kNvlink || !edge.bandwidth.known() || !one.known()) return 0;
    const double count = *edge.bandwidth.value / *one.value;
    return count < kMostInBundle && std::abs(count - std::round(count)) < 0.01
               ? static_cast<int>(std::round(count))
               : 0;
  }

  // hwloc before 2.9.3 doubles the bandwidth, and with it would the number.
  Status check_counts() const {
    for (const auto& [gpu, bundles] : bundles_) {
      const int capability = capability_of(at(gpu));
      if (capability < 0) continue;
      const int most = capability < 70 ? 4 : capability < 80 ? 6 : capability < 90 ? 12 : 18;
      int sum = 0;
      for (const auto& [far, bundle] : bundles)
        sum += bundle.kind == EdgeKind::kNvlink ? bundle.count : 0;
      if (sum > most)
        return without_form(
            fmt::format("'{}' ({}) would have {} NVLinks, and such a GPU has {} at most; "
                        "hwloc before 2.9.3 doubles their bandwidth",
                        at(gpu).name, at(gpu).model, sum, most));
    }
    return {};
  }

  Status add_c2c(const Edge& edge) {
    const int gpu = at(edge.from).kind == VertexKind::kGpu ? edge.from : edge.to;
    const int peer = gpu == edge.from ? edge.to : edge.from;
    if (at(peer).kind != VertexKind::kNuma || numa_of_device(topology_, one_, gpu) != peer)
      return no_form(edge);
    if (!edge.bandwidth.known()) return {};  // NCCL asks the driver
    constexpr double kMost = 10'000;         // GB/s
    Bundle& bundle = bundles_[gpu][peer];
    if (bundle.bandwidth + *edge.bandwidth.value > kMost)
      return without_form(fmt::format("C2C from '{}' to '{}' has {} GB/s; right are at most {}",
                                      at(gpu).name, at(peer).name, *edge.bandwidth.value, kMost));
    bundle = {.count = std::max(1, count_in(edge.text)),
              .kind = EdgeKind::kC2c,
              .bandwidth = bundle.bandwidth + *edge.bandwidth.value};
    return {};
  }

  void write_bundles(int gpu) {
    const auto bundles = bundles_.find(gpu);
    if (bundles == bundles_.end()) {
      out_ += "/>\n";
      return;
    }
    out_ += ">\n";
    ++depth_;
    for (const auto& [far, bundle] : bundles->second) {
      indent();
      if (bundle.kind == EdgeKind::kC2c) {
        fmt::format_to(Out(out_), "<c2c bw=\"{:.0f}\" count=\"{}\"/>\n",
                       bundle.bandwidth * 1000 / bundle.count, bundle.count);
        continue;
      }
      // A processor of POWER has no bus id; NCCL takes that of the GPU.
      const bool processor = at(far).kind == VertexKind::kNuma;
      fmt::format_to(Out(out_), "<{} target=\"{}\" count=\"{}\" tclass=\"{}\"/>\n",
                     name_of(bundle.kind), processor ? kProcessorBusId : bus_id(far), bundle.count,
                     processor ? kProcessorClass : class_of(far));
    }
    --depth_;
    indent();
    out_ += "</gpu>\n";
  }

  // NCCL has one figure for the edges between processors, by their make and model (graph/topo.h).
  void find_interconnect() {
    std::set<double> figures;
    for (const Edge& edge : topology_.edges)
      if (edge.kind == EdgeKind::kCpuInterconnect && edge.bandwidth.known() &&
          edge.bandwidth.source == Source::kTable)
        figures.insert(*edge.bandwidth.value);
    for (const int package : vertices_of(topology_, VertexKind::kPackage))
      if (!at(package).vendor.empty()) vendor_ = at(package).vendor;
    if (figures.size() != 1) return;
    const double figure = *figures.begin();
    if (vendor_.empty() && figure == 16) vendor_ = "AuthenticAMD";
    // The first model of each generation.
    constexpr std::array<std::pair<double, int>, 4> kIntel = {
        {{6, 79}, {10, 85}, {22, 143}, {40, 207}}};
    for (const auto& [bandwidth, model] : kIntel) {
      // ARM has 6, too.
      if (bandwidth != figure || (vendor_.empty() && figure == 6)) continue;
      if (vendor_.empty()) vendor_ = "GenuineIntel";
      model_ = model;
    }
  }

  void write_cpu(int numa) {
    indent();
    fmt::format_to(Out(out_), "<cpu numaid=\"{}\"", numa < 0 ? -1 : at(numa).index);
    const CpuSet& cpus = at(numa < 0 ? one_.node : numa).cpus;
    if (const std::string mask = cpus.mask(); !cpus.empty() && mask.size() <= kMostNcclBytes)
      attribute("affinity", mask);
    const bool intel = vendor_ == "GenuineIntel";
    if (intel || vendor_ == "AuthenticAMD") attribute("arch", "x86_64");
    if (vendor_ == "ARM") attribute("arch", "arm64");
    attribute("vendor", vendor_);
    if (intel && model_ >= 0) fmt::format_to(Out(out_), " familyid=\"6\" modelid=\"{}\"", model_);
    const auto devices = devices_.find(numa);
    if (devices == devices_.end()) {
      out_ += "/>\n";
      return;
    }
    out_ += ">\n";
    ++depth_;
    for (const int device : devices->second) write_device(device);
    --depth_;
    indent();
    out_ += "</cpu>\n";
  }

  void write_device(int device) {
    if (is_bare(topology_, one_, device)) {
      write_nic(device);
    } else {
      write_pci(device);
    }
  }

  static std::string_view class_of_kind(const Vertex& vertex) {
    switch (vertex.kind) {
      case VertexKind::kNvSwitch: return "0x068000";
      case VertexKind::kGpu: return vertex.vendor == "AMD" ? "0x120000" : "0x030200";
      case VertexKind::kNic: return "0x020000";
      case VertexKind::kCluster:
      case VertexKind::kSwitch:
      case VertexKind::kNode:
      case VertexKind::kPackage:
      case VertexKind::kNuma:
      case VertexKind::kCache:
      case VertexKind::kPciSwitch:
      case VertexKind::kPartition:
      case VertexKind::kPort: return "0x060400";
    }
    return {};
  }

  std::string_view class_of(int vertex) const {
    for (const int part : one_.children[static_cast<size_t>(vertex)])
      if (at(part).link_layer == "InfiniBand") return "0x020700";
    return class_of_kind(at(vertex));
  }

  // No deeper than one_node() allows.
  void write_pci(int device) {
    const Vertex& vertex = at(device);
    indent();
    fmt::format_to(Out(out_), "<pci busid=\"{}\" class=\"{}\"", bus_id(device), class_of(device));
    uint32_t vendor = pci_vendor_number(vertex.vendor);
    if (vertex.kind == VertexKind::kNvSwitch) vendor = pci_vendor_number("NVIDIA");
    if (vendor != 0) fmt::format_to(Out(out_), " vendor=\"0x{:04x}\"", vendor);
    if (const int up = one_.up[static_cast<size_t>(device)]; up >= 0) {
      const Edge& edge = topology_.edges[static_cast<size_t>(up)];
      if (const PcieLink pcie = pcie_link(edge.text, edge.bandwidth); pcie.lanes > 0)
        fmt::format_to(Out(out_), " link_speed=\"{}\" link_width=\"{}\"", pcie.speed, pcie.lanes);
    }
    const auto& children = one_.children[static_cast<size_t>(device)];
    if (vertex.kind == VertexKind::kNvSwitch ||
        (vertex.kind == VertexKind::kPciSwitch && children.empty())) {
      out_ += "/>\n";
      return;
    }
    out_ += ">\n";
    ++depth_;
    if (vertex.kind == VertexKind::kGpu) write_gpu(device);
    if (vertex.kind == VertexKind::kNic) write_nic(device);
    if (vertex.kind == VertexKind::kPciSwitch)
      for (const int child : children) write_pci(child);
    --depth_;
    indent();
    out_ += "</pci>\n";
  }

  void write_gpu(int gpu) {
    indent();
    out_ += "<gpu";
    if (at(gpu).index >= 0 && at(gpu).index <= kMostNumber)
      fmt::format_to(Out(out_), " dev=\"{}\"", at(gpu).index);
    if (const int capability = capability_of(at(gpu)); capability >= 0)
      fmt::format_to(Out(out_), " sm=\"{}\"", capability);
    if (at(gpu).model.starts_with("gfx")) attribute("gcn", at(gpu).model);
    write_bundles(gpu);
  }

  void write_nic(int nic) {
    indent();
    const auto& ports = one_.children[static_cast<size_t>(nic)];
    if (ports.empty()) {
      out_ += "<nic/>\n";
      return;
    }
    out_ += "<nic>\n";
    ++depth_;
    for (const int each : ports) {
      const Vertex& port = at(each);
      indent();
      out_ += "<net";
      attribute("name", at(nic).name);
      fmt::format_to(Out(out_), " dev=\"{}\"", nets_++);
      if (port.rate.known() && *port.rate.value * kMbitPerGbyte < 100'000'000)
        fmt::format_to(Out(out_), " speed=\"{:.0f}\"", *port.rate.value * kMbitPerGbyte);
      if (port.index >= 0 && port.index <= kMostNumber)
        fmt::format_to(Out(out_), " port=\"{}\"", port.index);
      if (is_guid(port.guid)) attribute("guid", port.guid);
      out_ += "/>\n";
    }
    --depth_;
    indent();
    out_ += "</nic>\n";
  }

  void indent() { out_.append(2 * depth_, ' '); }

  void attribute(std::string_view name, std::string_view text) {
    if (!text.empty()) fmt::format_to(Out(out_), " {}=\"{}\"", name, value_of(text));
  }

  // As NCCL writes the processors of POWER.
  static constexpr std::string_view kProcessorClass = "0x068001";
  static constexpr std::string_view kProcessorBusId = "ffff:ff:00.0";

  const Topology& topology_;
  const OneNode one_;
  const std::map<int, std::vector<int>> devices_;
  std::map<int, std::map<int, Bundle>> bundles_;  // of GPUs, by what they lead to
  bool xgmi_ = false;
  std::string vendor_;  // of the processors
  int model_ = -1;
  int nets_ = 0;
  size_t depth_ = 1;
  std::string out_;
};

}  // namespace

Result<std::string> to_nccl_xml(const Topology& topology) {
  auto one = one_node(topology, kForm);
  if (!one.ok()) return one.status();
  return NcclWriter(topology, *std::move(one)).write();
}

}  // namespace banyan
