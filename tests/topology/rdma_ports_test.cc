// What sysfs says of ports for RDMA: width, addresses, and identities that are none.
// SPDX-License-Identifier: Apache-2.0

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/topology/sysfs_tree.h"
#include "topology/compose.h"
#include "topology/discovery/discover.h"
#include "topology/discovery/network.h"
#include "topology/formats/json.h"
#include "topology/formats/print.h"

namespace banyan::rdma_ports_test {
namespace {

using test::Tree;
using test::vertex;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr const char* kPort = "/sys/class/infiniband/mlx5_0/ports/1";
constexpr const char* kLocal = "fe80:0000:0000:0000:0e42:a1ff:fe03:0001";
constexpr const char* kMapped = "0000:0000:0000:0000:0000:ffff:0a00:0001";
constexpr const char* kZeroGid = "0000:0000:0000:0000:0000:0000:0000:0000";

void write_gid(const Tree& tree, int index, const std::string& gid, const std::string& type = {},
               const std::string& interface = {}) {
  tree.write(fmt::format("{}/gids/{}", kPort, index), gid);
  if (!type.empty()) tree.write(fmt::format("{}/gid_attrs/types/{}", kPort, index), type);
  if (!interface.empty()) tree.write(fmt::format("{}/gid_attrs/ndevs/{}", kPort, index), interface);
}

Topology found_in(const Tree& tree) {
  auto found = discover(tree.sys(), nullptr);
  EXPECT_TRUE(found.ok()) << found.status().message();
  if (!found.ok()) return empty_topology();
  const auto again = from_json(to_json(*found));
  EXPECT_TRUE(again.ok()) << again.status().message();
  EXPECT_TRUE(again.ok() && *again == *found);
  return std::move(*found);
}

TEST(RdmaPorts, HaveAWidth) {
  EXPECT_EQ(rdma_width("400 Gb/sec (4X NDR)"), "4X NDR");
  EXPECT_EQ(rdma_width("25 Gb/sec ( 1X EDR )"), "1X EDR");
  for (const char* text : {"", "400 Gb/sec", ")4X NDR(", "400 Gb/sec (4X NDR", "()"})
    EXPECT_EQ(rdma_width(text), "") << text;
  const Tree tree;
  tree.processors();
  tree.devices();
  const Topology found = found_in(tree);
  EXPECT_EQ(vertex(found, "made/mlx5_0:1").width, "4X HDR");
  EXPECT_EQ(vertex(found, "made/mlx5_0:2").width, "") << "the slowest, of a port that is down";
  EXPECT_THAT(to_text(found), HasSubstr("ib0, ACTIVE, 4X HDR, 25 GB/s [hardware]"));
}

TEST(RdmaPorts, HaveAllGidsThatAreSet) {
  const Tree tree;
  write_gid(tree, 0, kLocal, "IB/RoCE v1", "ens1f0");
  write_gid(tree, 1, kLocal, "RoCE v2", "ens1f0");
  write_gid(tree, 2, kZeroGid, "never read");
  write_gid(tree, 10, kMapped, "RoCE v2", "ens1f0.100");
  write_gid(tree, 9, kMapped);
  const Topology found = found_in(tree);
  const Vertex& port = vertex(found, "node/mlx5_0:1");
  EXPECT_EQ(port.gids, (std::vector<Gid>{{0, kLocal, "IB/RoCE v1", "ens1f0"},
                                         {1, kLocal, "RoCE v2", "ens1f0"},
                                         {9, kMapped, "", ""},
                                         {10, kMapped, "RoCE v2", "ens1f0.100"}}));
  EXPECT_EQ(port.guid, kLocal);
  EXPECT_THAT(to_json(found),
              HasSubstr(fmt::format("{{\"index\": 10, \"gid\": \"{}\", \"type\": \"RoCE v2\", "
                                    "\"interface\": \"ens1f0.100\"}}",
                                    kMapped)));
}

// Addresses are one port's in the world.
TEST(RdmaPorts, OfNodesThatAreAlikeHaveGidsOfTheirOwn) {
  std::vector<Topology> views;
  for (const char* host : {"a", "b"}) {
    const Tree tree;
    tree.processors();
    tree.devices();
    tree.write("/proc/sys/kernel/hostname", host);
    tree.write("/proc/sys/kernel/random/boot_id", host);
    tree.write(fmt::format("{}/gids/1", kPort), fmt::format("fe80::{}", host));
    views.push_back(found_in(tree));
  }
  const auto merged = merge(views);
  ASSERT_TRUE(merged.ok()) << merged.status().message();
  EXPECT_EQ(vertex(*merged, "b/mlx5_0:1").gids.back().gid, "fe80::b");
  EXPECT_THAT(to_text(*merged), HasSubstr("a (x 2)"));
  EXPECT_TRUE(vertex(*multiply(views.front(), 2), "a-1/mlx5_0:1").gids.empty());
}

// As an EFA has it.
TEST(RdmaPorts, IdentitiesOfZerosAreNone) {
  for (const char* zero : {"", "0", "0x0", "::", "0000:0000:0000:0000", kZeroGid,
                           "00000000-0000-0000-0000-000000000000"})
    EXPECT_EQ(set_id(zero), "") << zero;
  for (const char* id : {"0000:0000:0000:0001", "fe80::", "::1", "GPU-0", "a"})
    EXPECT_EQ(set_id(id), id);
  const Tree tree;
  tree.write("/sys/class/infiniband/mlx5_0/node_guid", "0000:0000:0000:0000");
  tree.write("/sys/class/infiniband/efa_1/node_guid", "0000:0000:0000:0000");
  write_gid(tree, 0, kZeroGid);
  const Topology found = found_in(tree);
  ASSERT_EQ(vertices_of(found, VertexKind::kNic).size(), 2U);
  EXPECT_EQ(vertex(found, "node/mlx5_0").guid, "");
  EXPECT_EQ(vertex(found, "node/efa_1").guid, "");
  EXPECT_EQ(vertex(found, "node/mlx5_0:1").guid, "");
  EXPECT_TRUE(vertex(found, "node/mlx5_0:1").gids.empty());
  EXPECT_THAT(to_json(found), Not(HasSubstr("guid\": \"0000:")));
  // Two views of one node whose partitions have no identity are joined by name, not into one.
  Topology view = empty_topology();
  const int node = add_vertex(view, {.kind = VertexKind::kNode, .name = "n", .parent = 0});
  const int gpu = add_vertex(
      view, {.kind = VertexKind::kGpu, .name = "gpu0", .parent = node, .bus_id = "0000:01:00.0"});
  for (const char* name : {"gpu0.mig0", "gpu0.mig1"})
    add_vertex(view, {.kind = VertexKind::kPartition,
                      .name = name,
                      .parent = gpu,
                      .guid = "00000000-0000-0000-0000-000000000000"});
  const auto merged = merge(std::vector<Topology>{view, view});
  ASSERT_TRUE(merged.ok()) << merged.status().message();
  EXPECT_EQ(vertices_of(*merged, VertexKind::kPartition).size(), 2U);
}

TEST(RdmaPorts, HaveNoIdentitiesWhoseNamesAreNotNumbersOfEntries) {
  for (const char* name :
       {"-1", "x", "99999999999999999999", "1 ", " 1", "+1", "0x1", "1x", "65536", "70000"}) {
    const Tree tree;
    tree.write(fmt::format("{}/gids/{}", kPort, name), kLocal);
    EXPECT_THAT(vertex(found_in(tree), "node/mlx5_0:1").gids, IsEmpty()) << name;
  }
  const Tree tree;
  write_gid(tree, 65535, kLocal);
  EXPECT_EQ(vertex(found_in(tree), "node/mlx5_0:1").gids.size(), 1U);
}

TEST(RdmaPorts, OfAHostileTreeAreFewAndCanBeStored) {
  const Tree tree;
  for (int index = 0; index < 2000; ++index)
    tree.write(fmt::format("{}/gids/{}", kPort, index), std::string(3000, '\xff'));
  tree.write(fmt::format("{}/gid_attrs/types/3", kPort), std::string(5000, '"'));
  tree.write(fmt::format("{}/gid_attrs/ndevs/3/x", kPort), "a folder");
  for (const char* file : {"state", "link_layer"})
    tree.write(fmt::format("{}/{}", kPort, file), std::string(5000, 'x'));
  tree.write("/sys/class/infiniband/mlx5_0/node_guid", std::string(5000, '/'));
  tree.write("/sys/class/infiniband/mlx5_0/hca_type", std::string(5000, '<'));
  const auto found = discover(tree.sys(), nullptr);
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_EQ(vertex(*found, "node/mlx5_0:1").gids.size(), kMostGids);
  const auto again = from_json(to_json(*found));
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(again->vertices.size(), found->vertices.size());
  std::string many = to_json(*found);
  const size_t list = many.find("\"gids\": [") + 9;
  many.insert(list, R"({"index": 1, "gid": "fe80::1"}, )");
  EXPECT_THAT(std::string(from_json(many).status().message()), HasSubstr("right are at most 256"));
  many = to_json(*found);
  many.replace(list, 9, "{\"indx\": ");
  EXPECT_THAT(std::string(from_json(many).status().message()), HasSubstr("'indx'"));
}

}  // namespace
}  // namespace banyan::rdma_ports_test
