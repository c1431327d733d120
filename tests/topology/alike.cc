// SPDX-License-Identifier: Apache-2.0

#include "tests/topology/alike.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>

#include "tests/support/real_machines.h"
#include "topology/compose.h"
#include "topology/formats/import.h"
#include "topology/paths.h"
#include "topology/pci.h"

namespace banyan::test {

namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

// What is on PCI, by its bus id, or where it has none by its name.
std::map<std::string, int> devices_of(const Topology& topology) {
  std::map<std::string, int> devices;
  for (size_t i = 0; i < topology.vertices.size(); ++i) {
    const Vertex& vertex = topology.vertices[i];
    if (vertex.kind != VertexKind::kGpu && vertex.kind != VertexKind::kNic &&
        vertex.kind != VertexKind::kPciSwitch && vertex.kind != VertexKind::kNvSwitch)
      continue;
    const std::string id = normal_bus_id(vertex.bus_id);
    const bool invented = id.empty() || id.starts_with("ffff:ff:");
    devices[fmt::format("{} {}", name_of(vertex.kind), invented ? vertex.name : id)] =
        static_cast<int>(i);
  }
  return devices;
}

// The PCI switch that a device is in; empty: none.
std::string switch_above(const Topology& topology, int device) {
  const int parent = topology.vertices[static_cast<size_t>(device)].parent;
  const Vertex& above = topology.vertices[static_cast<size_t>(parent)];
  return above.kind == VertexKind::kPciSwitch ? normal_bus_id(above.bus_id) : "";
}

}  // namespace

Vertex& vertex_at(Topology& topology, const std::string& name) {
  const int vertex = find_vertex(topology, name);
  EXPECT_GE(vertex, 0) << name;
  return topology.vertices[static_cast<size_t>(std::max(vertex, 0))];
}

Topology exact(const Box& box) {
  Topology topology = machine(box);
  for (Vertex& vertex : topology.vertices)
    if (vertex.kind == VertexKind::kGpu) vertex.model = "sm_80";
  for (Edge& edge : topology.edges)
    if (edge.kind == EdgeKind::kPcie)
      edge.bandwidth = pcie_bandwidth("16.0 GT/s", 16, Source::kHardware);
  return topology;
}

std::vector<Topology> exact_machines() {
  std::vector<Topology> all;
  for (const Box& box : boxes()) all.push_back(exact(box));
  return all;
}

void expect_near(const Figure& again, const Figure& before) {
  if (before.known()) {
    ASSERT_TRUE(again.known());
    EXPECT_NEAR(*again.value, *before.value, 1e-4 * *before.value);
  }
}

void expect_same_devices(const Topology& again, const Topology& before) {
  const auto mine = devices_of(before);
  const auto theirs = devices_of(again);
  std::vector<std::string> names, others;
  for (const auto& [name, device] : mine) names.push_back(name);
  for (const auto& [name, device] : theirs) others.push_back(name);
  ASSERT_EQ(others, names);
  const Paths paths(before);
  const Paths paths_again(again);
  for (const auto& [name, device] : mine) {
    EXPECT_EQ(switch_above(again, theirs.at(name)), switch_above(before, device)) << name;
    for (const auto& [peer, other] : mine) {
      SCOPED_TRACE(fmt::format("{} - {}", name, peer));
      const Path path = paths.between(device, other);
      const Path same = paths_again.between(theirs.at(name), theirs.at(peer));
      EXPECT_EQ(name_of(same.type), name_of(path.type));
      expect_near(same.bandwidth, path.bandwidth);
    }
  }
}

void expect_same_numas(const Topology& again, const Topology& before) {
  const auto numas = vertices_of(before, VertexKind::kNuma);
  const auto theirs = vertices_of(again, VertexKind::kNuma);
  ASSERT_EQ(theirs.size(), numas.size());
  for (size_t i = 0; i < numas.size(); ++i) {
    const Vertex& numa = before.vertices[static_cast<size_t>(numas[i])];
    const Vertex& same = again.vertices[static_cast<size_t>(theirs[i])];
    EXPECT_EQ(same.index, numa.index);
    EXPECT_EQ(same.cpus.list(), numa.cpus.list());
  }
}

bool unsupported(const Result<Topology>& read) {
  return !read.ok() && read.status().code() == Code::kUnsupported;
}

void expect_refused(const Write& write, const Topology& topology, const char* named) {
  const auto written = write(topology);
  ASSERT_FALSE(written.ok()) << named;
  EXPECT_EQ(written.status().code(), Code::kInvalidArgument);
  EXPECT_THAT(std::string(written.status().message()), HasSubstr(named));
  EXPECT_THAT(std::string(written.status().message()), Not(HasSubstr("\n")));
}

void expect_refusals(const Write& write) {
  expect_refused(write, empty_topology(), "has none");
  expect_refused(write, *multiply(machine({}), 3), "has 3: ");
  Topology twice = machine({});
  vertex_at(twice, "box/gpu1").bus_id = vertex_at(twice, "box/gpu0").bus_id;
  expect_refused(write, twice, "'gpu0' and 'gpu1' have the same bus id");
  Topology nameless = machine({});
  vertex_at(nameless, "box/numa1").index = -1;
  expect_refused(write, nameless, "'numa1' has -1");
  vertex_at(nameless, "box/numa1").index = 0;
  expect_refused(write, nameless, "the same number 0");
  Topology deep = machine({});
  int parent = find_vertex(deep, "box/numa0");
  for (int i = 0; i < 300; ++i)
    parent = add_vertex(
        deep, {.kind = VertexKind::kPciSwitch, .name = fmt::format("deep{}", i), .parent = parent});
  expect_refused(write, deep, "PCI has 256 buses");
}

Topology with_hostile_names() {
  Topology topology = machine({.gpus = 2, .nics = {1}});
  const std::string name = kHostile;
  vertex_at(topology, "box/mlx5_0:1").guid = name;
  for (Vertex& vertex : topology.vertices) {
    for (std::string* text : {&vertex.vendor, &vertex.model, &vertex.driver, &vertex.interface})
      *text = name + "\n\x01\xff";
    if (vertex.kind == VertexKind::kGpu) vertex.guid = name + "\x02";
  }
  for (Edge& edge : topology.edges) edge.text = name + "\x03";
  vertex_at(topology, "box/mlx5_0").name = name;
  return topology;
}

void for_each_real_machine(const std::function<void(const std::string&, const Topology&)>& visit) {
  const auto folder = real_machines();
  if (!folder) GTEST_SKIP() << kNoRealMachines;
  for (const auto& entry : fs::directory_iterator(*folder)) {
    if (entry.path().extension() != ".xml") continue;
    const std::string name = entry.path().filename().string();
    SCOPED_TRACE(name);
    const auto read = import_topology_file(entry.path().string());
    if (unsupported(read)) continue;
    ASSERT_TRUE(read.ok()) << read.status().message();
    visit(name, *read);
  }
}

}  // namespace banyan::test
