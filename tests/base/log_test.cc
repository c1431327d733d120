// Lines of the log: what they say, where they go, and when.
// SPDX-License-Identifier: Apache-2.0

#include "src/base/log.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <ctime>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "src/base/date.h"
#include "tests/support/temporary_folder.h"

namespace banyan::log_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(Date, IsUtcAsIso8601HasIt) {
  struct Case {
    int64_t seconds;
    const char* text;
  };
  for (const Case& each : std::initializer_list<Case>{{0, "1970-01-01T00:00:00"},
                                                      {951782399, "2000-02-28T23:59:59"},
                                                      {951782400, "2000-02-29T00:00:00"},
                                                      {4107542400, "2100-03-01T00:00:00"},
                                                      {-1, "1969-12-31T23:59:59"}}) {
    const std::chrono::seconds since(each.seconds);
    EXPECT_EQ(utc_text(since, Decimals::kNone), std::string(each.text) + "Z");
    EXPECT_EQ(utc_text(since + std::chrono::microseconds(42), Decimals::kMicroseconds),
              std::string(each.text) + ".000042Z");
  }
}

TEST(Date, NowIsWhatTheSystemHas) {
  const auto seconds = [] {
    return utc_text(std::chrono::seconds(time(nullptr)), Decimals::kNone);
  };
  const std::string before = seconds();
  const std::string now = utc_now(Decimals::kNone);
  EXPECT_LE(before, now);
  EXPECT_LE(now, seconds());
}

class LogFile : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return folder_.path() / name; }
  static std::vector<std::string> lines(const std::string& file) {
    std::ifstream stream(file);
    std::vector<std::string> lines;
    for (std::string line; std::getline(stream, line);) lines.push_back(line);
    return lines;
  }

 private:
  test::TemporaryFolder folder_;
};

LogLevels everything() {
  return *parse_log_levels("trace");
}

TEST_F(LogFile, ALineSaysWhoAndWhat) {
  const std::string file = path("a");
  const auto log = Log::open(everything(), file, 3);
  ASSERT_TRUE(log.ok()) << log.status().message();
  BANYAN_LOG(*log, Subsystem::kNet, LogLevel::kInfo, "{} bytes", 5);
  const auto written = lines(file);
  ASSERT_EQ(written.size(), 1U);
  EXPECT_THAT(written[0], AllOf(HasSubstr(fmt::format(":{} rank 3 info net: 5 bytes", ::getpid())),
                                ::testing::ContainsRegex(
                                    "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}"
                                    "\\.[0-9]{6}Z banyan ")));
  struct stat status {};
  ASSERT_EQ(::stat(file.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0600U);
}

TEST_F(LogFile, ALineNamesTheCommunicator) {
  const std::string file = path("a");
  const Log log = Log::open(everything(), file, 3)->of("trainer\n7");
  log.write(Subsystem::kCall, LogLevel::kWarn, "slow");
  EXPECT_THAT(lines(file), ElementsAre(HasSubstr(" rank 3 of trainer 7 warn call: slow")));
}

TEST_F(LogFile, LevelsHoldPerSubsystem) {
  const std::string file = path("a");
  const auto log = Log::open(*parse_log_levels("net=info,call=off"), file, 0);
  log->write(Subsystem::kNet, LogLevel::kInfo, "yes 1");
  log->write(Subsystem::kNet, LogLevel::kTrace, "no");
  log->write(Subsystem::kCall, LogLevel::kError, "no");
  log->write(Subsystem::kInit, LogLevel::kWarn, "yes 2");
  EXPECT_EQ(lines(file).size(), 2U);
}

TEST_F(LogFile, TheNameIsExpanded) {
  const std::string file = path(fmt::format("x.{}.2.log", ::getpid()));
  const auto log = Log::open(everything(), file.substr(0, file.rfind('/')) + "/x.%p.%r.log", 2);
  ASSERT_TRUE(log.ok());
  log->write(Subsystem::kEnv, LogLevel::kWarn, "here");
  EXPECT_EQ(lines(file).size(), 1U);
}

TEST_F(LogFile, WhatCannotBeOpenedIsSaid) {
  const auto unknown = Log::open(everything(), "/tmp/%x", 0);
  ASSERT_FALSE(unknown.ok());
  EXPECT_THAT(
      std::string(unknown.status().message()),
      AllOf(HasSubstr("BANYAN_DEBUG_FILE"), HasSubstr("'%x' at position 6"), HasSubstr("%h")));
  EXPECT_FALSE(Log::open(everything(), "/tmp/100%", 0).ok());
  const auto absent = Log::open(everything(), "/nonexistent/file", 0);
  ASSERT_FALSE(absent.ok());
  EXPECT_EQ(absent.status().code(), Code::kSystem);
  EXPECT_THAT(std::string(absent.status().message()), HasSubstr("No such file"));
}

TEST_F(LogFile, HostileTextsStayOneShortLine) {
  const std::string file = path("a");
  const auto log = Log::open(everything(), file, 0);
  log->write(Subsystem::kNet, LogLevel::kWarn, "a\nb\r\x1b[31m");
  log->write(Subsystem::kNet, LogLevel::kWarn, std::string(100000, 'x'));
  const auto written = lines(file);
  ASSERT_EQ(written.size(), 2U);
  EXPECT_THAT(written[0], Not(HasSubstr("\x1b")));
  EXPECT_LT(written[1].size(), 4096U);
}

TEST_F(LogFile, LinesOfThreadsStayWhole) {
  const std::string file = path("a");
  const auto log = Log::open(everything(), file, 0);
  constexpr int kThreads = 4;
  constexpr int kLines = 200;
  std::vector<std::jthread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([copy = *log] {
      for (int i = 0; i < kLines; ++i)
        copy.write(Subsystem::kNet, LogLevel::kInfo, std::string(200, 'x'));
    });
  }
  threads.clear();
  const auto written = lines(file);
  EXPECT_EQ(written.size(), static_cast<size_t>(kThreads * kLines));
  for (const std::string& line : written) {
    ASSERT_THAT(line, AllOf(HasSubstr("Z banyan "), ::testing::EndsWith("x")));
    ASSERT_EQ(line.size(), written[0].size());
  }
}

TEST(Log, Names) {
  EXPECT_EQ(name_of(LogLevel::kTrace), "trace");
  EXPECT_EQ(name_of(Subsystem::kEnv), "env");
  EXPECT_THAT(std::string(parse_log_levels("net=info,nett=warn").status().message()),
              AllOf(HasSubstr("'nett' at position 10"), HasSubstr("fault")));
}

}  // namespace
}  // namespace banyan::log_test
