// banyan_tune is tested without ranks: its command line, the search on invented machines, and the
// rules that come of it.
// SPDX-License-Identifier: Apache-2.0

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "algorithms/algorithms.h"
#include "algorithms/choice/select.h"
#include "bench/tune/candidates.h"
#include "bench/tune/options.h"
#include "bench/tune/result.h"
#include "bench/tune/search.h"

namespace banyan::tune::tune_test {
namespace {

using perf::Pattern;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr uint64_t kKiB = 1024;
constexpr uint64_t kMiB = 1024 * kKiB;

CommandLine line_of(std::vector<const char*> words) {
  words.insert(words.begin(), "banyan_tune");
  return parse_command_line(static_cast<int>(words.size()), words.data());
}

TEST(TuneOptions, HaveDefaults) {
  const CommandLine line = line_of({});
  ASSERT_TRUE(line.options);
  EXPECT_EQ(line.options->ranks, 0);
  EXPECT_EQ(line.options->budget_s, 60);
  EXPECT_EQ(line.options->collectives.size(), 9U);
  EXPECT_EQ(line.options->output, "banyan_tune.json");
}

TEST(TuneOptions, AreRead) {
  const CommandLine line = line_of({"-n", "4", "--budget", "1500ms", "--collectives",
                                    "allgather, barrier,allgather", "-o", "x.json"});
  ASSERT_TRUE(line.options) << line.text;
  EXPECT_EQ(line.options->ranks, 4);
  EXPECT_EQ(line.options->budget_s, 1.5);
  EXPECT_EQ(line.options->collectives,
            (std::vector<Pattern>{Pattern::kAllgather, Pattern::kBarrier}));
  EXPECT_EQ(line.options->output, "x.json");
}

TEST(TuneOptions, SayWhatIsWrong) {
  struct Case {
    std::vector<const char*> words;
    const char *named, *right;
  };
  for (const Case& each : std::vector<Case>{
           {{"-n", "0"}, "-n 0", "2 to 1024"},
           {{"-n", "1"}, "-n 1", "2 to 1024"},
           {{"-n", "x"}, "-n x", "2 to 1024"},
           {{"--budget", "5x"}, "--budget 5x", "us, ms or s"},
           {{"--budget", "0s"}, "--budget 0s", "from 1s to 86400s"},
           {{"--budget", "inf"}, "--budget inf", "from 1s to 86400s"},
           {{"--collectives", "allredcue"}, "allredcue", "valid: allreduce, "},
           {{"--collectives", "bw"}, "bw", "valid: allreduce, "},
           {{"--collectives", "allreduce,"}, "--collectives allreduce,", "valid: allreduce, "},
           {{"--collectives", ""}, "--collectives ''", "an empty value"},
           {{"-o", ""}, "-o ''", "an empty value"},
           {{"-d", "gpu"}, "-d gpu", "valid: cuda"},
           {{"-d", "managed"}, "-d managed", "valid: cuda"},
           {{"--speed"}, "--speed", "--help"}}) {
    const CommandLine line = line_of(each.words);
    EXPECT_FALSE(line.options) << each.named;
    EXPECT_EQ(line.status, 2) << each.named;
    EXPECT_THAT(line.text, AllOf(HasSubstr(each.named), HasSubstr(each.right)));
  }
  EXPECT_EQ(line_of({"--help"}).status, 0);
  EXPECT_THAT(line_of({"--help"}).text, HasSubstr("banyan_tune -n 4"));
}

TEST(TuneCandidates, GoByNcclWhereThatCanBe) {
  const auto texts_of = [](Pattern pattern, bool levels, perf::Home home) {
    std::vector<std::string> texts;
    for (const int each : candidates_for(pattern, levels, home))
      texts.emplace_back(candidate_text(each));
    return texts;
  };
  const std::string nccl = "hierarchical(intra=nccl)";
  for (const bool levels : {false, true}) {
    const auto on_gpus = texts_of(Pattern::kAllreduce, levels, perf::Home::kDevice);
    EXPECT_EQ(on_gpus.back(), nccl);
    EXPECT_EQ(std::count(on_gpus.begin(), on_gpus.end(), "hierarchical"), levels ? 1 : 0);
    EXPECT_THAT(texts_of(Pattern::kAllreduce, levels, perf::Home::kHost), Not(Contains(nccl)));
    EXPECT_THAT(texts_of(Pattern::kAlltoall, levels, perf::Home::kDevice), Not(Contains(nccl)));
  }
}

TEST(TuneCandidates, AreInRulesAsTheGrammarHasThem) {
  const int nccl = candidates_for(Pattern::kAllreduce, false, perf::Home::kDevice).back();
  ASSERT_TRUE(goes_by_nccl(nccl));
  Subject subject{Pattern::kAllreduce, {}, kMiB};
  subject.findings[kMiB] = {.bytes = kMiB,
                            .by_default = find_algorithm("direct"),
                            .default_us = 90,
                            .best = nccl,
                            .best_us = 60,
                            .runs = 13,
                            .runner_up = find_algorithm("direct"),
                            .runner_up_us = 90};
  const auto rules = rules_of(subject, {4, 1, 4}, false);
  ASSERT_EQ(rules.size(), 1U);
  EXPECT_THAT(rules[0].text, EndsWith(": hierarchical(intra=nccl)"));
  EXPECT_TRUE(parse_rules(rules[0].text).ok());
  // A tuning file that others are told of has the names of algorithms there.
  std::swap(subject.findings[kMiB].best, subject.findings[kMiB].runner_up);
  const auto other = rules_of(subject, {4, 1, 4}, true);
  ASSERT_TRUE(other.at(0).measured);
  EXPECT_EQ(other[0].measured->runner_up, "hierarchical");
}

int number(std::string_view name) {
  return find_algorithm(name);
}

// Algorithm a takes start + bytes / rate microseconds on this machine, with noise, and its clock
// goes on by what is done.
class Invented {
 public:
  struct Cost {
    double start, rate;
  };

  Invented(double seconds, std::map<int, Cost> costs, int by_default, double noise = 0.01)
      : seconds_(seconds), costs_(std::move(costs)), by_default_(by_default), noise_(noise) {}

  double truth(int algorithm, uint64_t bytes) const {
    const Cost& cost = costs_.at(algorithm);
    return cost.start + static_cast<double>(bytes) / cost.rate;
  }

  Laboratory laboratory() {
    return {.renew = [this]() -> Status {
              ++renewals_;
              seconds_ -= renewal_seconds_;
              tried_.clear();
              return {};
            },
            .run = [this](const Trial& trial) -> Result<double> {
              ++trials_;
              const bool first = tried_.insert(trial.algorithm).second;
              EXPECT_TRUE(first || renewal_seconds_ > 0) << "twice on one communicator";
              const double us = truth(trial.algorithm, trial.bytes);
              const double spent =
                  us * 1e-6 * static_cast<double>(trial.iterations + trial.warm_up);
              seconds_ -= spent;
              longest_ = std::max(longest_, spent);
              state_ = state_ * 1664525 + 1013904223;
              const double part = static_cast<double>(state_ >> 8) / (1 << 24);  // [0, 1)
              return us * (1 + noise_ * (2 * part - 1));
            },
            .default_of = [this](Pattern, uint64_t) -> Result<int> { return by_default_; },
            .seconds_left = [this] { return seconds_; },
            .progress = [](Pattern, uint64_t) {}};
  }

  std::vector<Subject> search_on(uint64_t most = 64 * kMiB, Pattern pattern = Pattern::kAllreduce) {
    std::vector<int> all;
    for (const auto& [algorithm, cost] : costs_) all.push_back(algorithm);
    std::vector<Subject> subjects = {{pattern, all, most}};
    const Status status = search(subjects, laboratory(), 1);
    EXPECT_TRUE(status.ok()) << status.message();
    return subjects;
  }

  double seconds() const { return seconds_; }
  double longest() const { return longest_; }
  int trials() const { return trials_; }
  int renewals() const { return renewals_; }
  void let_renewals_take(double seconds) { renewal_seconds_ = seconds; }

 private:
  double seconds_;
  std::map<int, Cost> costs_;
  int by_default_;
  double noise_;
  double longest_ = 0;  // trial, in seconds
  int trials_ = 0;
  int renewals_ = 0;
  double renewal_seconds_ = 0;
  std::set<int> tried_;  // since the last renewal
  uint32_t state_ = 7;
};

TEST(TuneSearch, FindsWhereTheDefaultIsBeaten) {
  // They cross at 200,000 bytes.
  const int ring = number("ring"), star = number("star");
  Invented machine(
      600, {{ring, {100, 4000}}, {star, {10, 1428.571}}, {number("direct"), {500, 500}}}, ring);
  const auto subjects = machine.search_on();
  const auto& findings = subjects.front().findings;
  EXPECT_TRUE(subjects.front().complete());
  EXPECT_GT(findings.size(), 25U);
  for (const auto& [bytes, finding] : findings) {
    const double gain = 1 - machine.truth(star, bytes) / machine.truth(ring, bytes);
    if (std::abs(gain - 0.05) > 0.03) {
      EXPECT_EQ(finding.changed(), gain > 0.05) << bytes;
    }
    EXPECT_GE(finding.runs, 5U);
    EXPECT_EQ(finding.by_default, ring);
    EXPECT_NEAR(finding.default_us, machine.truth(ring, bytes), 0.02 * finding.default_us);
  }
  const auto rules = rules_of(subjects.front(), {4, 1, 4});
  ASSERT_EQ(rules.size(), 1U);
  const auto parsed = parse_table(rules.front().text);
  ASSERT_TRUE(parsed.ok()) << parsed.status().message();
  const Rule& rule = parsed->front();
  EXPECT_EQ(rule.size_least, 0U);
  EXPECT_NEAR(static_cast<double>(rule.size_most), 180000, 40000);
  EXPECT_EQ(rule.algorithms, std::vector<int>{star});
  EXPECT_EQ(rule.ranks_least, 4);
  EXPECT_EQ(rule.ranks_most, 4);
  EXPECT_EQ(rule.nodes_most, 1);
  EXPECT_EQ(rule.types, std::vector<DataType>{DataType::kFloat32});
  EXPECT_EQ(rules.front().measured->runner_up, "ring");
}

TEST(TuneSearch, KeepsTheDefaultWithinTheNoise) {
  const int ring = number("ring");
  Invented machine(600, {{ring, {100, 1000}}, {number("star"), {97, 1030}}}, ring, 0.1);
  const auto subjects = machine.search_on();
  EXPECT_TRUE(rules_of(subjects.front(), {4, 1, 4}).empty());
  EXPECT_THAT(report_of(subjects), HasSubstr("# 0 of "));
}

TEST(TuneSearch, EndsInTimeWhateverACallTakes) {
  for (const double seconds : {0.0, 0.001, 0.1, 1.0, 5.0})
    for (const double slowness : {1.0, 100.0, 100000.0}) {
      const int ring = number("ring");
      Invented machine(seconds,
                       {{ring, {50 * slowness, 1000 / slowness}},
                        {number("star"), {10 * slowness, 100 / slowness}}},
                       ring);
      const auto subjects = machine.search_on();
      // One trial may begin before the end.
      EXPECT_GE(machine.seconds(), -machine.longest()) << seconds << ' ' << slowness;
      EXPECT_EQ(machine.trials() == 0, seconds == 0) << slowness;
      EXPECT_FALSE(seconds >= 0.1 && slowness == 1 && subjects.front().findings.empty());
    }
}

// What was not reached has no rule.
TEST(TuneSearch, EndsItsRulesWhereItEnded) {
  const int ring = number("ring"), star = number("star");
  Invented machine(2, {{ring, {100, 10}}, {star, {10, 20}}}, ring);
  const auto subjects = machine.search_on();
  EXPECT_FALSE(subjects.front().complete());
  const uint64_t last = subjects.front().findings.rbegin()->first;
  EXPECT_LT(last, 64 * kMiB);
  const auto rules = rules_of(subjects.front(), {4, 1, 4});
  ASSERT_EQ(rules.size(), 1U);
  EXPECT_EQ(parse_table(rules.front().text)->front().size_most, last);
}

TEST(TuneSearch, DoesTheSameAgain) {
  const auto trials = [] {
    const int ring = number("ring");
    Invented machine(20, {{ring, {100, 1000}}, {number("star"), {10, 100}}}, ring);
    const auto subjects = machine.search_on();
    return std::pair(machine.trials(), report_of(subjects));
  };
  EXPECT_EQ(trials(), trials());
}

TEST(TuneSearch, HasOneSizeOfABarrier) {
  const int star = number("star"), direct = number("direct");
  Invented machine(60, {{direct, {20, 1}}, {star, {10, 1}}}, direct);
  const auto subjects = machine.search_on(0, Pattern::kBarrier);
  EXPECT_EQ(subjects.front().findings.size(), 1U);
  EXPECT_EQ(rules_of(subjects.front(), {3, 3, 1}).front().text,
            "barrier ranks=3-3 nodes=3-3 ppn=1-1: star");
}

// A single size at which the default is slow, with neighbours at which it is not.
TEST(TuneSearch, TakesOneSizeForChance) {
  const int ring = number("ring"), star = number("star");
  Invented machine(600, {{ring, {100, 1000}}, {star, {110, 900}}}, ring);
  std::vector<Subject> subjects = {{Pattern::kAllreduce, {ring, star}, kMiB}};
  Laboratory laboratory = machine.laboratory();
  laboratory.run = [&](const Trial& trial) -> Result<double> {
    const bool slow = trial.bytes == 64 * kKiB && trial.algorithm == ring;
    return machine.truth(trial.algorithm, trial.bytes) * (slow ? 2 : 1);
  };
  ASSERT_TRUE(search(subjects, laboratory, 1).ok());
  EXPECT_EQ(subjects.front().findings.count(64 * kKiB), 1U);
  EXPECT_TRUE(rules_of(subjects.front(), {2, 1, 2}).empty());
}

// Between sizes at which the default is beaten clearly, one at which it is beaten by less.
TEST(TuneSearch, GoesWithTheNeighboursWhereTheyAgree) {
  const int ring = number("ring"), star = number("star");
  for (const double there : {0.97, 1.01}) {
    Invented machine(600, {{ring, {100, 1000}}, {star, {90, 1112}}}, ring);
    std::vector<Subject> subjects = {{Pattern::kAllreduce, {ring, star}, kMiB}};
    Laboratory laboratory = machine.laboratory();
    laboratory.run = [&](const Trial& trial) -> Result<double> {
      const bool here = trial.bytes == 64 * kKiB && trial.algorithm == star;
      return here ? there * machine.truth(ring, trial.bytes)
                  : machine.truth(trial.algorithm, trial.bytes);
    };
    ASSERT_TRUE(search(subjects, laboratory, 1).ok());
    EXPECT_EQ(rules_of(subjects.front(), {2, 1, 2}).size(), there < 1 ? 1U : 2U) << there;
  }
}

TEST(TuneSearch, RenewsSeldomWhatTakesLong) {
  const int ring = number("ring"), star = number("star");
  Invented machine(600, {{ring, {1e5, 1000}}, {star, {1.1e5, 900}}}, ring);
  machine.let_renewals_take(1);
  machine.search_on(kMiB);
  EXPECT_GE(machine.renewals(), 2);
  EXPECT_LE(machine.renewals(), 0.25 * (600 - machine.seconds()) + 1.01);
}

TEST(TuneSearch, ReturnsTheErrorOfATrial) {
  std::vector<Subject> subjects = {{Pattern::kBarrier, {number("direct")}, 0}};
  Invented machine(60, {{number("direct"), {20, 1}}}, number("direct"));
  Laboratory laboratory = machine.laboratory();
  laboratory.run = [](const Trial&) -> Result<double> { return Status(Code::kPeerLost, "gone"); };
  EXPECT_EQ(search(subjects, laboratory, 1).code(), Code::kPeerLost);
}

// What all have in common in a turn, as where its pages lie, is no noise.
TEST(TuneJudge, ComparesTurnByTurn) {
  const auto best = [](std::vector<double> usual, std::vector<double> other) {
    return judge(4, 0, {{0, std::move(usual)}, {1, std::move(other)}}).best;
  };
  EXPECT_EQ(best({100, 100, 100}, {96, 96, 96}), 0);
  EXPECT_EQ(best({100, 100, 100}, {94, 94, 94}), 1);
  EXPECT_EQ(best({80, 90, 100, 110, 120}, {88, 88, 88, 88, 88}), 1);
  EXPECT_EQ(best({70, 80, 100, 120, 130}, {88, 88, 88, 88, 88}), 0);
  EXPECT_EQ(best({100, 100, 100}, {200, 200, 200}), 0);
  EXPECT_EQ(best({100, 200, 300, 400, 500}, {90, 180, 270, 360, 450}), 1);
  EXPECT_EQ(best({100, 200, 300, 400, 500}, {96, 192, 288, 384, 480}), 0);
  const Finding finding = judge(4, 1, {{0, {5, 7, 6}}, {1, {9, 9, 9}}, {2, {8, 8, 8}}});
  EXPECT_EQ(finding.best, 0);
  EXPECT_EQ(finding.best_us, 6);
  EXPECT_EQ(finding.runner_up, 2);
  EXPECT_EQ(finding.runner_up_us, 8);
  EXPECT_EQ(finding.default_us, 9);
  EXPECT_EQ(judge(4, 0, {{0, {5}}}).runner_up, -1);
}

Finding found(uint64_t bytes, int best) {
  return {.bytes = bytes, .by_default = 0, .default_us = 2, .best = best, .best_us = 1, .runs = 5};
}

TEST(TuneRules, MergeNeighbours) {
  Subject subject{Pattern::kAllgather, {}, 64 * kMiB};
  const int ring = number("ring"), star = number("star");
  for (const auto& [bytes, best] : std::vector<std::pair<uint64_t, int>>{{4, star},
                                                                         {16, star},
                                                                         {64, 0},
                                                                         {256, ring},
                                                                         {kKiB, ring},
                                                                         {4 * kKiB, star},
                                                                         {64 * kMiB, star}})
    subject.findings[bytes] = found(bytes, best);
  std::vector<std::string> texts;
  for (const TuningRule& rule : rules_of(subject, {4, 2, 2})) texts.push_back(rule.text);
  EXPECT_EQ(texts,
            (std::vector<std::string>{"allgather size=0-32 ranks=4-4 nodes=2-2 ppn=2-2: star",
                                      "allgather size=128-2K ranks=4-4 nodes=2-2 ppn=2-2: ring",
                                      "allgather size=2K- ranks=4-4 nodes=2-2 ppn=2-2: star"}));
  // Also where the default stays, which links might not choose.
  texts.clear();
  for (const TuningRule& rule : rules_of(subject, {4, 2, 2}, true)) texts.push_back(rule.text);
  ASSERT_EQ(texts.size(), 4U);
  EXPECT_EQ(texts[1], fmt::format("allgather size=32-128 ranks=4-4 nodes=2-2 ppn=2-2: {}",
                                  algorithms()[0].name));
  subject.findings.clear();
  subject.findings[4] = found(4, star);
  subject.findings[64 * kMiB] = found(64 * kMiB, star);
  EXPECT_EQ(rules_of(subject, {2, 1, 2}).front().text,
            "allgather ranks=2-2 nodes=1-1 ppn=2-2: star");
}

}  // namespace
}  // namespace banyan::tune::tune_test
