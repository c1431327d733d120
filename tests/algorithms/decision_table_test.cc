// The table of all choices: what it says of a size is what a call of that size gets.
// SPDX-License-Identifier: Apache-2.0

#include "algorithms/choice/decision_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace banyan::decision_table_test {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::StartsWith;

Rules rules(std::string_view text) {
  Result<Rules> parsed = parse_rules(text);
  EXPECT_TRUE(parsed.ok()) << parsed.status().message();
  return parsed.ok() ? *parsed : Rules();
}

std::vector<Decision> of_allreduce(const Rules& rules, DataType type = DataType::kFloat32) {
  return decisions(Collective::kAllreduce, type, 4, Medium::kMemory, rules);
}

const Choice& at(const std::vector<Decision>& all, uint64_t bytes) {
  for (const Decision& each : all)
    if (bytes <= each.most) return each.choice;
  return all.back().choice;
}

void expect_what_calls_get(Collective collective, DataType type, int ranks, Medium medium,
                           const Rules& rules) {
  const auto all = decisions(collective, type, ranks, medium, rules);
  ASSERT_EQ(all.back().most, UINT64_MAX);
  for (size_t i = 1; i < all.size(); ++i) EXPECT_LT(all[i - 1].most, all[i].most);
  Problem problem;
  problem.collective = collective;
  problem.type = type;
  const auto expect_at = [&](uint64_t count) {
    problem.count = count;
    const Choice got = choose(problem, ranks, medium, rules);
    const Choice& said = at(all, count * size_of(type));
    EXPECT_EQ(got.algorithm, said.algorithm) << name_of(collective) << " of " << count;
    EXPECT_EQ(got.because, said.because) << name_of(collective) << " of " << count;
  };
  for (uint64_t count = 0; count < 3000; ++count) expect_at(count);
  for (uint64_t count = 3000; count < (uint64_t{1} << 34); count += count / 7) expect_at(count);
  for (const Decision& each : all) {
    if (each.most == UINT64_MAX) continue;
    expect_at(each.most / size_of(type));
    expect_at(each.most / size_of(type) + 1);
  }
}

// Few cores for many ranks: what a hub does is least in all (measured with up to 128 on two cores).
TEST(DecisionTable, OfManyRanksOnFewCoresIsByStars) {
  for (const int ranks : {33, 65, 128, 256}) {
    const auto lines = decision_lines(ranks, Medium::kCrowdedCores, {});
    for (const char* line : {"barrier: star", "reduce of float32 up to 16K: star",
                             "allreduce of float32 up to 32K: star"})
      EXPECT_THAT(lines, Contains(StartsWith(line))) << ranks;
    EXPECT_THAT(lines, Contains(MatchesRegex("broadcast.* up to 256K: star.*"))) << ranks;
    EXPECT_THAT(lines, Contains(MatchesRegex("allgather.* up to .*: star.*"))) << ranks;
  }
}

TEST(DecisionTable, SaysWhatCallsGet) {
  const Rules some = rules(
      "allreduce size=1000-1003: ring; size=4097-8191 ranks=3-: direct; "
      "broadcast size=0-1G: ^binomial; reduce_scatter dtype=bfloat16 size=77-: pairwise");
  for (const auto collective :
       {Collective::kAllreduce, Collective::kReduce, Collective::kBroadcast, Collective::kAllgather,
        Collective::kReduceScatter, Collective::kAlltoall, Collective::kGather})
    for (const DataType type : {DataType::kFloat32, DataType::kBfloat16, DataType::kInt8})
      for (const Medium medium : {Medium::kMemory, Medium::kCrowdedCores, Medium::kNetwork})
        for (const int ranks : {2, 8}) {
          expect_what_calls_get(collective, type, ranks, medium, {});
          expect_what_calls_get(collective, type, ranks, medium, some);
        }
}

TEST(DecisionTable, FindsARangeOfOneSize) {
  const auto all = of_allreduce(rules("allreduce size=1001-1005: ring; direct"));
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[0].most, 1000U);
  EXPECT_EQ(all[1].most, 1004U);
  EXPECT_EQ(all[1].choice.because, "BANYAN_ALGO rule 1");
  EXPECT_EQ(all[2].choice.because, "BANYAN_ALGO rule 2");
}

// No float32 has such a size.
TEST(DecisionTable, HasNoRangeThatNoCallIsIn) {
  const Rules odd = rules("allreduce size=1001-1003: ring; direct");
  EXPECT_EQ(of_allreduce(odd).size(), 1U);
  EXPECT_EQ(of_allreduce(odd, DataType::kInt8).size(), 3U);
}

TEST(DecisionTable, GoesToTheLargestSize) {
  const auto all = of_allreduce(rules("allreduce size=0-1024G: ring; direct"));
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].most, uint64_t{1} << 40);
}

TEST(DecisionTable, TellsPeople) {
  const auto lines = decision_lines(4, Medium::kMemory,
                                    rules("allreduce size=0-8K: star; allreduce dtype=bfloat16: "
                                          "direct; allreduce: ring(seg=1M); barrier: star"));
  EXPECT_THAT(lines,
              AllOf(Contains("allreduce of float32 up to 8K: star, by the BANYAN_ALGO rule 1"),
                    Contains("allreduce of float32 beyond: ring, by the BANYAN_ALGO rule 3, "
                             "with seg=1M"),
                    Contains("allreduce of bfloat16 beyond: direct, by the BANYAN_ALGO rule 2"),
                    Contains("barrier: star, by the BANYAN_ALGO rule 4"),
                    Contains(StartsWith("alltoallv: pairwise, by the default table"))));
  EXPECT_THAT(lines, Not(Contains(StartsWith("send"))));
}

TEST(AlgorithmVariable, HasAWordThatIsNoRule) {
  const auto both = parse_algorithm_variable("allreduce: ring; explain ;^direct");
  ASSERT_TRUE(both.ok()) << both.status().message();
  EXPECT_TRUE(both->explain);
  ASSERT_EQ(both->rules.size(), 2U);
  EXPECT_EQ(both->rules[1].number, 2);
  EXPECT_TRUE(parse_algorithm_variable("explain")->explain);
  EXPECT_FALSE(parse_algorithm_variable("ring")->explain);
  EXPECT_FALSE(parse_algorithm_variable("")->explain);
}

TEST(AlgorithmVariable, NamesTheWordAmongThoseThatAreValid) {
  const auto message = [](std::string_view text) {
    return std::string(parse_algorithm_variable(text).status().message());
  };
  EXPECT_THAT(message("explian"), ::testing::EndsWith(", explain"));
  EXPECT_THAT(message("allreduce: explain"),
              StartsWith("unknown algorithm 'explain' at position 12"));
  EXPECT_THAT(message("explain, ring"), StartsWith("unknown algorithm 'explain' at position 1"));
  EXPECT_FALSE(parse_rules("explain").ok());  // of a call or a tuning file
}

}  // namespace
}  // namespace banyan::decision_table_test
