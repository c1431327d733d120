// The parts of banyan_info that need no ranks.
// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "algorithms/algorithms.h"
#include "bench/info/options.h"
#include "bench/info/show.h"

namespace banyan::info {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(InfoSchedule, requests) {
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

TEST(InfoSchedule, json_of_every_rank) {
  const auto request = parse_schedule_request("allreduce:ring:3");
  ASSERT_TRUE(request.ok());
  std::string text = schedule_json_begin(*request);
  for (const int rank : ranks_of(*request))
    text += (rank == 0 ? "" : ",") + schedule_json(schedule_of(*request, rank), rank);
  const auto json = nlohmann::json::parse(text + schedule_json_end());
  ASSERT_EQ(json.at("schedules").size(), 3U);
  for (const auto& schedule : json.at("schedules")) {
    EXPECT_FALSE(schedule.at("steps").empty());
    for (const auto& step : schedule.at("steps")) EXPECT_TRUE(step.contains("after"));
  }
}

TEST(InfoSchedule, every_collective_and_algorithm_can_be_shown) {
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

TEST(InfoSchedule, has_an_operation_only_where_something_is_reduced) {
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

TEST(InfoEnvironment, values_cannot_pass_for_lines) {
  const RawEnvironment raw({{"BANYAN_ALGO", "\x1b[31m\nFAKE"}, {"BANYAN_DEBUG", "info"}});
  const std::string text = show_environment(raw);
  EXPECT_THAT(text, AllOf(HasSubstr(" [31m FAKE  [environment"), Not(HasSubstr("\x1b"))));
}

TEST(InfoEnvironment, every_wrong_value_has_a_line) {
  const RawEnvironment raw({{"BANYAN_ALGO", "rings"},
                            {"BANYAN_TRANSPORTS", "foo"},
                            {"BANYAN_TIMEOUT", "x"},
                            {"BANYAN_CHECK", "y"},
                            {"BANYAN_RANK", "-1"},
                            {"BANYAN_SIZE", "2"},
                            {"BANYAN_COLOUR", "red"},
                            {"BANYAN_SYSROOT", "/"}});
  const std::string text = show_wrong_variables(raw);
  for (const char* part : {"BANYAN_ALGO=rings: unknown algorithm", "BANYAN_TRANSPORTS=foo: ",
                           "BANYAN_TIMEOUT=x: ", "BANYAN_CHECK=y: ", "BANYAN_RANK=-1 ",
                           "BANYAN_COLOUR is unknown", "BANYAN_SYSROOT has no effect"})
    EXPECT_THAT(text, HasSubstr(part));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 7);
}

TEST(InfoEnvironment, right_values_have_none) {
  EXPECT_EQ(show_wrong_variables(RawEnvironment({{"BANYAN_ALGO", "alltoall:bruck;^direct"},
                                                 {"BANYAN_TRANSPORTS", "shm"},
                                                 {"BANYAN_TIMEOUT", ""},
                                                 {"HOME", "/"}})),
            "");
}

TEST(InfoEnvironment, sources_and_secrets) {
  const RawEnvironment raw({{"BANYAN_TIMEOUT", "7s"}, {"BANYAN_SECRET", "tulip-lantern"}});
  const std::string text = show_environment(raw);
  EXPECT_THAT(text, AllOf(HasSubstr("7s  [environment; default 30s]"), HasSubstr("[default]"),
                          Not(HasSubstr("tulip"))));
  const std::string dumped = show_environment_json(raw);
  EXPECT_THAT(dumped, Not(HasSubstr("tulip")));
  const auto json = nlohmann::json::parse(dumped);
  EXPECT_EQ(json.at("variables").size(), variables().size());
  for (const auto& row : json.at("variables")) {
    if (row.at("name") != "BANYAN_TIMEOUT") continue;
    EXPECT_EQ(row.at("value"), "7s");
    EXPECT_EQ(row.at("source"), "environment");
    EXPECT_EQ(row.at("default"), "30s");
  }
}

}  // namespace
}  // namespace banyan::info
