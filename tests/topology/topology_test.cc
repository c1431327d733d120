// The value Topology: sets of processors, what check() refuses, order, copies and unions.
// SPDX-License-Identifier: Apache-2.0

#include "topology/topology.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tests/support/machines.h"
#include "topology/compose.h"
#include "topology/cpu_set.h"

namespace banyan::topology_test {
namespace {

using test::Box;
using test::boxes;
using test::machine;
using ::testing::HasSubstr;

TEST(CpuSet, ListsAndMasksComeBack) {
  for (const char* text : {"", "0", "0-3", "0-3,8,10-11", "63-64", "127", "0,65535"}) {
    const auto set = parse_cpu_list(text);
    ASSERT_TRUE(set.ok()) << set.status().message();
    EXPECT_EQ(set->list(), text);
    const auto again = parse_cpu_mask(set->mask());
    ASSERT_TRUE(again.ok()) << again.status().message();
    EXPECT_EQ(*again, *set) << text;
  }
  EXPECT_EQ(parse_cpu_mask("00000000,0000ffff")->list(), "0-15");
  EXPECT_EQ(parse_cpu_mask("3,0")->list(), "32-33");
  EXPECT_EQ(parse_cpu_list("0-1\n")->count(), 2);
}

TEST(CpuSet, WhatIsNoSetIsRefused) {
  for (const char* text : {"-1", "3-1", "0-", "a", "0,,1", "65536", "0-99999999999", "1 2"})
    EXPECT_FALSE(parse_cpu_list(text).ok()) << text;
  for (const char* text : {"g", "123456789", "-1", "0,,1", "0x1"})
    EXPECT_FALSE(parse_cpu_mask(text).ok()) << text;
  EXPECT_FALSE(parse_cpu_mask(std::string(100000, ',')).ok());
}

TEST(CpuSet, OperationsAreThoseOfSets) {
  std::mt19937 random(7);  // NOLINT(cert-msc51-cpp,bugprone-random-generator-seed): repeatable
  for (int round = 0; round < 50; ++round) {
    std::set<int> a, b;
    CpuSet x, y;
    for (int i = 0; i < 20; ++i) {
      const int one = static_cast<int>(random() % 200);
      const int two = static_cast<int>(random() % 200);
      a.insert(one);
      x.add(one);
      b.insert(two);
      y.add(two);
    }
    CpuSet both = x, either = x;
    both &= y;
    either |= y;
    for (int i = 0; i < 200; ++i) {
      EXPECT_EQ(both.has(i), a.count(i) != 0 && b.count(i) != 0);
      EXPECT_EQ(either.has(i), a.count(i) != 0 || b.count(i) != 0);
    }
    EXPECT_EQ(x.count(), static_cast<int>(a.size()));
    EXPECT_TRUE(either.contains(x) && either.contains(y) && x.contains(both));
    EXPECT_EQ(x.contains(y), std::includes(a.begin(), a.end(), b.begin(), b.end()));
    CpuSet none = x;
    none &= CpuSet();
    EXPECT_EQ(none, CpuSet());
  }
}

TEST(Figure, TheLeastIsUnknownWhereOneIs) {
  const Figure measured{10, Source::kMeasured};
  const Figure assumed{20, Source::kAssumed};
  const Figure unknown{std::nullopt, Source::kHardware};
  EXPECT_EQ(least(measured, assumed), measured);
  EXPECT_EQ(least(assumed, measured), measured);
  EXPECT_EQ(least(measured, Figure({10, Source::kTable})), Figure({10, Source::kTable}));
  EXPECT_FALSE(least(measured, unknown).known());
  EXPECT_FALSE(least(unknown, assumed).known());
}

struct Damage {
  const char* named;
  std::function<void(Topology&)> done;
};

int first(const Topology& topology, VertexKind kind) {
  return vertices_of(topology, kind).front();
}

std::vector<Damage> damages() {
  const auto change = [](VertexKind kind, const std::function<void(Vertex&)>& how) {
    return [=](Topology& t) { how(t.vertices[static_cast<size_t>(first(t, kind))]); };
  };
  return {
      {"0 vertices", [](Topology& t) { t.vertices.clear(); }},
      {"has no parent", change(VertexKind::kGpu, [](Vertex& v) { v.parent = -1; })},
      {"has no parent", change(VertexKind::kGpu, [](Vertex& v) { v.parent = 1 << 30; })},
      {"cannot be in", change(VertexKind::kGpu, [](Vertex& v) { v.parent = 0; })},
      {"is vertex", change(VertexKind::kGpu, [](Vertex& v) { v.kind = VertexKind::kCluster; })},
      {"1 to 256", change(VertexKind::kNic, [](Vertex& v) { v.name.clear(); })},
      {"1 to 256", change(VertexKind::kNic, [](Vertex& v) { v.name.assign(257, 'x'); })},
      {"control character", change(VertexKind::kNic, [](Vertex& v) { v.name = "a\nb"; })},
      {"no UTF-8", change(VertexKind::kNic, [](Vertex& v) { v.name = "caf\xe9"; })},
      {"no UTF-8", change(VertexKind::kGpu, [](Vertex& v) { v.model = "caf\xe9"; })},
      {"'x", change(VertexKind::kGpu, [](Vertex& v) { v.driver.assign(257, 'x'); })},
      {"the text of link",
       [](Topology& t) {
         t.edges.front().text =
             "\xc2\x9b"
             "31m";
       }},
      {"'/'", change(VertexKind::kNic, [](Vertex& v) { v.name = "a/b"; })},
      {"two vertices have the name 'box/gpu0'",
       change(VertexKind::kNic, [](Vertex& v) { v.name = "gpu0"; })},
      {"right is a number from 0", change(VertexKind::kPort, [](Vertex& v) { v.rate.value = -1; })},
      {"is within itself",
       [](Topology& t) {
         const int one = first(t, VertexKind::kPciSwitch);
         t.vertices[static_cast<size_t>(one)].parent = one;
       }},
      {"within more than 63 others",
       [](Topology& t) {
         for (int above = first(t, VertexKind::kPciSwitch), i = 0; i < 64; ++i) {
           t.vertices.push_back({.kind = VertexKind::kPciSwitch,
                                 .name = "deep" + std::to_string(i),
                                 .parent = above});
           above = static_cast<int>(t.vertices.size()) - 1;
         }
       }},
      {"no two ends", [](Topology& t) { t.edges.front().to = -2; }},
      {"no two ends", [](Topology& t) { t.edges.front().from = 1 << 30; }},
      {"joins gpu and numa",
       [](Topology& t) {
         t.edges.push_back({.from = first(t, VertexKind::kGpu),
                            .to = first(t, VertexKind::kNuma),
                            .kind = EdgeKind::kXgmi});
       }},
      {"itself", [](Topology& t) { t.edges.front().to = t.edges.front().from; }},
      {"the bandwidth of link",
       [](Topology& t) {
         t.edges.front().bandwidth.value = std::numeric_limits<double>::quiet_NaN();
       }},
      {"the latency of link", [](Topology& t) { t.edges.front().latency.value = -1; }},
  };
}

TEST(Check, EachDamageIsNamed) {
  ASSERT_TRUE(check(machine({})).ok());
  for (const Damage& damage : damages()) {
    Topology topology = machine({});
    damage.done(topology);
    const Status status = check(topology);
    ASSERT_FALSE(status.ok()) << damage.named;
    EXPECT_THAT(std::string(status.message()), HasSubstr(damage.named));
    EXPECT_EQ(std::string(status.message()).find('\n'), std::string::npos);
  }
}

TEST(Check, EveryMachineOfTheGeneratorIsRight) {
  for (const Box& box : boxes()) {
    const Topology topology = machine(box);
    EXPECT_TRUE(check(topology).ok()) << check(topology).message();
    EXPECT_EQ(vertices_of(topology, VertexKind::kGpu).size(), static_cast<size_t>(box.gpus));
  }
  EXPECT_TRUE(check(test::fabric(3, 4)).ok());
}

TEST(Canonical, AnyOrderBecomesOne) {
  const Topology right = machine({});
  std::mt19937 random(11);  // NOLINT(cert-msc51-cpp,bugprone-random-generator-seed): repeatable
  for (int round = 0; round < 20; ++round) {
    // Kinds in another order, each kind as it was.
    std::vector<int> kinds(kVertexKindCount);
    for (int i = 0; i < kVertexKindCount; ++i) kinds[static_cast<size_t>(i)] = i;
    std::shuffle(kinds.begin() + 1, kinds.end(), random);
    Topology mixed;
    std::vector<int> place(right.vertices.size());
    for (const int kind : kinds) {
      for (const int old : vertices_of(right, static_cast<VertexKind>(kind))) {
        place[static_cast<size_t>(old)] = static_cast<int>(mixed.vertices.size());
        mixed.vertices.push_back(right.vertices[static_cast<size_t>(old)]);
      }
    }
    for (Vertex& vertex : mixed.vertices)
      if (vertex.parent >= 0) vertex.parent = place[static_cast<size_t>(vertex.parent)];
    mixed.edges = right.edges;
    for (Edge& edge : mixed.edges) {
      edge.from = place[static_cast<size_t>(edge.from)];
      edge.to = place[static_cast<size_t>(edge.to)];
    }
    ASSERT_TRUE(check(mixed).ok()) << check(mixed).message();
    EXPECT_EQ(canonical(mixed), right);
  }
}

TEST(Canonical, PortsGoWithTheirNics) {
  Topology topology = empty_topology();
  add_vertex(topology, {.kind = VertexKind::kNode, .name = "n", .parent = 0});
  for (const char* nic : {"a", "b"})
    add_vertex(topology, {.kind = VertexKind::kNic, .name = nic, .parent = 1});
  add_vertex(topology, {.kind = VertexKind::kPort, .name = "b:1", .parent = 3});
  add_vertex(topology, {.kind = VertexKind::kPort, .name = "a:1", .parent = 2});
  EXPECT_EQ(canonical(topology).vertices[4].name, "a:1");
}

TEST(Names, BecomeValidAndDifferent) {
  Topology topology = machine({});
  for (Vertex& vertex : topology.vertices) vertex.name = "a/\n";
  topology.vertices[1].name.assign(1000, 'x');
  topology.vertices[2].name.clear();
  make_texts_valid(topology);
  EXPECT_TRUE(check(topology).ok()) << check(topology).message();
}

TEST(Names, FindWhatTheyName) {
  const Topology topology = *multiply(machine({}), 2);
  for (size_t i = 0; i < topology.vertices.size(); ++i)
    EXPECT_EQ(find_vertex(topology, full_name(topology, static_cast<int>(i))), static_cast<int>(i));
  EXPECT_EQ(find_vertex(topology, "box-1/gpu9"), -1);
}

TEST(Multiply, NodesAreAlike) {
  const Topology one = machine({});
  const auto four = multiply(one, 4);
  ASSERT_TRUE(four.ok()) << four.status().message();
  EXPECT_EQ(vertices_of(*four, VertexKind::kGpu).size(), 32U);
  EXPECT_EQ(four->vertices.size(), 1 + 4 * (one.vertices.size() - 1));
  EXPECT_EQ(four->edges.size(), 4 * one.edges.size());
  EXPECT_EQ(*multiply(one, 1), one);
  EXPECT_GE(find_vertex(*four, "box-3/mlx5_3"), 0);
  EXPECT_EQ(canonical(*four), *four);
}

TEST(Multiply, RefusesWhatMakesNoSense) {
  const Topology one = machine({});
  EXPECT_FALSE(multiply(one, 0).ok());
  EXPECT_FALSE(multiply(one, 1 << 30).ok());
  EXPECT_FALSE(multiply(*multiply(one, 2), 2).ok());
  const auto linked = multiply(test::fabric(1, 1), 2);
  ASSERT_FALSE(linked.ok());
  EXPECT_THAT(std::string(linked.status().message()), HasSubstr("network"));
}

TEST(Merge, ViewsOfOneNodeAreUnited) {
  Topology left = machine({});
  left.vertices[1].guid = "boot-1";
  Topology right = left;
  // One process may use the first two processors, the other the next two, and a NIC more.
  left.vertices[1].cpus = *parse_cpu_list("0-1");
  right.vertices[1].cpus = *parse_cpu_list("2-3");
  right.vertices.push_back({.kind = VertexKind::kNic, .name = "eth0", .parent = 1});
  const std::vector<Topology> views = {left, right, left};
  const auto merged = merge(views);
  ASSERT_TRUE(merged.ok()) << merged.status().message();
  EXPECT_EQ(vertices_of(*merged, VertexKind::kNode).size(), 1U);
  EXPECT_EQ(merged->vertices[1].cpus.list(), "0-3");
  EXPECT_EQ(merged->vertices.size(), left.vertices.size() + 1);
  EXPECT_EQ(merged->edges.size(), left.edges.size());
}

// Two processes that each see one GPU of two call it by the same number.
TEST(Merge, DevicesAreToldByTheirBusIds) {
  Topology left = machine({});
  left.vertices[1].guid = "boot-1";
  Topology right = left;
  Vertex& gpu = right.vertices[static_cast<size_t>(first(right, VertexKind::kGpu))];
  const std::string name = gpu.name;
  ASSERT_FALSE(gpu.bus_id.empty());
  gpu.bus_id = "0000:77:00.0";
  const std::vector<Topology> views = {left, right, left, right};
  const auto merged = merge(views);
  ASSERT_TRUE(merged.ok()) << merged.status().message();
  EXPECT_EQ(vertices_of(*merged, VertexKind::kGpu).size(),
            vertices_of(left, VertexKind::kGpu).size() + 1);
  EXPECT_GE(find_vertex(*merged, "box/" + name + ".2"), 0);
}

// As the two ports of an older adapter.
TEST(Merge, NicsOfOnePciFunctionStayApart) {
  Topology view = machine({});
  view.vertices[1].guid = "boot-1";
  for (const char* name : {"eth2", "eth3"})
    view.vertices.push_back(
        {.kind = VertexKind::kNic, .name = name, .parent = 1, .bus_id = "0000:77:00.0"});
  const std::vector<Topology> views = {view, view};
  const auto merged = merge(views);
  ASSERT_TRUE(merged.ok()) << merged.status().message();
  EXPECT_EQ(merged->vertices.size(), view.vertices.size());
}

TEST(Merge, HostsOfOneNameStayApart) {
  std::vector<Topology> views(4, machine({.name = "localhost"}));
  for (size_t i = 0; i < views.size(); ++i)
    views[i].vertices[1].guid = "boot-" + std::to_string(i == 3 ? 1 : i);
  const auto merged = merge(views);
  ASSERT_TRUE(merged.ok()) << merged.status().message();
  std::vector<std::string> names;
  for (const int node : vertices_of(*merged, VertexKind::kNode))
    names.push_back(full_name(*merged, node));
  EXPECT_EQ(names, (std::vector<std::string>{"localhost", "localhost.2", "localhost.3"}));
}

TEST(Merge, AClusterAndParallelCablesComeBack) {
  Topology net = test::fabric(2, 2);
  net.edges.push_back(net.edges.front());  // a second cable
  const std::vector<Topology> views = {net, net};
  const auto merged = merge(views);
  ASSERT_TRUE(merged.ok()) << merged.status().message();
  EXPECT_EQ(merged->edges.size(), net.edges.size());
  EXPECT_EQ(merged->vertices, net.vertices);
}

}  // namespace
}  // namespace banyan::topology_test
