// The variables as banyan_info shows them.
// SPDX-License-Identifier: Apache-2.0

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include <nlohmann/json.hpp>

#include "bench/info/show.h"
#include "src/tuning/tuning_file.h"
#include "tests/support/temporary_folder.h"

namespace banyan::info::info_environment_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(InfoEnvironment, ValuesCannotPassForLines) {
  const RawEnvironment raw({{"BANYAN_ALGO", "\x1b[31m\nFAKE"}, {"BANYAN_DEBUG", "info"}});
  const std::string text = show_environment(raw);
  EXPECT_THAT(text, AllOf(HasSubstr(" [31m FAKE  [environment"), Not(HasSubstr("\x1b"))));
}

TEST(InfoEnvironment, EveryWrongValueHasALine) {
  const RawEnvironment raw({{"BANYAN_ALGO", "rings"},
                            {"BANYAN_TRANSPORTS", "foo"},
                            {"BANYAN_TIMEOUT", "x"},
                            {"BANYAN_CHECK", "y"},
                            {"BANYAN_RANK", "-1"},
                            {"BANYAN_SIZE", "2"},
                            {"BANYAN_COLOUR", "red"},
                            {"BANYAN_TUNE_FILE", "/"}});
  const std::string text = show_wrong_variables(raw);
  for (const char* part : {"BANYAN_ALGO=rings: unknown algorithm", "BANYAN_TRANSPORTS=foo: ",
                           "BANYAN_TIMEOUT=x: ", "BANYAN_CHECK=y: ", "BANYAN_RANK=-1 ",
                           "BANYAN_COLOUR is unknown", "BANYAN_TUNE_FILE=/: this is a folder"})
    EXPECT_THAT(text, HasSubstr(part));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 7);
}

TEST(InfoEnvironment, RightValuesHaveNone) {
  EXPECT_EQ(show_wrong_variables(RawEnvironment({{"BANYAN_ALGO", "alltoall:bruck;^direct"},
                                                 {"BANYAN_TRANSPORTS", "shm"},
                                                 {"BANYAN_TIMEOUT", ""},
                                                 {"HOME", "/"}})),
            "");
}

TEST(InfoEnvironment, TheTuningFileIsASource) {
  const test::TemporaryFolder folder;
  const std::string path = (folder.path() / "tune.json").string();
  TuningFile file;
  file.rules = {{"allreduce: star", std::nullopt}, {"barrier: direct", std::nullopt}};
  ASSERT_TRUE(write_tuning_file(path, file).ok());
  const auto algorithm = [](const RawEnvironment& raw) {
    const auto json = nlohmann::json::parse(show_environment_json(raw));
    for (const auto& row : json.at("variables"))
      if (row.at("name") == "BANYAN_ALGO")
        return row.at("value").get<std::string>() + " by " + row.at("source").get<std::string>();
    return std::string();
  };
  const RawEnvironment raw({{"BANYAN_TUNE_FILE", path}});
  EXPECT_EQ(algorithm(raw), "allreduce: star; barrier: direct by file");
  EXPECT_THAT(show_environment(raw), HasSubstr("barrier: direct  [file; default unset]"));
  EXPECT_EQ(show_wrong_variables(raw), "");
  EXPECT_EQ(algorithm(RawEnvironment({{"BANYAN_TUNE_FILE", path}, {"BANYAN_ALGO", "ring"}})),
            "ring by environment");
  EXPECT_EQ(algorithm(RawEnvironment({{"BANYAN_TUNE_FILE", path + "x"}})), " by default");
}

TEST(InfoEnvironment, SourcesAndSecrets) {
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
}  // namespace banyan::info::info_environment_test
