// What banyan_info says of a call: --explain.
// SPDX-License-Identifier: Apache-2.0

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <initializer_list>
#include <limits>
#include <map>
#include <string>

#include <nlohmann/json.hpp>

#include "algorithms/algorithms.h"
#include "bench/info/options.h"
#include "bench/info/show.h"
#include "compression/codecs.h"
#include "src/tuning/tuning_file.h"
#include "tests/support/machines.h"
#include "tests/support/temporary_folder.h"
#include "topology/formats/json.h"

namespace banyan::info::info_explain_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(InfoExplain, Requests) {
  const auto request = parse_explain_request("allgather:1K:float16");
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(request->collective, Collective::kAllgather);
  EXPECT_EQ(request->type, DataType::kFloat16);
  EXPECT_EQ(request->bytes, 1024U);
  EXPECT_EQ(parse_explain_request("allreduce:3")->bytes, 4U);
  EXPECT_TRUE(parse_explain_request("barrier").ok());
  EXPECT_EQ(parse_explain_request("AllGather:1K:Float16")->type, DataType::kFloat16);
  EXPECT_EQ(parse_schedule_request("AllReduce:Ring(Seg=64):5")->parameters.segment, 64U);
  EXPECT_EQ(parse_schedule_request("BROADCAST:Binomial:4")->collective, Collective::kBroadcast);
  struct Case {
    const char *text, *named, *right;
  };
  for (const Case& bad : std::initializer_list<Case>{{"allreduce:64X", "64X", "K"},
                                                     {"allreduc:64M", "allreduc", "allreduce"},
                                                     {"send:64M", "send", "allreduce"},
                                                     {"allreduce:1K:float31", "float31", "float32"},
                                                     {"allreduce", "COLLECTIVE:", "allreduce:"},
                                                     {"allreduce:2T", "2T", ""},
                                                     {"allreduce:1:int8:1", "COLLECTIVE:", ""},
                                                     {"", "COLLECTIVE", "allreduce"}}) {
    const auto wrong = parse_explain_request(bad.text);
    ASSERT_FALSE(wrong.ok()) << bad.text;
    EXPECT_THAT(std::string(wrong.status().message()),
                AllOf(HasSubstr(bad.named), HasSubstr(bad.right)));
  }
}

// Explains a call on a file with that machine.
Result<Explained> explained_on(const Topology& machine, std::string_view call, int nodes,
                               int ranks_per_node, const RawEnvironment& raw = RawEnvironment({})) {
  const test::TemporaryFolder folder;
  const std::string path = (folder.path() / "machine.json").string();
  std::ofstream(path) << to_json(machine);
  Options options;
  options.from = path;
  options.nodes = nodes;
  options.ranks_per_node = ranks_per_node;
  options.explain = *parse_explain_request(std::string(call));
  return explain_call(options, raw);
}

TEST(InfoExplain, JsonOnEveryMachine) {
  for (const test::Box& box : test::boxes()) {
    for (const int nodes : {1, 3}) {
      const auto explained = explained_on(test::machine(box), "allreduce:64M", nodes, 4);
      ASSERT_TRUE(explained.ok()) << box.name << ": " << explained.status().message();
      EXPECT_EQ(explained->call.ranks, 4 * nodes);
      const auto json = nlohmann::json::parse(show_explanation_json(*explained));
      EXPECT_EQ(json["call"], "allreduce:64M");
      EXPECT_EQ(json["ranks"], 4 * nodes);
      const double bound = json["bound_us"], percent = json["percent_of_bound"];
      EXPECT_GT(bound, 0);
      EXPECT_GT(percent, 0);
      EXPECT_LE(percent, 100.0001) << box.name;
      EXPECT_EQ(json["candidates"].size(), algorithms().size());
      double least = std::numeric_limits<double>::infinity(), chosen = 0;
      for (const auto& row : json["candidates"]) {
        if (row["excluded"] == true) {
          EXPECT_TRUE(row["predicted_us"].is_null() || row["predicted_us"] > 0);
          EXPECT_FALSE(row["why"].get<std::string>().empty());
          continue;
        }
        least = std::min(least, row["predicted_us"].get<double>());
        if (row["algorithm"] == json["chosen"]) chosen = row["predicted_us"];
      }
      EXPECT_EQ(chosen, least);
      EXPECT_NEAR(percent, 100 * bound / chosen, 0.01);
      EXPECT_THAT(show_explanation(*explained), AllOf(HasSubstr("%"), HasSubstr("circulant")));
    }
  }
}

// What this process can measure goes before a table; of another machine there is the table only.
TEST(InfoExplain, SaysWhetherMessagesWereMeasured) {
  Options here;
  here.ranks_per_node = 2;
  here.explain = *parse_explain_request("allreduce:1M");
  const auto explained = explain_call(here, RawEnvironment({}));
  ASSERT_TRUE(explained.ok()) << explained.status().message();
  const auto json = nlohmann::json::parse(show_explanation_json(*explained));
  const bool measured = json["machine"]["memory_GBps"]["source"] == "measured";
  EXPECT_THAT(show_explanation(*explained),
              HasSubstr(measured ? "# in memory: messages as they were measured here"
                                 : "# in memory: by a table, unchecked on this machine"));
  EXPECT_EQ(json["memory_by"], explained->explanation.memory_by);
  test::Box box;
  const auto gpus = explained_on(test::machine(box), "allreduce:1M", 1, 0);
  ASSERT_TRUE(gpus.ok());
  EXPECT_EQ(gpus->explanation.memory_by, "");
  box.gpus = box.gpus_per_switch = 0;
  const auto elsewhere = explained_on(test::machine(box), "allreduce:1M", 1, 0);
  ASSERT_TRUE(elsewhere.ok());
  EXPECT_THAT(elsewhere->explanation.memory_by, HasSubstr("unchecked"));
}

// Four ranks on each side of 22 GB/s.
TEST(InfoExplain, BoundIsByEdgesInsideAHost) {
  test::Box box;
  box.gpus = box.gpus_per_switch = 0;
  const auto explained = explained_on(test::machine(box), "alltoall:16M", 1, 8);
  ASSERT_TRUE(explained.ok()) << explained.status().message();
  const double cut = 4.0 * 4 * (16 << 20) * 1e-3 / 22;
  EXPECT_GE(explained->explanation.bound.us, cut);
  EXPECT_THAT(show_explanation(*explained),
              HasSubstr("# edge of a package                22 GB/s   table\n"));
  const auto json = nlohmann::json::parse(show_explanation_json(*explained));
  EXPECT_EQ(json["machine"]["numa_edge_GBps"]["value"], 22);
  // With one side nothing crosses.
  box.packages = 1;
  const auto one = explained_on(test::machine(box), "alltoall:16M", 1, 8);
  ASSERT_TRUE(one.ok()) << one.status().message();
  EXPECT_THAT(show_explanation(*one), Not(HasSubstr("edge of")));
}

TEST(InfoExplain, RanksAreGpusThenCoresAndRulesCount) {
  test::Box box;
  box.gpus = 4;
  const Topology machine = test::machine(box);
  const auto gpus = explained_on(machine, "broadcast:1M", 2, 0,
                                 RawEnvironment({{"BANYAN_ALGO", std::string("^ring")}}));
  ASSERT_TRUE(gpus.ok()) << gpus.status().message();
  EXPECT_EQ(gpus->call.ranks, 8);
  EXPECT_THAT(show_explanation(*gpus), HasSubstr("excluded by BANYAN_ALGO rule 1"));
  EXPECT_THAT(show_explanation(*gpus), HasSubstr("2 hosts of 4"));
  // What is excluded has a time, and may be the fastest.
  const auto ruled = explained_on(machine, "broadcast:64M", 1, 4,
                                  RawEnvironment({{"BANYAN_ALGO", std::string("binomial")}}));
  ASSERT_TRUE(ruled.ok()) << ruled.status().message();
  const auto json = nlohmann::json::parse(show_explanation_json(*ruled));
  EXPECT_EQ(json["chosen"], "binomial");
  EXPECT_NE(json["fastest_by_model"], "binomial");
  for (const auto& row : json["candidates"]) {
    const int algorithm = find_algorithm(row["algorithm"].get<std::string>());
    EXPECT_EQ(row["predicted_us"].is_null(),
              !fits(algorithm, Collective::kBroadcast) ||
                  algorithms()[static_cast<size_t>(algorithm)].by_levels)
        << row;
  }
  EXPECT_THAT(show_explanation(*ruled),
              AllOf(HasSubstr("\na call gets binomial: "), HasSubstr("\nthe model's fastest: ")));
  const auto alone = explained_on(machine, "broadcast:1M", 1, 1);
  ASSERT_FALSE(alone.ok());
  EXPECT_THAT(std::string(alone.status().message()), HasSubstr("--ranks-per-node"));
  EXPECT_FALSE(explained_on(machine, "broadcast:1M", 1, 2,
                            RawEnvironment({{"BANYAN_ALGO", std::string("rign")}}))
                   .ok());
}

TEST(InfoExplain, HasWhatATuningFileMeasured) {
  const test::TemporaryFolder folder;
  const std::string path = folder.path() / "tune.json";
  TuningFile file{.version = "0"};
  file.rules.push_back({"barrier: dissemination"});
  file.rules.push_back({"allreduce size=1K-64K: ring", Measured{4096, 12.5, 7, "star", 14.25}});
  ASSERT_TRUE(write_tuning_file(path, file).ok());
  const RawEnvironment raw({{"BANYAN_TUNE_FILE", path}});
  const auto explained_here = [&](std::string_view call) {
    Options here;
    here.nodes = 1;
    here.ranks_per_node = 4;
    here.explain = *parse_explain_request(std::string(call));
    return explain_call(here, raw);
  };
  const auto explained = explained_here("allreduce:4K");
  ASSERT_TRUE(explained.ok()) << explained.status().message();
  const auto json = nlohmann::json::parse(show_explanation_json(*explained));
  EXPECT_EQ(json["chosen"], "ring");
  for (const auto& row : json["candidates"]) {
    const std::string name = row["algorithm"];
    EXPECT_EQ(row["excluded"], name != "ring") << name;
    const std::map<std::string, nlohmann::json> measured = {
        {"ring", 12.5}, {"star", 14.25}, {"direct", nullptr}};
    const auto known = measured.find(name);
    if (known != measured.end()) {
      EXPECT_EQ(row["measured_us"], known->second) << name;
    }
  }
  // Another size was not measured, another call is not in the file.
  const auto other = explained_here("allreduce:8K");
  ASSERT_TRUE(other.ok()) << other.status().message();
  const auto unmeasured = nlohmann::json::parse(show_explanation_json(*other));
  for (const auto& row : unmeasured["candidates"])
    EXPECT_TRUE(row["measured_us"].is_null()) << row["algorithm"];
  const auto larger = explained_here("allreduce:1M");
  ASSERT_TRUE(larger.ok()) << larger.status().message();
  EXPECT_THAT(show_explanation(*larger), HasSubstr("default table"));
  // Another machine would get the same algorithm, but nobody measured it there.
  const auto elsewhere = explained_on(test::machine({}), "allreduce:4K", 1, 4, raw);
  ASSERT_TRUE(elsewhere.ok()) << elsewhere.status().message();
  EXPECT_THAT(show_explanation(*elsewhere),
              AllOf(HasSubstr("tuning file rule 2"), Not(HasSubstr("12.5"))));
  std::ofstream(path) << "{";
  const auto damaged = explained_here("allreduce:4K");
  EXPECT_THAT(std::string(damaged.status().message()), HasSubstr("BANYAN_TUNE_FILE: " + path));
}

// What was measured between hosts goes before what is assumed of them, but not on another machine.
TEST(InfoExplain, TakesLinksOfTheTuningFile) {
  const test::TemporaryFolder folder;
  const std::string path = folder.path() / "tune.json";
  TuningFile file{.version = "0"};
  file.links.between = MeasuredLink{.latency_us = 20,
                                    .busy_latency_us = 30,
                                    .message_us = 2,
                                    .GBps = 0.12,
                                    .busy_GBps = 0.06,
                                    .pairs = 2};
  ASSERT_TRUE(write_tuning_file(path, file).ok());
  const RawEnvironment raw({{"BANYAN_TUNE_FILE", path}});
  Options here;
  here.nodes = 4;
  here.ranks_per_node = 2;
  here.explain = *parse_explain_request("allreduce:64M");
  const auto measured = explain_call(here, raw);
  ASSERT_TRUE(measured.ok()) << measured.status().message();
  const double cut = 2.0 * 3 / 4 * 67108864 * 1e-3 / 0.12;
  EXPECT_NEAR(measured->explanation.bound.us, cut, 0.01 * cut);
  const std::string text = show_explanation(*measured);
  EXPECT_THAT(text, AllOf(HasSubstr("0.12 GB/s   measured"), HasSubstr("26 us     measured")));
  EXPECT_THAT(show_explanation(*explain_call(here, RawEnvironment({}))), Not(HasSubstr("0.12")));
  // What hierarchical would take in segments of another length, and with what a rule says.
  EXPECT_THAT(text, HasSubstr("us with seg="));
  const auto ruled = explain_call(
      here, RawEnvironment({{"BANYAN_TUNE_FILE", path},
                            {"BANYAN_ALGO", "allreduce: hierarchical(seg=4M,inter=ring)"}}));
  ASSERT_TRUE(ruled.ok()) << ruled.status().message();
  EXPECT_THAT(show_explanation(*ruled),
              AllOf(HasSubstr("what a call gets, by the BANYAN_ALGO rule 1, with "
                              "seg=4M,inter=ring\n"),
                    HasSubstr("BANYAN_ALGO rule 1 names hierarchical(seg=4M,inter=ring)")));
  EXPECT_GT(ruled->explanation.algorithms.front().predicted_us,
            measured->explanation.algorithms.front().predicted_us);
  const auto elsewhere = explained_on(test::machine({}), "allreduce:64M", 4, 2, raw);
  ASSERT_TRUE(elsewhere.ok()) << elsewhere.status().message();
  EXPECT_THAT(show_explanation(*elsewhere), Not(HasSubstr("measured  ")));
  EXPECT_LT(elsewhere->explanation.bound.us, cut / 2);
}

// As a job of those ranks and hosts would have them.
TEST(InfoExplain, SaysThatLinksChoose) {
  const test::TemporaryFolder folder;
  const std::string path = folder.path() / "tune.json";
  TuningFile file{
      .version = "0",
      .tuned_on = {.cores = 2, .ranks = 8, .hosts = 4, .ppn = 3, .transports = "shm,ucx"}};
  file.links.between =
      MeasuredLink{.latency_us = 20, .busy_latency_us = 30, .GBps = 0.12, .busy_GBps = 0.12};
  file.links.sums = MeasuredSums{.GBps = 21.5, .far_GBps = 4};
  ASSERT_TRUE(write_tuning_file(path, file).ok());
  Options here;
  here.ranks_per_node = 2;
  here.explain = *parse_explain_request("allreduce:64M");
  for (const int nodes : {4, 3}) {
    here.nodes = nodes;
    const auto explained = explain_call(here, RawEnvironment({{"BANYAN_TUNE_FILE", path}}));
    ASSERT_TRUE(explained.ok()) << explained.status().message();
    const std::string text = show_explanation(*explained);
    EXPECT_THAT(text, HasSubstr("21.5 GB/s   measured"));
    EXPECT_EQ(explained->note,
              nodes == 4 ? "tuned with at most 3 ranks of a host, here are 2" : "");
    EXPECT_THAT(text, HasSubstr(explained->note));
    EXPECT_THAT(text, HasSubstr(nodes == 4 ? "what a call gets, by the measured links"
                                           : "what a call gets, by the default table"));
  }
}

// The codecs' own speeds are those of the file, where it has them.
TEST(InfoExplain, ShowsCodecsAndWhatAutoTakes) {
  const test::TemporaryFolder folder;
  const std::string path = folder.path() / "tune.json";
  TuningFile file{.version = "0",
                  .tuned_on = {.cores = 1, .ranks = 4, .hosts = 4, .transports = "shm,ucx"}};
  file.links.between =
      MeasuredLink{.latency_us = 20, .busy_latency_us = 30, .GBps = 0.12, .busy_GBps = 0.12};
  file.links.codecs = {
      {{.codec = kBf16}, 8, 10}, {{.codec = kInt8}, 4, 6}, {{.codec = kInt4}, 3, 4}};
  ASSERT_TRUE(write_tuning_file(path, file).ok());
  const char* arguments[] = {"banyan_info", "--explain", "allreduce:64M",    "--compress", "auto",
                             "--nodes",     "4",         "--ranks-per-node", "1"};
  const CommandLine line = parse_command_line(std::size(arguments), arguments);
  ASSERT_TRUE(line.options) << line.text;
  const RawEnvironment tuned(
      {{"BANYAN_TUNE_FILE", path}, {"BANYAN_COMPRESS", "int8"}});  // the option goes before it
  const auto explained = explain_call(*line.options, tuned);
  ASSERT_TRUE(explained.ok()) << explained.status().message();
  EXPECT_THAT(show_explanation(*explained), HasSubstr("auto: int4 predicted "));
  const auto json = nlohmann::json::parse(show_explanation_json(*explained));
  ASSERT_EQ(json["codecs"].size(), 13U);
  EXPECT_EQ(json["codecs"][0]["codec"], "int4");
  EXPECT_EQ(json["codecs"][0]["chosen"], true);
  EXPECT_EQ(json["codecs"][0]["bytes_sent"], 2 * 3 * (4096 / 4) * 2304);
  EXPECT_EQ(json["codecs"][0]["error"], "2 c, c = 9.6e-03");
  const auto untuned = explain_call(*line.options, RawEnvironment({}));
  ASSERT_TRUE(untuned.ok()) << untuned.status().message();
  EXPECT_THAT(show_explanation(*untuned),
              HasSubstr("auto: exact, as no measured links decide that"));
  Options exact = *line.options;
  exact.compression.reset();
  const auto none = explain_call(exact, RawEnvironment({}));
  ASSERT_TRUE(none.ok()) << none.status().message();
  EXPECT_EQ(nlohmann::json::parse(show_explanation_json(*none))["codecs"].size(), 0U);
}

TEST(InfoExplain, RefusesWrongCompressions) {
  const auto text = [](std::initializer_list<const char*> words) {
    std::vector<const char*> arguments{"banyan_info"};
    arguments.insert(arguments.end(), words);
    const CommandLine line =
        parse_command_line(static_cast<int>(arguments.size()), arguments.data());
    EXPECT_EQ(line.status, 2);
    return line.text;
  };
  EXPECT_THAT(text({"--explain", "allreduce:1M", "--compress", "int9"}),
              HasSubstr("--compress: word 1 'int9' is no compression"));
  EXPECT_THAT(text({"--explain", "allreduce:1M", "--compress", ""}),
              HasSubstr("--compress '': this is no compression"));
  EXPECT_THAT(text({"--compress", "int8"}), HasSubstr("--compress is for --explain"));
}

// Calls choose by the cores of the file, so predictions are made with them, too.
TEST(InfoExplain, PredictsByWhatLinksChoose) {
  const test::TemporaryFolder folder;
  const std::string path = folder.path() / "tune.json";
  Options here;
  here.nodes = 2;
  here.ranks_per_node = 4;
  for (const int cores : {1, 4}) {
    TuningFile file{.version = "0",
                    .tuned_on = {.cores = cores, .ranks = 8, .hosts = 2, .transports = "shm,ucx"}};
    file.links.between = MeasuredLink{.latency_us = 20,
                                      .busy_latency_us = 30,
                                      .message_us = 5,
                                      .GBps = 12,
                                      .busy_GBps = 6,
                                      .pairs = 2};
    ASSERT_TRUE(write_tuning_file(path, file).ok());
    for (const std::string call :
         {"allreduce:64K", "allreduce:256K", "allgather:64K", "broadcast:1M"}) {
      here.explain = *parse_explain_request(call);
      const auto explained = explain_call(here, RawEnvironment({{"BANYAN_TUNE_FILE", path}}));
      ASSERT_TRUE(explained.ok()) << explained.status().message();
      const Explanation& explanation = explained->explanation;
      const auto got = std::find_if(explanation.algorithms.begin(), explanation.algorithms.end(),
                                    [](const ExplainedAlgorithm& each) {
                                      return each.why.find("what a call gets") != std::string::npos;
                                    });
      ASSERT_NE(got, explanation.algorithms.end()) << call;
      EXPECT_EQ(got->algorithm, explanation.chosen) << call << ", " << cores << " cores";
      EXPECT_EQ(text_of(explained->figures.front()),
                fmt::format("cores of a host's ranks           {}        measured", cores));
      EXPECT_LE(explanation.algorithms.front().predicted_us, 1.06 * explanation.fastest_us)
          << "another length of segments must be worth 5 %";
    }
  }
}

// Two leaves of two hosts, a slow cable between them.
constexpr std::string_view kTwoLeaves = R"(
Switch 8 "S-a" # "leaf a"
[1] "H-1"[1] # "h1 mlx5_0" lid 1 4xHDR
[2] "H-2"[1] # "h2 mlx5_0" lid 1 4xHDR
[8] "S-b"[8] # "leaf b" lid 1 1xSDR
Switch 8 "S-b" # "leaf b"
[1] "H-3"[1] # "h3 mlx5_0" lid 1 4xHDR
[2] "H-4"[1] # "h4 mlx5_0" lid 1 4xHDR
[8] "S-a"[8] # "leaf a" lid 1 1xSDR
Ca 1 "H-1" # "h1 mlx5_0"
Ca 1 "H-2" # "h2 mlx5_0"
Ca 1 "H-3" # "h3 mlx5_0"
Ca 1 "H-4" # "h4 mlx5_0"
)";

// What is shown counts: the file's links say nothing of switches that a description knows.
TEST(InfoExplain, KeepsTheUplinksOfADescriptionBesideMeasuredLinks) {
  const test::TemporaryFolder folder;
  const std::string tuned = folder.path() / "tune.json", described = folder.path() / "fabric";
  std::ofstream(described) << kTwoLeaves;
  TuningFile file{.version = "0",
                  .tuned_on = {.cores = 4, .ranks = 16, .hosts = 4, .transports = "shm,ucx"}};
  file.links.between = MeasuredLink{
      .latency_us = 20, .busy_latency_us = 20, .message_us = 1, .GBps = 1, .busy_GBps = 1};
  ASSERT_TRUE(write_tuning_file(tuned, file).ok());
  Options here;
  here.ranks_per_node = 4;
  here.explain = *parse_explain_request("allreduce:64M");
  const auto explained = explain_call(
      here, RawEnvironment({{"BANYAN_TUNE_FILE", tuned}, {"BANYAN_TOPO_FILE", described}}));
  ASSERT_TRUE(explained.ok()) << explained.status().message();
  EXPECT_THAT(show_explanation(*explained),
              AllOf(HasSubstr("uplinks of a leaf"), HasSubstr("by the measured links")));
  const double hosts_us = 2.0 * 3 / 4 * 67108864 * 1e-3;
  EXPECT_GT(explained->explanation.bound.us, 2 * hosts_us);  // the cable's
}

}  // namespace
}  // namespace banyan::info::info_explain_test
