// Reads descriptions of machines that others write: small ones of every format, damaged ones, and
// real ones in the folder BANYAN_TEST_TOPOLOGIES.
// SPDX-License-Identifier: Apache-2.0

#include "topology/formats/import.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/machines.h"
#include "tests/support/real_machines.h"
#include "tests/support/temporary_folder.h"
#include "topology/formats/export.h"
#include "topology/formats/json.h"
#include "topology/formats/print.h"
#include "topology/levels.h"
#include "topology/paths.h"

namespace banyan::import_test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr const char* kNccl = R"(<?xml version="1.0"?>
<!-- a comment -->
<system version="1">
  <cpu numaid="0" affinity="00000000,000000ff" vendor="GenuineIntel" familyid="6" modelid="143">
    <pci busid="0000:01:00.0" class="0x060400" link_speed="16.0 GT/s PCIe" link_width="16">
      <pci busid="0000:02:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16">
        <gpu dev="0" sm="90" rank="0" gdr="1">
          <nvlink target="0000:03:00.0" count="4" tclass="0x030200"/>
          <nvlink target="0000:61:00.0" count="2" tclass="0x068000"/>
        </gpu>
      </pci>
      <pci busid="0000:03:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16">
        <gpu dev="1" sm="90" rank="1" gdr="1"/>
      </pci>
      <pci busid="0000:04:00.0" class="0x020700" link_speed="32.0 GT/s PCIe" link_width="16">
        <nic>
          <net name="mlx5_0" dev="0" speed="400000" port="1" guid="0x1" maxconn="131072" gdr="1"/>
        </nic>
      </pci>
    </pci>
    <nic><net name="eth0" dev="1" speed="10000" port="0" guid="0x0"/></nic>
  </cpu>
  <cpu numaid="1" affinity="00000000,0000ff00" vendor="GenuineIntel" familyid="6" modelid="143">
    <pci busid="ffff:ff:01.0" class="0x060400" link_speed="" link_width="0">
      <pci busid="000b:00:00.0" class="0x030200"/>
      <pci busid="000c:00:00.0" class="0x020000"/>
    </pci>
  </cpu>
</system>
)";

constexpr const char* kFabric =
    "# made\nvendid=0x2c9\nswitchguid=0x1(1)\n"
    "Switch\t65 \"S-1\"\t\t# \"leaf1\" enhanced port 0 lid 1 lmc 0\n"
    "[1]\t\"H-1\"[1](1) \t\t# \"host1 mlx5_0\" lid 7 4xNDR\n"
    "[2]\t\"H-2\"[1](2) \t\t# \"host2 mlx5_0\" lid 8 2xHDR\n"
    "[3]\t\"H-4\"[1](4) \t\t# \"MT4129 ConnectX7   Mellanox Technologies\" lid 9 4xNDR\n"
    "[65]\t\"H-9\"[1](9) \t\t# \"Mellanox Technologies Aggregation Node\" lid 3 4xNDR\n"
    "[9]\t\"S-2\"[1]\t\t# \"leaf2\" lid 2 4xNDR\n"
    "[10]\t\"S-2\"[2]\t\t# \"leaf2\" lid 2 4xNDR\n\n"
    "Switch\t65 \"S-2\"\t\t# \"leaf2\" enhanced port 0 lid 2 lmc 0\n"
    "[1]\t\"S-1\"[9]\t\t# \"leaf1\" lid 1 4xNDR\n"
    "[2]\t\"S-1\"[10]\t\t# \"leaf1\" lid 1 4xNDR\n"
    "[3]\t\"H-3\"[1](3) \t\t# \"host1 mlx5_1\" lid 7 4xNDR\n\n"
    "Ca\t1 \"H-9\"\t\t# \"Mellanox Technologies Aggregation Node\"\n"
    "[1](9) \t\"S-1\"[65]\t\t# lid 3 lmc 0 \"leaf1\" lid 1 4xNDR\n\n"
    "Ca\t1 \"H-1\"\t\t# \"host1 mlx5_0\"\n[1](1) \t\"S-1\"[1]\t\t# lid 7 lmc 0 \"leaf1\" lid 1 "
    "4xNDR\n"
    "Ca\t1 \"H-2\"\t\t# \"host2 mlx5_0\"\n[1](2) \t\"S-1\"[2]\t\t# lid 8 lmc 0 \"leaf1\" lid 1 "
    "2xHDR\n"
    "Ca\t1 \"H-4\"\t\t# \"MT4129 ConnectX7   Mellanox Technologies\"\n"
    "Ca\t1 \"H-3\"\t\t# \"host1 mlx5_1\"\n[1](3) \t\"S-2\"[3]\t\t# lid 7 lmc 0 \"leaf2\" lid 1 "
    "4xNDR\n";

constexpr const char* kSlurm =
    "# made\nSwitchName=leaf0 Nodes=n[000-002],login \\\n  LinkSpeed=100\n"
    "switchname=leaf1 nodes=n003\n\nSwitchName=spine Switches=leaf[0-1]\n";

// A build without an XML parser reads all formats but those.
bool unsupported(const Result<Topology>& read) {
  return !read.ok() && read.status().code() == Code::kUnsupported;
}

// NOLINTBEGIN(bugprone-macro-parentheses): what it declares takes none
#define READ_OR_SKIP(name, text)                                               \
  const auto name = import_topology(text);                                     \
  if (unsupported(name)) GTEST_SKIP() << std::string(name.status().message()); \
  ASSERT_TRUE(name.ok()) << name.status().message()
// NOLINTEND(bugprone-macro-parentheses)

size_t count(const Topology& topology, VertexKind kind) {
  return vertices_of(topology, kind).size();
}

std::string path_class(const Topology& topology, const char* from, const char* to) {
  const int a = find_vertex(topology, from);
  const int b = find_vertex(topology, to);
  EXPECT_TRUE(a >= 0 && b >= 0) << from << " " << to;
  return a < 0 || b < 0 ? "" : std::string(name_of(Paths(topology).between(a, b).type));
}

TEST(Import, NcclTopology) {
  READ_OR_SKIP(read, kNccl);
  EXPECT_EQ(count(*read, VertexKind::kGpu), 3U);
  EXPECT_EQ(count(*read, VertexKind::kNic), 3U);
  EXPECT_EQ(count(*read, VertexKind::kNvSwitch), 1U);
  EXPECT_EQ(path_class(*read, "node/gpu0", "node/gpu1"), "NVL");
  EXPECT_EQ(path_class(*read, "node/gpu0", "node/mlx5_0"), "PIX");
  EXPECT_EQ(path_class(*read, "node/gpu0", "node/gpu2"), "SYS");
  const int port = find_vertex(*read, "node/mlx5_0:1");
  ASSERT_GE(port, 0);
  EXPECT_EQ(read->vertices[static_cast<size_t>(port)].rate, Figure({50, Source::kHardware}));
  // NCCL writes 10 Gb/s where it knows nothing.
  const int ethernet = find_vertex(*read, "node/eth0:0");
  ASSERT_GE(ethernet, 0);
  EXPECT_EQ(read->vertices[static_cast<size_t>(ethernet)].rate, Figure({1.25, Source::kAssumed}));
  for (const Edge& edge : read->edges)
    if (edge.kind == EdgeKind::kCpuInterconnect) {
      EXPECT_EQ(edge.bandwidth, Figure({22, Source::kTable}));
    }
}

TEST(Import, Ibnetdiscover) {
  const auto read = import_topology(kFabric);
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(count(*read, VertexKind::kSwitch), 2U);
  EXPECT_EQ(count(*read, VertexKind::kNode), 3U);
  EXPECT_EQ(count(*read, VertexKind::kNic), 4U);
  EXPECT_EQ(read->edges.size(), 6U);  // two of them from leaf to leaf
  const Paths paths(*read);
  const Path path =
      paths.between(find_vertex(*read, "host1/mlx5_0"), find_vertex(*read, "host2/mlx5_0"));
  EXPECT_EQ(path.bandwidth, Figure({12.5, Source::kHardware}));
}

TEST(Import, SlurmTopology) {
  const auto read = import_topology(kSlurm);
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(count(*read, VertexKind::kSwitch), 3U);
  EXPECT_EQ(count(*read, VertexKind::kNode), 5U);
  EXPECT_GE(find_vertex(*read, "n002"), 0);
  EXPECT_EQ(read->edges.size(), 7U);
  for (const Edge& edge : read->edges) EXPECT_FALSE(edge.bandwidth.known());
}

TEST(Import, OwnJson) {
  for (const test::Box& box : test::boxes()) {
    const Topology machine = test::machine(box);
    const auto read = import_topology(to_json(machine));
    ASSERT_TRUE(read.ok()) << read.status().message();
    EXPECT_EQ(*read, machine);
  }
}

struct Wrong {
  const char* text;
  const char* line;
  const char* named;
};

TEST(Import, WhatIsWrongIsOneLineThatNamesIt) {
  for (const Wrong& wrong : std::initializer_list<Wrong>{
           {"", "line 1: ", "empty"},
           {"hello\nworld", "line 1: ", "ibnetdiscover"},
           {"\n{\"schema\": 3}", "line 2: ", "schema 1"},
           {"<html><body/></html>", "line 1: ", "<system>"},
           {"<system version=\"1\"><cpu>", "line 1: ", "XML"},
           {"<system version=\"3\"/>", "line 1: ", "from 1 to 2"},
           {"<system/>", "line 1: ", "version"},
           {"<system version=\"1\"/>", "line 1: ", "<cpu>"},
           {"<system version=\"1\">\n<gpu/></system>", "line 2: ", "<cpu>"},
           {"<system version=\"1\"><cpu numaid=\"&j;\"/></system>", "line 1: ", "numaid"},
           {"<system version=\"1\"><cpu affinity=\"zz\"/></system>", "line 1: ", "hexadecimal"},
           {"<system version=\"1\"><cpu>\n<pci class=\"0x0302\"/></cpu></system>",
            "line 2: ", "busid"},
           {"<system version=\"1\"><cpu><pci busid=\"1:0\" class=\"0x030200\"/>\n"
            "<pci busid=\"01:00.0\" class=\"0x030200\"><gpu>\n"
            "<nvlink target=\"0000:09:00.0\"/></gpu></pci></cpu></system>",
            "line 1: ", "0000:0c:00.0"},
           {"<system version=\"1\"><cpu>\n<pci busid=\"01:00.0\" class=\"0x030200\"><gpu>\n"
            "<nvlink target=\"the next\"/></gpu></pci></cpu></system>",
            "line 3: ", "'the next'; right is the bus id of another device"},
           {"<system version=\"1\"><cpu>\n<pci busid=\"01:00.0\" class=\"0x030200\"><gpu>\n"
            "<xgmi target=\"0000:01:00.0\"/></gpu></pci></cpu></system>",
            "line 3: ", "of another device"},
           {"<graphs version=\"1\"><graph><channel>\n<gpu/></channel></graph></graphs>",
            "line 2: ", "dev"},
           {"<!DOCTYPE x [<!ENTITY a \"b\">]>\n<system version=\"1\"/>", "line 1: ", ""},
           {"<topology version=\"3.0\"/>", "line 1: ", "3.0"},
           {"Switch\t65\n", "line 1: ", "GUID"},
           {"vendid=1\n[1] \"S-1\"[1]", "line 2: ", "below"},
           {"Switch 65 \"S-1\"\n[x] \"S-2\"[1]", "line 2: ", "[PORT]"},
           {"Switch 65 \"S-1\"\nSwitch 65 \"S-1\"", "line 2: ", "twice"},
           {"vendid=1\nnonsense", "line 2: ", "nonsense"},
           {"vendid=1\n", "line 2: ", "without"},
           {"<system version=\"1\"><cpu>\n<pci busid=\"01:00.0\" class=\"0x030200\"/>\n"
            "<pci busid=\"0000:01:00.0\" class=\"0x020700\"/></cpu></system>",
            "line 3: ", "busid 0000:01:00.0 is there twice"},
           {"\xff\xfe<\0s", "line 1: ", "byte order mark of UTF-16; right is UTF-8"},
           {"\xfe\xff", "line 1: ", "UTF-16"},
           {"\x1f\x8b\x08", "line 1: ", "compressed by gzip"},
           {R"({"schema":1,"nodes":[{"name":"n","cpus":{"set":"0"},"numa":[],"gpus":[],"nics":[]}],
"links":[
{"from":"n","to":"n","kind":"shm","GBps":1e308,"us":null,"source":"assumed"}],"levels":[]})",
            "line 3: ", "a number from 0 to 1000000000"},
           {R"({"schema":1,"nodes":[{"name":"n","cpus":{"set":"0"},"numa":[],"gpus":[],"nics":[]}],
"links":[
{"from":"n","to":"n","kind":"shm","GBps":1,"us":1.1e9,"source":"assumed"}],"levels":[]})",
            "line 3: ", "the latency of link 0"},
           {"<topology version=\"2.0\">\n<object type=\"Machine\"/></topology>",
            "line 2: ", "without cpuset"},
           {"SwitchName=a Nodes=n[3-1]", "line 1: ", "n[3-1]"},
           {"SwitchName=a Nodes=n[0-99999999]", "line 1: ", "at most"},
           {"SwitchName=a Nodes=n[0-18446744073709551615]", "line 1: ", "at most"},
           {"SwitchName=a Nodes=n[18446744073709551616]",
            "line 1: ", "'18446744073709551616' is not a number from 0 to 18446744073709551615"},
           {"SwitchName=a Nodes=n[1", "line 1: ", "'[' without ']'"},
           {"SwitchName=a Nodes=n1],n2", "line 1: ", "']' without '['"},
           {"SwitchName=a Nodes=n[]", "line 1: ", "'' is not a number"},
           {"SwitchName=a Nodes=\"n1", "line 1: ", "Nodes=\" without a second quote"},
           {"SwitchName=a Nodes=\"n1\"n2", "line 1: ", "'n2' right behind the quotes"},
           {"SwitchName=a Nodes=n1\"n2\"", "line 1: ", "one in quotes"},
           {"SwitchName=a Nodes= Switches=b", "line 1: ", "Nodes= is 'Switches=b'"},
           {"SwitchName=a Nodes", "line 1: ", "'Nodes' is not SwitchName="},
           {"SwitchName=a Nodes=n1 \\", "line 1: ", "continued"},
           {"SwitchName=a Nodes=n1, n2", "line 1: ", "'n2' is not SwitchName="},
           {"SwitchName=a Nodes=n[0-999][0-999][0-999]", "line 1: ", "at most"},
           {"SwitchName=a\nSwitchName=a", "line 2: ", "second"},
           {"SwitchName=a\nSwitchName=b Switches=c", "line 2: ", "'c'"},
           {"SwitchName=a Switches=a", "line 1: ", "itself"},
           {"SwitchName=a Switches=b\nSwitchName=b Switches=c\nSwitchName=c Switches=a", "line ",
            "itself"},
           {"SwitchName=a Nodes=n0 Nodes=n1", "line 1: ", "Nodes= is there twice"},
           {"SwitchName=a Colour=red", "line 1: ", "Colour"},
       }) {
    const auto read = import_topology(wrong.text);
    ASSERT_FALSE(read.ok()) << wrong.text;
    if (unsupported(read)) continue;
    const std::string message(read.status().message());
    EXPECT_THAT(message, StartsWith(wrong.line)) << wrong.text;
    EXPECT_THAT(message, HasSubstr(wrong.named)) << wrong.text;
    EXPECT_THAT(message, Not(HasSubstr("\n"))) << wrong.text;
  }
}

TEST(Import, SkipsAByteOrderMarkOfUtf8) {
  const std::string json = to_json(test::machine({}));
  for (const std::string& text :
       {json, std::string(kNccl), std::string(kFabric), std::string(kSlurm)}) {
    const auto bare = import_topology(text);
    if (unsupported(bare)) continue;
    ASSERT_TRUE(bare.ok()) << bare.status().message();
    const auto marked = import_topology("\xef\xbb\xbf" + text);
    ASSERT_TRUE(marked.ok()) << marked.status().message();
    EXPECT_EQ(*marked, *bare);
  }
  // In some encodings of text the marks hold zeros.
  const auto wide = import_topology(std::string("\xff\xfe\0\0{\0\0\0", 8));
  ASSERT_FALSE(wide.ok());
  EXPECT_THAT(std::string(wide.status().message()), HasSubstr("UTF-32"));
}

// PCI switches that are each other's parent, and something below them that names a parent.
TEST(Import, CirclesOfParentsAreRefused) {
  const auto read = import_topology(
      R"({"schema":1,"nodes":[{"name":"n","cpus":{"set":"0"},"numa":[],
          "pci":[{"name":"A","parent":"B"},{"name":"B","parent":"A"}],"gpus":[],
          "nics":[{"name":"x","parent":"A","ports":[{"name":"p","parent":"x"}]}]}],
          "links":[],"levels":[]})");
  ASSERT_FALSE(read.ok());
  EXPECT_THAT(std::string(read.status().message()), HasSubstr("is within itself"));
}

TEST(Import, ObjectsOfAGreatManyMembersAreRefused) {
  std::string wide = R"({"schema":1)";
  for (int i = 0; i < 100000; ++i) wide += fmt::format(",\"k{}\":1", i);
  const auto read = import_topology(wide + "}");
  ASSERT_FALSE(read.ok());
  EXPECT_THAT(std::string(read.status().message()), HasSubstr("more than 1024 members"));
}

TEST(Import, DeepAndLargeTextsEndSoon) {
  std::string deep;
  for (int i = 0; i < 100000; ++i) deep += "<system>";
  std::string wide = "<system version=\"1\"><cpu>";
  for (int i = 0; i < 100000; ++i) wide += "<pci busid=\"01:00.0\" class=\"0x060400\">";
  std::string crowded = "<system version='1'><!-- don't --><?x \"?><![CDATA[<a \"]]><!A '>\n<cpu";
  for (int i = 0; i < 400000; ++i) crowded += fmt::format(" a{}='<' b{}=\"'>\"", i, i);
  for (const std::string& text : {deep, wide, std::string(100000, '['), std::string(1 << 20, '<'),
                                  crowded, std::string(1 << 20, '\'')})
    EXPECT_FALSE(import_topology(text).ok());
  const auto read = import_topology(crowded + "/></system>");
  if (unsupported(read)) return;
  EXPECT_EQ(read.status().message(), "line 2: an element of more than 1000 attributes");
}

// Any byte changed, and cut anywhere: refused, or a topology that is right.
TEST(Import, DamagedTextsDoNoHarm) {
  std::mt19937 random(5);  // NOLINT(cert-msc51-cpp,bugprone-random-generator-seed): repeatable
  for (const std::string good : {kNccl, kFabric, kSlurm}) {
    for (int round = 0; round < 1000; ++round) {
      std::string bad = good.substr(0, round % 4 == 0 ? random() % good.size() : good.size());
      for (int i = 0; i < round % 4 && !bad.empty(); ++i)
        bad[random() % bad.size()] = static_cast<char>(random() % 256);
      const auto read = import_topology(bad);
      if (read.ok()) {
        EXPECT_TRUE(check(*read).ok());
      } else {
        EXPECT_THAT(std::string(read.status().message()), StartsWith("line "));
      }
    }
  }
}

TEST(ImportFile, NamesTheFile) {
  const test::TemporaryFolder folder;
  const std::string path = (folder.path() / "machine.json").string();
  std::ofstream(path) << "{\n\"schema\": 2}";
  const auto read = import_topology_file(path);
  ASSERT_FALSE(read.ok());
  EXPECT_THAT(std::string(read.status().message()), StartsWith(path + ": line 2: "));
  for (const std::string& missing : {folder.path().string(), path + ".none"}) {
    const auto none = import_topology_file(missing);
    ASSERT_FALSE(none.ok());
    EXPECT_THAT(std::string(none.status().message()), StartsWith(missing + ": "));
  }
}

struct Golden {
  const char* file;
  size_t nodes, numas, gpus, nics, switches, nvswitches;
  std::function<void(const Topology&)> more;
};

// In the first node, whatever its name.
std::string path_in(const Topology& topology, const char* from, const char* to) {
  const std::string node = full_name(topology, vertices_of(topology, VertexKind::kNode).front());
  return path_class(topology, (node + "/" + from).c_str(), (node + "/" + to).c_str());
}

std::vector<Golden> goldens() {
  return {
      {"nccl_azure_ndv4_8xA100_8xHDR.xml", 1, 4, 8, 8, 0, 0,
       [](const Topology& t) {
         EXPECT_EQ(path_class(t, "node/gpu0", "node/nic0"), "PIX");
         EXPECT_EQ(path_class(t, "node/gpu0", "node/gpu2"), "SYS");
       }},
      {"nccl_azure_ncv4_graph.xml", 1, 0, 4, 0, 0, 0, [](const Topology&) {}},
      {"rccl_8xMI300X_8x400G.xml", 1, 2, 8, 8, 0, 0,
       [](const Topology& t) {
         EXPECT_EQ(path_class(t, "node/gpu0", "node/gpu7"), "NVL");
         EXPECT_EQ(path_class(t, "node/gpu0", "node/mlx5_0"), "PXB");
         const Paths paths(t);
         EXPECT_EQ(full_name(t, paths.nearest_nic(find_vertex(t, "node/gpu5"))), "node/mlx5_5");
       }},
      {"hwloc_dgx2_16xV100_nvswitch.xml", 1, 2, 16, 0, 0, 12,
       [](const Topology& t) { EXPECT_EQ(path_in(t, "gpu0", "gpu15"), "NVL"); }},
      {"hwloc_tioga_8xMI250Xgcd_4xSlingshot.xml", 1, 4, 8, 5, 0, 0,
       [](const Topology& t) {
         EXPECT_EQ(path_in(t, "gpu0", "gpu1"), "NVL");
         EXPECT_EQ(path_in(t, "gpu0", "hsi3"), "SYS");
       }},
      {"hwloc_aws_g4dnmetal_8xT4_EFA.xml", 1, 2, 8, 2, 0, 0,
       [](const Topology& t) {
         EXPECT_EQ(path_in(t, "numa1", "rdmap197s0"), "PHB");
         for (const Vertex& vertex : t.vertices)
           EXPECT_TRUE(vertex.kind != VertexKind::kNic || vertex.guid.empty());  // an EFA has none
       }},
      {"ibnetdiscover_dgx_ndr_rails.out.gz", 0, 0, 0, 582 - 40, 40, 0,
       [](const Topology& t) {
         size_t named = 0;
         for (const int node : vertices_of(t, VertexKind::kNode))
           named += full_name(t, node).starts_with("H-") ? 0 : 1;
         EXPECT_EQ(named, 122U);
         std::map<std::string, size_t> sizes;
         for (const LevelGroup& rail : rails(t)) sizes[rail.name] = rail.nics.size();
         for (const char* name : {"HCA-1", "HCA-2", "HCA-5", "HCA-6"}) EXPECT_GE(sizes[name], 92U);
       }},
  };
}

TEST(RealMachines, AreWhatTheirOwnersSay) {
  const auto folder = test::real_machines();
  if (!folder) GTEST_SKIP() << test::kNoRealMachines;
  for (const Golden& golden : goldens()) {
    SCOPED_TRACE(golden.file);
    if (!fs::exists(*folder / golden.file)) continue;
    const auto read = import_topology(test::content_of(*folder / golden.file));
    if (unsupported(read)) continue;
    ASSERT_TRUE(read.ok()) << read.status().message();
    const size_t nodes = golden.nodes > 0 ? golden.nodes : count(*read, VertexKind::kNode);
    EXPECT_EQ(count(*read, VertexKind::kNode), nodes);
    EXPECT_EQ(count(*read, VertexKind::kNuma), golden.numas);
    EXPECT_EQ(count(*read, VertexKind::kGpu), golden.gpus);
    EXPECT_EQ(count(*read, VertexKind::kNic), golden.nics);
    EXPECT_EQ(count(*read, VertexKind::kSwitch), golden.switches);
    EXPECT_EQ(count(*read, VertexKind::kNvSwitch), golden.nvswitches);
    golden.more(*read);
  }
}

// Every file of the folder can be read, comes back from JSON as it was, and can be shown.
TEST(RealMachines, ComeBackAndCanBeShown) {
  const auto folder = test::real_machines();
  if (!folder) GTEST_SKIP() << test::kNoRealMachines;
  for (const auto& entry : fs::directory_iterator(*folder)) {
    if (entry.path().filename() == "SOURCES") continue;
    SCOPED_TRACE(entry.path().filename().string());
    const auto read = import_topology(test::content_of(entry.path()));
    if (unsupported(read)) continue;
    ASSERT_TRUE(read.ok()) << read.status().message();
    const auto again = from_json(to_json(*read));
    ASSERT_TRUE(again.ok()) << again.status().message();
    EXPECT_EQ(*again, *read);
    EXPECT_FALSE(to_text(*read).empty() || to_dot(*read).empty() || to_svg(*read).empty());
  }
}

}  // namespace
}  // namespace banyan::import_test
