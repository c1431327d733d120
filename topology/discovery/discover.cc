// SPDX-License-Identifier: Apache-2.0

#include "topology/discovery/discover.h"

#include <fmt/core.h>
#include <sys/utsname.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "topology/discovery/gpus.h"
#include "topology/discovery/network.h"
#include "topology/discovery/read_processors.h"
#include "topology/formats/hwloc_machine.h"
#include "topology/pci.h"
#include "topology/processors.h"

namespace banyan {

namespace {

constexpr std::string_view kPci = "/sys/bus/pci/devices";

std::string host_name(const SysRoot& root) {
  utsname names{};
  if (root.real() && ::uname(&names) == 0) return names.nodename;
  const std::string name = root.line("/proc/sys/kernel/hostname");
  return name.empty() ? root.line("/etc/hostname") : name;
}

int decimal(std::string_view text, int otherwise) {
  std::from_chars(text.data(), text.data() + text.size(), otherwise);
  return otherwise;
}

// The bus id of the bridge that a device's path goes through last.
std::string bridge_in(const std::string& path) {
  const size_t end = path.rfind('/');
  if (end == std::string::npos || end == 0) return {};
  return normal_bus_id(
      path.substr(path.rfind('/', end - 1) + 1, end - path.rfind('/', end - 1) - 1));
}

std::vector<PciFunction> pci_functions(const SysRoot& root) {
  std::vector<PciFunction> functions;
  for (const std::string& name : root.list(kPci)) {
    const std::string folder = fmt::format("{}/{}", kPci, name);
    PciFunction function{.bus_id = normal_bus_id(name)};
    if (function.bus_id.empty()) continue;
    function.vendor = hexadecimal(root.line(folder + "/vendor"));
    function.use = pci_use(hexadecimal(root.line(folder + "/class")), function.vendor);
    if (function.use == PciUse::kOther) continue;
    function.numa = decimal(root.line(folder + "/numa_node"), -1);
    function.parent = bridge_in(root.resolve(folder));
    // What the PCI link can do: an idle device trains down, and current_* would tell of that.
    const std::string speed = root.line(folder + "/max_link_speed");
    const int lanes = decimal(root.line(folder + "/max_link_width"), 0);
    function.edge = pcie_bandwidth(speed, lanes, Source::kHardware);
    function.text = pcie_text(speed, lanes);
    functions.push_back(std::move(function));
  }
  return functions;
}

// Whether NVML has shown GPUs, and has said of them what CUDA could.
bool described_by_nvml(const Topology& topology) {
  bool any = false;
  for (const Vertex& vertex : topology.vertices) {
    if (vertex.kind != VertexKind::kGpu || vertex.index < 0) continue;
    any = true;
    if (vertex.model.empty() || vertex.guid.empty() || vertex.memory == 0 || vertex.capability == 0)
      return false;
  }
  return any;
}

}  // namespace

Result<Topology> discover(const SysRoot& root, const NvmlFunctions* nvml,
                          const std::function<std::optional<CudaFunctions>()>& open_cuda) {
  Topology topology = empty_topology();
  const int node = add_vertex(topology, {.kind = VertexKind::kNode,
                                         .name = host_name(root),
                                         .parent = 0,
                                         .guid = root.line("/proc/sys/kernel/random/boot_id")});
  std::optional<Processors> known = root.real() ? hwloc_processors() : std::nullopt;
  Processors processors = known ? std::move(*known) : read_processors(root);
  complete_memory(root, processors);
  add_processors(topology, node, processors);
  add_pci(topology, node, pci_functions(root));
  add_network(topology, node, root);
  if (nvml != nullptr) add_nvml_gpus(topology, node, *nvml);
  if (open_cuda != nullptr && !described_by_nvml(topology))
    if (const auto cuda = open_cuda()) add_cuda_gpus(topology, node, *cuda);
  make_texts_valid(topology);
  BANYAN_TRY(check(topology));
  return canonical(topology);
}

Result<Topology> discover(const std::string& root) {
  if (root.empty() || root == "/") {
    const std::unique_ptr<Nvml> nvml = Nvml::open();
    return discover(SysRoot(), nvml == nullptr ? nullptr : &nvml->functions(), open_cuda_driver);
  }
  std::error_code error;
  if (!std::filesystem::is_directory(root, error))
    return Status(Code::kInvalidArgument, fmt::format("BANYAN_SYSROOT={} is no folder", root));
  return discover(SysRoot(root), nullptr);
}

}  // namespace banyan
