// A node written as hwloc's XML, and read again through hwloc.
// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <random>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "tests/support/machines.h"
#include "tests/support/variable.h"
#include "tests/topology/alike.h"
#include "topology/formats/export.h"
#include "topology/formats/import.h"

namespace banyan {
namespace {

using test::machine;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// hwloc ends the process where what it has read is not as it wants it.
Result<Topology> read_back(const std::string& text) {
  const test::Variable checks("HWLOC_DEBUG_CHECK", "1");
  return import_topology(text);
}

TEST(ToHwlocXml, comes_back_with_the_same_paths) {
  for (const Topology& before : test::exact_machines()) {
    SCOPED_TRACE(before.vertices[1].name);
    const auto text = to_hwloc_xml(before);
    ASSERT_TRUE(text.ok()) << text.status().message();
    const auto again = read_back(*text);
    if (test::unsupported(again)) GTEST_SKIP() << std::string(again.status().message());
    ASSERT_TRUE(again.ok()) << again.status().message() << *text;
    test::expect_same_devices(*again, before);
    test::expect_same_numas(*again, before);
    EXPECT_EQ(again->vertices[1].name, before.vertices[1].name);
    for (const VertexKind kind : {VertexKind::kNode, VertexKind::kPackage, VertexKind::kNuma})
      for (const int part : vertices_of(before, kind)) {
        const Vertex& vertex = before.vertices[static_cast<size_t>(part)];
        const int same = find_vertex(*again, full_name(before, part));
        ASSERT_GE(same, 0) << vertex.name;
        EXPECT_EQ(again->vertices[static_cast<size_t>(same)].cores, vertex.cores);
        EXPECT_EQ(again->vertices[static_cast<size_t>(same)].memory, vertex.memory);
      }
    for (const int port : vertices_of(before, VertexKind::kPort)) {
      const int same = find_vertex(*again, full_name(before, port));
      ASSERT_GE(same, 0) << full_name(before, port);
      EXPECT_EQ(again->vertices[static_cast<size_t>(same)].state, "ACTIVE");
    }
    EXPECT_EQ(*to_hwloc_xml(*again), *to_hwloc_xml(*read_back(*to_hwloc_xml(*again))));
  }
}

TEST(ToHwlocXml, says_a_machine_as_hwloc_does) {
  Topology topology = machine({.packages = 1, .cpus_per_numa = 1, .gpus = 1, .nics = {1}});
  test::vertex_at(topology, "box/gpu0").vendor = "NVIDIA";
  const std::string sets =
      "cpuset=\"0x00000001\" complete_cpuset=\"0x00000001\" nodeset=\"0x00000001\" "
      "complete_nodeset=\"0x00000001\"";
  const std::string text = *to_hwloc_xml(topology);
  EXPECT_THAT(text, StartsWith(fmt::format(
                        R"(<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc2.dtd">
<topology version="2.0">
  <object type="Machine" gp_index="1" os_index="0" {0} allowed_cpuset="0x00000001" allowed_nodeset="0x00000001">
    <info name="HostName" value="box"/>
    <object type="Package" gp_index="2" {0}>
      <object type="NUMANode" gp_index="3" os_index="0" {0} local_memory="68719476736">
      </object>
      <object type="Core" gp_index="4" {0}>
        <object type="PU" gp_index="5" os_index="0" {0}/>
      </object>
      <object type="Bridge" gp_index="6" bridge_type="0-1" depth="0" bridge_pci="0000:[01-03]">
        <object type="Bridge" gp_index="7" bridge_type="1-1" depth="1" bridge_pci="0000:[01-03]" )"
                        R"(pci_busid="ffff:ff:01.0" pci_type="0604 [0000:0000] [0000:0000] 00" )",
                        sets)));
  for (
      const char* part :
      {R"(pci_busid="0000:02:00.0" pci_type="0302 [10de:0000] [0000:0000] 00" pci_link_speed="31.5)",
       R"(<info name="BanyanLink" value="pcie x16 16 GT/s, 31.5 GB/s [hardware]"/>)",
       R"( name="nvml0" osdev_type="1">)", R"( name="mlx5_0" osdev_type="3">)",
       R"(<info name="Port1State" value="4"/>)",
       R"(<info name="BanyanRate" value="Port1: 25 GB/s [hardware]"/>)"})
    EXPECT_THAT(text, HasSubstr(part));
}

TEST(ToHwlocXml, addresses_of_ports_come_back) {
  Topology topology = machine({.packages = 1, .gpus = 1, .nics = {1}});
  Vertex& port = test::vertex_at(topology, "box/mlx5_0:1");
  port.guid = "fe80::1";
  port.gids = {{0, "fe80::1", "", ""}, {3, "::ffff:a00:1", "", ""}, {12, "fe80::<1>", "", ""}};
  std::string text = *to_hwloc_xml(topology);
  const auto again = read_back(text);
  if (test::unsupported(again)) GTEST_SKIP() << std::string(again.status().message());
  ASSERT_TRUE(again.ok()) << again.status().message();
  const Vertex& same = again->vertices[static_cast<size_t>(find_vertex(*again, "box/mlx5_0:1"))];
  EXPECT_EQ(same.gids, port.gids);
  EXPECT_EQ(same.guid, port.guid);
  // Zeros are none, and other names are no addresses.
  const auto replace = [&](const std::string& from, const std::string& to) {
    text.replace(text.find(from), from.size(), to);
  };
  replace("value=\"fe80::1\"", "value=\"0000:0000:0000:0000:0000:0000:0000:0000\"");
  replace("Port1GID3", "Port1GIDx");
  replace("Port1GID12", "Port10GID1");
  const auto none = read_back(text);
  ASSERT_TRUE(none.ok()) << none.status().message();
  const Vertex& bare = none->vertices[static_cast<size_t>(find_vertex(*none, "box/mlx5_0:1"))];
  EXPECT_TRUE(bare.gids.empty());
  EXPECT_EQ(bare.guid, "");
}

// hwloc reads what a link runs at, and an idle device trains down; our own files have the most.
TEST(ToHwlocXml, links_of_files_of_others_are_current) {
  const auto texts_in = [](const Topology& topology) {
    std::set<std::string> texts;
    for (const Link& link : topology.links)
      if (link.kind == LinkKind::kPcie) texts.insert(link.text);
    return texts;
  };
  const std::string ours = *to_hwloc_xml(test::exact({.gpus = 2, .nics = {1}}));
  const std::string theirs =
      std::regex_replace(ours, std::regex(" *<info name=\"BanyanLink\"[^\n]*\n"), "");
  ASSERT_LT(theirs.size(), ours.size());
  const auto own = read_back(ours);
  if (test::unsupported(own)) GTEST_SKIP() << std::string(own.status().message());
  ASSERT_TRUE(own.ok()) << own.status().message();
  EXPECT_EQ(texts_in(*own), std::set<std::string>{""});
  const auto read = read_back(theirs);
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(texts_in(*read), std::set<std::string>{"current"});
  EXPECT_EQ(*to_nccl_xml(*read), *to_nccl_xml(*own)) << "the width is that of the figure";
  const auto again = read_back(*to_hwloc_xml(*read));
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(texts_in(*again), std::set<std::string>{"current"});
}

// There are domains without processors, several of one set, caches within domains and around them,
// cores of several processors, gaps, interfaces that are on no PCI device.
TEST(ToHwlocXml, parts_lie_as_they_may) {
  Topology topology = machine({.packages = 2, .numas_per_package = 2, .gpus = 2, .nics = {1}});
  const int node = find_vertex(topology, "box");
  const int numa = find_vertex(topology, "box/numa0");
  const auto add = [&](VertexKind kind, const char* name, int parent, const char* cpus, int cores,
                       int index) {
    return add_vertex(topology, {.kind = kind,
                                 .name = name,
                                 .parent = parent,
                                 .cpus = *parse_cpu_list(cpus),
                                 .cores = cores,
                                 .index = index,
                                 .memory = uint64_t{1} << 30});
  };
  add(VertexKind::kCache, "l3-0", numa, "0-1", 1, -1);
  add(VertexKind::kCache, "l3-1", numa, "2-3", 2, -1);
  add(VertexKind::kCache, "l3-2", find_vertex(topology, "box/package1"), "8-15", 0, -1);
  add(VertexKind::kNuma, "hbm", node, "0-3", 4, 4);
  const int wide = add(VertexKind::kPackage, "package7", node, "64-70,72,8100", 0, -1);
  const int eth = add_vertex(topology, {.kind = VertexKind::kNic, .name = "eth0", .parent = node});
  add_vertex(topology, {.kind = VertexKind::kPort,
                        .name = "eth0:1",
                        .parent = eth,
                        .index = 1,
                        .interface = "eth0",
                        .link_layer = "Ethernet",
                        .rate = {1.25, Source::kHardware}});
  ASSERT_TRUE(check(topology).ok()) << check(topology).message();
  const auto again = read_back(*to_hwloc_xml(topology));
  if (test::unsupported(again)) GTEST_SKIP() << std::string(again.status().message());
  ASSERT_TRUE(again.ok()) << again.status().message();
  const auto caches = vertices_of(*again, VertexKind::kCache);
  ASSERT_EQ(caches.size(), 3U);
  EXPECT_EQ(again->vertices[static_cast<size_t>(caches[0])].cpus.list(), "0-1");
  EXPECT_EQ(again->vertices[static_cast<size_t>(caches[0])].memory, uint64_t{1} << 30);
  EXPECT_EQ(again->vertices[static_cast<size_t>(caches[2])].cpus.list(), "8-15");
  EXPECT_EQ(vertices_of(*again, VertexKind::kNuma).size(), 5U);
  const auto packages = vertices_of(*again, VertexKind::kPackage);
  ASSERT_EQ(packages.size(), 3U);
  EXPECT_EQ(again->vertices[static_cast<size_t>(packages[2])].cpus.list(),
            topology.vertices[static_cast<size_t>(wide)].cpus.list());
  EXPECT_GE(find_vertex(*again, "box/eth0:1"), 0);
  // One without processors is near to all, and takes no device from its own.
  add(VertexKind::kNuma, "cxl", node, "", 0, 9);
  const auto memory = read_back(*to_hwloc_xml(topology));
  ASSERT_TRUE(memory.ok()) << memory.status().message();
  EXPECT_GE(find_vertex(*memory, "box/numa9"), 0);
  for (const Topology& each : {*again, *memory}) {
    const int gpu = find_vertex(each, "box/gpu0");
    EXPECT_EQ(ancestor(each, gpu, VertexKind::kNuma), find_vertex(each, "box/numa0"));
    const int cache = find_vertex(each, "box/l3-0");
    EXPECT_EQ(ancestor(each, cache, VertexKind::kNuma), find_vertex(each, "box/numa0"));
  }
}

TEST(ToHwlocXml, a_node_without_domains_gets_one) {
  Topology topology = empty_topology();
  add_vertex(topology, {.kind = VertexKind::kNode,
                        .name = "plain",
                        .parent = 0,
                        .cpus = *parse_cpu_list("0-3,40"),
                        .cores = 2});
  const auto again = read_back(*to_hwloc_xml(topology));
  if (test::unsupported(again)) GTEST_SKIP() << std::string(again.status().message());
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(again->vertices[1].cpus.list(), "0-3,40");
  EXPECT_EQ(vertices_of(*again, VertexKind::kNuma).size(), 1U);
}

TEST(ToHwlocXml, refuses_what_it_cannot_say) {
  test::expect_refusals(to_hwloc_xml);
  Topology topology = machine({.gpus = 2, .nics = {}});
  test::vertex_at(topology, "box/package0").cpus = *parse_cpu_list("0-5");
  test::expect_refused(to_hwloc_xml, topology, "'package0' (0-5) and 'package1' (4-7) cross");
  test::vertex_at(topology, "box/package0").cpus = *parse_cpu_list("0-7");
  test::expect_refused(to_hwloc_xml, topology, "package 'package1' is within 'package0'");
  test::vertex_at(topology, "box/package0").cpus = *parse_cpu_list("0-3,8192");
  test::expect_refused(to_hwloc_xml, topology, "of number 8192");
  for (Vertex& vertex : topology.vertices) vertex.cpus = {};
  test::expect_refused(to_hwloc_xml, topology, "wants processors, and 'box' has none");
  Topology distant = machine({.gpus = 2, .nics = {}});
  test::vertex_at(distant, "box/gpu0").bus_id = "10000:01:00.0";
  test::expect_refused(to_hwloc_xml, distant, "PCI domains up to ffff");
}

// Parts with any sets, below each other or not: refused, or a machine that hwloc takes.
TEST(ToHwlocXml, any_parts_are_refused_or_right) {
  std::mt19937 random(7);  // NOLINT(cert-msc51-cpp,bugprone-random-generator-seed): repeatable
  const auto below = [&](size_t most) { return static_cast<int>(random() % most); };
  int written = 0;
  for (int round = 0; round < 400; ++round) {
    Topology topology = machine(test::boxes()[static_cast<size_t>(below(17))]);
    for (int i = below(5); i > 0; --i) {
      const auto kind = std::array{VertexKind::kPackage, VertexKind::kCache,
                                   VertexKind::kNuma}[static_cast<size_t>(below(3))];
      // Powers of two nest more often.
      const int first = below(4) * 4;
      const int last = first + (1 << below(4)) - 1;
      add_vertex(topology, {.kind = kind,
                            .name = fmt::format("part{}", i),
                            .parent = 1,
                            .cpus = *parse_cpu_list(fmt::format("{}-{}", first, last)),
                            .cores = below(3),
                            .index = 100 + i});
    }
    if (round % 4 == 0)
      for (Vertex& vertex : topology.vertices)
        if (below(4) == 0) vertex.cpus = {};
    if (topology.vertices[1].kind != VertexKind::kNode || !check(topology).ok()) continue;
    const auto text = to_hwloc_xml(topology);
    if (!text.ok()) continue;
    ++written;
    const auto again = read_back(*text);
    if (test::unsupported(again)) GTEST_SKIP() << std::string(again.status().message());
    ASSERT_TRUE(again.ok()) << again.status().message() << *text;
    EXPECT_EQ(vertices_of(*again, VertexKind::kGpu).size(),
              vertices_of(topology, VertexKind::kGpu).size());
  }
  EXPECT_GT(written, 100);
}

TEST(ToHwlocXml, hostile_names_do_no_harm) {
  Topology hostile = test::with_hostile_names();
  for (const bool interfaces : {false, true}) {
    const auto again = read_back(*to_hwloc_xml(hostile));
    if (test::unsupported(again)) GTEST_SKIP() << std::string(again.status().message());
    ASSERT_TRUE(again.ok()) << again.status().message();
    if (!interfaces) {
      EXPECT_GE(find_vertex(*again, std::string("box/") + test::kHostile), 0);
    }
    const int gpu = vertices_of(*again, VertexKind::kGpu).front();
    EXPECT_THAT(again->vertices[static_cast<size_t>(gpu)].guid, StartsWith(test::kHostile));
    for (Vertex& vertex : hostile.vertices)
      if (vertex.kind == VertexKind::kPort) vertex.link_layer = "Ethernet";
  }
}

TEST(RealMachines, come_back_from_hwloc_xml) {
  test::for_each_real_machine([](const std::string& name, const Topology& before) {
    const auto text = to_hwloc_xml(before);
    // NCCL's graph has no processors.
    if (name.find("graph") != std::string::npos) {
      ASSERT_FALSE(text.ok());
      EXPECT_THAT(std::string(text.status().message()), HasSubstr("wants processors"));
      return;
    }
    ASSERT_TRUE(text.ok()) << text.status().message();
    const auto again = read_back(*text);
    if (test::unsupported(again)) return;
    ASSERT_TRUE(again.ok()) << again.status().message();
    test::expect_same_devices(*again, before);
    test::expect_same_numas(*again, before);
  });
}

}  // namespace
}  // namespace banyan
