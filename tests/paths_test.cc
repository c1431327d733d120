// Paths between devices, nearest NICs, levels and rails.
// SPDX-License-Identifier: Apache-2.0

#include "topology/paths.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/machines.h"
#include "topology/compose.h"
#include "topology/import.h"
#include "topology/levels.h"

namespace banyan {
namespace {

using test::Box;
using test::boxes;
using test::fabric;
using test::machine;
using ::testing::Each;
using ::testing::ElementsAre;

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

TEST(Paths, classes_of_a_server) {
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

TEST(Paths, several_pci_switches_are_pxb) {
  Topology topology = machine({.gpus = 4, .gpus_per_switch = 2, .nics = {1, 1}});
  // switch1 moves below switch0.
  const int upper = find_vertex(topology, "box/switch0");
  const int lower = find_vertex(topology, "box/switch1");
  topology.vertices[static_cast<size_t>(lower)].parent = upper;
  for (Link& link : topology.links)
    if (link.from == lower) link = {lower, upper, LinkKind::kPcie, {8, Source::kHardware}, {}, {}};
  ASSERT_TRUE(check(topology).ok());
  const Asker box(topology);
  EXPECT_EQ(box.type("box/gpu0", "box/gpu2"), "PXB");
  EXPECT_EQ(box.type("box/gpu2", "box/gpu0"), "PXB");
  EXPECT_EQ(box.type("box/gpu2", "box/gpu3"), "PIX");
  EXPECT_EQ(box.width("box/gpu0", "box/gpu2"), Figure({8, Source::kHardware}));
}

TEST(Paths, nvlink_direct_and_through_switches) {
  const Asker switched(machine({.gpus = 8, .nvswitches = 6}));
  EXPECT_EQ(switched.type("box/gpu0", "box/gpu7"), "NVL");
  EXPECT_EQ(switched.width("box/gpu0", "box/gpu7"), Figure({300, Source::kHardware}));
  Topology pair = machine({.gpus = 2, .gpus_per_switch = 0, .nics = {}});
  for (int i = 0; i < 2; ++i)
    pair.links.push_back({find_vertex(pair, "box/gpu0"),
                          find_vertex(pair, "box/gpu1"),
                          LinkKind::kXgmi,
                          {50, Source::kTable},
                          {},
                          {}});
  const Asker direct(pair);
  EXPECT_EQ(direct.type("box/gpu0", "box/gpu1"), "NVL");
  EXPECT_EQ(direct.width("box/gpu1", "box/gpu0"), Figure({100, Source::kTable}));
}

// As in a DGX-2, where nobody reports what joins the switches of its boards.
TEST(Paths, nvswitches_that_share_no_gpu_are_one_fabric) {
  Topology topology = machine({.gpus = 2, .gpus_per_switch = 1, .nvswitches = 2});
  const auto leads = [&](const Link& link, const char* gpu, const char* nvswitch) {
    return link.from == find_vertex(topology, gpu) && link.to == find_vertex(topology, nvswitch);
  };
  std::erase_if(topology.links, [&](const Link& link) {
    return leads(link, "box/gpu0", "box/nvswitch1") || leads(link, "box/gpu1", "box/nvswitch0");
  });
  const Asker box(topology);
  EXPECT_EQ(box.type("box/gpu0", "box/gpu1"), "NVL");
  EXPECT_EQ(box.width("box/gpu0", "box/gpu1"), Figure({50, Source::kAssumed}));
}

TEST(Paths, a_partition_is_where_its_gpu_is) {
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

TEST(Paths, what_is_unknown_stays_unknown) {
  Topology topology = machine({.gpus = 4, .gpus_per_switch = 0, .nics = {1, 1}});
  std::erase_if(topology.links, [](const Link& link) { return link.kind == LinkKind::kPcie; });
  const Asker box(topology);
  EXPECT_EQ(box.type("box/gpu0", "box/gpu1"), "PHB");
  EXPECT_FALSE(box.width("box/gpu0", "box/gpu1").known());
  // Where nobody says at which NUMA domain a device is, the worst is assumed for its class.
  const Asker lost(machine({.gpus_per_switch = 0, .numa_known = false}));
  EXPECT_EQ(lost.type("box/gpu0", "box/gpu1"), "SYS");
  const Asker small(machine({.packages = 1, .gpus_per_switch = 0, .numa_known = false}));
  EXPECT_EQ(small.type("box/gpu0", "box/gpu1"), "PHB");
}

TEST(Paths, over_the_network) {
  const Asker two(*multiply(machine({}), 2));
  EXPECT_EQ(two.type("box-0/gpu0", "box-1/gpu0"), "NET");
  EXPECT_EQ(two.width("box-0/gpu0", "box-1/gpu0"), Figure({25, Source::kHardware}));
  EXPECT_EQ(two.type("box-0/numa0", "box-1"), "NET");
  Topology deaf = *multiply(machine({}), 2);
  for (Vertex& vertex : deaf.vertices) vertex.rate = {std::nullopt, Source::kHardware};
  EXPECT_FALSE(Asker(deaf).width("box-0/gpu0", "box-1/gpu0").known());
  const Asker pods(fabric(2, 2));
  EXPECT_EQ(*pods.width("n0-0/mlx5_0", "n0-1/mlx5_0").value, 25);  // one leaf
  EXPECT_EQ(*pods.width("n0-0/mlx5_0", "n1-0/mlx5_0").value, 20);  // over a spine
  EXPECT_EQ(*pods.width("n0-0/mlx5_0", "n0-1/mlx5_1").value, 20);  // another rail
}

// The link of PCI that leads up from a device.
Link& link_above(Topology& topology, const char* device) {
  const int from = find_vertex(topology, device);
  for (Link& link : topology.links)
    if (link.kind == LinkKind::kPcie && link.from == from) return link;
  ADD_FAILURE() << device;
  return topology.links.front();
}

TEST(Paths, over_the_network_are_within_what_pci_carries) {
  const Topology wide = *multiply(machine({.gpus = 2, .nics = {1}}), 2);
  const Figure narrow{8, Source::kTable};
  Topology topology = wide;
  link_above(topology, "box-1/mlx5_0").bandwidth = narrow;
  for (const char* to : {"box-1/gpu0", "box-1/mlx5_0", "box-1/mlx5_0:1", "box-1/numa0"}) {
    EXPECT_EQ(Asker(topology).width("box-0/gpu0", to), narrow) << to;
    EXPECT_EQ(Asker(wide).width("box-0/gpu0", to), Figure({25, Source::kHardware})) << to;
  }
  // A message of a GPU in the same switch does not come by what is above that.
  topology = wide;
  link_above(topology, "box-1/switch0").bandwidth = narrow;
  EXPECT_EQ(*Asker(topology).width("box-0/gpu0", "box-1/gpu0").value, 25);
  EXPECT_EQ(Asker(topology).width("box-0/gpu0", "box-1/numa0"), narrow);
  // What is not known does not limit, and is no rate.
  link_above(topology, "box-1/switch0").bandwidth = {};
  EXPECT_EQ(*Asker(topology).width("box-0/gpu0", "box-1/numa0").value, 25);
  for (Vertex& vertex : topology.vertices) vertex.rate = {std::nullopt, Source::kHardware};
  EXPECT_FALSE(Asker(topology).width("box-0/numa0", "box-1/numa0").known());
}

// Together functions of one device carry no more than its link, however many are up.
TEST(Paths, functions_of_a_card_share_its_link) {
  for (int functions = 1; functions <= 8; ++functions)
    for (int up = 1; up <= functions; ++up)
      for (const double rate : {1.0, 12.5, 50.0}) {
        Topology topology = machine({.gpus = 4, .gpus_per_switch = 2, .nics = {functions, 1}});
        double together = 0;
        for (int i = 0; i < functions; ++i) {
          const std::string name = fmt::format("box/mlx5_{}", i);
          const auto nic = static_cast<size_t>(find_vertex(topology, name));
          const auto port = static_cast<size_t>(find_vertex(topology, name + ":1"));
          topology.vertices[nic].bus_id = fmt::format("0000:c1:00.{}", i);
          topology.vertices[port].rate = {rate, Source::kHardware};
          if (i >= up) topology.vertices[port].state = "DOWN";
        }
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
  link_above(topology, "box/switch0").bandwidth = {8, Source::kTable};
  const Paths paths(topology);
  const int nic = find_vertex(topology, "box/mlx5_0");
  EXPECT_EQ(paths.share_of(nic, true), Figure({8, Source::kTable}));
  EXPECT_EQ(*paths.share_of(nic, false).value, 25);
}

// ---- nearest NICs ----

TEST(NearestNic, is_on_the_same_switch) {
  const Asker box(machine({.gpus = 8, .gpus_per_switch = 2, .nics = {1, 1, 1, 1}}));
  EXPECT_EQ(box.nic("box/gpu0"), "box/mlx5_0");
  EXPECT_EQ(box.nic("box/gpu1"), "box/mlx5_0");
  EXPECT_EQ(box.nic("box/gpu7"), "box/mlx5_3");
  EXPECT_EQ(box.nic("box/numa1"), "box/mlx5_2");
  EXPECT_EQ(box.nic("box/mlx5_2:1"), "box/mlx5_2");
}

TEST(NearestNic, several_are_shared_out) {
  const Asker box(machine({.gpus = 4, .gpus_per_switch = 2, .nics = {2, 2}}));
  EXPECT_EQ(box.nic("box/gpu0"), "box/mlx5_0");
  EXPECT_EQ(box.nic("box/gpu1"), "box/mlx5_1");
  EXPECT_EQ(box.nic("box/gpu2"), "box/mlx5_2");
  EXPECT_EQ(box.nic("box/gpu3"), "box/mlx5_3");
  EXPECT_EQ(Asker(machine({.nics = {}})).nic("box/gpu0"), "none");
}

TEST(NearestNic, irregular_boxes) {
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

// ---- levels and rails ----

const Level* level(const std::vector<Level>& all, const std::string& name) {
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const Level& one) { return one.name == name; });
  return found == all.end() ? nullptr : &*found;
}

TEST(Levels, of_a_cluster_of_servers) {
  const Topology cluster = *multiply(machine({}), 3);
  const auto all = levels(cluster);
  std::vector<std::string> names;
  for (const Level& each : all) names.push_back(each.name);
  EXPECT_THAT(names, ElementsAre("numa", "package", "node", "rail"));
  EXPECT_EQ(level(all, "numa")->groups.size(), 6U);
  EXPECT_EQ(level(all, "numa")->groups[1].name, "box-0/numa1");
  EXPECT_EQ(level(all, "numa")->groups[1].cpus, 4);
  EXPECT_EQ(level(all, "node")->groups[2].gpus.size(), 8U);
  EXPECT_EQ(level(all, "rail")->groups.size(), 4U);
  EXPECT_EQ(level(all, "rail")->groups[3].nics.size(), 3U);
  EXPECT_EQ(level(all, "rail")->groups[3].gpus.size(), 6U);
  for (const Level& each : all) EXPECT_TRUE(each.regular) << each.name;
}

TEST(Levels, irregular_nodes_are_said_to_be) {
  const std::vector<Topology> views = {machine({.name = "a", .gpus = 8}),
                                       machine({.name = "b", .gpus = 4}),
                                       machine({.name = "c", .gpus = 2, .nics = {1}})};
  const auto all = levels(*merge(views));
  EXPECT_FALSE(level(all, "node")->regular);
  EXPECT_FALSE(level(all, "rail")->regular);
  EXPECT_TRUE(level(all, "package")->groups.size() == 6);
}

TEST(Levels, every_member_is_in_one_group) {
  for (const Box& box : boxes()) {
    const Topology topology = machine(box);
    for (const Level& each : levels(topology)) {
      std::set<int> gpus;
      size_t total = 0;
      for (const LevelGroup& group : each.groups) {
        gpus.insert(group.gpus.begin(), group.gpus.end());
        total += group.gpus.size();
      }
      EXPECT_EQ(gpus.size(), total) << box.name << " " << each.name;
      if (each.name != "node") continue;
      EXPECT_EQ(total, static_cast<size_t>(box.gpus));
    }
  }
}

TEST(Levels, of_a_network) {
  const auto all = levels(fabric(3, 4));
  ASSERT_NE(level(all, "leaf"), nullptr);
  EXPECT_EQ(level(all, "leaf")->groups.size(), 6U);
  EXPECT_EQ(level(all, "leaf")->groups[0].nics.size(), 4U);
  EXPECT_EQ(level(all, "pod"), nullptr);  // the spines join everything
  Topology apart = fabric(2, 2);
  std::erase_if(apart.links, [&](const Link& link) {
    const auto& name = apart.vertices[static_cast<size_t>(link.to)].name;
    return (name == "spine0" && link.from >= find_vertex(apart, "leaf2")) ||
           (name == "spine1" && link.from < find_vertex(apart, "leaf2"));
  });
  ASSERT_NE(level(levels(apart), "pod"), nullptr);
  EXPECT_EQ(level(levels(apart), "pod")->groups.size(), 2U);
}

std::vector<std::string> tiers(const Topology& topology) {
  std::vector<std::string> texts;
  for (const NodeTier& tier : node_tiers(topology)) {
    texts.push_back(tier.name + ":");
    for (const int part : tier.part) texts.back() += ' ' + std::to_string(part);
  }
  return texts;
}

// Nodes are on both leaves of their pod, so that only pods part them.
TEST(Levels, have_no_group_of_nothing) {
  const auto slurm = import_topology(
      "SwitchName=leaf0 Nodes=a,b\nSwitchName=leaf1 Nodes=c\nSwitchName=top Switches=leaf[0-1]");
  ASSERT_TRUE(slurm.ok()) << slurm.status().message();
  EXPECT_TRUE(levels(*slurm).empty());
  // Of one node more is known, and it is on both leaves; memory without processors is near to none.
  Topology topology = *slurm;
  const int node = find_vertex(topology, "a");
  topology.vertices[static_cast<size_t>(node)].cpus = *parse_cpu_list("0-7");
  topology.links.push_back(
      {.from = node, .to = find_vertex(topology, "leaf1"), .kind = LinkKind::kNetwork});
  add_vertex(topology, {.kind = VertexKind::kNuma, .name = "hbm", .parent = node});
  ASSERT_TRUE(check(topology).ok()) << check(topology).message();
  std::vector<std::string> names;
  for (const Level& each : levels(topology)) {
    names.push_back(each.name);
    for (const LevelGroup& group : each.groups) EXPECT_EQ(group.cpus, 8) << each.name;
  }
  EXPECT_EQ(names, (std::vector<std::string>{"node", "leaf"}));
}

TEST(NodeTiers, join_nodes_of_one_switch) {
  EXPECT_THAT(tiers(fabric(2, 3)), ElementsAre("leaf: 0 0 0 1 1 1"));
  EXPECT_THAT(tiers(machine({})), ElementsAre());
  EXPECT_THAT(tiers(empty_topology()), ElementsAre());
  const auto racks = import_topology(
      "SwitchName=l0 Nodes=n[0-1]\nSwitchName=l1 Nodes=n[2-3]\nSwitchName=l2 Nodes=n4\n"
      "SwitchName=p0 Switches=l[0-1]\nSwitchName=p1 Switches=l2\nSwitchName=top Switches=p[0-1]");
  ASSERT_TRUE(racks.ok()) << racks.status().message();
  EXPECT_THAT(tiers(*racks), ElementsAre("leaf: 0 0 1 1 2", "pod: 0 0 0 0 1"));
}

Link* cable(Topology& topology, const char* one, const char* other) {
  const int a = find_vertex(topology, one);
  const int b = find_vertex(topology, other);
  for (Link& link : topology.links)
    if ((link.from == a && link.to == b) || (link.from == b && link.to == a)) return &link;
  return nullptr;
}

TEST(NodeTiers, have_what_joins_a_part_to_others) {
  Topology net = fabric(2, 3);
  // Two leaves a pod, each with a cable to both spines.
  const auto tiers = node_tiers(net);
  ASSERT_EQ(tiers.size(), 1U);
  EXPECT_THAT(tiers[0].uplink,
              ElementsAre(Figure{80, Source::kHardware}, Figure{80, Source::kHardware}));
  EXPECT_EQ(tiers[0].switches, 3);
  // A second cable beside the first counts, and the least reliable source is that of all.
  net.links.push_back(*cable(net, "leaf0", "spine1"));
  cable(net, "leaf2", "spine0")->bandwidth = {10, Source::kAssumed};
  EXPECT_THAT(node_tiers(net)[0].uplink,
              ElementsAre(Figure{100, Source::kHardware}, Figure{70, Source::kAssumed}));
  cable(net, "leaf3", "spine1")->bandwidth.value.reset();
  EXPECT_THAT(node_tiers(net)[0].uplink,
              ElementsAre(Figure{100, Source::kHardware}, Figure{std::nullopt, Source::kHardware}));
}

Topology slurm(const char* text) {
  const auto read = import_topology(text);
  EXPECT_TRUE(read.ok()) << read.status().message();
  return read.ok() ? *read : empty_topology();
}

TEST(NodeTiers, know_that_slurm_says_nothing_of_bandwidths) {
  const auto tiers = node_tiers(slurm(
      "SwitchName=l0 Nodes=n[0-1]\nSwitchName=l1 Nodes=n[2-3]\nSwitchName=l2 Nodes=n[4-5]\n"
      "SwitchName=p0 Switches=l[0-1]\nSwitchName=p1 Switches=l2\nSwitchName=top Switches=p[0-1]"));
  ASSERT_EQ(tiers.size(), 2U);
  EXPECT_THAT(tiers[0].uplink, ElementsAre(Figure(), Figure(), Figure()));
  EXPECT_THAT(tiers[1].uplink, ElementsAre(Figure(), Figure()));
  EXPECT_EQ(tiers[0].switches, 3);
  EXPECT_EQ(tiers[1].switches, 5);
}

// A switch that leads to nodes of one part only is of that part.
TEST(NodeTiers, have_upper_switches_of_their_own) {
  Topology net = slurm(
      "SwitchName=l0 Nodes=n[0-1]\nSwitchName=l1 Nodes=n[2-3]\nSwitchName=l2 Nodes=n[4-5]\n"
      "SwitchName=p0 Switches=l[0-1]\nSwitchName=p1 Switches=l2\nSwitchName=top Switches=p[0-1]");
  for (Link& link : net.links) link.bandwidth = {10, Source::kTable};
  cable(net, "p1", "top")->bandwidth = {5, Source::kTable};
  cable(net, "p0", "top")->bandwidth = {8, Source::kTable};
  const Figure leaf{10, Source::kTable}, one{5, Source::kTable}, two{8, Source::kTable};
  const auto tiers = node_tiers(net);
  ASSERT_EQ(tiers.size(), 2U);
  EXPECT_THAT(tiers[0].uplink, ElementsAre(leaf, leaf, one));
  EXPECT_THAT(tiers[1].uplink, ElementsAre(two, one));
}

TEST(NodeTiers, may_be_joined_by_cables_between_leaves_or_not_at_all) {
  Topology triangle = slurm(
      "SwitchName=l0 Nodes=n[0-1]\nSwitchName=l1 Nodes=n[2-3] Switches=l0\n"
      "SwitchName=l2 Nodes=n[4-5] Switches=l[0-1]");
  for (Link& link : triangle.links) link.bandwidth = {10, Source::kHardware};
  auto tiers = node_tiers(triangle);
  ASSERT_EQ(tiers.size(), 1U);
  EXPECT_THAT(tiers[0].uplink, Each(Figure{20, Source::kHardware}));
  EXPECT_EQ(tiers[0].switches, 3);
  tiers = node_tiers(slurm("SwitchName=l0 Nodes=n[0-1]\nSwitchName=l1 Nodes=n[2-3]"));
  ASSERT_EQ(tiers.size(), 1U);
  EXPECT_THAT(tiers[0].uplink, ElementsAre(Figure(), Figure()));
}

// Two leaves at the ends of that many switches in a row.
Topology row(int switches) {
  std::string text = "SwitchName=s0 Nodes=n[0-1]\n";
  for (int i = 1; i < switches; ++i)
    text += "SwitchName=s" + std::to_string(i) + (i + 1 == switches ? " Nodes=n[2-3]" : "") +
            " Switches=s" + std::to_string(i - 1) + "\n";
  return slurm(text.c_str());
}

TEST(NodeTiers, end_where_nobody_builds_more) {
  EXPECT_EQ(node_tiers(row(9)).front().switches, 9);
  EXPECT_EQ(node_tiers(row(31)).front().switches, 31);
  const auto tiers = node_tiers(row(20'000));
  ASSERT_EQ(tiers.size(), 1U);
  EXPECT_THAT(tiers[0].part, ElementsAre(0, 0, 1, 1));
  EXPECT_EQ(tiers[0].switches, 33);
}

TEST(Rails, go_by_name_and_leaf) {
  Topology net = fabric(2, 4);
  // Somebody's NICs have lost their names.
  net.vertices[static_cast<size_t>(find_vertex(net, "n0-2/mlx5_1"))].name = "H-0001";
  const auto found = rails(net);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].name, "mlx5_0");
  EXPECT_EQ(found[1].nics.size(), 8U);
}

TEST(Rails, what_is_down_is_in_none) {
  Topology cluster = *multiply(machine({}), 2);
  cluster.vertices[static_cast<size_t>(find_vertex(cluster, "box-0/mlx5_1:1"))].state = "DOWN";
  const auto found = rails(cluster);
  ASSERT_EQ(found.size(), 4U);
  EXPECT_EQ(found[3].nics.size(), 1U);
}

}  // namespace
}  // namespace banyan
