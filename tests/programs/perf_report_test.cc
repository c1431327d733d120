// Statistics of banyan_perf and the forms of its output.
// SPDX-License-Identifier: Apache-2.0

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "bench/perf/options.h"
#include "bench/perf/report.h"
#include "bench/perf/statistics.h"
#include "src/base/parse.h"

namespace banyan::perf::perf_report_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> words_of(const std::string& line) {
  std::vector<std::string> words;
  for (const std::string_view word : split(line, ' ')) {
    if (!word.empty()) words.emplace_back(word);
  }
  return words;
}

TEST(PerfStatistics, ExactFiguresAndThinnedPercentiles) {
  Times times(100);
  for (int i = 1; i <= 100000; ++i) times.add(i);
  EXPECT_EQ(times.count(), 100000U);
  EXPECT_DOUBLE_EQ(times.mean(), 50000.5);
  EXPECT_EQ(times.least(), 1);
  EXPECT_EQ(times.most(), 100000);
  EXPECT_LE(times.kept().size(), 100U);
  EXPECT_GE(times.kept().size(), 50U);
  EXPECT_NEAR(percentile(times.kept(), 50), 50000, 3000);
}

TEST(PerfStatistics, FewTimesAreAllKept) {
  Times times(100);
  EXPECT_EQ(times.mean(), 0);
  EXPECT_EQ(times.least(), 0);
  for (int i = 0; i < 100; ++i) times.add(i);
  EXPECT_EQ(times.kept().size(), 100U);
}

TEST(PerfStatistics, Percentiles) {
  const std::vector<double> ten = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
  EXPECT_EQ(percentile(ten, 50), 5);
  EXPECT_EQ(percentile(ten, 90), 9);
  EXPECT_EQ(percentile(ten, 99), 10);
  EXPECT_EQ(percentile(std::vector<double>{7}, 50), 7);
  EXPECT_EQ(percentile({}, 50), 0);
}

Row some_row() {
  return {.round = 2,
          .bytes = 64,
          .count = 16,
          .algorithm = "ring",
          .transports = "shm,ucx",
          .iterations = 9,
          .latency = {1.5, 1, 2, 1.25, 1.75, 2},
          .algorithm_bandwidth = 0.5,
          .bus_bandwidth = 0.25,
          .wire_bytes = 96,
          .checked = true,
          .wrong = 0};
}

Setting some_setting() {
  return {.version = "1.2.3",
          .ranks = 3,
          .transports = "shm",
          .compress = "off",
          .determinism = "invariant",
          .places = {{"a", "0-3"}, {"a", "0-3"}, {"caf\xe9", "0,2"}},
          .machine = {}};
}

TEST(PerfReport, TextHasAsManyTitlesAsValues) {
  Options options;
  EXPECT_THAT(words_of(text_row(options, some_row())),
              ElementsAre("64", "1.50", "0.5000", "0.2500", "ring\n"));
  options.full = options.tails = true;
  const auto words = words_of(text_row(options, some_row()));
  EXPECT_EQ(words.size(), 11U);
  EXPECT_EQ(words[4], "9");
  Row bare;
  EXPECT_THAT(text_row(options, bare), HasSubstr("-\n"));
}

TEST(PerfReport, HeaderSaysWhatWasRun) {
  Options options;
  const std::string header = text_header(options, some_setting());
  EXPECT_THAT(header, AllOf(HasSubstr("banyan_perf 1.2.3 allreduce"), HasSubstr("3 ranks"),
                            HasSubstr("float32 sum"), HasSubstr("shm")));
  for (const std::string_view line : split(trim(header), '\n')) EXPECT_TRUE(line.starts_with("#"));
}

TEST(PerfReport, CsvQuotesAndNamesWhatJsonNames) {
  const Options options;
  EXPECT_EQ(csv_header(options),
            "bytes,count,algorithm,transports,iterations,latency_us_avg,latency_us_min,"
            "latency_us_max,latency_us_p50,latency_us_p90,latency_us_p99,algbw_GBps,busbw_GBps,"
            "wire_bytes,checked,wrong,version,collective,ranks,hosts,datatype,op,in_place\n");
  EXPECT_EQ(
      csv_row(options, some_setting(), some_row()),
      "64,16,ring,\"shm,ucx\",9,1.5,1.0,2.0,1.25,1.75,2.0,0.5,0.25,96,true,0,1.2.3,allreduce,3,1,"
      "float32,sum,false\n");
  Options rounds;
  rounds.rounds = 2;
  EXPECT_TRUE(csv_header(rounds).starts_with("round,bytes,"));
  EXPECT_TRUE(csv_row(rounds, some_setting(), some_row()).starts_with("2,64,"));
}

// So that files of several runs can be joined and taken apart again.
TEST(PerfReport, CsvRowsSayOfWhatTheyAre) {
  Options options;
  options.pattern = Pattern::kReduceScatter;
  options.type = DataType::kBfloat16;
  options.op = ReduceOp::kMax;
  options.in_place = true;
  Setting setting = some_setting();
  setting.ranks = 16;
  setting.hosts = 4;
  EXPECT_THAT(csv_row(options, setting, some_row()),
              ::testing::EndsWith(",1.2.3,reduce_scatter,16,4,bfloat16,max,true\n"));
  options.pattern = Pattern::kLatency;
  EXPECT_THAT(csv_row(options, setting, some_row()), ::testing::EndsWith(",false\n"));
}

// A clock counts nanoseconds, and what is made of its times is no finer.
TEST(PerfReport, FiguresHaveTheDigitsThatWereMeasured) {
  Row row = some_row();
  row.latency = {.average = 12345.678901234,
                 .least = 0.0254321,
                 .most = 99999.9996,
                 .p50 = 1.23456,
                 .p90 = 0.192893,
                 .p99 = 0};
  row.algorithm_bandwidth = 8.0 / 3;
  row.bus_bandwidth = 123456.789;
  const std::string line = csv_row({}, some_setting(), row);
  EXPECT_THAT(line, HasSubstr(",12345.679,0.02543,100000.0,1.235,0.1929,0.0,2.667,123457.0,"));
  row.algorithm_bandwidth = 1.0 / 7000000;
  row.bus_bandwidth = 0;
  EXPECT_THAT(csv_row({}, some_setting(), row), HasSubstr(",1.429e-07,0.0,"));
  const auto json = nlohmann::json::parse(json_report({}, {}, some_setting(), {row}));
  EXPECT_EQ(json.at("results").at(0).at("latency_us").at("avg"), 12345.679);
}

TEST(PerfReport, JsonHasTheFixedFields) {
  Options options;
  options.rounds = 2;
  Setting setting = some_setting();
  setting.machine.host = "caf\xe9";  // no UTF-8
  const auto json = nlohmann::json::parse(json_report(options, {}, setting, {some_row()}));
  EXPECT_EQ(json.at("program"), "banyan_perf");
  EXPECT_EQ(json.at("ranks"), 3);
  EXPECT_EQ(json.at("hosts"), 1);
  EXPECT_EQ(json.at("in_place"), false);
  EXPECT_EQ(json.at("compress"), "off");
  EXPECT_EQ(json.at("determinism"), "invariant");
  EXPECT_TRUE(json.at("machine").is_object());
  const auto& row = json.at("results").at(0);
  EXPECT_EQ(row.at("round"), 2);
  EXPECT_EQ(row.at("latency_us").at("p90"), 1.75);
  EXPECT_EQ(row.at("wire_bytes"), 96);
  EXPECT_EQ(row.at("checked"), true);
}

TEST(PerfReport, JsonSaysHowTheRunWasMade) {
  const RawEnvironment raw({{"BANYAN_ALGO", "ring"},
                            {"BANYAN_SECRET", "open sesame"},
                            {"BANYAN_TIMEOUT", ""},
                            {"BANYAN_NONSENSE", "1"},
                            {"HOME", "/root"}});
  const Invocation invocation =
      invocation_of({"./banyan_perf", "allreduce", "-n", "3"}, "Open MPI", raw);
  const std::string text = json_report({}, invocation, some_setting(), {some_row()});
  EXPECT_THAT(text, ::testing::Not(HasSubstr("sesame")));
  const auto json = nlohmann::json::parse(text);
  EXPECT_EQ(json.at("command"), nlohmann::json({"./banyan_perf", "allreduce", "-n", "3"}));
  EXPECT_EQ(json.at("launcher"), "Open MPI");
  EXPECT_EQ(json.at("variables"),
            nlohmann::json({{"BANYAN_ALGO", "ring"}, {"BANYAN_SECRET", "(set, not shown)"}}));
  EXPECT_THAT(json.at("date").get<std::string>(),
              ::testing::MatchesRegex("20[0-9]{2}-[01][0-9]-[0-3][0-9]T[0-9:]{8}Z"));
  ASSERT_EQ(json.at("places").size(), 3U);
  EXPECT_EQ(json.at("places").at(1), nlohmann::json({{"host", "a"}, {"cores", "0-3"}}));
  EXPECT_EQ(json.at("places").at(2).at("cores"), "0,2");
}

TEST(PerfReport, AFileThatCannotBeWrittenIsNamed) {
  Options options;
  options.json = "/nonexistent-folder/figures.json";
  const auto report = Report::open(options, {});
  ASSERT_FALSE(report.ok());
  EXPECT_THAT(std::string(report.status().message()),
              AllOf(HasSubstr("--json"), HasSubstr(options.json)));
}

}  // namespace
}  // namespace banyan::perf::perf_report_test
