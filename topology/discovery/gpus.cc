// SPDX-License-Identifier: Apache-2.0

#include "topology/discovery/gpus.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "src/base/parse.h"
#include "topology/nvlink.h"
#include "topology/pci.h"

namespace banyan {

namespace {

using Device = NvmlFunctions::Device;

constexpr unsigned kMostPartitions = 64;

std::string ask_text(int (*function)(Device, char*, unsigned), Device device) {
  char text[kNvmlTextBytes] = {};
  if (function == nullptr || function(device, text, kNvmlTextBytes) != kNvmlSuccess) return {};
  return text_in(text);
}

uint64_t ask_memory(const NvmlFunctions& nvml, Device device) {
  NvmlMemory memory{};
  if (nvml.memory == nullptr || nvml.memory(device, &memory) != kNvmlSuccess) return 0;
  return memory.total;
}

class Joiner {
 public:
  Joiner(Topology& topology, int node, const NvmlFunctions& nvml)
      : topology_(topology), node_(node), nvml_(nvml) {}

  void join() {
    unsigned count = 0;
    if (nvml_.device_count(&count) != kNvmlSuccess) return;
    std::vector<std::pair<int, Device>> found;
    for (unsigned index = 0; index < std::min<unsigned>(count, kMostGpus); ++index) {
      Device device = nullptr;
      NvmlPciInfo pci{};
      if (nvml_.device(index, &device) != kNvmlSuccess ||
          nvml_.pci_info(device, &pci) != kNvmlSuccess)
        continue;
      const std::string bus_id = normal_bus_id(text_in(pci.bus_id));
      if (bus_id.empty()) continue;
      const int gpu = gpu_at(topology_, node_, bus_id);
      describe(gpu, static_cast<int>(index), device);
      found.emplace_back(gpu, device);
    }
    name_gpus(topology_, node_);
    for (const auto& [gpu, device] : found) add_partitions(gpu, device);
    for (const auto& [gpu, device] : found) count_links(gpu, device);
    for (const auto& [ends, bundle] : nvlinks_) {
      const Figure one = nvlink_bandwidth(bundle.version);
      topology_.edges.push_back(
          {.from = ends.first,
           .to = ends.second,
           .kind = EdgeKind::kNvlink,
           .bandwidth = {one.known() ? std::optional(*one.value * bundle.count) : std::nullopt,
                         one.source},
           .text = fmt::format("{} x {}", bundle.count, nvlink_name(bundle.version))});
    }
  }

 private:
  struct Bundle {
    int count = 0;
    unsigned version = 0;
  };

  Vertex& at(int vertex) { return topology_.vertices[static_cast<size_t>(vertex)]; }

  void describe(int gpu, int index, Device device) {
    at(gpu).index = index;
    if (std::string name = ask_text(nvml_.name, device); !name.empty()) at(gpu).model = name;
    at(gpu).guid = ask_text(nvml_.uuid, device);
    at(gpu).memory = ask_memory(nvml_, device);
    int major = 0;
    int minor = 0;
    if (nvml_.capability != nullptr && nvml_.capability(device, &major, &minor) == kNvmlSuccess)
      at(gpu).capability = capability_of(major, minor);
    add_pcie(gpu, device);
  }

  // Where sysfs has not said how wide the PCI link is.
  void add_pcie(int gpu, Device device) {
    for (const Edge& edge : topology_.edges)
      if (edge.kind == EdgeKind::kPcie && edge.from == gpu) return;
    constexpr std::array<std::string_view, 7> kSpeeds = {"",        "2.5 GT/s", "5 GT/s", "8 GT/s",
                                                         "16 GT/s", "32 GT/s",  "64 GT/s"};
    unsigned generation = 0;
    unsigned width = 0;
    if (nvml_.pcie_generation == nullptr || nvml_.pcie_width == nullptr ||
        nvml_.pcie_generation(device, &generation) != kNvmlSuccess ||
        nvml_.pcie_width(device, &width) != kNvmlSuccess || generation >= kSpeeds.size() ||
        width > 32)
      return;
    const int lanes = static_cast<int>(width);
    const Figure bandwidth = pcie_bandwidth(kSpeeds[generation], lanes, Source::kHardware);
    if (!bandwidth.known()) return;
    topology_.edges.push_back({.from = gpu,
                               .to = at(gpu).parent,
                               .kind = EdgeKind::kPcie,
                               .bandwidth = bandwidth,
                               .text = pcie_text(kSpeeds[generation], lanes)});
  }

  void add_partitions(int gpu, Device device) {
    unsigned current = 0;
    unsigned pending = 0;
    unsigned count = 0;
    if (nvml_.mig_mode == nullptr || nvml_.mig_count == nullptr || nvml_.mig_device == nullptr ||
        nvml_.mig_mode(device, &current, &pending) != kNvmlSuccess || current != 1 ||
        nvml_.mig_count(device, &count) != kNvmlSuccess)
      return;
    for (unsigned index = 0; index < std::min(count, kMostPartitions); ++index) {
      Device part = nullptr;
      if (nvml_.mig_device(device, index, &part) != kNvmlSuccess) continue;  // a free place
      add_vertex(topology_, {.kind = VertexKind::kPartition,
                             .name = fmt::format("{}.mig{}", at(gpu).name, index),
                             .parent = gpu,
                             .index = static_cast<int>(index),
                             .model = ask_text(nvml_.name, part),
                             .memory = ask_memory(nvml_, part),
                             .guid = ask_text(nvml_.uuid, part)});
    }
  }

  // The other end; -1: neither a GPU of this node nor a switch.
  int remote_of(Device device, unsigned nvlink) {
    NvmlPciInfo pci{};
    if (nvml_.link_remote == nullptr || nvml_.link_remote(device, nvlink, &pci) != kNvmlSuccess)
      return -1;
    const std::string bus_id = normal_bus_id(text_in(pci.bus_id));
    const int known = find_bus_id(topology_, node_, bus_id);
    if (known >= 0) {
      const VertexKind kind = at(known).kind;
      return kind == VertexKind::kGpu || kind == VertexKind::kNvSwitch ? known : -1;
    }
    int type = -1;
    if (bus_id.empty() || nvml_.link_remote_type == nullptr ||
        nvml_.link_remote_type(device, nvlink, &type) != kNvmlSuccess || type != kNvmlRemoteSwitch)
      return -1;
    return add_vertex(topology_, {.kind = VertexKind::kNvSwitch,
                                  .name = "nvswitch-" + bus_id,
                                  .parent = node_,
                                  .bus_id = bus_id,
                                  .vendor = "NVIDIA"});
  }

  // Both ends of an NVLink between GPUs report it; the one with the lower number counts.
  void count_links(int gpu, Device device) {
    for (unsigned nvlink = 0; nvml_.link_state != nullptr && nvlink < kNvmlMostLinks; ++nvlink) {
      int active = 0;
      if (nvml_.link_state(device, nvlink, &active) != kNvmlSuccess || active != 1) continue;
      const int remote = remote_of(device, nvlink);
      if (remote < 0 || remote == gpu || (at(remote).kind == VertexKind::kGpu && remote < gpu))
        continue;
      Bundle& bundle = nvlinks_[{gpu, remote}];
      ++bundle.count;
      if (nvml_.link_version == nullptr ||
          nvml_.link_version(device, nvlink, &bundle.version) != kNvmlSuccess)
        bundle.version = 0;
    }
  }

  Topology& topology_;
  const int node_;
  const NvmlFunctions& nvml_;
  std::map<std::pair<int, int>, Bundle> nvlinks_;
};

}  // namespace

std::string text_in(std::span<const char> characters) {
  return printable(
      std::string_view(characters.data(), ::strnlen(characters.data(), characters.size())));
}

int capability_of(int major, int minor) {
  return major > 0 && major < 1000 && minor >= 0 && minor < 10 ? 10 * major + minor : 0;
}

int gpu_at(Topology& topology, int node, const std::string& bus_id) {
  const int known = find_bus_id(topology, node, bus_id);
  if (known >= 0 && topology.vertices[static_cast<size_t>(known)].kind == VertexKind::kGpu)
    return known;
  return add_vertex(topology, {.kind = VertexKind::kGpu,
                               .name = "gpu-" + bus_id,
                               .parent = node,
                               .bus_id = bus_id,
                               .vendor = "NVIDIA"});
}

void name_gpus(Topology& topology, int node) {
  std::vector<Vertex*> gpus;
  int next = 0;
  for (const int gpu : vertices_of(topology, VertexKind::kGpu)) {
    if (ancestor(topology, gpu, VertexKind::kNode) != node) continue;
    gpus.push_back(&topology.vertices[static_cast<size_t>(gpu)]);
    next = std::max(next, gpus.back()->index + 1);
  }
  for (Vertex* gpu : gpus) gpu->name = fmt::format("gpu{}", gpu->index >= 0 ? gpu->index : next++);
}

bool add_nvml_gpus(Topology& topology, int node, const NvmlFunctions& nvml) {
  if (nvml.init() != kNvmlSuccess) return false;
  Joiner(topology, node, nvml).join();
  nvml.shutdown();
  return true;
}

}  // namespace banyan
