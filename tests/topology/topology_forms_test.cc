// A topology is written as JSON, which comes back as it was and refuses what is wrong with its
// line; and as text, DOT and SVG, which hold together whatever the names are.
// SPDX-License-Identifier: Apache-2.0

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <random>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/markup.h"
#include "tests/support/machines.h"
#include "topology/compose.h"
#include "topology/formats/json.h"
#include "topology/formats/print.h"

namespace banyan::topology_forms_test {
namespace {

using test::boxes;
using test::fabric;
using test::machine;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// Every attribute of every kind, and all states of figures.
Topology rich() {
  Topology topology = machine({.gpus = 2, .nics = {1}, .nvswitches = 1});
  Vertex everything = topology.vertices[static_cast<size_t>(find_vertex(topology, "box/gpu0"))];
  everything.name = "gpu \"0\" <&> \xc3\xa9";
  everything.vendor = "NVIDIA";
  everything.model = "A100\\80";
  everything.memory = uint64_t{85899345920};
  everything.capability = 80;
  everything.guid = "GPU-12";
  topology.vertices[static_cast<size_t>(find_vertex(topology, "box/gpu0"))] = everything;
  const int gpu = find_vertex(topology, "box/gpu1");
  add_vertex(topology, {.kind = VertexKind::kPartition,
                        .name = "mig0",
                        .parent = gpu,
                        .index = 0,
                        .model = "1g.10gb",
                        .memory = uint64_t{10} << 30});
  const int nic = find_vertex(topology, "box/mlx5_0");
  topology.vertices[static_cast<size_t>(nic)].driver = "mlx5_core";
  add_vertex(topology, {.kind = VertexKind::kPort,
                        .name = "mlx5_0:2",
                        .parent = nic,
                        .index = 2,
                        .guid = "fe80::1",
                        .interface = "ens1",
                        .link_layer = "Ethernet",
                        .state = "DOWN",
                        .width = "4X \"NDR\"",
                        .gids = {{0, "fe80::1", "IB/RoCE v1", "ens1"}, {3, "::ffff:a00:1", "", ""}},
                        .rate = {std::nullopt, Source::kHardware}});
  const int numa = find_vertex(topology, "box/numa0");
  add_vertex(topology, {.kind = VertexKind::kCache,
                        .name = "l3-0",
                        .parent = numa,
                        .cpus = *parse_cpu_list("0-1"),
                        .cores = 1,
                        .memory = uint64_t{32} << 20});
  const int leaf = add_vertex(
      topology, {.kind = VertexKind::kSwitch, .name = "leaf", .parent = 0, .model = "QM9700"});
  topology.edges.push_back({numa, numa, EdgeKind::kMemory, {204.8, Source::kTable}, {}, {}});
  topology.edges.push_back({find_vertex(topology, "box"),
                            find_vertex(topology, "box"),
                            EdgeKind::kShm,
                            {7.25, Source::kMeasured},
                            {0.35, Source::kMeasured},
                            {}});
  topology.edges.push_back({find_vertex(topology, "box/mlx5_0:2"),
                            leaf,
                            EdgeKind::kNetwork,
                            {std::nullopt, Source::kAssumed},
                            {1.0 / 3, Source::kAssumed},
                            "4xNDR"});
  return canonical(topology);
}

std::vector<Topology> everything() {
  std::vector<Topology> all = {empty_topology(), rich(), fabric(2, 3), *multiply(machine({}), 3)};
  for (const test::Box& box : boxes()) all.push_back(machine(box));
  return all;
}

TEST(TopologyJson, ComesBackAsItWas) {
  for (const Topology& topology : everything()) {
    ASSERT_TRUE(check(topology).ok()) << check(topology).message();
    const std::string text = to_json(topology);
    const auto again = from_json(text);
    ASSERT_TRUE(again.ok()) << again.status().message() << "\n" << text;
    EXPECT_EQ(*again, topology);
    EXPECT_EQ(to_json(*again), text);
  }
}

TEST(TopologyJson, HasTheMembersThatScriptsRead) {
  const std::string text = to_json(rich());
  for (const char* member :
       {"\"schema\": 1", "\"nodes\": [", "\"links\": [", "\"levels\": [", "\"cpus\": {",
        "\"numa\": [", "\"gpus\": [", "\"nics\": [", "\"GBps\": null, \"source\": \"hardware\"",
        "\"kind\": \"shm\", \"GBps\": 7.25, \"us\": 0.35, \"source\": \"measured\""})
    EXPECT_THAT(text, HasSubstr(member));
}

// Names and texts may be any bytes, as a file in Latin-1 or a hostile one has them: those that
// differ still do in JSON.
TEST(TopologyJson, AnyBytesComeBackAsTheyWereMadeValid) {
  std::mt19937 random(11);  // NOLINT(cert-msc51-cpp,bugprone-random-generator-seed): repeatable
  const auto bytes = [&](size_t most) {
    constexpr std::string_view kNasty =
        "a?.2/\"\\\x7f\x80\x9b\xbf\xc0\xc2\xc3\xa9\xe2\xed\xf0\xf4\xff";
    std::string text;
    for (size_t left = random() % most; left > 0; --left)
      text +=
          random() % 4 == 0 ? static_cast<char>(random() % 256) : kNasty[random() % kNasty.size()];
    return text;
  };
  for (int round = 0; round < 200; ++round) {
    Topology topology = rich();
    for (Vertex& vertex : topology.vertices) {
      vertex.name = bytes(round % 10 == 0 ? 600 : 4);
      if (vertex.kind != VertexKind::kCluster) vertex.model = bytes(600);
      if (vertex.kind == VertexKind::kPort) {
        vertex.state = bytes(5);
        vertex.width = bytes(5);
        vertex.gids = {{.index = 0, .gid = bytes(9), .type = bytes(9), .interface = bytes(300)}};
      }
    }
    for (Edge& edge : topology.edges) edge.text = bytes(300);
    EXPECT_FALSE(check(topology).ok());
    make_texts_valid(topology);
    ASSERT_TRUE(check(topology).ok()) << check(topology).message();
    const auto again = from_json(to_json(topology));
    ASSERT_TRUE(again.ok()) << again.status().message();
    EXPECT_EQ(*again, topology);
  }
}

struct Wrong {
  const char* from;
  const char* to;
  const char* named;
};

TEST(TopologyJson, WhatIsWrongIsNamedWithItsLine) {
  const std::string good = to_json(rich());
  for (const Wrong& wrong : std::initializer_list<Wrong>{
           {"\"schema\": 1", "\"schema\": 2", "schema 1 only"},
           {"\"schema\": 1", "\"schema\": \"1\"", "schema 1 only"},
           {"\"schema\": 1,", "", "'schema'"},
           {"\"nodes\": [", "\"nodes\": 7, \"x\": [", "'x'"},
           {"\"cores\": 8,", "\"cores\": 8.5,", "whole number"},
           {"\"cores\": 8,", "\"cores\": -8,", "whole number"},
           {"\"set\": \"0-7\"", "\"set\": \"7-0\"", "list of processors"},
           {"\"set\": \"0-7\"", "\"set\": [0]", "a string"},
           {"\"kind\": \"nvlink\"", "\"kind\": \"nvlnk\"", "nvlink"},
           {"\"source\": \"table\"", "\"source\": \"guess\"", "measured"},
           {"\"from\": \"box/gpu1\"", "\"from\": \"box/gpu9\"", "'box/gpu9'"},
           {"\"parent\": \"numa0\"", "\"parent\": \"nowhere\"", "nowhere"},
           {"\"parent\": \"numa0\"", "\"parent\": \"mlx5_0\"", "cannot be in"},
           {"\"GBps\": 7.25", "\"GBps\": -7.25", "from 0"},
           {"\"GBps\": 7.25", "\"GBps\": \"7\"", "a number"},
           {"\"name\": \"mig0\"", "\"name\": \"gpu1\"", "two vertices"},
           {"\"name\": \"mig0\"", "\"name\": \"a/b\"", "'/'"},
           {"\"name\": \"mig0\"", "\"name\": \"\"", "1 to 256"},
           {"\"name\": \"mig0\"", "\"nme\": \"mig0\"", "'nme'"},
           {"\"driver\": \"mlx5_core\"", "\"driver\": \"a\\u0007\"", "control"},
           {"\"regular\": ", "\"regulr\": ", "regulr"},
           {"\"us\": 0.35", "\"us\": 1e999", "line"},
           {"\"us\": 0.35,", "\"us\": 0.35,,", "not JSON"},
       }) {
    const size_t at = good.find(wrong.from);
    ASSERT_NE(at, std::string::npos) << wrong.from;
    std::string bad = good;
    bad.replace(at, std::string(wrong.from).size(), wrong.to);
    const auto read = from_json(bad);
    ASSERT_FALSE(read.ok()) << wrong.from << " -> " << wrong.to;
    const std::string message(read.status().message());
    EXPECT_THAT(message, HasSubstr(wrong.named));
    EXPECT_THAT(message, Not(HasSubstr("\n")));
    // The line of what was changed, but for what is missing, which is told where its object begins.
    const auto line = 1 + std::count(good.begin(), good.begin() + static_cast<long>(at), '\n');
    std::smatch found;
    ASSERT_TRUE(std::regex_search(message, found, std::regex("^line (\\d+): "))) << message;
    if (*wrong.to == '\0') continue;
    EXPECT_LE(std::abs(std::stol(found[1]) - line), 1) << message;
  }
}

TEST(TopologyJson, HostileTextsAreRefused) {
  const std::string good = to_json(rich());
  const std::string misfits =
      R"({"schema": 1, "nodes": [{"name": "a", "cpus": -1, "numa": [], "gpus": [{}], "nics": 7}],
          "links": [{"from": "a", "to": "zz"}], "levels": [[]]})";
  std::vector<std::string> texts = {"",
                                    "{}",
                                    "[]",
                                    "null",
                                    std::string("\0\1\2", 3),
                                    std::string(100000, '['),
                                    misfits,
                                    R"({"schema": 1, "schema": 1})",
                                    good + "x",
                                    "\xff\xfe" + good};
  for (size_t length = 0; length < good.size(); length += 97)
    texts.push_back(good.substr(0, length));
  for (const std::string& text : texts) {
    const auto read = from_json(text);
    ASSERT_FALSE(read.ok()) << text.substr(0, 200);
    EXPECT_THAT(std::string(read.status().message()), StartsWith("line "));
    EXPECT_LT(read.status().message().size(), 600U);
  }
}

// Any byte changed: refused with a line, or a topology that is right.
TEST(TopologyJson, DamagedTextsDoNoHarm) {
  const std::string good = to_json(rich());
  std::mt19937 random(3);  // NOLINT(cert-msc51-cpp,bugprone-random-generator-seed): repeatable
  int refused = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string bad = good;
    for (int i = 0; i < 1 + round % 3; ++i)
      bad[random() % bad.size()] = static_cast<char>(random() % 256);
    const auto read = from_json(bad);
    if (read.ok()) {
      EXPECT_TRUE(check(*read).ok());
    } else {
      ++refused;
    }
  }
  EXPECT_GT(refused, 1500);
}

TEST(ToTextOfTopology, AServer) {
  Topology topology = machine({.packages = 1, .gpus = 2, .nics = {1}});
  const std::string text = to_text(topology);
  EXPECT_THAT(text, StartsWith("cluster: 1 node, 2 GPUs, 1 NIC, 4 processors\n"
                               "box                      node, cpus 0-3\n"
                               "  package0               cpus 0-3\n"
                               "    numa0                64 GiB, cpus 0-3\n"
                               "      switch0            pci_switch, 0000:01:00.0, "
                               "pcie x16 16 GT/s, 31.5 GB/s [hardware]\n"));
  EXPECT_THAT(text, HasSubstr("        mlx5_0           nic, 0000:04:00.0, "));
  EXPECT_THAT(text, HasSubstr("InfiniBand, ACTIVE, 25 GB/s [hardware]\n"));
  EXPECT_THAT(text, HasSubstr("paths in box\n"
                              "         gpu0   gpu1   mlx5_0\n"
                              "  gpu0   -      PIX    PIX\n"));
  EXPECT_THAT(text, HasSubstr("  rail     1 group of 2 GPUs, 1 NIC\n"));
}

TEST(ToTextOfTopology, UnknownAndAssumedSaySo) {
  const std::string text = to_text(rich());
  EXPECT_THAT(text, HasSubstr("DOWN, 4X \"NDR\", unknown [hardware]"));
  EXPECT_THAT(text, HasSubstr("network 4xNDR, unknown [assumed], 0.3333 us [assumed]"));
}

TEST(ToTextOfTopology, NodesThatAreAlikeAreOne) {
  const Topology many = *multiply(machine({}), 512);
  const std::string text = to_text(many);
  EXPECT_THAT(text, StartsWith("cluster: 512 nodes, 4096 GPUs, 2048 NICs, 4096 processors\n"
                               "box-0 (x 512) "));
  EXPECT_LT(std::count(text.begin(), text.end(), '\n'), 60);
  EXPECT_LT(to_svg(many).size(), size_t{64} << 10);
  // Two kinds of nodes in any order are two.
  const std::vector<Topology> views = {machine({.name = "a"}), machine({.name = "b", .gpus = 4}),
                                       machine({.name = "c"})};
  EXPECT_THAT(to_text(*merge(views)), HasSubstr("a (x 2) "));
}

TEST(ToDotOfTopology, EveryVertexAndEdgeIsThere) {
  for (const Topology& topology : everything()) {
    const std::string dot = to_dot(topology);
    const Topology shown = folded(topology);
    const std::regex vertex("\n  v\\d+ \\["), edge("\n  v\\d+ -- v\\d+");
    const auto count = [&](const std::regex& what) {
      return std::distance(std::sregex_iterator(dot.begin(), dot.end(), what), {});
    };
    EXPECT_EQ(count(vertex), static_cast<long>(shown.vertices.size()));
    EXPECT_GE(count(edge), static_cast<long>(shown.vertices.size()) - 1);
    EXPECT_LE(count(edge), static_cast<long>(shown.vertices.size() + shown.edges.size()) - 1);
    EXPECT_EQ(std::count(dot.begin(), dot.end(), '{'), 1);
    EXPECT_EQ(dot.substr(dot.size() - 2), "}\n");
  }
}

TEST(ToSvgOfTopology, HoldsTogether) {
  for (const Topology& topology : everything()) {
    const std::string svg = to_svg(topology);
    std::smatch size;
    ASSERT_TRUE(std::regex_search(svg, size, std::regex("viewBox=\"0 0 (\\d+) (\\d+)\"")));
    EXPECT_LE(std::stol(size[1]), 1600);
    for (const char* element : {"svg", "text", "title"}) {
      const std::regex opened(fmt::format("<{}[ >]", element));
      const std::regex closed(fmt::format("</{}>", element));
      EXPECT_EQ(std::distance(std::sregex_iterator(svg.begin(), svg.end(), opened), {}),
                std::distance(std::sregex_iterator(svg.begin(), svg.end(), closed), {}))
          << element;
    }
  }
}

// Whether it hangs on NUMA domains, switches or the node itself, as long as there are few.
TEST(ToSvgOfTopology, EveryDeviceIsNamed) {
  for (const test::Box& box : boxes()) {
    const Topology topology = machine(box);
    const std::string svg = to_svg(topology);
    for (const VertexKind kind : {VertexKind::kNuma, VertexKind::kGpu, VertexKind::kNic})
      for (const int vertex : vertices_of(topology, kind))
        EXPECT_THAT(svg,
                    ContainsRegex(fmt::format(">([^<]*, )?{}<",
                                              topology.vertices[static_cast<size_t>(vertex)].name)))
            << box.name;
  }
}

TEST(ToSvgOfTopology, FiguresStandAtEdges) {
  const std::string svg = to_svg(rich());
  for (const char* text :
       {">PCIe x16 16 GT/s: 31.5 GB/s a link<", ">CPU interconnect: numa0 - numa1 ~22 GB/s<",
        ">NVLink through 1 NVSwitch: 50 GB/s for each of 2 GPUs<", ">1 leaf switch<", ">1 cable<",
        "memory ~205 GB/s", "through memory 7.25 GB/s",
        "<title>box/gpu1, 0000:03:00.0, 80 GiB, pcie x16 16 GT/s, 31.5 GB/s [hardware]</title>"})
    EXPECT_THAT(svg, HasSubstr(text));
}

TEST(Markup, IsEscapedAndWellFormed) {
  EXPECT_EQ(escape_markup("<a href=\"b\">&</a>"), "&lt;a href=&quot;b&quot;&gt;&amp;&lt;/a&gt;");
  EXPECT_EQ(escape_markup("a\x01\n\x7f\xc3\xa9"), "a   \xc3\xa9");
  EXPECT_EQ(escape_markup("\xff|\xc3|\xc0\x80|\xed\xa0\x80|\xf5\x80\x80\x80"), "?|?|??|???|????");
  EXPECT_EQ(escape_markup("\xe2\x82\xac \xf0\x9f\x8c\xb3"), "\xe2\x82\xac \xf0\x9f\x8c\xb3");
}

}  // namespace
}  // namespace banyan::topology_forms_test
