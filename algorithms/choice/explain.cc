// SPDX-License-Identifier: Apache-2.0

#include "algorithms/choice/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "src/base/parse.h"

namespace banyan {
namespace {

bool names(const Rule& rule, int algorithm) {
  return std::find(rule.algorithms.begin(), rule.algorithms.end(), algorithm) !=
         rule.algorithms.end();
}

bool levels_missing(int algorithm, bool levels) {
  return !levels && algorithms()[static_cast<size_t>(algorithm)].by_levels;
}

// Empty: nothing does. `faster`: by the model than what a call gets.
std::string what_excludes(int algorithm, const Problem& problem, const Choice& choice,
                          const Rules& rules, bool levels, bool faster) {
  if (algorithm == choice.algorithm) return {};
  if (!fits(algorithm, problem.collective)) return lack_of(algorithm, problem.collective);
  const std::string chosen = text_of(choice.algorithm, choice.parameters);
  if (choice.rule >= 0) {
    const Rule& rule = rules[static_cast<size_t>(choice.rule)];
    if (rule.excluding && names(rule, algorithm))
      return fmt::format("excluded by {}", choice.because.substr(0, choice.because.find(',')));
  }
  if (choice.naming >= 0) return fmt::format("{} names {}", choice.because, chosen);
  if (levels_missing(algorithm, levels))
    return "on one host, or with one rank a host, it is another one by a second name";
  if (faster)
    return fmt::format("predicted to be faster, but a call gets {} by the {}", chosen,
                       choice.because);
  return {};
}

struct Segmented {
  uint32_t segment = 0;  // 0: its own length is best, or it has none
  double us = 0;
};
// Predicts hierarchical with the best length of segments, where that is left to it.
Segmented with_best_segment(const ExplainedAlgorithm& row, const Problem& problem, int ranks,
                            const CostModel& model, const Hierarchy* hierarchy) {
  const Algorithm& which = algorithms()[static_cast<size_t>(row.algorithm)];
  if (row.predicted_us == 0 || row.parameters.segment != 0 || !which.by_levels ||
      !which.takes(ParameterKey::kSegment, problem.collective))
    return {row.parameters.segment, row.predicted_us};
  Parameters cut = row.parameters;
  cut.segment = best_segment(problem, ranks, model, hierarchy, cut);
  return {cut.segment, cut.segment == 0
                           ? row.predicted_us
                           : predict(problem, row.algorithm, ranks, model, hierarchy, cut)};
}

}  // namespace

Explanation explain(const Problem& problem, int ranks, const CostModel& model, Medium medium,
                    const Rules& rules, const Hierarchy* hierarchy,
                    const MeasuredNetwork* measured) {
  // choose() knows no levels that say nothing, such as hosts of one rank each.
  const Hierarchy simple = hierarchy == nullptr ? Hierarchy() : hierarchy->simplified();
  const bool levels = simple.depth() > 0;
  const Choice choice = choose(problem, ranks, medium, rules, levels ? &simple : nullptr, measured);
  const auto predicted = [&](int algorithm, const Parameters& parameters) {
    return predict(problem, algorithm, ranks, model, hierarchy, parameters);
  };
  Explanation result{.chosen = choice.algorithm, .fastest = choice.algorithm};
  const double chosen_us = predicted(choice.algorithm, choice.parameters);
  result.fastest_us = chosen_us;
  result.fastest_parameters = choice.parameters;
  for (int i = 0; i < static_cast<int>(algorithms().size()); ++i) {
    const bool chosen = i == choice.algorithm;
    ExplainedAlgorithm row{.algorithm = i};
    if (chosen) {
      row.parameters = choice.parameters;
      row.predicted_us = chosen_us;
      row.why = fmt::format("what a call gets, by the {}", reason_of(choice));
    } else if (fits(i, problem.collective) && !levels_missing(i, levels)) {
      row.predicted_us = predicted(i, {});
    }
    const Segmented cut = with_best_segment(row, problem, ranks, model, hierarchy);
    const bool other_length = cut.segment != row.parameters.segment;
    const double least_us = other_length ? std::min(row.predicted_us, cut.us) : row.predicted_us;
    if (row.predicted_us > 0 && least_us < result.fastest_us) {
      result.fastest = i;
      result.fastest_us = least_us;
      result.fastest_parameters = row.parameters;
      if (least_us < row.predicted_us) result.fastest_parameters.segment = cut.segment;
    }
    const std::string excluded =
        what_excludes(i, problem, choice, rules, levels, row.predicted_us < chosen_us);
    row.excluded = !excluded.empty();
    row.why += excluded;
    if (!row.excluded && other_length)
      row.why += fmt::format("{}{:.2f} us with seg={}", chosen ? "; " : "", cut.us,
                             format_size(cut.segment));
    result.algorithms.push_back(std::move(row));
  }
  const auto place = [&](const ExplainedAlgorithm& row) {
    return std::tuple(row.excluded, row.algorithm != choice.algorithm, row.predicted_us == 0,
                      row.predicted_us);
  };
  std::stable_sort(result.algorithms.begin(), result.algorithms.end(),
                   [&](const ExplainedAlgorithm& a, const ExplainedAlgorithm& b) {
                     return place(a) < place(b);
                   });
  result.bound = bound_of(problem, ranks, model, hierarchy);
  if (chosen_us > 0) result.percent_of_bound = 100 * result.bound.us / chosen_us;
  return result;
}

}  // namespace banyan
