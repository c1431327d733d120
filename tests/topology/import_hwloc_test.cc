// What hwloc's XML says of a machine, whole or damaged.
// SPDX-License-Identifier: Apache-2.0

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/topology/alike.h"
#include "topology/formats/import.h"

namespace banyan::import_hwloc_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// Two GPUs with NVLink and a NIC behind a switch, on one NUMA domain.
constexpr const char* kMachine = R"(<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc2.dtd">
<topology version="2.0">
<object type="Machine" os_index="0" cpuset="0x3" complete_cpuset="0x3" nodeset="0x1" complete_nodeset="0x1" allowed_cpuset="0x3" allowed_nodeset="0x1" gp_index="1">
<info name="HostName" value="a"/>
<object type="Package" os_index="0" cpuset="0x3" complete_cpuset="0x3" nodeset="0x1" complete_nodeset="0x1" gp_index="2">
<object type="NUMANode" os_index="0" cpuset="0x3" complete_cpuset="0x3" nodeset="0x1" complete_nodeset="0x1" gp_index="3" local_memory="8589934592"/>
<object type="L3Cache" cpuset="0x3" complete_cpuset="0x3" nodeset="0x1" complete_nodeset="0x1" gp_index="4" cache_size="1048576" depth="3" cache_linesize="64" cache_associativity="8" cache_type="0">
<object type="Core" os_index="0" cpuset="0x3" complete_cpuset="0x3" nodeset="0x1" complete_nodeset="0x1" gp_index="5">
<object type="PU" os_index="0" cpuset="0x1" complete_cpuset="0x1" nodeset="0x1" complete_nodeset="0x1" gp_index="6"/>
<object type="PU" os_index="1" cpuset="0x2" complete_cpuset="0x2" nodeset="0x1" complete_nodeset="0x1" gp_index="7"/></object></object></object>
<object type="Bridge" gp_index="8" bridge_type="0-1" depth="0" bridge_pci="0000:[00-04]">
<object type="Bridge" gp_index="9" bridge_type="1-1" depth="1" bridge_pci="0000:[01-04]" pci_busid="0000:00:01.0" pci_type="0604 [8086:3c04] [0000:0000] 07" pci_link_speed="8.0">
<object type="PCIDev" gp_index="10" pci_busid="0000:02:00.0" pci_type="0302 [10de:2330] [10de:16c1] a1" pci_link_speed="63.0">
<object type="OSDev" gp_index="11" name="nvml0" subtype="NVML" osdev_type="1">
<info name="NVIDIAUUID" value="GPU-1"/></object></object>
<object type="PCIDev" gp_index="12" pci_busid="0000:03:00.0" pci_type="0302 [10de:2330] [10de:16c1] a1">
<object type="OSDev" gp_index="13" name="cuda1" subtype="CUDA" osdev_type="5"/></object>
<object type="PCIDev" gp_index="14" pci_busid="0000:04:00.0" pci_type="0207 [15b3:101b] [15b3:0007] 00" pci_link_speed="15.753846">
<object type="OSDev" gp_index="15" name="ib0" osdev_type="2"/>
<object type="OSDev" gp_index="16" name="mlx5_0" osdev_type="3">
<info name="NodeGUID" value="0c00:0000:0000:0101"/>
<info name="Port1State" value="4"/>
<info name="Port1GID0" value="fe80:0000:0000:0000:0c42:a1ff:fe03:0001"/></object></object>
</object></object></object>
<distances2 type="OSDev" nbobjs="2" kind="34" name="NVLinkBandwidth" indexing="gp">
<indexes length="6">11 13 </indexes>
<u64values length="24">1000000 50000 50000 100 </u64values></distances2>
<distances2 type="NUMANode" nbobjs="1" kind="5" name="NUMALatency" indexing="os">
<indexes length="2">0 </indexes>
<u64values length="3">10 </u64values></distances2>
<cpukind cpuset="0x3">
<info name="CoreType" value="a"/></cpukind>
</topology>
)";

Result<Topology> read(const std::string& text) {
  return import_topology(text);
}

const Vertex& at(const Topology& topology, const char* name) {
  return topology.vertices[static_cast<size_t>(find_vertex(topology, name))];
}

TEST(ImportHwloc, AddressesOfPortsAreRead) {
  std::string text = kMachine;
  const auto replace = [&](const std::string& from, const std::string& to) {
    text.replace(text.find(from), from.size(), to);
  };
  const std::string gid =
      "<info name=\"Port1GID0\" value=\"fe80:0000:0000:0000:0c42:a1ff:fe03:0001\"/>";
  replace(gid, gid +
                   "<info name=\"Port1GID12\" value=\"0000:0000:0000:0000:0000:ffff:0a00:0001\"/>"
                   "<info name=\"Port1GIDx\" value=\"fe80:0000:0000:0000:0000:0000:0000:0002\"/>"
                   "<info name=\"Port1GID3\" value=\"0000:0000:0000:0000:0000:0000:0000:0000\"/>");
  const auto machine = read(text);
  if (test::unsupported(machine)) GTEST_SKIP() << std::string(machine.status().message());
  ASSERT_TRUE(machine.ok()) << machine.status().message();
  const Vertex& port = at(*machine, "a/mlx5_0:1");
  ASSERT_EQ(port.gids.size(), 2U) << "zeros are none, and other names are no addresses";
  EXPECT_EQ(port.gids[0].index, 0);
  EXPECT_EQ(port.gids[1].index, 12);
  EXPECT_THAT(port.gids[0].gid, StartsWith("fe80:"));
}

TEST(ImportHwloc, LinksAreWhatTheyRanAt) {
  const auto machine = read(kMachine);
  if (test::unsupported(machine)) GTEST_SKIP() << std::string(machine.status().message());
  ASSERT_TRUE(machine.ok()) << machine.status().message();
  std::set<std::string> texts;
  for (const Edge& edge : machine->edges)
    if (edge.kind == EdgeKind::kPcie && edge.bandwidth.known()) texts.insert(edge.text);
  EXPECT_EQ(texts, std::set<std::string>{"current"}) << "an idle device trains down";
  EXPECT_EQ(vertices_of(*machine, VertexKind::kGpu).size(), 2U);
  const int gpu = vertices_of(*machine, VertexKind::kGpu).front();
  EXPECT_EQ(ancestor(*machine, gpu, VertexKind::kNuma), find_vertex(*machine, "a/numa0"));
}

// hwloc itself would end the process, or tell stderr: attributes renamed, swapped and emptied,
// lines gone, doubled and moved.
TEST(ImportHwloc, DamagedXmlSaysNothingBesideTheError) {
  std::mt19937 random(9);  // NOLINT(cert-msc51-cpp,bugprone-random-generator-seed): repeatable
  const auto pick = [&](const std::string& text, char wanted) {
    std::vector<size_t> places;
    for (size_t i = 0; i < text.size(); ++i)
      if (text[i] == wanted) places.push_back(i);
    return places[random() % places.size()];
  };
  const auto line_at = [&](const std::string& text) {
    const size_t begin = pick(text, '\n') + 1;
    return std::pair(begin, std::min(text.find('\n', begin), text.size() - 1) + 1 - begin);
  };
  testing::internal::CaptureStderr();
  for (int round = 0; round < 600; ++round) {
    std::string bad = std::string(kMachine);
    for (unsigned left = 1 + random() % 4; left > 0; --left) {
      const size_t equals = pick(bad, '=');
      const auto [line, bytes] = line_at(bad);
      const std::string moved = bad.substr(line, bytes);
      switch (random() % 4) {
        case 0: bad[equals - 1] = 'x'; break;
        case 1: bad.replace(equals + 2, bad.find('"', equals + 2) - equals - 2, "0x0"); break;
        case 2: bad.erase(line, bytes); break;
        default: bad.insert(line_at(bad).first, moved);
      }
    }
    const auto read = import_topology(bad);
    if (test::unsupported(read)) break;
    if (read.ok()) continue;
    EXPECT_THAT(std::string(read.status().message()), StartsWith("line "));
    EXPECT_THAT(std::string(read.status().message()), Not(HasSubstr("\n")));
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace banyan::import_hwloc_test
