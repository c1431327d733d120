// Times by codecs are taken on invented machines.
// SPDX-License-Identifier: Apache-2.0

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "algorithms/choice/codec_costs.h"
#include "bench/tune/codec_trials.h"

namespace banyan::tune::tune_codecs_test {
namespace {

using ::testing::HasSubstr;

// A call takes `us`; a turn of all contenders takes all of them `slower` times as long.
struct Machine {
  double seconds = 60;
  std::function<double(const Trial&)> us;
  std::function<double(int turn)> slower = [](int) { return 1.0; };
  int turns = 0;
  std::vector<Trial> trials{};

  Laboratory laboratory() {
    return {.renew = [this]() -> Status {
              ++turns;
              return {};
            },
            .run = [this](const Trial& trial) -> Result<double> {
              trials.push_back(trial);
              const double took = us(trial) * slower(turns);
              seconds -= took * 1e-6 * static_cast<double>(trial.iterations + trial.warm_up);
              return took;
            },
            .default_of = [](perf::Pattern, uint64_t) -> Result<int> { return 0; },
            .seconds_left = [this] { return seconds; },
            .progress = [](perf::Pattern, uint64_t) {}};
  }
};

Subject allreduce(uint64_t most_bytes, double short_us) {
  Subject subject{.pattern = perf::Pattern::kAllreduce, .algorithms = {}, .most_bytes = most_bytes};
  subject.findings[4096] = {.bytes = 4096, .best = 3, .best_us = short_us};
  subject.findings[65536] = {.bytes = 65536, .best = 5, .best_us = 4 * short_us};
  return subject;
}

// int8, the second of them, takes half of what the others take.
double half_by_int8(const Trial& trial) {
  const double us = 10 + static_cast<double>(trial.bytes) / 1000;
  return trial.codec == 1 ? us / 2 : us;
}

TEST(TuneCodecs, AreTimedBesideExactCalls) {
  Machine machine{.us = half_by_int8};
  const auto times = time_codecs(allreduce(64 << 10, 14), machine.laboratory(), 1);
  ASSERT_TRUE(times.ok());
  ASSERT_EQ(times->size(), 4 * (1 + automatic_codecs().size())) << "1, 4, 16, 64 KiB";
  for (const uint64_t bytes : {1024, 4096, 16384, 65536}) {
    const double exact = 10 + static_cast<double>(bytes) / 1000;
    EXPECT_DOUBLE_EQ(*time_of(bytes, {}, *times), exact);
    EXPECT_DOUBLE_EQ(*time_of(bytes, automatic_codecs()[0], *times), exact);
    EXPECT_DOUBLE_EQ(*time_of(bytes, automatic_codecs()[1], *times), exact / 2);
  }
  for (const Trial& trial : machine.trials)
    EXPECT_EQ(trial.algorithm, trial.bytes < 65536 ? 3 : 5) << "as was found there";
  EXPECT_THAT(report_of(*times),
              HasSubstr("bytes         off        bf16        int8        int4"));
  EXPECT_THAT(
      report_of(*times),
      HasSubstr("allreduce             4096       14.10       14.10        7.05       14.10"));
}

// Most turns are slow for all, and the exact calls of those few that are not say nothing.
TEST(TuneCodecs, AreComparedWithinATurn) {
  Machine machine{.us = half_by_int8, .slower = [](int turn) { return turn % 3 == 0 ? 1.0 : 2.0; }};
  const auto times = time_codecs(allreduce(4096, 14), machine.laboratory(), 1);
  ASSERT_TRUE(times.ok());
  const double exact = *time_of(4096, {}, *times);
  EXPECT_DOUBLE_EQ(*time_of(4096, automatic_codecs()[1], *times), exact / 2);
}

TEST(TuneCodecs, EndInTime) {
  for (const double seconds : {0.0, 0.01, 0.5, 5.0}) {
    Machine machine{.seconds = seconds,
                    .us = [](const Trial& trial) { return static_cast<double>(trial.bytes); }};
    const auto times = time_codecs(allreduce(64 << 20, 4096), machine.laboratory(), 1);
    ASSERT_TRUE(times.ok());
    EXPECT_GE(machine.seconds, 0) << seconds;
    EXPECT_LT(times->size(), 9 * (1 + automatic_codecs().size())) << "the longest take too long";
    EXPECT_EQ(times->size() % (1 + automatic_codecs().size()), 0U) << "whole lengths";
    EXPECT_EQ(times->empty(), seconds < 0.5);
  }
}

TEST(TuneCodecs, AreNotTimedWhereNothingWasFound) {
  Machine machine{.us = half_by_int8};
  const Subject none{.pattern = perf::Pattern::kAllreduce, .algorithms = {}, .most_bytes = 4096};
  EXPECT_TRUE(time_codecs(none, machine.laboratory(), 1)->empty());
  EXPECT_TRUE(report_of(std::vector<CodecTime>()).empty());
}

TEST(TuneCodecs, ReturnTheErrorOfATrial) {
  Machine machine{.us = half_by_int8};
  Laboratory laboratory = machine.laboratory();
  laboratory.run = [](const Trial&) -> Result<double> { return Status(Code::kSystem, "no more"); };
  EXPECT_EQ(time_codecs(allreduce(4096, 14), laboratory, 1).status().message(), "no more");
}

}  // namespace
}  // namespace banyan::tune::tune_codecs_test
