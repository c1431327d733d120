// What a call gets, and why, beside what the model says of all algorithms.
// SPDX-License-Identifier: Apache-2.0

#include "algorithms/choice/explain.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string_view>
#include <vector>

#include "algorithms/choice/machine_cost.h"
#include "tests/algorithms/cost_models.h"

namespace banyan {
namespace {

constexpr uint64_t kSizes[] = {4,        1 << 10, 4 << 10,  16 << 10,
                               64 << 10, 1 << 20, 16 << 20, 64 << 20};

// Whatever decides: what is kept is no faster, by the model, than what a call gets.
TEST(Explain, ChosenIsWhatACallGetsAndComesFirst) {
  const auto some = parse_rules("allreduce size=1M-: binomial, star; ^ring");
  ASSERT_TRUE(some.ok());
  int others = 0;
  for (const Collective collective : collectives())
    for (const uint64_t bytes : kSizes)
      for (const int ranks : {2, 3, 8})
        for (const Rules& rules : {Rules(), *some}) {
          const Problem problem = call(collective, bytes, ranks);
          const Explanation explanation =
              explain(problem, ranks, memory_model(ranks, 2), Medium::kSharedCores, rules);
          const Choice choice = choose(problem, ranks, Medium::kSharedCores, rules);
          ASSERT_EQ(explanation.algorithms.size(), algorithms().size());
          const ExplainedAlgorithm& first = explanation.algorithms.front();
          EXPECT_FALSE(first.excluded);
          EXPECT_EQ(first.algorithm, choice.algorithm);
          EXPECT_EQ(explanation.chosen, choice.algorithm);
          others += explanation.fastest != explanation.chosen ? 1 : 0;
          for (const ExplainedAlgorithm& each : explanation.algorithms) {
            if (each.excluded) {
              EXPECT_FALSE(each.why.empty());
            } else {
              EXPECT_GE(each.predicted_us, first.predicted_us);
            }
            if (each.algorithm == explanation.fastest) {
              EXPECT_EQ(each.predicted_us, explanation.fastest_us);
            } else if (each.predicted_us > 0) {
              EXPECT_GE(each.predicted_us, explanation.fastest_us);
            }
          }
          EXPECT_NEAR(explanation.percent_of_bound, 100 * explanation.bound.us / first.predicted_us,
                      1e-9);
          EXPECT_GT(explanation.percent_of_bound, 0);
          EXPECT_LE(explanation.percent_of_bound, 100.0001);
        }
  EXPECT_GT(others, 0);
}

// A name that means another one there is what the call gets all the same.
TEST(Explain, OfARuleThatNamesOneByLevels) {
  const auto rules = parse_rules("hierarchical");
  ASSERT_TRUE(rules.ok());
  const Explanation explanation = explain(call(Collective::kAllreduce, 1 << 20, 4), 4,
                                          memory_model(4, 2), Medium::kSharedCores, *rules);
  EXPECT_EQ(explanation.chosen, find_algorithm("hierarchical"));
  EXPECT_FALSE(explanation.algorithms.front().excluded);
  EXPECT_GT(explanation.percent_of_bound, 0);
}

TEST(Explain, RulesLeaveAlgorithmsOut) {
  const Problem problem = call(Collective::kAllreduce, 1 << 20, 4);
  const auto with = [&](std::string_view text) {
    const auto rules = parse_rules(text);
    return explain(problem, 4, memory_model(4, 2), Medium::kSharedCores,
                   rules.ok() ? *rules : Rules());
  };
  EXPECT_EQ(with("ring").chosen, find_algorithm("ring"));
  const Explanation cut = with("ring(seg=16K)");
  EXPECT_EQ(cut.algorithms.front().parameters.segment, 16U << 10);
  EXPECT_EQ(cut.algorithms.front().why,
            "what a call gets, by the BANYAN_ALGO rule 1, with seg=16K");
  EXPECT_NE(cut.algorithms.front().predicted_us, with("ring").algorithms.front().predicted_us);
  const Explanation without = with("^circulant");
  for (const ExplainedAlgorithm& each : without.algorithms)
    if (each.algorithm == find_algorithm("circulant")) {
      EXPECT_TRUE(each.excluded);
      EXPECT_EQ(each.why, "excluded by BANYAN_ALGO rule 1");
    }
}

// Lengths of segments count, and a rule of the tuning file names as well behind one that leaves
// out.
TEST(Explain, FastestIsWithTheBestSegmentsAndNamesAreOfAnyRule) {
  std::vector<int> labels;
  for (int rank = 0; rank < 32; ++rank) labels.push_back(rank / 8);
  const Hierarchy hosts = Hierarchy::of_labels("host", labels);
  int cut = 0;
  for (const uint64_t bytes : kSizes) {
    const Problem problem = call(Collective::kAllreduce, bytes, 32);
    const CostModel model = pure(1, 1e-4, 1e-3);
    const Explanation explanation = explain(problem, 32, model, Medium::kNetwork, {}, &hosts);
    EXPECT_DOUBLE_EQ(explanation.fastest_us, predict(problem, explanation.fastest, 32, model,
                                                     &hosts, explanation.fastest_parameters));
    for (const ExplainedAlgorithm& row : explanation.algorithms) {
      if (row.predicted_us == 0) continue;
      EXPECT_LE(explanation.fastest_us, row.predicted_us);
    }
    const Parameters best{.segment = best_segment(problem, 32, model, &hosts)};
    if (best.segment == 0) continue;
    const double us = predict(problem, find_algorithm("hierarchical"), 32, model, &hosts, best);
    EXPECT_LE(explanation.fastest_us, us);
    cut += explanation.fastest_parameters.segment != 0 ? 1 : 0;
  }
  EXPECT_GT(cut, 0);

  const auto variable = parse_rules("^star");
  const auto file = parse_rules("allreduce: ring");
  ASSERT_TRUE(variable.ok() && file.ok());
  const Explanation ruled = explain(call(Collective::kAllreduce, 1024, 4), 4, memory_model(4, 4),
                                    Medium::kMemory, join_rules(*variable, *file));
  EXPECT_EQ(ruled.chosen, find_algorithm("ring"));
  for (const ExplainedAlgorithm& row : ruled.algorithms)
    EXPECT_EQ(row.excluded, row.algorithm != ruled.chosen) << row.why;
}

// Hosts under other numbers are the same hosts.
TEST(Explain, DoesNotDependOnHowHostsAreCalled) {
  const std::vector<int> one = {0, 0, 1, 1, 2, 2}, other = {7, 7, 3, 3, 5, 5};
  const Hierarchy a = Hierarchy::of_labels("host", one), b = Hierarchy::of_labels("host", other);
  for (const uint64_t bytes : kSizes) {
    const Problem problem = call(Collective::kAllreduce, bytes, 6);
    const Explanation first = explain(problem, 6, pure(5, 1e-4, 1e-3), Medium::kNetwork, {}, &a);
    const Explanation second = explain(problem, 6, pure(5, 1e-4, 1e-3), Medium::kNetwork, {}, &b);
    EXPECT_EQ(first.chosen, second.chosen);
    EXPECT_EQ(first.bound.us, second.bound.us);
  }
}

}  // namespace
}  // namespace banyan
