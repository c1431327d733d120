// Levels of a machine or cluster, tiers of its switches, rails.
// SPDX-License-Identifier: Apache-2.0

#include "topology/levels.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "tests/support/machines.h"
#include "topology/compose.h"
#include "topology/formats/import.h"
#include "topology/net_choice.h"

namespace banyan::levels_test {
namespace {

using test::Box;
using test::boxes;
using test::fabric;
using test::machine;
using ::testing::Each;
using ::testing::ElementsAre;

const Level* level(const std::vector<Level>& all, const std::string& name) {
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const Level& one) { return one.name == name; });
  return found == all.end() ? nullptr : &*found;
}

TEST(Levels, OfAClusterOfServers) {
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

TEST(Levels, IrregularNodesAreSaidToBe) {
  const std::vector<Topology> views = {machine({.name = "a", .gpus = 8}),
                                       machine({.name = "b", .gpus = 4}),
                                       machine({.name = "c", .gpus = 2, .nics = {1}})};
  const auto all = levels(*merge(views));
  EXPECT_FALSE(level(all, "node")->regular);
  EXPECT_FALSE(level(all, "rail")->regular);
  EXPECT_TRUE(level(all, "package")->groups.size() == 6);
}

TEST(Levels, EveryMemberIsInOneGroup) {
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

TEST(Levels, OfANetwork) {
  const auto all = levels(fabric(3, 4));
  ASSERT_NE(level(all, "leaf"), nullptr);
  EXPECT_EQ(level(all, "leaf")->groups.size(), 6U);
  EXPECT_EQ(level(all, "leaf")->groups[0].nics.size(), 4U);
  EXPECT_EQ(level(all, "pod"), nullptr);  // the spines join everything
  Topology apart = fabric(2, 2);
  std::erase_if(apart.edges, [&](const Edge& edge) {
    const auto& name = apart.vertices[static_cast<size_t>(edge.to)].name;
    return (name == "spine0" && edge.from >= find_vertex(apart, "leaf2")) ||
           (name == "spine1" && edge.from < find_vertex(apart, "leaf2"));
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
TEST(Levels, HaveNoGroupOfNothing) {
  const auto slurm = import_topology(
      "SwitchName=leaf0 Nodes=a,b\nSwitchName=leaf1 Nodes=c\nSwitchName=top Switches=leaf[0-1]");
  ASSERT_TRUE(slurm.ok()) << slurm.status().message();
  EXPECT_TRUE(levels(*slurm).empty());
  // One node is better known, and it is on both leaves; memory without processors is near to none.
  Topology topology = *slurm;
  const int node = find_vertex(topology, "a");
  topology.vertices[static_cast<size_t>(node)].cpus = *parse_cpu_list("0-7");
  topology.edges.push_back(
      {.from = node, .to = find_vertex(topology, "leaf1"), .kind = EdgeKind::kNetwork});
  add_vertex(topology, {.kind = VertexKind::kNuma, .name = "hbm", .parent = node});
  ASSERT_TRUE(check(topology).ok()) << check(topology).message();
  std::vector<std::string> names;
  for (const Level& each : levels(topology)) {
    names.push_back(each.name);
    for (const LevelGroup& group : each.groups) EXPECT_EQ(group.cpus, 8) << each.name;
  }
  EXPECT_EQ(names, (std::vector<std::string>{"node", "leaf"}));
}

TEST(NodeTiers, JoinNodesOfOneSwitch) {
  EXPECT_THAT(tiers(fabric(2, 3)), ElementsAre("leaf: 0 0 0 1 1 1"));
  EXPECT_THAT(tiers(machine({})), ElementsAre());
  EXPECT_THAT(tiers(empty_topology()), ElementsAre());
  const auto racks = import_topology(
      "SwitchName=l0 Nodes=n[0-1]\nSwitchName=l1 Nodes=n[2-3]\nSwitchName=l2 Nodes=n4\n"
      "SwitchName=p0 Switches=l[0-1]\nSwitchName=p1 Switches=l2\nSwitchName=top Switches=p[0-1]");
  ASSERT_TRUE(racks.ok()) << racks.status().message();
  EXPECT_THAT(tiers(*racks), ElementsAre("leaf: 0 0 1 1 2", "pod: 0 0 0 0 1"));
}

Edge* cable(Topology& topology, const char* one, const char* other) {
  const int a = find_vertex(topology, one);
  const int b = find_vertex(topology, other);
  for (Edge& edge : topology.edges)
    if ((edge.from == a && edge.to == b) || (edge.from == b && edge.to == a)) return &edge;
  return nullptr;
}

TEST(NodeTiers, HaveWhatJoinsAPartToOthers) {
  Topology net = fabric(2, 3);
  // Two leaves a pod, each with a cable to both spines.
  const auto tiers = node_tiers(net);
  ASSERT_EQ(tiers.size(), 1U);
  EXPECT_THAT(tiers[0].uplink,
              ElementsAre(Figure{80, Source::kHardware}, Figure{80, Source::kHardware}));
  EXPECT_EQ(tiers[0].switches, 3);
  // A second cable beside the first counts, and the least reliable source is that of all.
  net.edges.push_back(*cable(net, "leaf0", "spine1"));
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

TEST(NodeTiers, KnowThatSlurmSaysNothingOfBandwidths) {
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
TEST(NodeTiers, HaveUpperSwitchesOfTheirOwn) {
  Topology net = slurm(
      "SwitchName=l0 Nodes=n[0-1]\nSwitchName=l1 Nodes=n[2-3]\nSwitchName=l2 Nodes=n[4-5]\n"
      "SwitchName=p0 Switches=l[0-1]\nSwitchName=p1 Switches=l2\nSwitchName=top Switches=p[0-1]");
  for (Edge& edge : net.edges) edge.bandwidth = {10, Source::kTable};
  cable(net, "p1", "top")->bandwidth = {5, Source::kTable};
  cable(net, "p0", "top")->bandwidth = {8, Source::kTable};
  const Figure leaf{10, Source::kTable}, one{5, Source::kTable}, two{8, Source::kTable};
  const auto tiers = node_tiers(net);
  ASSERT_EQ(tiers.size(), 2U);
  EXPECT_THAT(tiers[0].uplink, ElementsAre(leaf, leaf, one));
  EXPECT_THAT(tiers[1].uplink, ElementsAre(two, one));
}

TEST(NodeTiers, MayBeJoinedByCablesBetweenLeavesOrNotAtAll) {
  Topology triangle = slurm(
      "SwitchName=l0 Nodes=n[0-1]\nSwitchName=l1 Nodes=n[2-3] Switches=l0\n"
      "SwitchName=l2 Nodes=n[4-5] Switches=l[0-1]");
  for (Edge& edge : triangle.edges) edge.bandwidth = {10, Source::kHardware};
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

TEST(NodeTiers, EndWhereNobodyBuildsMore) {
  EXPECT_EQ(node_tiers(row(9)).front().switches, 9);
  EXPECT_EQ(node_tiers(row(31)).front().switches, 31);
  const auto tiers = node_tiers(row(20'000));
  ASSERT_EQ(tiers.size(), 1U);
  EXPECT_THAT(tiers[0].part, ElementsAre(0, 0, 1, 1));
  EXPECT_EQ(tiers[0].switches, 33);
}

// Four hosts on two leaves, all of them on others with NICs of their own.
std::string with_storage(const char* more) {
  std::string text =
      "vendid=1\nSwitch 41 \"S-1\" # \"east\"\n[9] \"S-3\"[1] # 4xHDR\n"
      "Switch 41 \"S-2\" # \"west\"\n[9] \"S-3\"[2] # 4xHDR\nSwitch 41 \"S-3\" # \"top\"\n";
  for (int host = 0; host < 4; ++host) {
    const auto adapter = [&](int number, int leaf) {
      text +=
          fmt::format("Ca 1 \"H-{0}{1}\" # \"host{0} mlx5_{1}\"\n[1] \"S-{2}\"[{0}{1}] # 4xHDR\n",
                      host, number, leaf);
    };
    adapter(0, 1 + host / 2);
    for (const char* leaf = more; *leaf != 0; ++leaf)
      adapter(1 + static_cast<int>(leaf - more), *leaf - '0');
  }
  for (const char* leaf = more; *leaf != 0; ++leaf)
    if (text.find(fmt::format("Switch 41 \"S-{}\"", *leaf)) == std::string::npos)
      text += fmt::format("Switch 41 \"S-{0}\" # \"store{0}\"\n", *leaf);
  return text;
}

std::vector<std::string> notes_on(const Topology& topology) {
  Notes notes;
  note_joining_switches(topology, notes);
  return notes.lines();
}

TEST(NodeTiers, GoWhenASwitchJoinsAllNodesAndALineSaysSo) {
  struct Case {
    const char* more;
    std::vector<std::string> tiers;
    std::vector<std::string> notes;
  };
  for (const Case& each : std::vector<Case>{
           {"", {"leaf: 0 0 1 1"}, {}},
           {"7",
            {},
            {"switch store7 joins nodes that others keep apart: without it, there would be levels "
             "(leaf); BANYAN_NET_DEVICES=^mlx5_1 leaves out the NICs there"}},
           {"78",
            {},
            {"switches store7, store8 join nodes that others keep apart: without them, there would "
             "be levels (leaf); BANYAN_NET_DEVICES=^mlx5_1,mlx5_2 leaves out the NICs there"}},
       }) {
    const auto read = import_topology(with_storage(each.more));
    ASSERT_TRUE(read.ok()) << read.status().message();
    EXPECT_EQ(tiers(*read), each.tiers);
    EXPECT_EQ(notes_on(*read), each.notes);
  }
  // Rails have a leaf each, and one leaf for all is what there is.
  EXPECT_EQ(notes_on(fabric(2, 4)), std::vector<std::string>());
  EXPECT_EQ(notes_on(slurm("SwitchName=a Nodes=n[0-3]\nSwitchName=b Nodes=n[0-3]")),
            std::vector<std::string>());
  EXPECT_EQ(notes_on(slurm("SwitchName=a Nodes=n[0-1]\nSwitchName=b Nodes=n[2-3]\n"
                           "SwitchName=s Nodes=n[0-3]")),
            std::vector<std::string>{"switch s joins nodes that others keep apart: without it, "
                                     "there would be levels (leaf)"});
}

TEST(NodeTiers, AreOfTheNicsThatAJobUses) {
  const auto read = import_topology(with_storage("7"));
  ASSERT_TRUE(read.ok()) << read.status().message();
  for (const char* list :
       {"^mlx5_1", "mlx5_0", " mlx5_0:1 , eth0", "^mlx5_1:1", "^ mlx5_1,mlx5_9"}) {
    Notes notes;
    const Topology used = with_net_devices(*read, list, notes);
    EXPECT_TRUE(check(used).ok());
    EXPECT_THAT(tiers(used), ElementsAre("leaf: 0 0 1 1")) << list;
    EXPECT_EQ(vertices_of(used, VertexKind::kNic).size(), 4U);
    EXPECT_TRUE(notes.lines().empty() && notes_on(used).empty());
  }
  for (const char* list : {"", "all", "^mlx5_9", "mlx5_1,mlx5_0"}) {
    Notes notes;
    EXPECT_EQ(with_net_devices(*read, list, notes), *read) << list;
    EXPECT_TRUE(notes.lines().empty());
  }
  for (const char* list : {"eth0", "^all", "^mlx5_0,mlx5_1"}) {
    Notes notes;
    EXPECT_EQ(with_net_devices(*read, list, notes), *read) << list;
    EXPECT_EQ(notes.lines(),
              std::vector<std::string>{
                  fmt::format("BANYAN_NET_DEVICES={} leaves node host0 no NIC of the description: "
                              "levels go by all of them",
                              list)});
  }
}

TEST(Rails, GoByNameAndLeaf) {
  Topology net = fabric(2, 4);
  // Somebody's NICs have lost their names.
  net.vertices[static_cast<size_t>(find_vertex(net, "n0-2/mlx5_1"))].name = "H-0001";
  const auto found = rails(net);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].name, "mlx5_0");
  EXPECT_EQ(found[1].nics.size(), 8U);
}

TEST(Rails, WhatIsDownIsInNone) {
  for (const char* state : {"DOWN", "INIT", "lowerlayerdown"}) {
    Topology cluster = *multiply(machine({}), 2);
    cluster.vertices[static_cast<size_t>(find_vertex(cluster, "box-0/mlx5_1:1"))].state = state;
    const auto found = rails(cluster);
    ASSERT_EQ(found.size(), 4U);
    EXPECT_EQ(found[3].nics.size(), 1U) << state;
  }
}

}  // namespace
}  // namespace banyan::levels_test
