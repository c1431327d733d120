// What banyan_info knows of the switches of a cluster that a file describes.
// SPDX-License-Identifier: Apache-2.0

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "bench/info/described.h"
#include "bench/info/options.h"
#include "bench/info/show.h"
#include "tests/support/machines.h"
#include "tests/support/real_machines.h"
#include "tests/support/temporary_folder.h"
#include "topology/formats/import.h"
#include "topology/formats/json.h"

namespace banyan::info::info_tiers_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::string_view kSlurm =
    "SwitchName=l0 Nodes=n[0-3]\nSwitchName=l1 Nodes=n[4-6]\nSwitchName=l2 Nodes=n[7-8]\n"
    "SwitchName=p0 Switches=l[0-1] LinkSpeed=100\nSwitchName=p1 Switches=l2\n"
    "SwitchName=top Switches=p[0-1]\n";

// Three leaves of two hosts, one spine, two cables from each leaf but one.
constexpr std::string_view kInfiniband = R"(
Switch 8 "S-a" # "leaf a"
[1] "H-1"[1] # "h1 mlx5_0" lid 1 4xHDR
[2] "H-2"[1] # "h2 mlx5_0" lid 1 4xHDR
[7] "S-s"[1] # "spine" lid 1 4xHDR
[8] "S-s"[2] # "spine" lid 1 4xHDR
Switch 8 "S-b" # "leaf b"
[1] "H-3"[1] # "h3 mlx5_0" lid 1 4xHDR
[2] "H-4"[1] # "h4 mlx5_0" lid 1 4xHDR
[7] "S-s"[3] # "spine" lid 1 4xHDR
[8] "S-s"[4] # "spine" lid 1 4xHDR
Switch 8 "S-c" # "leaf c"
[1] "H-5"[1] # "h5 mlx5_0" lid 1 4xHDR
[2] "H-6"[1] # "h6 mlx5_0" lid 1 4xHDR
[7] "S-s"[5] # "spine" lid 1 4xEDR
Switch 8 "S-s" # "spine"
Ca 1 "H-1" # "h1 mlx5_0"
Ca 1 "H-2" # "h2 mlx5_0"
Ca 1 "H-3" # "h3 mlx5_0"
Ca 1 "H-4" # "h4 mlx5_0"
Ca 1 "H-5" # "h5 mlx5_0"
Ca 1 "H-6" # "h6 mlx5_0"
)";

Topology read(std::string_view text) {
  const auto topology = import_topology(std::string(text));
  EXPECT_TRUE(topology.ok()) << topology.status().message();
  return topology.ok() ? *topology : empty_topology();
}

DescribedMachine described(const Topology& topology, int times, int ranks_per_node,
                           const MeasuredLinks& measured = {}) {
  auto machine = describe_machine(topology, times, ranks_per_node, measured);
  EXPECT_TRUE(machine.ok()) << machine.status().message();
  return machine.ok() ? std::move(*machine) : DescribedMachine();
}

std::string explained(const std::string& file, int nodes, int ranks_per_node) {
  Options options;
  options.from = file;
  options.nodes = nodes;
  options.ranks_per_node = ranks_per_node;
  options.explain = *parse_explain_request("allreduce:64M");
  const auto result = explain_call(options, RawEnvironment({}));
  EXPECT_TRUE(result.ok()) << result.status().message();
  return result.ok() ? show_explanation(*result) : std::string();
}

std::string explained_text(std::string_view text, int nodes = 1, int ranks_per_node = 0) {
  const test::TemporaryFolder folder;
  const std::string file = folder.path() / "cluster";
  std::ofstream(file) << text;
  return explained(file, nodes, ranks_per_node);
}

TEST(InfoTiers, HierarchyHasHostsAndAboveThemTiers) {
  const DescribedMachine one = described(read(kSlurm), 1, 1);
  EXPECT_EQ(one.hierarchy.text(), "9 hosts of 1, 3 leaves of 2 to 4, 2 pods of 2 to 7");
  const DescribedMachine two = described(read(kSlurm), 1, 2);
  EXPECT_EQ(two.hierarchy.text(), "9 hosts of 2, 3 leaves of 4 to 8, 2 pods of 4 to 14");
  EXPECT_THAT(
      std::vector<int>(two.hierarchy.members(1, 1).begin(), two.hierarchy.members(1, 1).end()),
      ElementsAre(8, 9, 10, 11, 12, 13));
  EXPECT_EQ(described(test::machine({}), 4, 2).hierarchy.text(), "4 hosts of 2");
  EXPECT_EQ(described(test::machine({}), 1, 2).hierarchy.text(), "1 host of 2");
  EXPECT_TRUE(described(test::machine({}), 4, 2).model.tiers.empty());
}

TEST(InfoTiers, OfProcessorsThatNobodyDescribesEachRankHasOne) {
  const DescribedMachine machine = described(read(kSlurm), 1, 4);
  EXPECT_EQ(machine.cores, 4);
  EXPECT_EQ(machine.model.cores, 4);
  ASSERT_FALSE(machine.figures.empty());
  EXPECT_EQ(text_of(machine.figures.front()), "cores of a node                   4        assumed");
}

// hwloc's files have a link that may have been idle, and a port that says no rate.
TEST(InfoTiers, DoubtfulFiguresAreCalledSoWhereTheyDecide) {
  Topology topology = test::machine({.gpus = 2, .gpus_per_switch = 0, .nics = {1}});
  const auto text = [&] {
    std::string all;
    for (const ShownFigure& each : described(topology, 2, 2).figures) all += text_of(each) + '\n';
    return all;
  };
  EXPECT_THAT(text(), Not(HasSubstr("doubtful")));
  for (Edge& edge : topology.edges)
    if (edge.kind == EdgeKind::kPcie) {
      edge.bandwidth = {2, Source::kHardware};
      edge.text = "current";
    }
  EXPECT_THAT(text(), HasSubstr("between GPUs of a node            2 GB/s   hardware, doubtful"));
  EXPECT_THAT(text(), HasSubstr("a NIC                             2 GB/s   hardware, doubtful"));
  for (Vertex& vertex : topology.vertices)
    if (vertex.kind == VertexKind::kPort)
      vertex = {.kind = vertex.kind,
                .name = vertex.name,
                .parent = vertex.parent,
                .interface = "eth0",
                .link_layer = "Ethernet"};
  EXPECT_THAT(text(), HasSubstr("a NIC                          1.25 GB/s   assumed, doubtful"));
  const test::TemporaryFolder folder;
  const std::string file = folder.path() / "idle.json";
  std::ofstream(file) << to_json(topology);
  EXPECT_THAT(explained(file, 2, 2), HasSubstr("# doubtful: of PCI links that may have been idle"));
}

// A switch for storage joins all nodes.
TEST(InfoTiers, TiersAreOfTheNicsThatJobsUse) {
  Topology cluster = test::fabric(2, 2);
  const int store =
      add_vertex(cluster, {.kind = VertexKind::kSwitch, .name = "store", .parent = 0});
  for (const int node : vertices_of(cluster, VertexKind::kNode)) {
    const int nic = add_vertex(cluster, {.kind = VertexKind::kNic, .name = "disk", .parent = node});
    cluster.edges.push_back({.from = nic, .to = store, .kind = EdgeKind::kNetwork});
  }
  const test::TemporaryFolder folder;
  Options options;
  options.from = folder.path() / "cluster.json";
  std::ofstream(options.from) << to_json(cluster);
  options.explain = *parse_explain_request("allreduce:64M");
  const auto explain_with = [&](const std::string& devices, Notes* notes) {
    const auto result =
        explain_call(options, RawEnvironment({{"BANYAN_NET_DEVICES", devices}}), notes);
    EXPECT_TRUE(result.ok()) << result.status().message();
    return result.ok() ? show_explanation(*result) : std::string();
  };
  Notes all;
  EXPECT_THAT(explain_with("all", &all), Not(HasSubstr("leaf")));
  ASSERT_EQ(all.lines().size(), 1U);
  EXPECT_THAT(all.lines().front(), HasSubstr("BANYAN_NET_DEVICES=^disk leaves out the NICs there"));
  Notes some;
  EXPECT_THAT(explain_with("^disk", &some), HasSubstr("nodes of a leaf                   2"));
  EXPECT_TRUE(some.lines().empty());
}

// A rail has as many NICs as carry most together, each as much as the slowest of them; all where
// none is known.
TEST(InfoTiers, RailsAreTheNicsThatCarryMost) {
  struct Case {
    std::vector<double> rates;  // of the NICs' ports; 0: a NIC without one
    double nics, rate;
  };
  for (const auto& [rates, nics, rate] :
       {Case{{50, 50, 50, 50, 0.125}, 4, 50}, Case{{30, 50}, 2, 30}, Case{{20, 50}, 1, 50},
        Case{{0, 50}, 1, 50}, Case{{0, 0, 0}, 3, 1.25}, Case{{}, 1, 1.25}}) {
    Topology node = empty_topology();
    add_vertex(node, {.kind = VertexKind::kNode, .name = "n", .parent = 0});
    for (const double each : rates) {
      const int nic = add_vertex(node, {.kind = VertexKind::kNic,
                                        .name = "nic" + std::to_string(node.vertices.size()),
                                        .parent = 1});
      if (each > 0)
        add_vertex(node, {.kind = VertexKind::kPort,
                          .name = "port" + std::to_string(node.vertices.size()),
                          .parent = nic,
                          .rate = {each, Source::kHardware}});
    }
    ASSERT_TRUE(check(node).ok()) << check(node).message();
    const CostModel model = described(node, 2, 1).model;
    EXPECT_EQ(model.nics, nics) << rates.size();
    EXPECT_NEAR(1e-3 / *model.wire_byte.value, rate, 1e-9) << rates.size();
  }
}

// Two ports of a card are two functions behind one link.
TEST(InfoTiers, NicsCarryNoMoreThanPci) {
  for (const auto& [ids, nics, rate] :
       {std::tuple(std::pair("0000:81:00.0", "0000:82:00.0"), 2, 20.0),
        std::tuple(std::pair("0000:81:00.0", "0000:81:00.1"), 2, 15.0)}) {
    Topology node = empty_topology();
    add_vertex(node, {.kind = VertexKind::kNode, .name = "n", .parent = 0});
    for (const char* id : {ids.first, ids.second}) {
      const int nic = add_vertex(
          node,
          {.kind = VertexKind::kNic, .name = std::string("nic") + id, .parent = 1, .bus_id = id});
      add_vertex(node, {.kind = VertexKind::kPort,
                        .name = std::string("port") + id,
                        .parent = nic,
                        .rate = {20, Source::kHardware}});
      node.edges.push_back(
          {.from = nic, .to = 1, .kind = EdgeKind::kPcie, .bandwidth = {30, Source::kTable}});
    }
    const CostModel model = described(node, 2, 1).model;
    EXPECT_EQ(model.nics, nics);
    EXPECT_NEAR(1e-3 / *model.wire_byte.value, rate, 1e-9);
    EXPECT_EQ(model.wire_byte.source, rate < 20 ? Source::kTable : Source::kHardware);
  }
}

// Nobody says what would join them.
TEST(InfoTiers, CopiesHaveTiersOfTheirOwn) {
  const DescribedMachine machine = described(read(kSlurm), 2, 1);
  EXPECT_EQ(machine.hierarchy.text(), "18 hosts of 1, 6 leaves of 2 to 4, 4 pods of 2 to 7");
  EXPECT_EQ(machine.hierarchy.part_of(2, 8), 1);
  EXPECT_EQ(machine.hierarchy.part_of(2, 9), 2);
  EXPECT_EQ(machine.model.tiers, described(read(kSlurm), 1, 1).model.tiers);
}

TEST(InfoTiers, SlurmSaysWhoIsWhereAndNoBandwidth) {
  const CostModel model = described(read(kSlurm), 1, 1).model;
  const Figure unknown;
  EXPECT_THAT(model.tiers, ElementsAre(TierCost{"leaf", {12, Source::kAssumed}, unknown},
                                       TierCost{"pod", {14, Source::kAssumed}, unknown}));
  EXPECT_THAT(explained_text(kSlurm),
              AllOf(HasSubstr("on 9 ranks (9 hosts of 1, 3 leaves of 2 to 4, 2 pods of 2 to 7)"),
                    HasSubstr("# nodes of a leaf              2 to 4\n"),
                    HasSubstr("# uplinks of a leaf           unknown\n"),
                    HasSubstr("# latency beyond a leaf            12 us     assumed\n"),
                    HasSubstr("# nodes of a pod               2 to 7\n"),
                    HasSubstr("# latency beyond a pod             14 us     assumed\n")));
}

TEST(InfoTiers, IbnetdiscoverSaysHowWideCablesAre) {
  const DescribedMachine machine = described(read(kInfiniband), 1, 1);
  EXPECT_EQ(machine.hierarchy.text(), "6 hosts of 1, 3 leaves of 2");
  // The narrowest leaf has one cable of 12.5 GB/s, the others two of 25.
  ASSERT_EQ(machine.model.tiers.size(), 1U);
  const TierCost& leaf = machine.model.tiers.front();
  EXPECT_EQ(leaf.name, "leaf");
  EXPECT_EQ(leaf.alpha.source, Source::kTable);
  EXPECT_DOUBLE_EQ(leaf.alpha.value.value_or(0), 2.6);
  EXPECT_EQ(leaf.uplink_byte.source, Source::kHardware);
  EXPECT_DOUBLE_EQ(leaf.uplink_byte.value.value_or(0), 1e-3 / 12.5);
  EXPECT_THAT(explained_text(kInfiniband),
              AllOf(HasSubstr("# nodes of a leaf                   2\n"),
                    HasSubstr("# uplinks of a leaf              12.5 GB/s   hardware\n"),
                    HasSubstr("# latency beyond a leaf           2.6 us     table\n")));
}

// The nodes have two NICs on two leaves, and four cables of 20 GB/s leave those.
TEST(InfoTiers, JsonOfOursSaysAllOfIt) {
  const std::string text = explained_text(to_json(test::fabric(2, 3)), 1, 4);
  EXPECT_THAT(text, AllOf(HasSubstr("on 24 ranks (6 hosts of 4, 2 leaves of 12)"),
                          HasSubstr("# uplinks of a leaf                80 GB/s   hardware\n")));
  Topology narrow = test::fabric(2, 3);
  for (Edge& edge : narrow.edges)
    if (edge.bandwidth.value == 20) edge.bandwidth = {0.5, Source::kAssumed};
  EXPECT_THAT(explained_text(to_json(narrow), 1, 4),
              HasSubstr("# uplinks of a leaf                 2 GB/s   assumed\n"));
  // One of no width is taken for unknown.
  for (Edge& edge : narrow.edges) edge.bandwidth = {0, Source::kAssumed};
  EXPECT_THAT(explained_text(to_json(narrow), 1, 4),
              HasSubstr("uplinks of a leaf           unknown"));
}

// Whatever the text has of a machine, JSON has, too.
TEST(InfoTiers, JsonHasTheFigures) {
  const test::TemporaryFolder folder;
  Options options;
  options.from = folder.path() / "cluster";
  options.nodes = 2;
  options.ranks_per_node = 4;
  options.explain = *parse_explain_request("allreduce:64M");
  for (const std::string& text :
       {std::string(kSlurm), std::string(kInfiniband), to_json(test::fabric(2, 3))}) {
    std::ofstream(options.from) << text;
    const auto explained = explain_call(options, RawEnvironment({}));
    ASSERT_TRUE(explained.ok()) << explained.status().message();
    const auto machine = nlohmann::json::parse(show_explanation_json(*explained))["machine"];
    for (const std::string key :
         {"cores", "memory_latency_us", "memory_GBps", "nic_GBps", "nics", "network_latency_us"})
      EXPECT_TRUE(machine.contains(key)) << key;
    size_t shown = 0;
    for (const ShownFigure& each : explained->figures) {
      nlohmann::json place = machine;
      if (!each.level.empty()) {
        place = nullptr;
        for (const auto& tier : machine["tiers"])
          if (tier["name"] == each.level) place = tier;
        shown += each.key == "nodes" ? 1 : 0;
      }
      ASSERT_TRUE(place.contains(each.key)) << each.what;
      const auto& found = place[each.key];
      EXPECT_TRUE(parse_source(found["source"].get<std::string>()).ok());
      EXPECT_EQ(found["value"].is_null(), !each.figure.known()) << each.what;
      if (each.figure.known()) {
        EXPECT_EQ(found["value"], *each.figure.value);
      }
    }
    EXPECT_EQ(machine["tiers"].size(), shown);
    EXPECT_GT(shown, 0U);
  }
}

TEST(InfoTiers, WhatWasMeasuredStays) {
  const MeasuredLinks links{.between = MeasuredLink{.latency_us = 20,
                                                    .busy_latency_us = 30,
                                                    .message_us = 2,
                                                    .GBps = 0.12,
                                                    .busy_GBps = 0.06,
                                                    .pairs = 2}};
  const DescribedMachine machine = described(read(kInfiniband), 1, 2, links);
  // Nothing was measured of the tier: it is that much beyond what was.
  ASSERT_EQ(machine.model.tiers.size(), 1U);
  EXPECT_DOUBLE_EQ(machine.model.tiers.front().alpha.value.value_or(0), 26.6);
  EXPECT_EQ(machine.model.tiers.front().alpha.source, Source::kTable);
  MeasuredLinks more = links;
  more.beyond = {{"leaf", *links.between}};
  const CostModel known = with_links(CostModel(), more);
  const DescribedMachine measured = described(read(kInfiniband), 1, 2, more);
  for (const TierCost& tier : known.tiers) EXPECT_THAT(measured.model.tiers, ElementsAre(tier));
}

TEST(InfoTiers, AMillionRanksTakeAMoment) {
  const std::string text = explained_text(
      "SwitchName=l0 Nodes=a[0-4095]\nSwitchName=l1 Nodes=b[0-4095]\nSwitchName=s Switches=l[0-1]",
      1, 128);
  EXPECT_THAT(text, HasSubstr("on 1048576 ranks (8192 hosts of 128, 2 leaves of 524288)"));
}

// Ranks on cores of two NUMA domains, in order.
TEST(InfoTiers, RanksAreSpreadOverTheCores) {
  for (const auto& [first, second] : {std::pair(4, 4), std::pair(1, 3), std::pair(5, 2)})
    for (int ranks = 2; ranks <= 9; ++ranks) {
      Topology node = test::machine(
          {.packages = 1, .numas_per_package = 2, .gpus = 0, .gpus_per_switch = 0, .nics = {}});
      const std::vector<int> numas = vertices_of(node, VertexKind::kNuma);
      node.vertices[static_cast<size_t>(numas[0])].cores = first;
      node.vertices[static_cast<size_t>(numas[1])].cores = second;
      int near = 0;
      for (int rank = 0; rank < ranks; ++rank)
        if (rank * (first + second) / ranks < first) ++near;
      std::set<int> expected, found;
      if (near < ranks) expected = {near, ranks - near};
      for (const PartCost& part : described(node, 1, ranks).model.parts) found.insert(part.ranks);
      EXPECT_EQ(found, expected) << first << " " << second << " " << ranks;
    }
}

// The topology would be a file of a few hundred KB.
TEST(InfoTiers, ACoreTakesNoMemory) {
  Topology node = empty_topology();
  add_vertex(node, {.kind = VertexKind::kNode, .name = "n", .parent = 0});
  for (int i = 0; i < 4096; ++i)
    add_vertex(node, {.kind = VertexKind::kNuma,
                      .name = "numa" + std::to_string(i),
                      .parent = 1,
                      .cores = 65536,
                      .index = i});
  const auto peak_mb = [] {
    struct rusage usage = {};
    EXPECT_EQ(getrusage(RUSAGE_SELF, &usage), 0);
    return usage.ru_maxrss / 1024;
  };
  const int64_t before = peak_mb();
  EXPECT_EQ(described(node, 1, 4).hosts, std::vector<int>{4});
  EXPECT_LT(peak_mb() - before, 100);
}

TEST(InfoTiers, OfARealFabric) {
  const auto folder = test::real_machines();
  if (!folder) GTEST_SKIP() << test::kNoRealMachines;
  const auto packed = *folder / "ibnetdiscover_dgx_ndr_rails.out.gz";
  if (!std::filesystem::exists(packed)) GTEST_SKIP() << "the folder has no " << packed.filename();
  // Eight groups of nodes with a leaf for each of four rails, all but one of them whole.
  const std::string text = explained_text(test::content_of(packed), 1, 8);
  EXPECT_THAT(text, AllOf(HasSubstr(", 8 leaves of 136 to 256)"),
                          HasSubstr("# nodes of a leaf            17 to 32\n"),
                          HasSubstr("# uplinks of a leaf              2650 GB/s   hardware\n"),
                          HasSubstr("# latency beyond a leaf           2.6 us     table\n"),
                          Not(HasSubstr("pod"))));
}

}  // namespace
}  // namespace banyan::info::info_tiers_test
