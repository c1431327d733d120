// Paths between devices and nearest NICs.
// SPDX-License-Identifier: Apache-2.0

#include "topology/paths.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/machines.h"
#include "topology/compose.h"
#include "topology/pci.h"

namespace banyan::paths_test {
namespace {

using test::Box;
using test::boxes;
using test::fabric;
using test::machine;

struct Asker {
  explicit Asker(Topology made) : topology(std::move(made)), paths(topology) {}
  std::string type(const char* from, const char* to) const {
    return std::string(name_of(path(from, to).type));
  }
  Figure width(const char* from, const char* to) const { return path(from, to).bandwidth; }
  Path path(const char* from, const char* to) const {
    const int a = find_vertex(topology, from);
    const int b = find_vertex(topology, to);
    EXPECT_TRUE(a >= 0 && b >= 0) << from << " " << to;
    return paths.between(a, b);
  }
  std::string nic(const char* device) const {
    const int nic = paths.nearest_nic(find_vertex(topology, device));
    return nic < 0 ? "none" : full_name(topology, nic);
  }
  Topology topology;
  Paths paths;
};

TEST(Paths, ClassesOfAServer) {
  const Asker box(machine({.gpus = 8, .gpus_per_switch = 2}));
  EXPECT_EQ(box.type("box/gpu0", "box/gpu0"), "LOC");
  EXPECT_EQ(box.type("box/gpu0", "box/gpu1"), "PIX");
  EXPECT_EQ(box.type("box/gpu0", "box/mlx5_0"), "PIX");
  EXPECT_EQ(box.type("box/gpu0", "box/mlx5_0:1"), "PIX");
  EXPECT_EQ(box.type("box/gpu0", "box/gpu2"), "PHB");
  EXPECT_EQ(box.type("box/gpu0", "box/gpu4"), "SYS");
  EXPECT_EQ(box.type("box/gpu0", "box/numa0"), "PHB");
  EXPECT_EQ(box.type("box/gpu0", "box/numa1"), "SYS");
  EXPECT_EQ(box.type("box/numa0", "box/package0"), "LOC");
  EXPECT_EQ(box.type("box/numa0", "box/numa1"), "SYS");
  EXPECT_EQ(box.width("box/gpu0", "box/gpu1"), Figure({31.5, Source::kHardware}));
  EXPECT_EQ(box.width("box/gpu0", "box/gpu4"), Figure({22, Source::kTable}));
  EXPECT_EQ(box.width("box/gpu0", "box/gpu0"), Figure());
}

TEST(Paths, SeveralPciSwitchesArePxb) {
  Topology topology = machine({.gpus = 4, .gpus_per_switch = 2, .nics = {1, 1}});
  // switch1 moves below switch0.
  const int upper = find_vertex(topology, "box/switch0");
  const int lower = find_vertex(topology, "box/switch1");
  topology.vertices[static_cast<size_t>(lower)].parent = upper;
  for (Edge& edge : topology.edges)
    if (edge.from == lower) edge = {lower, upper, EdgeKind::kPcie, {8, Source::kHardware}, {}, {}};
  ASSERT_TRUE(check(topology).ok());
  const Asker box(topology);
  EXPECT_EQ(box.type("box/gpu0", "box/gpu2"), "PXB");
  EXPECT_EQ(box.type("box/gpu2", "box/gpu0"), "PXB");
  EXPECT_EQ(box.type("box/gpu2", "box/gpu3"), "PIX");
  EXPECT_EQ(box.width("box/gpu0", "box/gpu2"), Figure({8, Source::kHardware}));
}

TEST(Paths, NvlinkDirectAndThroughSwitches) {
  const Asker switched(machine({.gpus = 8, .nvswitches = 6}));
  EXPECT_EQ(switched.type("box/gpu0", "box/gpu7"), "NVL");
  EXPECT_EQ(switched.width("box/gpu0", "box/gpu7"), Figure({300, Source::kHardware}));
  Topology pair = machine({.gpus = 2, .gpus_per_switch = 0, .nics = {}});
  for (int i = 0; i < 2; ++i)
    pair.edges.push_back({find_vertex(pair, "box/gpu0"),
                          find_vertex(pair, "box/gpu1"),
                          EdgeKind::kXgmi,
                          {50, Source::kTable},
                          {},
                          {}});
  const Asker direct(pair);
  EXPECT_EQ(direct.type("box/gpu0", "box/gpu1"), "NVL");
  EXPECT_EQ(direct.width("box/gpu1", "box/gpu0"), Figure({100, Source::kTable}));
}

// As in a DGX-2, where nobody reports what joins the switches of its boards.
TEST(Paths, NvswitchesThatShareNoGpuAreOneFabric) {
  Topology topology = machine({.gpus = 2, .gpus_per_switch = 1, .nvswitches = 2});
  const auto leads = [&](const Edge& edge, const char* gpu, const char* nvswitch) {
    return edge.from == find_vertex(topology, gpu) && edge.to == find_vertex(topology, nvswitch);
  };
  std::erase_if(topology.edges, [&](const Edge& edge) {
    return leads(edge, "box/gpu0", "box/nvswitch1") || leads(edge, "box/gpu1", "box/nvswitch0");
  });
  const Asker box(topology);
  EXPECT_EQ(box.type("box/gpu0", "box/gpu1"), "NVL");
  EXPECT_EQ(box.width("box/gpu0", "box/gpu1"), Figure({50, Source::kAssumed}));
}

TEST(Paths, APartitionIsWhereItsGpuIs) {
  Topology topology = machine({});
  for (const char* name : {"mig0", "mig1"})
    add_vertex(topology, {.kind = VertexKind::kPartition,
                          .name = name,
                          .parent = find_vertex(topology, "box/gpu0")});
  ASSERT_TRUE(check(topology).ok());
  const Asker box(topology);
  EXPECT_EQ(box.type("box/mig0", "box/mig1"), "LOC");
  EXPECT_EQ(box.type("box/mig0", "box/gpu1"), "PIX");
  EXPECT_EQ(box.nic("box/mig1"), "box/mlx5_0");
}

TEST(Paths, WhatIsUnknownStaysUnknown) {
  Topology topology = machine({.gpus = 4, .gpus_per_switch = 0, .nics = {1, 1}});
  std::erase_if(topology.edges, [](const Edge& edge) { return edge.kind == EdgeKind::kPcie; });
  const Asker box(topology);
  EXPECT_EQ(box.type("box/gpu0", "box/gpu1"), "PHB");
  EXPECT_FALSE(box.width("box/gpu0", "box/gpu1").known());
  // Where nobody says at which NUMA domain a device is, the worst is assumed for its class.
  const Asker lost(machine({.gpus_per_switch = 0, .numa_known = false}));
  EXPECT_EQ(lost.type("box/gpu0", "box/gpu1"), "SYS");
  const Asker small(machine({.packages = 1, .gpus_per_switch = 0, .numa_known = false}));
  EXPECT_EQ(small.type("box/gpu0", "box/gpu1"), "PHB");
}

// As of interfaces whose drivers do not know.
void forget_rates(Topology& topology) {
  for (Vertex& vertex : topology.vertices)
    if (vertex.kind == VertexKind::kPort) {
      vertex.rate = {std::nullopt, Source::kHardware};
      vertex.interface = "eth0";
      vertex.link_layer = "Ethernet";
      vertex.gids.clear();
    }
}

TEST(Paths, OverTheNetwork) {
  const Asker two(*multiply(machine({}), 2));
  EXPECT_EQ(two.type("box-0/gpu0", "box-1/gpu0"), "NET");
  EXPECT_EQ(two.width("box-0/gpu0", "box-1/gpu0"), Figure({25, Source::kHardware}));
  EXPECT_EQ(two.type("box-0/numa0", "box-1"), "NET");
  Topology deaf = *multiply(machine({}), 2);
  forget_rates(deaf);
  EXPECT_FALSE(Asker(deaf).width("box-0/gpu0", "box-1/gpu0").known());
  const Asker pods(fabric(2, 2));
  EXPECT_EQ(*pods.width("n0-0/mlx5_0", "n0-1/mlx5_0").value, 25);  // one leaf
  EXPECT_EQ(*pods.width("n0-0/mlx5_0", "n1-0/mlx5_0").value, 20);  // over a spine
  EXPECT_EQ(*pods.width("n0-0/mlx5_0", "n0-1/mlx5_1").value, 20);  // another rail
}

// The PCI link that leads up from a device.
Edge& edge_above(Topology& topology, const char* device) {
  const int from = find_vertex(topology, device);
  for (Edge& edge : topology.edges)
    if (edge.kind == EdgeKind::kPcie && edge.from == from) return edge;
  ADD_FAILURE() << device;
  return topology.edges.front();
}

TEST(Paths, OverTheNetworkAreWithinWhatPciCarries) {
  const Topology wide = *multiply(machine({.gpus = 2, .nics = {1}}), 2);
  const Figure narrow{8, Source::kTable};
  Topology topology = wide;
  edge_above(topology, "box-1/mlx5_0").bandwidth = narrow;
  for (const char* to : {"box-1/gpu0", "box-1/mlx5_0", "box-1/mlx5_0:1", "box-1/numa0"}) {
    EXPECT_EQ(Asker(topology).width("box-0/gpu0", to), narrow) << to;
    EXPECT_EQ(Asker(wide).width("box-0/gpu0", to), Figure({25, Source::kHardware})) << to;
  }
  // A message of a GPU in the same switch does not come by what is above that.
  topology = wide;
  edge_above(topology, "box-1/switch0").bandwidth = narrow;
  EXPECT_EQ(*Asker(topology).width("box-0/gpu0", "box-1/gpu0").value, 25);
  EXPECT_EQ(Asker(topology).width("box-0/gpu0", "box-1/numa0"), narrow);
  // What is not known does not limit, and is no rate.
  edge_above(topology, "box-1/switch0").bandwidth = {};
  EXPECT_EQ(*Asker(topology).width("box-0/gpu0", "box-1/numa0").value, 25);
  forget_rates(topology);
  EXPECT_FALSE(Asker(topology).width("box-0/numa0", "box-1/numa0").known());
}

// A card whose ports are functions of one device, each with a rate and in a state.
Topology card(const std::vector<std::pair<const char*, double>>& ports) {
  Topology topology =
      machine({.gpus = 4, .gpus_per_switch = 2, .nics = {static_cast<int>(ports.size()), 1}});
  for (size_t i = 0; i < ports.size(); ++i) {
    const std::string name = fmt::format("box/mlx5_{}", i);
    Vertex& port = topology.vertices[static_cast<size_t>(find_vertex(topology, name + ":1"))];
    topology.vertices[static_cast<size_t>(port.parent)].bus_id = fmt::format("0000:c1:00.{}", i);
    port.state = ports[i].first;
    port.rate = {ports[i].second, Source::kHardware};
    if (ports[i].second == 0) port.rate.value.reset();
  }
  return topology;
}

TEST(Paths, FunctionsTakeWhatTheOthersLeave) {
  const double edge = 31.5;
  struct Case {
    std::vector<std::pair<const char*, double>> ports;
    std::vector<double> shares;  // 0: unknown
  };
  for (const auto& [ports, shares] :
       {Case{{{"ACTIVE", 25}, {"INIT", 25}}, {25, 0}},
        Case{{{"up", 25}, {"lowerlayerdown", 25}}, {25, 0}},
        Case{{{"ACTIVE", 50}, {"ACTIVE", 0.125}}, {edge - 0.125, 0.125}},
        Case{{{"ACTIVE", 25}, {"ACTIVE", 0}}, {25, 0}},
        Case{{{"", 25}, {"unknown", 10}}, {edge - 10, 10}},
        Case{{{"ACTIVE", 25}, {"ACTIVE_DEFER", 25}}, {edge / 2, edge / 2}},
        Case{{{"ACTIVE", 50}, {"ACTIVE", 1}, {"ACTIVE", 2}}, {edge - 3, 1, 2}}}) {
    const Topology topology = card(ports);
    const Paths paths(topology);
    for (size_t i = 0; i < shares.size(); ++i) {
      const int nic = find_vertex(topology, fmt::format("box/mlx5_{}", i));
      EXPECT_NEAR(paths.share_of(nic, false).value.value_or(0), shares[i], 1e-9)
          << ports[0].first << " " << ports[1].first << " " << i;
    }
  }
}

// Together functions of one device carry no more than its PCI link, however many are up.
TEST(Paths, FunctionsOfACardShareItsLink) {
  for (int functions = 1; functions <= 8; ++functions)
    for (int up = 1; up <= functions; ++up)
      for (const double rate : {1.0, 12.5, 50.0}) {
        constexpr std::array kUp = {"ACTIVE", "ACTIVE_DEFER", "up", "unknown", ""};
        constexpr std::array kNot = {"DOWN", "INIT", "ARMED", "down", "lowerlayerdown", "dormant"};
        std::vector<std::pair<const char*, double>> ports;
        for (size_t i = 0; i < static_cast<size_t>(functions); ++i)
          ports.emplace_back(
              i < static_cast<size_t>(up) ? kUp[i % kUp.size()] : kNot[i % kNot.size()], rate);
        const Topology topology = card(ports);
        double together = 0;
        const Paths paths(topology);
        for (int i = 0; i < functions; ++i) {
          const int nic = find_vertex(topology, fmt::format("box/mlx5_{}", i));
          EXPECT_EQ(paths.nic_is_up(nic), i < up);
          if (i < up) together += *paths.share_of(nic, false).value;
        }
        EXPECT_NEAR(together, std::min(up * rate, 31.5), 1e-9) << functions << " " << up;
        const int other = find_vertex(topology, fmt::format("box/mlx5_{}", functions));
        EXPECT_EQ(*paths.share_of(other, false).value, 25) << "a card of its own";
      }
  Topology topology = machine({.gpus = 2, .nics = {1}});
  edge_above(topology, "box/switch0").bandwidth = {8, Source::kTable};
  const Paths paths(topology);
  const int nic = find_vertex(topology, "box/mlx5_0");
  EXPECT_EQ(paths.share_of(nic, true), Figure({8, Source::kTable}));
  EXPECT_EQ(*paths.share_of(nic, false).value, 25);
}

TEST(NearestNic, IsOnTheSameSwitch) {
  const Asker box(machine({.gpus = 8, .gpus_per_switch = 2, .nics = {1, 1, 1, 1}}));
  EXPECT_EQ(box.nic("box/gpu0"), "box/mlx5_0");
  EXPECT_EQ(box.nic("box/gpu1"), "box/mlx5_0");
  EXPECT_EQ(box.nic("box/gpu7"), "box/mlx5_3");
  EXPECT_EQ(box.nic("box/numa1"), "box/mlx5_2");
  EXPECT_EQ(box.nic("box/mlx5_2:1"), "box/mlx5_2");
}

TEST(NearestNic, SeveralAreSharedOut) {
  const Asker box(machine({.gpus = 4, .gpus_per_switch = 2, .nics = {2, 2}}));
  EXPECT_EQ(box.nic("box/gpu0"), "box/mlx5_0");
  EXPECT_EQ(box.nic("box/gpu1"), "box/mlx5_1");
  EXPECT_EQ(box.nic("box/gpu2"), "box/mlx5_2");
  EXPECT_EQ(box.nic("box/gpu3"), "box/mlx5_3");
  EXPECT_EQ(Asker(machine({.nics = {}})).nic("box/gpu0"), "none");
}

TEST(NearestNic, IrregularBoxes) {
  for (const Box& box : boxes()) {
    const Topology topology = machine(box);
    const Paths paths(topology);
    for (const int gpu : vertices_of(topology, VertexKind::kGpu)) {
      const int nic = paths.nearest_nic(gpu);
      const std::vector<int> all = paths.nics_by_distance(gpu);
      EXPECT_EQ(all.size(), vertices_of(topology, VertexKind::kNic).size());
      ASSERT_EQ(nic < 0, all.empty());
      for (const int other : all)
        EXPECT_LE(paths.between(gpu, nic).type, paths.between(gpu, other).type);
      for (const int other : vertices_of(topology, VertexKind::kGpu)) {
        const Path there = paths.between(gpu, other);
        const Path back = paths.between(other, gpu);
        EXPECT_EQ(there.type, back.type);
        EXPECT_EQ(there.bandwidth, back.bandwidth);
      }
    }
  }
}

// hwloc's files have what PCI links ran at, and no rates of ports.
TEST(Paths, FiguresOfIdleLinksAndSilentPortsAreDoubtful) {
  Topology topology = machine({.gpus = 2, .gpus_per_switch = 0, .nics = {1}});
  const int nic = find_vertex(topology, "box/mlx5_0");
  const int port = find_vertex(topology, "box/mlx5_0:1");
  ASSERT_TRUE(nic >= 0 && port >= 0);
  Vertex& plug = topology.vertices[static_cast<size_t>(port)];
  const Figure edge = edge_above(topology, "box/mlx5_0").bandwidth;
  const auto share = [&] { return Paths(topology).share_of(nic, false); };
  EXPECT_FALSE(share().doubtful);

  const Figure known = std::exchange(plug.rate, {std::nullopt, Source::kHardware});
  plug.interface.clear();
  EXPECT_EQ(share(), Figure({edge.value, edge.source, true})) << "its card's link";
  plug.interface = "ens1";
  plug.link_layer = "Ethernet";
  plug.gids.clear();
  EXPECT_FALSE(share().known());
  plug.link_layer = "InfiniBand";
  EXPECT_EQ(share().value, edge.value);
  plug.state = "DOWN";
  EXPECT_FALSE(share().known());

  plug.state = "ACTIVE";
  plug.rate = known;
  edge_above(topology, "box/mlx5_0") = {.from = edge_above(topology, "box/mlx5_0").from,
                                        .to = edge_above(topology, "box/mlx5_0").to,
                                        .bandwidth = {2, Source::kHardware},
                                        .text = std::string(kCurrentLink)};
  EXPECT_EQ(share(), Figure({2, Source::kHardware, true})) << "the link decides";
  edge_above(topology, "box/mlx5_0").bandwidth.value = 1000;
  EXPECT_EQ(share(), known) << "the port decides";

  const int from = find_vertex(topology, "box/gpu0");
  const int to = find_vertex(topology, "box/gpu1");
  EXPECT_FALSE(Paths(topology).between(from, to).bandwidth.doubtful);
  edge_above(topology, "box/gpu1").text = kCurrentLink;
  edge_above(topology, "box/gpu1").bandwidth = {2, Source::kHardware};
  EXPECT_TRUE(Paths(topology).between(from, to).bandwidth.doubtful);
}

}  // namespace
}  // namespace banyan::paths_test
