// SPDX-License-Identifier: Apache-2.0

#include "algorithms/explain.h"

#include <fmt/format.h>

#include <algorithm>

#include "src/base/parse.h"

namespace banyan {
namespace {

bool names(const Rule& rule, int algorithm) {
  return std::find(rule.algorithms.begin(), rule.algorithms.end(), algorithm) !=
         rule.algorithms.end();
}

// Empty: nothing does.
std::string what_excludes(int algorithm, const Problem& problem, const Choice& choice,
                          const Rules& rules, bool levels) {
  if (!fits(algorithm, problem.collective))
    return fmt::format("does no {}", name_of(problem.collective));
  if (choice.rule >= 0) {
    const Rule& rule = rules[static_cast<size_t>(choice.rule)];
    if (rule.excluding && names(rule, algorithm))
      return fmt::format("excluded by {}", choice.because.substr(0, choice.because.find(',')));
    if (!rule.excluding && algorithm != choice.algorithm)
      return fmt::format("{} names {}", choice.because,
                         text_of(choice.algorithm, choice.parameters));
  }
  if (!levels && algorithms()[static_cast<size_t>(algorithm)].by_levels)
    return "on one host, or with one rank a host, it is another one by a second name";
  return {};
}

// Of hierarchical, whose length of segments is left to it: what it would take with the best one.
std::string with_best_segment(const ExplainedAlgorithm& row, const Problem& problem, int ranks,
                              const CostModel& model, const Hierarchy* hierarchy) {
  const Algorithm& which = algorithms()[static_cast<size_t>(row.algorithm)];
  if (!which.by_levels || !which.takes(ParameterKey::kSegment, problem.collective)) return {};
  Parameters parameters = row.parameters;
  if (parameters.segment != 0) return {};
  parameters.segment = best_segment(problem, ranks, model, hierarchy, parameters);
  if (parameters.segment == 0) return {};
  return fmt::format("{:.2f} us with seg={}",
                     predict(problem, row.algorithm, ranks, model, hierarchy, parameters),
                     format_size(parameters.segment));
}

}  // namespace

Explanation explain(const Problem& problem, int ranks, const CostModel& model, Medium medium,
                    const Rules& rules, const Hierarchy* hierarchy,
                    const MeasuredNetwork* measured) {
  // choose() knows no levels that say nothing, such as hosts of one rank each.
  const Hierarchy simple = hierarchy == nullptr ? Hierarchy() : hierarchy->simplified();
  const bool levels = simple.depth() > 0;
  const Choice choice = choose(problem, ranks, medium, rules, levels ? &simple : nullptr, measured);
  Explanation result;
  for (int i = 0; i < static_cast<int>(algorithms().size()); ++i) {
    ExplainedAlgorithm row{.algorithm = i};
    row.why = what_excludes(i, problem, choice, rules, levels);
    row.excluded = !row.why.empty();
    if (!row.excluded) {
      const bool chosen = i == choice.algorithm;
      if (chosen) row.parameters = choice.parameters;
      row.predicted_us = predict(problem, i, ranks, model, hierarchy, row.parameters);
      if (chosen) row.why = fmt::format("what a call gets, by the {}", reason_of(choice));
      const std::string better = with_best_segment(row, problem, ranks, model, hierarchy);
      if (!better.empty()) row.why += (chosen ? "; " : "") + better;
    }
    result.algorithms.push_back(std::move(row));
  }
  std::stable_sort(result.algorithms.begin(), result.algorithms.end(),
                   [](const ExplainedAlgorithm& a, const ExplainedAlgorithm& b) {
                     if (a.excluded != b.excluded) return b.excluded;
                     return a.predicted_us < b.predicted_us;
                   });
  const ExplainedAlgorithm& first = result.algorithms.front();
  result.chosen = first.algorithm;
  result.bound_us = lower_bound(problem, ranks, model, hierarchy);
  if (first.predicted_us > 0) result.percent_of_bound = 100 * result.bound_us / first.predicted_us;
  return result;
}

}  // namespace banyan
