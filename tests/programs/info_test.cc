// The parts of banyan_info that need no ranks.
// SPDX-License-Identifier: Apache-2.0

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <initializer_list>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "algorithms/algorithms.h"
#include "bench/info/options.h"
#include "bench/info/show.h"
#include "tests/support/machines.h"
#include "tests/support/temporary_folder.h"
#include "topology/formats/json.h"

namespace banyan::info::info_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(InfoSchedule, Requests) {
  const auto all = parse_schedule_request("allreduce:ring:5");
  ASSERT_TRUE(all.ok());
  EXPECT_EQ(all->ranks, 5);
  EXPECT_EQ(ranks_of(*all).size(), 5U);
  EXPECT_EQ(ranks_of(*parse_schedule_request("allreduce:ring:5:4")), std::vector<int>{4});
  struct Case {
    const char *text, *named, *right;
  };
  for (const Case& bad : std::initializer_list<Case>{{"allreduce:rign:5", "rign", "ring"},
                                                     {"allreduc:ring:5", "allreduc", "allreduce"},
                                                     {"send:ring:5", "send", "allreduce"},
                                                     {"barrier:ring:5", "ring", "dissemination"},
                                                     {"allreduce:ring:0", "'0'", "from 1"},
                                                     {"allreduce:ring:1025", "'1025'", "1024"},
                                                     {"allreduce:ring:x", "'x'", "from 1"},
                                                     {"allreduce:ring:5:5", "'5'", "from 0 to 4"},
                                                     {"allreduce:ring:5:", "''", "from 0 to 4"},
                                                     {"allreduce", "COLLECTIVE", "ring"},
                                                     {"", "COLLECTIVE", "ring"},
                                                     {"a:b:c:d:e", "COLLECTIVE", "ring"}}) {
    const auto request = parse_schedule_request(bad.text);
    ASSERT_FALSE(request.ok()) << bad.text;
    EXPECT_THAT(std::string(request.status().message()),
                AllOf(HasSubstr(bad.named), HasSubstr(bad.right)));
  }
}

TEST(InfoSchedule, TakesParameters) {
  const auto request = parse_schedule_request("allreduce:hierarchical(seg=64,intra=ring):4x2");
  ASSERT_TRUE(request.ok()) << request.status().message();
  EXPECT_THAT(schedule_header(*request), HasSubstr("hierarchical(seg=64,intra=ring), 8 ranks"));
  EXPECT_THAT(schedule_json_begin(*request), HasSubstr("\"hierarchical(seg=64,intra=ring)\""));
  const auto plain = parse_schedule_request("allreduce:hierarchical:4x2");
  EXPECT_GT(schedule_of(*request, 0).steps.size(), 2 * schedule_of(*plain, 0).steps.size());
  EXPECT_TRUE(parse_schedule_request("allreduce:hierarchical(seg=64K):4x2").ok());
  EXPECT_EQ(parse_schedule_request("allreduce:torus(dims=2x3):6")->ranks, 6);
  struct Case {
    const char *text, *named, *right;
  };
  for (const Case& bad :
       std::initializer_list<Case>{{"allreduce:ring(seg=0):5", "'0' at position 20", "seg=SIZE"},
                                   {"allreduce:ring(:5", "position 16", "seg=SIZE"},
                                   {"allreduce:ring(seg=1),direct:5", "direct", "one"},
                                   {"allreduce:ring(seg=1);direct:5", "direct", "one"},
                                   {"allgather:ring(seg=1):5", "'seg'", "broadcast"},
                                   {"allreduce:torus(dims=2x3):5", "dims=2x3", "product"},
                                   {"allreduce:(seg=1):5", "ALGORITHM", "ring"}}) {
    const auto wrong = parse_schedule_request(bad.text);
    ASSERT_FALSE(wrong.ok()) << bad.text;
    EXPECT_THAT(std::string(wrong.status().message()),
                AllOf(HasSubstr(bad.named), HasSubstr(bad.right)));
  }
}

TEST(InfoSchedule, JsonOfEveryRank) {
  const auto request = parse_schedule_request("allreduce:ring:3");
  ASSERT_TRUE(request.ok());
  std::string text = schedule_json_begin(*request);
  for (const int rank : ranks_of(*request))
    text +=
        fmt::format("{}{}", rank == 0 ? "" : ",", schedule_json(schedule_of(*request, rank), rank));
  const auto json = nlohmann::json::parse(text + schedule_json_end());
  ASSERT_EQ(json.at("schedules").size(), 3U);
  for (const auto& schedule : json.at("schedules")) {
    EXPECT_FALSE(schedule.at("steps").empty());
    for (const auto& step : schedule.at("steps")) EXPECT_TRUE(step.contains("after"));
  }
}

TEST(InfoSchedule, EveryCollectiveAndAlgorithmCanBeShown) {
  for (int c = 0; c < static_cast<int>(Collective::kSend); ++c) {
    const auto collective = static_cast<Collective>(c);
    for (const Algorithm& algorithm : algorithms()) {
      if (!algorithm.fits(collective)) continue;
      const auto request =
          parse_schedule_request(fmt::format("{}:{}:4", name_of(collective), algorithm.name));
      ASSERT_TRUE(request.ok()) << request.status().message();
      EXPECT_FALSE(schedule_of(*request, 3).steps.empty())
          << name_of(collective) << " " << algorithm.name;
    }
  }
}

TEST(InfoSchedule, KnowsHosts) {
  for (const char* text : {"allreduce:hierarchical:3x2:5", "allreduce:leaders:1+2+3:5"}) {
    const auto request = parse_schedule_request(text);
    ASSERT_TRUE(request.ok()) << request.status().message();
    EXPECT_EQ(request->ranks, 6);
    EXPECT_EQ(request->hierarchy.parts(0), 3);
    EXPECT_THAT(schedule_header(*request), HasSubstr("6 ranks (3 hosts of "));
    EXPECT_THAT(schedule_json_begin(*request), HasSubstr("\"hierarchy\":\"3 hosts of "));
  }
  EXPECT_EQ(parse_schedule_request("allreduce:ring:5")->hierarchy, Hierarchy());
  for (const char* text : {"allreduce:leaders:2x", "allreduce:leaders:x2", "allreduce:leaders:1+",
                           "allreduce:leaders:0x2", "allreduce:leaders:1024x2",
                           "allreduce:leaders:1000+1000", "allreduce:leaders:2x2x2"})
    EXPECT_FALSE(parse_schedule_request(text).ok()) << text;
}

TEST(InfoSchedule, HasAnOperationOnlyWhereSomethingIsReduced) {
  struct Case {
    const char *request, *shown;
    bool reduces;
  };
  for (const Case& each :
       std::initializer_list<Case>{{"allreduce:ring:3", "float32 sum, count 48", true},
                                   {"reduce_scatter:ring:3", "float32 sum, count 16", true},
                                   {"broadcast:ring:3", "float32, count 48", false},
                                   {"alltoall:pairwise:3", "float32, count 16", false},
                                   {"barrier:dissemination:3", "float32, count 0", false}}) {
    const auto request = parse_schedule_request(each.request);
    ASSERT_TRUE(request.ok()) << request.status().message();
    EXPECT_THAT(schedule_header(*request), HasSubstr(each.shown));
    const auto json = nlohmann::json::parse(schedule_json_begin(*request) + schedule_json_end());
    EXPECT_EQ(json.contains("op"), each.reduces) << each.request;
  }
}

CommandLine parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "banyan_info");
  return parse_command_line(static_cast<int>(arguments.size()), arguments.data());
}

TEST(InfoTopology, CommandLines) {
  const CommandLine line = parse({"--topo", "--from", "m.json", "--nodes", "4", "--svg"});
  ASSERT_TRUE(line.options.has_value()) << line.text;
  EXPECT_TRUE(line.options->topology);
  EXPECT_EQ(line.options->from, "m.json");
  EXPECT_EQ(line.options->nodes, 4);
  EXPECT_EQ(line.options->form, Form::kSvg);
  struct Case {
    std::vector<const char*> arguments;
    const char* named;
  };
  for (const Case& bad :
       std::initializer_list<Case>{{{"--from", "m.json"}, "--topo"},
                                   {{"--nodes", "2"}, "--topo"},
                                   {{"--topo", "--nodes", "0"}, "from 1 to 65536"},
                                   {{"--topo", "--nodes", "x"}, "'x'"},
                                   {{"--topo", "--from", ""}, "--from"},
                                   {{"--topo", "--env"}, "--env"},
                                   {{"--topo", "--schedule", "allreduce:ring:2"}, "--schedule"},
                                   {{"--svg"}, "--topo"},
                                   {{"--nccl"}, "--nccl writes a machine: give --topo"},
                                   {{"--topo", "--hwloc"}, "--hwloc"},
                                   {{"--topo", "--nccl", "--json"}, "give one of them"}}) {
    const CommandLine refused = parse(bad.arguments);
    EXPECT_FALSE(refused.options.has_value());
    EXPECT_EQ(refused.status, 2);
    EXPECT_THAT(refused.text, HasSubstr(bad.named));
  }
}

TEST(InfoTopology, AFileAsManyNodesInEveryForm) {
  const test::TemporaryFolder folder;
  Options options;
  options.from = (folder.path() / "machine.json").string();
  options.nodes = 3;
  std::ofstream(options.from) << to_json(test::machine({}));
  const auto cluster = topology_of(options, RawEnvironment({}));
  ASSERT_TRUE(cluster.ok()) << cluster.status().message();
  const auto json = nlohmann::json::parse(*show_topology(*cluster, Form::kJson));
  EXPECT_EQ(json.at("nodes").size(), 3U);
  EXPECT_EQ(json.at("nodes")[2].at("gpus").size(), 8U);
  EXPECT_THAT(*show_topology(*cluster, Form::kText), HasSubstr("box-0 (x 3)"));
  EXPECT_THAT(*show_topology(*cluster, Form::kDot), HasSubstr("graph topology {"));
  EXPECT_THAT(*show_topology(*cluster, Form::kSvg), HasSubstr("<svg "));
  // NCCL's form is of one node.
  const auto refused = show_topology(*cluster, Form::kNccl);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("has 3: "));
  EXPECT_THAT(*show_topology(test::machine({}), Form::kNccl), HasSubstr("<system version=\"1\">"));
  EXPECT_EQ(parse({"--topo", "--nccl"}).options->form, Form::kNccl);
  std::ofstream(options.from) << "{";
  const auto broken = topology_of(options, RawEnvironment({}));
  ASSERT_FALSE(broken.ok());
  EXPECT_THAT(std::string(broken.status().message()), HasSubstr(options.from + ": line 1: "));
}

TEST(InfoTopology, OfTheFileThatAJobWouldGoBy) {
  const test::TemporaryFolder folder;
  const std::string file = folder.path() / "cluster.json";
  std::ofstream(file) << to_json(test::fabric(2, 3));
  const RawEnvironment raw({{"BANYAN_TOPO_FILE", file}});
  const auto cluster = topology_of(Options{}, raw);
  ASSERT_TRUE(cluster.ok()) << cluster.status().message();
  EXPECT_EQ(vertices_of(*cluster, VertexKind::kNode).size(), 6U);
  Options options;
  options.from = folder.path() / "other.json";
  std::ofstream(options.from) << to_json(test::machine({}));
  const auto other = topology_of(options, raw);
  ASSERT_TRUE(other.ok()) << other.status().message();
  EXPECT_EQ(vertices_of(*other, VertexKind::kNode).size(), 1U);
}

TEST(InfoTopology, OfAnEmptyRoot) {
  const test::TemporaryFolder folder;
  const auto found = topology_of(Options{}, RawEnvironment({{"BANYAN_SYSROOT", folder.path()}}));
  ASSERT_TRUE(found.ok()) << found.status().message();
  const auto json = nlohmann::json::parse(*show_topology(*found, Form::kJson));
  EXPECT_EQ(json.at("nodes").size(), 1U);
  EXPECT_FALSE(
      topology_of(Options{}, RawEnvironment({{"BANYAN_SYSROOT", folder.path() / "none"}})).ok());
}

}  // namespace
}  // namespace banyan::info::info_test
