// SPDX-License-Identifier: Apache-2.0

#include "tests/support/machines.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>

namespace banyan::test {

namespace {

constexpr double kPcie4x16 = 31.5;
constexpr double kNvlink = 25;

struct Builder {
  Topology topology = empty_topology();
  int bus = 1;
  int nics = 0;

  int add(VertexKind kind, std::string name, int parent) {
    return add_vertex(topology, {.kind = kind, .name = std::move(name), .parent = parent});
  }
  Vertex& at(int vertex) { return topology.vertices[static_cast<size_t>(vertex)]; }
  int add_device(VertexKind kind, std::string name, int parent) {
    const int device = add(kind, std::move(name), parent);
    at(device).bus_id = fmt::format("0000:{:02x}:00.0", bus++);
    topology.edges.push_back({.from = device,
                              .to = parent,
                              .kind = EdgeKind::kPcie,
                              .bandwidth = {kPcie4x16, Source::kHardware},
                              .text = "x16 16 GT/s"});
    return device;
  }
  void add_nics(int count, int parent) {
    for (int i = 0; i < count; ++i) {
      const int nic = add_device(VertexKind::kNic, fmt::format("mlx5_{}", nics++), parent);
      const int port = add(VertexKind::kPort, at(nic).name + ":1", nic);
      at(port).index = 1;
      at(port).state = "ACTIVE";
      at(port).link_layer = "InfiniBand";
      at(port).rate = {25, Source::kHardware};
    }
  }
};

std::vector<int> add_numas(Builder& builder, const Box& box, int node) {
  std::vector<int> numas;
  int cpu = 0;
  for (int p = 0; p < box.packages; ++p) {
    const int package = builder.add(VertexKind::kPackage, fmt::format("package{}", p), node);
    for (int n = 0; n < box.numas_per_package; ++n) {
      const int numa = builder.add(VertexKind::kNuma, fmt::format("numa{}", numas.size()), package);
      builder.at(numa).index = static_cast<int>(numas.size());
      builder.at(numa).memory = uint64_t{64} << 30;
      for (int c = 0; c < box.cpus_per_numa; ++c, ++cpu) {
        for (const int holder : {node, package, numa}) {
          builder.at(holder).cpus.add(cpu);
          ++builder.at(holder).cores;
        }
      }
      numas.push_back(numa);
    }
  }
  for (size_t a = 0; a < numas.size(); ++a)
    for (size_t b = a + 1; b < numas.size(); ++b)
      builder.topology.edges.push_back({.from = numas[a],
                                        .to = numas[b],
                                        .kind = EdgeKind::kCpuInterconnect,
                                        .bandwidth = {22, Source::kTable}});
  return numas;
}

}  // namespace

Topology machine(const Box& box) {
  Builder builder;
  const int node = builder.add(VertexKind::kNode, box.name, 0);
  const std::vector<int> numas = add_numas(builder, box, node);
  const int groups = box.gpus_per_switch == 0
                         ? static_cast<int>(numas.size())
                         : (box.gpus + box.gpus_per_switch - 1) / box.gpus_per_switch;
  std::vector<int> gpus;
  for (int group = 0; group < groups; ++group) {
    const auto numa = numas.size() * static_cast<size_t>(group) / static_cast<size_t>(groups);
    int parent = box.numa_known ? numas[numa] : node;
    if (box.gpus_per_switch > 0)
      parent = builder.add_device(VertexKind::kPciSwitch, fmt::format("switch{}", group), parent);
    const int first = box.gpus * group / groups;
    const int last = box.gpus * (group + 1) / groups;
    for (int gpu = first; gpu < last; ++gpu) {
      gpus.push_back(builder.add_device(VertexKind::kGpu, fmt::format("gpu{}", gpu), parent));
      builder.at(gpus.back()).index = gpu;
      builder.at(gpus.back()).memory = uint64_t{80} << 30;
    }
    const auto place = static_cast<size_t>(group);
    if (place < box.nics.size()) builder.add_nics(box.nics[place], parent);
  }
  for (int s = 0; s < box.nvswitches; ++s) {
    const int nvswitch =
        builder.add_device(VertexKind::kNvSwitch, fmt::format("nvswitch{}", s), numas.front());
    for (const int gpu : gpus)
      builder.topology.edges.push_back({.from = gpu,
                                        .to = nvswitch,
                                        .kind = EdgeKind::kNvlink,
                                        .bandwidth = {2 * kNvlink, Source::kHardware},
                                        .text = "2 x NVLink 3"});
  }
  return canonical(builder.topology);
}

std::vector<Box> boxes() {
  std::vector<Box> all;
  for (int gpus = 1; gpus <= 16; ++gpus) {
    Box box;
    box.name = fmt::format("box{}", gpus);
    box.gpus = gpus;
    box.packages = gpus > 2 ? 2 : 1;
    box.numas_per_package = 1 + gpus % 3 % 2;
    box.gpus_per_switch = gpus % 4;
    box.nvswitches = gpus >= 8 ? gpus / 4 : 0;
    box.nics = {gpus % 3, 1, gpus % 5, 2};
    box.numa_known = gpus % 7 != 0;
    all.push_back(box);
  }
  Box processors;
  processors.name = "processors";
  processors.gpus = 0;
  processors.gpus_per_switch = 0;
  processors.nics = {1};
  all.push_back(processors);
  return all;
}

Topology fabric(int pods, int nodes_per_pod) {
  Builder builder;
  const auto cable = [&](int from, int to, std::optional<double> bandwidth) {
    builder.topology.edges.push_back({.from = from,
                                      .to = to,
                                      .kind = EdgeKind::kNetwork,
                                      .bandwidth = {bandwidth, Source::kHardware},
                                      .text = "4xHDR"});
  };
  const std::vector<int> spines = {builder.add(VertexKind::kSwitch, "spine0", 0),
                                   builder.add(VertexKind::kSwitch, "spine1", 0)};
  for (int pod = 0; pod < pods; ++pod) {
    std::vector<int> leaves;
    for (int leaf = 0; leaf < 2; ++leaf) {
      leaves.push_back(builder.add(VertexKind::kSwitch, fmt::format("leaf{}", 2 * pod + leaf), 0));
      for (const int spine : spines) cable(leaves.back(), spine, 20);
    }
    for (int n = 0; n < nodes_per_pod; ++n) {
      const int node = builder.add(VertexKind::kNode, fmt::format("n{}-{}", pod, n), 0);
      builder.nics = 0;
      builder.add_nics(2, node);
      for (const int port : vertices_of(builder.topology, VertexKind::kPort)) {
        if (ancestor(builder.topology, port, VertexKind::kNode) != node) continue;
        const bool first = builder.at(builder.at(port).parent).name == "mlx5_0";
        cable(port, leaves[first ? 0 : 1], 25);
      }
    }
  }
  return canonical(builder.topology);
}

}  // namespace banyan::test
