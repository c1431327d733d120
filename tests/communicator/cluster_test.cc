// What ranks learn of their hosts from BANYAN_TOPO_FILE, and what BANYAN_TOPO_DUMP gets.
// SPDX-License-Identifier: Apache-2.0

#include "src/communicator/cluster.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/support/machines.h"
#include "tests/support/rendezvous_place.h"
#include "tests/support/temporary_folder.h"
#include "topology/formats/json.h"

namespace banyan::cluster_test {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

HostIdentity host(const std::string& name, uint8_t number) {
  HostIdentity made;
  made.name = name;
  made.digest.fill(number);
  return made;
}

// Nodes in two halves, each of which has leaves of its own.
Topology named(std::vector<std::string> names) {
  Topology topology = test::fabric(2, static_cast<int>(names.size()) / 2);
  size_t next = 0;
  for (const int node : vertices_of(topology, VertexKind::kNode))
    topology.vertices[static_cast<size_t>(node)].name = names[next++];
  return topology;
}

std::vector<int> matched(const Topology& described, const std::vector<HostIdentity>& hosts) {
  const auto places = match_nodes(described, hosts);
  EXPECT_TRUE(places.ok()) << places.status().message();
  return places.ok() ? *places : std::vector<int>();
}

TEST(MatchNodes, GoesByGuidThenByNameThenByOrder) {
  Topology described = named({"a", "b", "c", "d"});
  EXPECT_THAT(matched(described, {host("c", 1), host("a", 2)}), ElementsAre(2, 0));
  EXPECT_THAT(matched(described, {host("d.example.org", 1)}), ElementsAre(3));
  EXPECT_THAT(matched(described, {host("x", 1), host("y", 2)}), ElementsAre(0, 1));
  const std::vector<int> nodes = vertices_of(described, VertexKind::kNode);
  described.vertices[static_cast<size_t>(nodes[1])].guid = guid_of(host("", 7));
  EXPECT_THAT(matched(described, {host("c", 7), host("c", 1)}), ElementsAre(1, 2));
}

TEST(StrangerTo, SaysThatADescriptionIsOfOtherHosts) {
  const Topology described = named({"a", "b", "c", "d"});
  EXPECT_EQ(stranger_to(described, std::vector<HostIdentity>{host("x", 1), host("a", 2)}), "");
  EXPECT_EQ(stranger_to(described, std::vector<HostIdentity>{host("x", 1), host("y", 2)}),
            "describes none of this job's hosts (x and 1 more); its nodes (a, ...) are taken for "
            "them in their order");
  EXPECT_EQ(stranger_to(empty_topology(), std::vector<HostIdentity>{host("x", 1)}), "");
}

TEST(RingThrough, PutsNamedHostsFirstInTheirOrder) {
  const std::vector<HostIdentity> dealt = {host("a", 1), host("b", 2), host("c", 3),
                                           host("a", 1), host("b", 2), host("c", 3)};
  const Hierarchy lie = Hierarchy::of_labels("host", std::vector<int>{0, 1, 2, 0, 1, 2});
  EXPECT_THAT(ring_through(lie, dealt, {}), ElementsAre(0, 3, 1, 4, 2, 5));
  EXPECT_THAT(ring_through(lie, dealt, {"c", "a", "b"}), ElementsAre(2, 5, 0, 3, 1, 4));
  EXPECT_THAT(ring_through(lie, dealt, {"b"}), ElementsAre(1, 4, 0, 3, 2, 5));
  EXPECT_THAT(ring_through(lie, dealt, {"x", "c.example.org", "y"}), ElementsAre(2, 5, 0, 3, 1, 4));
  // Without levels, since nobody shares memory, hosts are entered once all the same.
  EXPECT_THAT(ring_through({}, dealt, {}), ElementsAre(0, 3, 1, 4, 2, 5));
}

TEST(RingThrough, LeavesNamesThatFitSeveral) {
  const std::vector<HostIdentity> alike = {host("a.one", 1), host("a.two", 2), host("b", 3)};
  EXPECT_THAT(ring_through({}, alike, {"b", "a"}), ElementsAre(2, 0, 1));
  EXPECT_THAT(ring_through({}, alike, {"b", "a.two"}), ElementsAre(2, 1, 0));
  EXPECT_THAT(ring_through({}, alike, {"b.one", "b.two"}), ElementsAre(0, 1, 2));
  const std::vector<HostIdentity> same = {host("a", 1), host("a", 2), host("b", 3)};
  EXPECT_THAT(ring_through({}, same, {"b", "a"}), ElementsAre(2, 0, 1));
}

TEST(MatchNodes, TakesOneNodeForAllHosts) {
  const Topology one = test::machine({});
  EXPECT_THAT(matched(one, {host("x", 1), host("y", 2), host("z", 3)}), ElementsAre(0, 0, 0));
}

TEST(MatchNodes, SaysWhichHostIsMissing) {
  const Topology described = named({"a", "b", "c", "d"});
  const auto refusal = [&](const std::vector<HostIdentity>& hosts) {
    return std::string(match_nodes(described, hosts).status().message());
  };
  EXPECT_EQ(refusal({host("a", 1), host("x", 2)}), "has no node for host x; its nodes are a, ...");
  EXPECT_EQ(refusal({host("v", 1), host("w", 2), host("x", 3), host("y", 4), host("z", 5)}),
            "describes 4 nodes; there are 5 hosts, and none has a node's name");
  const std::vector<HostIdentity> hosts{host("v", 1)};
  EXPECT_EQ(match_nodes(empty_topology(), hosts).status().message(),
            "has no node for host v; its nodes are none");
}

TEST(TiersOf, PutRanksTogetherWhoseNodesAre) {
  const Topology described = named({"a", "b", "c", "d"});
  const HostIdentity a = host("a", 1), b = host("b", 2), c = host("c", 3);
  const auto tiers = tiers_of(described, std::vector<HostIdentity>{a, c, b, c, a});
  ASSERT_TRUE(tiers.ok()) << tiers.status().message();
  ASSERT_EQ(tiers->size(), 1U);
  EXPECT_EQ(tiers->front().name, "leaf");
  EXPECT_THAT(tiers->front().parts, ElementsAre(ElementsAre(0, 2, 4), ElementsAre(1, 3)));
}

// Whatever was left out of what ranks go by.
TEST(WithHosts, HasHostsFirstAndWhatPartsThem) {
  const std::vector<int> four{0, 1, 2, 3}, pairs{7, 7, 5, 5};
  EXPECT_EQ(with_hosts({}, pairs)->text(), "2 hosts of 2");
  EXPECT_EQ(with_hosts({}, four)->text(), "4 hosts of 1");
  EXPECT_EQ(with_hosts({}, std::vector<int>{1, 1})->text(), "1 host of 2");
  const auto leaves = Hierarchy::make(4, {{"leaf", {{0, 2}, {1, 3}}}});
  EXPECT_EQ(with_hosts(*leaves, four)->text(), "4 hosts of 1, 2 leaves of 2");
  const auto all =
      Hierarchy::make(4, {{std::string(kHostLevel), {{0, 1}, {2, 3}}}, {"leaf", {{0, 1}, {2, 3}}}});
  EXPECT_EQ(with_hosts(*all, pairs)->text(), "2 hosts of 2");
  // Not of ranks that are not these.
  EXPECT_FALSE(with_hosts(*leaves, pairs).ok() && with_hosts(*leaves, pairs)->depth() > 1);
}

struct Learned {
  std::vector<Status> status;
  std::vector<std::string> text;  // of the hierarchy
};

// Ranks on hosts of those names. Only rank 0 has the variables.
Learned learn(const std::vector<std::string>& hosts, const Environment& of_first,
              const Log& log_of_first = {}) {
  const auto size = static_cast<int>(hosts.size());
  Learned learned{std::vector<Status>(hosts.size()), std::vector<std::string>(hosts.size())};
  std::vector<LinkPeer> peers(hosts.size());
  std::vector<int> labels;
  for (size_t rank = 0; rank < hosts.size(); ++rank) {
    const auto first = std::find(hosts.begin(), hosts.end(), hosts[rank]) - hosts.begin();
    labels.push_back(static_cast<int>(first));
    peers[rank].host = host(hosts[rank], static_cast<uint8_t>(hosts[rank].front()));
  }
  const Hierarchy by_host = Hierarchy::of_labels(kHostLevel, labels).simplified();
  const Place place;
  together(size, [&](int rank) {
    auto exchange = place.join(rank, size);
    ASSERT_TRUE(exchange.ok()) << exchange.status().message();
    Settings settings;
    if (rank == 0) settings.environment = of_first;
    if (rank == 0) settings.log = log_of_first;
    const auto found = learn_cluster(**exchange, cluster_wish(of_first), settings, peers, by_host,
                                     deadline_after(20));
    const auto own = static_cast<size_t>(rank);
    learned.status[own] = found.status();
    if (found.ok()) learned.text[own] = found->text();
    if (!found.ok()) (void)(*exchange)->give_up(found.status());
  });
  return learned;
}

TEST(LearnCluster, TakesTheLevelsOfTheFileOfRank0) {
  const test::TemporaryFolder folder;
  Environment environment;
  environment.topology_file = folder.path() / "cluster.json";
  std::ofstream(environment.topology_file) << to_json(named({"a", "b", "c", "d"}));
  const Learned learned = learn({"c", "a", "c", "a", "b", "d"}, environment);
  for (size_t rank = 0; rank < learned.text.size(); ++rank) {
    EXPECT_TRUE(learned.status[rank].ok()) << learned.status[rank].message();
    EXPECT_EQ(learned.text[rank], "4 hosts of 1 to 2, 2 leaves of 3") << rank;
  }
}

// A switch for storage joins the halves; what is left out, and that, is in the log of rank 0.
TEST(LearnCluster, GoesByTheNicsOfTheJob) {
  const test::TemporaryFolder folder;
  Topology cluster = named({"a", "b", "c", "d"});
  const int store =
      add_vertex(cluster, {.kind = VertexKind::kSwitch, .name = "store", .parent = 0});
  for (const int node : vertices_of(cluster, VertexKind::kNode)) {
    const int nic = add_vertex(cluster, {.kind = VertexKind::kNic, .name = "disk", .parent = node});
    cluster.edges.push_back({.from = nic, .to = store, .kind = EdgeKind::kNetwork});
  }
  Environment environment;
  environment.topology_file = folder.path() / "cluster.json";
  std::ofstream(environment.topology_file) << to_json(cluster);
  const auto log_of = [&](const std::string& devices, const char* text) {
    environment.net_devices = devices;
    const std::string path = folder.path() / "log";
    fs::remove(path);
    auto log = Log::open(LogLevels(), path, 0);
    EXPECT_TRUE(log.ok());
    const Learned learned = learn({"a", "b", "c", "d"}, environment, *log);
    for (const std::string& each : learned.text) EXPECT_EQ(each, text);
    std::ifstream file(path);
    return std::string{std::istreambuf_iterator<char>(file), {}};
  };
  EXPECT_THAT(log_of("", "flat"), HasSubstr("BANYAN_TOPO_FILE: switch store joins nodes"));
  EXPECT_EQ(log_of("^disk", "2 leaves of 2"), "");
  EXPECT_THAT(log_of("eth0", "flat"), HasSubstr("BANYAN_NET_DEVICES=eth0 leaves node a no NIC"));
}

TEST(LearnCluster, WritesWhatAllRanksHaveFound) {
  const test::TemporaryFolder folder;
  Environment environment;
  environment.topology_dump = folder.path() / "dump.json";
  const Learned learned = learn({"a", "a", "b"}, environment);
  for (const Status& status : learned.status) EXPECT_TRUE(status.ok()) << status.message();
  std::ifstream file(environment.topology_dump);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const auto read = from_json(text);
  ASSERT_TRUE(read.ok()) << read.status().message();
  std::vector<std::string> guids;
  for (const int node : vertices_of(*read, VertexKind::kNode))
    guids.push_back(read->vertices[static_cast<size_t>(node)].guid);
  EXPECT_THAT(guids, ElementsAre(guid_of(host("a", 'a')), guid_of(host("b", 'b'))));

  // It serves the same hosts, and what is written then is what was read.
  Environment again;
  again.topology_file = environment.topology_dump;
  again.topology_dump = folder.path() / "again.json";
  for (const Status& status : learn({"b", "a", "a"}, again).status)
    EXPECT_TRUE(status.ok()) << status.message();
  std::ifstream copy(again.topology_dump);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(copy), {}), text);
}

TEST(LearnCluster, NamesVariableAndFileThatCannotServe) {
  const test::TemporaryFolder folder;
  const auto refusal = [](const Environment& environment) {
    return std::string(learn({"a", "b", "c", "a", "b"}, environment).status.front().message());
  };
  Environment environment;
  environment.topology_file = folder.path() / "missing.json";
  EXPECT_THAT(refusal(environment),
              HasSubstr("BANYAN_TOPO_FILE: " + environment.topology_file + ": cannot open it"));
  environment.topology_file = folder.path() / "damaged.json";
  std::ofstream(environment.topology_file) << "{\"schema\": 1, ";
  EXPECT_THAT(refusal(environment),
              HasSubstr("BANYAN_TOPO_FILE: " + environment.topology_file + ": line 1"));
  std::ofstream(environment.topology_file) << to_json(named({"x", "y"}));
  EXPECT_THAT(refusal(environment), HasSubstr("BANYAN_TOPO_FILE=" + environment.topology_file +
                                              ": describes 2 nodes; there are 3 hosts"));
  environment.topology_file.clear();
  environment.topology_dump = folder.path() / "missing" / "dump.json";
  EXPECT_THAT(refusal(environment), HasSubstr("BANYAN_TOPO_DUMP=" + environment.topology_dump +
                                              ": cannot make a file in its folder: No such file"));
}

TEST(InheritCluster, LeavesPartsTheirPlacesInTheWhole) {
  const auto whole = Hierarchy::make(
      6, {{std::string(kHostLevel), {{0, 1}, {2}, {3}, {4, 5}}}, {"pod", {{0, 1, 2}, {3, 4, 5}}}});
  ASSERT_TRUE(whole.ok()) << whole.status().message();
  Settings settings;
  settings.environment.topology_file = settings.environment.topology_dump = "a file";
  inherit_cluster(settings, *whole, std::vector<int>{5, 0, 2, 3});
  EXPECT_EQ(cluster_wish(settings.environment), ClusterWish::kNothing);
  ASSERT_EQ(settings.tiers.size(), 1U);
  EXPECT_EQ(settings.tiers.front().name, "pod");
  EXPECT_THAT(settings.tiers.front().parts, ElementsAre(ElementsAre(1, 2), ElementsAre(0, 3)));
}

}  // namespace
}  // namespace banyan::cluster_test
