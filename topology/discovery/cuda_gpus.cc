// SPDX-License-Identifier: Apache-2.0

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "topology/discovery/gpus.h"
#include "topology/pci.h"

namespace banyan {

namespace {

// As NVML writes them behind "GPU-": "3f2a40c1-...".
std::string ask_uuid(int (*function)(CudaUuid*, int), int device) {
  CudaUuid uuid{};
  if (function == nullptr || function(&uuid, device) != kCudaSuccess) return {};
  std::string text;
  for (size_t i = 0; i < std::size(uuid.bytes); ++i)
    text +=
        fmt::format("{}{:02x}", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", uuid.bytes[i]);
  return set_id(text);
}

std::string ask_text(int (*function)(char*, int, int), int device) {
  char text[256] = {};
  if (function == nullptr || function(text, sizeof text, device) != kCudaSuccess) return {};
  return text_in(text);
}

int ask_capability(const CudaFunctions& cuda, int device) {
  int major = 0;
  int minor = 0;
  if (cuda.attribute == nullptr ||
      cuda.attribute(&major, kCudaCapabilityMajor, device) != kCudaSuccess ||
      cuda.attribute(&minor, kCudaCapabilityMinor, device) != kCudaSuccess)
    return 0;
  return capability_of(major, minor);
}

// Keeps what is known.
template <typename Value>
void complete(Value& known, Value value) {
  if (known == Value{}) known = std::move(value);
}

class CudaJoiner {
 public:
  CudaJoiner(Topology& topology, int node, const CudaFunctions& cuda)
      : topology_(topology), node_(node), cuda_(cuda) {
    const std::vector<int> gpus = vertices_of(topology, VertexKind::kGpu);
    numbered_ = std::any_of(gpus.begin(), gpus.end(), [&](int gpu) { return at(gpu).index >= 0; });
  }

  void join() {
    int count = 0;
    if (cuda_.device_count(&count) != kCudaSuccess) return;
    std::vector<std::pair<int, Vertex>> partitions;
    for (int ordinal = 0; ordinal < std::min(count, kMostGpus); ++ordinal) {
      int device = 0;
      if (cuda_.device(&device, ordinal) != kCudaSuccess) continue;
      const std::string bus_id = normal_bus_id(ask_text(cuda_.bus_id, device));
      if (bus_id.empty()) continue;
      const int gpu = gpu_at(topology_, node_, bus_id);
      if (auto partition = describe(gpu, ordinal, device))
        partitions.emplace_back(gpu, std::move(*partition));
    }
    name_gpus(topology_, node_);
    for (auto& [gpu, partition] : partitions) add_partition(gpu, std::move(partition));
  }

 private:
  Vertex& at(int vertex) { return topology_.vertices[static_cast<size_t>(vertex)]; }

  // With MIG a device is an instance, and has the bus id of the GPU that it is a part of; name and
  // memory are the instance's. None: it is the GPU itself.
  std::optional<Vertex> describe(int gpu, int ordinal, int device) {
    const std::string uuid = ask_uuid(cuda_.uuid, device);
    const std::string part = ask_uuid(cuda_.partition_uuid, device);
    const std::string name = ask_text(cuda_.name, device);
    size_t memory = 0;
    if (cuda_.memory == nullptr || cuda_.memory(&memory, device) != kCudaSuccess) memory = 0;
    if (!uuid.empty()) complete(at(gpu).guid, "GPU-" + uuid);
    complete(at(gpu).model, name.substr(0, name.find(" MIG ")));
    complete(at(gpu).capability, ask_capability(cuda_, device));
    if (!uuid.empty() && !part.empty() && part != uuid)
      return Vertex{.kind = VertexKind::kPartition,
                    .name = "mig",
                    .model = name,
                    .memory = memory,
                    .guid = "MIG-" + part};
    complete(at(gpu).memory, uint64_t{memory});
    if (!numbered_ && at(gpu).index < 0) at(gpu).index = ordinal;
    return std::nullopt;
  }

  void add_partition(int gpu, Vertex partition) {
    for (const int known : vertices_of(topology_, VertexKind::kPartition))
      if (at(known).guid == partition.guid) return;
    partition.name = at(gpu).name + ".mig";
    partition.parent = gpu;
    add_vertex(topology_, std::move(partition));
  }

  Topology& topology_;
  const int node_;
  const CudaFunctions& cuda_;
  bool numbered_ = false;  // by NVML
};

}  // namespace

void add_cuda_gpus(Topology& topology, int node, const CudaFunctions& cuda) {
  if (cuda.init == nullptr || cuda.device_count == nullptr || cuda.device == nullptr ||
      cuda.bus_id == nullptr || cuda.init(0) != kCudaSuccess)
    return;
  CudaJoiner(topology, node, cuda).join();
}

}  // namespace banyan
