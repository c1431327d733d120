// A node written as NCCL's topology: what NCCL's parser takes, and what comes back from our reader.
// SPDX-License-Identifier: Apache-2.0

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>
#include <regex>
#include <string>
#include <vector>

#include "tests/support/machines.h"
#include "tests/topology/alike.h"
#include "topology/formats/export.h"
#include "topology/formats/import.h"
#include "topology/paths.h"

namespace banyan::export_nccl_test {
namespace {

using test::exact;
using test::machine;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// Rates by NIC and port.
std::map<std::string, Figure> rates_of(const Topology& topology) {
  std::map<std::string, Figure> rates;
  for (const int port : vertices_of(topology, VertexKind::kPort)) {
    const Vertex& vertex = topology.vertices[static_cast<size_t>(port)];
    const Vertex& nic = topology.vertices[static_cast<size_t>(vertex.parent)];
    rates[fmt::format("{}:{}", nic.name, vertex.index)] = {vertex.rate.value, Source::kHardware};
  }
  return rates;
}

TEST(ToNcclXml, ComesBackWithTheSamePaths) {
  for (const Topology& before : test::exact_machines()) {
    SCOPED_TRACE(before.vertices[1].name);
    const auto text = to_nccl_xml(before);
    ASSERT_TRUE(text.ok()) << text.status().message();
    const auto again = import_topology(*text);
    if (test::unsupported(again)) GTEST_SKIP() << std::string(again.status().message());
    ASSERT_TRUE(again.ok()) << again.status().message() << *text;
    test::expect_same_devices(*again, before);
    test::expect_same_numas(*again, before);
    EXPECT_EQ(rates_of(*again), rates_of(before));
    EXPECT_EQ(*to_nccl_xml(*again), *text);
  }
}

// NCCL's own parser wants no prolog, one blank before an attribute, short values in double quotes,
// no more than 16 of them.
TEST(ToNcclXml, IsWhatTheParserOfNcclTakes) {
  std::vector<Topology> all = test::exact_machines();
  all.push_back(test::with_hostile_names());
  test::vertex_at(all.back(), "box/numa0").cpus.add(kMostCpus - 1);
  for (const Topology& topology : all) {
    const std::string text = *to_nccl_xml(topology);
    EXPECT_THAT(text, StartsWith("<system version=\"1\">\n  <cpu numaid=\""));
    const std::regex line("( *)(<[a-z0-9]+( [a-z_0-9]+=\"[^\"<>]{0,254}\"){0,16}/?>|</[a-z]+>)");
    size_t begin = 0;
    for (size_t end = 0; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1)
      EXPECT_TRUE(std::regex_match(text.substr(begin, end - begin), line))
          << text.substr(begin, end - begin);
    EXPECT_EQ(begin, text.size());
  }
}

TEST(ToNcclXml, SaysAMachineAsNcclDoes) {
  Topology topology = machine({.packages = 1, .gpus = 2, .nics = {1}, .nvswitches = 1});
  test::vertex_at(topology, "box/gpu0").model = "NVIDIA H100 80GB HBM3";
  test::vertex_at(topology, "box/gpu0").vendor = "NVIDIA";
  test::vertex_at(topology, "box/package0").vendor = "AuthenticAMD";
  test::vertex_at(topology, "box/mlx5_0").vendor = "Mellanox";
  test::vertex_at(topology, "box/gpu1").bus_id = "";
  EXPECT_EQ(*to_nccl_xml(topology), R"(<system version="1">
  <cpu numaid="0" affinity="0000000f" arch="x86_64" vendor="AuthenticAMD">
    <pci busid="0000:01:00.0" class="0x060400" link_speed="16.0 GT/s PCIe" link_width="16">
      <pci busid="0000:02:00.0" class="0x030200" vendor="0x10de" link_speed="16.0 GT/s PCIe" link_width="16">
        <gpu dev="0" sm="90">
          <nvlink target="0000:05:00.0" count="2" tclass="0x068000"/>
        </gpu>
      </pci>
      <pci busid="ffff:ff:01.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16">
        <gpu dev="1">
          <nvlink target="0000:05:00.0" count="2" tclass="0x068000"/>
        </gpu>
      </pci>
      <pci busid="0000:04:00.0" class="0x020700" vendor="0x15b3" link_speed="16.0 GT/s PCIe" link_width="16">
        <nic>
          <net name="mlx5_0" dev="0" speed="200000" port="1"/>
        </nic>
      </pci>
    </pci>
    <pci busid="0000:05:00.0" class="0x068000" vendor="0x10de" link_speed="16.0 GT/s PCIe" link_width="16"/>
  </cpu>
</system>
)");
}

// Edges of every kind that the format has.
TEST(ToNcclXml, EdgesOfGpusComeBack) {
  Topology topology = exact({.packages = 1, .gpus = 3, .nics = {}});
  const int numa = find_vertex(topology, "box/numa0");
  const std::vector<int> gpus = vertices_of(topology, VertexKind::kGpu);
  const auto add = [&](int from, int to, EdgeKind kind, double bandwidth, const char* text) {
    topology.edges.push_back({.from = from,
                              .to = to,
                              .kind = kind,
                              .bandwidth = {bandwidth, Source::kTable},
                              .text = text});
  };
  for (const int gpu : gpus) topology.vertices[static_cast<size_t>(gpu)].model = "sm_90";
  topology.vertices[static_cast<size_t>(gpus[0])].model = "Made GPU";
  topology.vertices[static_cast<size_t>(gpus[0])].capability = 90;
  add(gpus[0], gpus[1], EdgeKind::kNvlink, 50, "2 x NVLink 4");
  add(gpus[0], gpus[1], EdgeKind::kNvlink, 25, "");  // by its bandwidth one
  add(gpus[1], numa, EdgeKind::kNvlink, 75, "3 x NVLink 4");
  add(gpus[2], numa, EdgeKind::kC2c, 450, "10 x C2C");
  const std::string text = *to_nccl_xml(topology);
  EXPECT_THAT(text, HasSubstr("count=\"3\" tclass=\"0x030200\""));
  EXPECT_THAT(text, HasSubstr("<c2c bw=\"45000\" count=\"10\"/>"));
  const auto again = import_topology(text);
  if (test::unsupported(again)) GTEST_SKIP() << std::string(again.status().message());
  ASSERT_TRUE(again.ok()) << again.status().message();
  test::expect_same_devices(*again, topology);
  const Paths paths(*again);
  const int memory = find_vertex(*again, "node/numa0");
  for (const auto& [gpu, bandwidth] :
       std::map<const char*, double>{{"node/gpu1", 75}, {"node/gpu2", 450}}) {
    const Path path = paths.between(find_vertex(*again, gpu), memory);
    EXPECT_EQ(name_of(path.type), "NVL");
    test::expect_near(path.bandwidth, {bandwidth, Source::kTable});
  }
}

// NVSwitches of virtual machines are no PCI devices: edges name them by the id that the driver
// says, or by one that is none.
TEST(ToNcclXml, NvswitchesThatOnlyEdgesNameComeBack) {
  constexpr const char* kXml = R"(<system version="1">
  <cpu numaid="0" affinity="000000ff">
    <pci busid="0000:02:00.0" class="0x030200">
      <gpu dev="0" sm="90"><nvlink target="{0}" count="18" tclass="0x068000"/></gpu>
    </pci>
    <pci busid="0000:03:00.0" class="0x030200">
      <gpu dev="1" sm="90"><nvlink target="{0}" count="18" tclass="0x068000"/></gpu>
    </pci>
  </cpu>
  <cpu numaid="1" affinity="0000ff00"/>
</system>)";
  for (const char* target : {"0000:c1:00.0", "fffffff:ffff:ff"}) {
    auto read = import_topology(fmt::format(fmt::runtime(kXml), target));
    if (test::unsupported(read)) GTEST_SKIP() << std::string(read.status().message());
    for (int round = 0; round < 2; ++round) {
      ASSERT_TRUE(read.ok()) << read.status().message();
      EXPECT_EQ(vertices_of(*read, VertexKind::kNvSwitch).size(), 1U) << target;
      const Path path =
          Paths(*read).between(find_vertex(*read, "node/gpu0"), find_vertex(*read, "node/gpu1"));
      EXPECT_EQ(name_of(path.type), "NVL") << target;
      EXPECT_EQ(path.bandwidth, Figure({450, Source::kTable})) << target;
      const auto text = to_nccl_xml(*read);
      ASSERT_TRUE(text.ok()) << text.status().message();
      read = import_topology(*text);
    }
  }
}

// A mask that NCCL has no room for is not there, so that it asks the machine.
TEST(ToNcclXml, MasksOfManyProcessorsComeBack) {
  for (const int last : {63, 700, 800, 895, 896}) {
    Topology topology = exact({.packages = 1, .gpus = 1, .nics = {}});
    for (const char* part : {"box", "box/package0", "box/numa0"})
      test::vertex_at(topology, part).cpus.add(last);
    const auto again = import_topology(*to_nccl_xml(topology));
    if (test::unsupported(again)) GTEST_SKIP() << std::string(again.status().message());
    ASSERT_TRUE(again.ok()) << again.status().message();
    if (last == 896) test::vertex_at(topology, "box/numa0").cpus = {};
    test::expect_same_numas(*again, topology);
  }
}

TEST(ToNcclXml, XgmiIsOfRccl) {
  Topology topology = exact({.packages = 1, .gpus = 2, .nics = {}});
  const std::vector<int> gpus = vertices_of(topology, VertexKind::kGpu);
  for (const int gpu : gpus) {
    topology.vertices[static_cast<size_t>(gpu)].model = "gfx942";
    topology.vertices[static_cast<size_t>(gpu)].vendor = "AMD";
  }
  topology.edges.push_back({.from = gpus[0],
                            .to = gpus[1],
                            .kind = EdgeKind::kXgmi,
                            .bandwidth = {48, Source::kTable},
                            .text = "1 x xGMI"});
  const std::string text = *to_nccl_xml(topology);
  EXPECT_THAT(text, StartsWith("<system version=\"2\">"));
  EXPECT_THAT(text, HasSubstr("gcn=\"gfx942\""));
  EXPECT_THAT(text, HasSubstr("count=\"1\" tclass=\"0x120000\""));
  const auto again = import_topology(text);
  if (test::unsupported(again)) GTEST_SKIP() << std::string(again.status().message());
  ASSERT_TRUE(again.ok()) << again.status().message();
  test::expect_same_devices(*again, topology);
}

TEST(ToNcclXml, RefusesWhatItCannotSay) {
  test::expect_refusals(to_nccl_xml);
  const Topology plain = machine({.gpus = 2, .nics = {}});
  const auto with_edge = [&](const char* from, const char* to, Edge edge) {
    Topology topology = plain;
    edge.from = find_vertex(topology, from);
    edge.to = find_vertex(topology, to);
    topology.edges.push_back(edge);
    return topology;
  };
  const Edge edge{.kind = EdgeKind::kNvlink, .bandwidth = {75, Source::kAssumed}};
  test::expect_refused(to_nccl_xml, with_edge("box/gpu0", "box/gpu1", edge),
                       "how many NVLink join 'gpu0' and 'gpu1' is not known");
  Edge counted = edge;
  counted.text = "3 x NVLink 3";
  EXPECT_TRUE(to_nccl_xml(with_edge("box/gpu0", "box/gpu1", counted)).ok());
  EXPECT_TRUE(to_nccl_xml(with_edge("box/gpu0", "box/numa0", counted)).ok());
  test::expect_refused(to_nccl_xml, with_edge("box/gpu0", "box/numa1", counted),
                       "its own NUMA domain");
  test::expect_refused(to_nccl_xml, with_edge("box/numa0", "box/numa1", counted),
                       "no form for nvlink");
  counted.kind = EdgeKind::kC2c;
  test::expect_refused(to_nccl_xml, with_edge("box/gpu0", "box/gpu1", counted), "no form for c2c");
  // hwloc 2.9.0 says of an A100 that it has twice what it has.
  Topology doubled = with_edge("box/gpu0", "box/gpu1", edge);
  doubled.edges.back().bandwidth = {600, Source::kTable};
  test::vertex_at(doubled, "box/gpu0").model = "NVIDIA A100-SXM4-80GB";
  test::expect_refused(to_nccl_xml, doubled, "24 NVLinks");
}

// Edges and numbers of any kind: refused, or a file that can be read.
TEST(ToNcclXml, AnyEdgesAreRefusedOrRight) {
  std::mt19937 random(9);  // NOLINT(cert-msc51-cpp,bugprone-random-generator-seed): repeatable
  const auto below = [&](size_t most) { return static_cast<int>(random() % most); };
  const std::vector<const char*> texts = {"",          "1 x NVLink 4", "1024 x C2C",
                                          "9999999 x", "-1 x",         " x "};
  int written = 0;
  for (int round = 0; round < 500; ++round) {
    Topology topology = exact(test::boxes()[static_cast<size_t>(below(16))]);
    const auto any = [&] { return below(topology.vertices.size()); };
    for (int i = below(4); i > 0; --i) {
      topology.edges.push_back({.from = any(),
                                .to = any(),
                                .kind = static_cast<EdgeKind>(below(kEdgeKindCount)),
                                .bandwidth = {std::pow(10, below(30) - 9), Source::kAssumed},
                                .text = texts[static_cast<size_t>(below(texts.size()))]});
      if (!check(topology).ok()) topology.edges.pop_back();
    }
    Vertex& vertex = topology.vertices[static_cast<size_t>(any())];
    vertex.index = static_cast<int>(random());
    vertex.bus_id = below(2) == 0 ? "" : "fffffff:ff:1f.7";
    vertex.rate = {std::pow(10, below(30) - 9), Source::kAssumed};
    const auto text = to_nccl_xml(topology);
    if (!text.ok()) continue;
    ++written;
    const auto again = import_topology(*text);
    if (test::unsupported(again)) GTEST_SKIP() << std::string(again.status().message());
    ASSERT_TRUE(again.ok()) << again.status().message() << *text;
    EXPECT_EQ(vertices_of(*again, VertexKind::kGpu).size(),
              vertices_of(topology, VertexKind::kGpu).size());
  }
  EXPECT_GT(written, 100);
}

TEST(ToNcclXml, HostileNamesDoNoHarm) {
  Topology hostile = test::with_hostile_names();
  const auto again = import_topology(*to_nccl_xml(hostile));
  if (test::unsupported(again)) GTEST_SKIP() << std::string(again.status().message());
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_GE(find_vertex(*again, std::string("node/") + test::kHostile), 0);
  test::vertex_at(hostile, std::string("box/") + test::kHostile).name =
      std::string(kMostNameBytes, '"');
  EXPECT_TRUE(import_topology(*to_nccl_xml(hostile)).ok());
}

TEST(RealMachines, ComeBackFromNcclXml) {
  test::for_each_real_machine([](const std::string& name, const Topology& before) {
    const auto text = to_nccl_xml(before);
    // hwloc does not say how many xGMI links there are.
    if (name.find("tioga") != std::string::npos) {
      ASSERT_FALSE(text.ok());
      EXPECT_THAT(std::string(text.status().message()), HasSubstr("how many xGMI"));
      return;
    }
    ASSERT_TRUE(text.ok()) << text.status().message();
    const auto again = import_topology(*text);
    ASSERT_TRUE(again.ok()) << again.status().message();
    test::expect_same_devices(*again, before);
    test::expect_same_numas(*again, before);
    EXPECT_EQ(*to_nccl_xml(*again), *text);
  });
}

}  // namespace
}  // namespace banyan::export_nccl_test
