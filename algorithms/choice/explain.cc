// SPDX-License-Identifier: Apache-2.0

#include "algorithms/choice/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <tuple>

#include "algorithms/choice/compression.h"
#include "algorithms/choice/explain_codecs.h"
#include "algorithms/choice/peer_choice.h"
#include "algorithms/messages.h"
#include "compression/codecs.h"
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

const MeasuredNetwork* network_of(const CallSite& call) {
  return call.measured ? &*call.measured : nullptr;
}

// What a call would get without codecs.
Choice exact_of(const CallSite& call, const Hierarchy& simple) {
  if (call.algorithm >= 0) return {call.algorithm, "call itself", -1, call.parameters};
  return choose(call.problem, call.ranks, call.medium, call.rules, &simple, network_of(call));
}

// Empty: nothing does. `faster`: by the model than what a call gets.
std::string what_excludes(int algorithm, const CallSite& call, const Choice& choice, bool levels,
                          bool faster) {
  const Collective collective = call.problem.collective;
  if (algorithm == choice.algorithm) return {};
  if (!fits(algorithm, collective)) return lack_of(algorithm, collective);
  const std::string chosen = text_of(choice.algorithm, choice.parameters);
  if (choice.rule >= 0) {
    const Rule& rule = call.rules[static_cast<size_t>(choice.rule)];
    if (rule.excluding && names(rule, algorithm))
      return fmt::format("excluded by {}", choice.because.substr(0, choice.because.find(',')));
  }
  if (sums_in_rank_order(call.problem)) return fmt::format("{} are {}", choice.because, chosen);
  if (choice.naming >= 0) return fmt::format("{} names {}", choice.because, chosen);
  if (call.algorithm >= 0) return fmt::format("the {} names {}", choice.because, chosen);
  if (levels_missing(algorithm, levels)) return "it needs several hosts, one with several ranks";
  if (faster) return "predicted faster, which does not decide";
  return {};
}

std::optional<ScheduleSize> size_of_schedule(const CallSite& call, int algorithm,
                                             const Parameters& parameters,
                                             const Hierarchy& simple) {
  if (call.ranks > kMostRanksBuilt) return std::nullopt;
  std::vector<Schedule> schedules;
  for (int rank = 0; rank < call.ranks; ++rank) {
    Group group = Group::everyone(call.ranks, rank, &simple, parameters);
    group.codecs = codecs();
    schedules.push_back(
        build_schedule(call.problem, group, algorithms()[static_cast<size_t>(algorithm)]));
  }
  ScheduleSize size{.steps = schedules.front().steps.size(),
                    .bytes_sent = schedules.front().bytes_sent()};
  const std::vector<Message> messages =
      match_messages(schedules, Group::everyone(call.ranks, 0).ranks);
  for (const auto& depths : depths_of(schedules, messages, {.dependency = 0, .message = 1}))
    for (const uint32_t depth : depths) size.rounds = std::max<uint64_t>(size.rounds, depth);
  return size;
}

struct Segmented {
  uint32_t segment = 0;  // 0: its own length is best, or it has none
  double us = 0;
};
// Predicts hierarchical with the best length of segments, where that is left to it.
Segmented with_best_segment(const ExplainedAlgorithm& row, const CallSite& call,
                            const Hierarchy* hierarchy) {
  const Algorithm& which = algorithms()[static_cast<size_t>(row.algorithm)];
  if (row.predicted_us == 0 || row.parameters.segment != 0 || !which.by_levels ||
      !which.takes(ParameterKey::kSegment, call.problem.collective))
    return {row.parameters.segment, row.predicted_us};
  Parameters cut = row.parameters;
  cut.segment = best_segment(call.problem, call.ranks, *call.model, hierarchy, cut);
  return {cut.segment, cut.segment == 0 ? row.predicted_us
                                        : predict(call.problem, row.algorithm, call.ranks,
                                                  *call.model, hierarchy, cut)};
}

// Gives what the algorithm that a rule of a tuning file names took, and the runner-up, where that
// was a call of this size.
std::optional<double> measured_of(int algorithm, const CallSite& call, const Choice& choice) {
  if (choice.naming < 0) return std::nullopt;
  const std::optional<Measured>& measured = call.rules[static_cast<size_t>(choice.naming)].measured;
  if (!measured || measured->bytes != selection_bytes(call.problem)) return std::nullopt;
  if (algorithm == choice.algorithm) return measured->us;
  if (algorithms()[static_cast<size_t>(algorithm)].name == measured->runner_up)
    return measured->runner_up_us;
  return std::nullopt;
}

void say_sources(const CallSite& call, Explanation& explanation) {
  if (!call.model) {
    explanation.network_by = "over the network: nothing was measured, so nothing is predicted";
    return;
  }
  const PairCost& within = call.model->within;
  if (!within.lane_byte.known())
    explanation.memory_by =
        within.long_byte.source == Source::kMeasured
            ? "in memory: messages as they were measured here, the rest by a table, unchecked"
            : "in memory: by a table, unchecked on this machine";
  if (is_network(call.medium))
    explanation.network_by = call.model->wire_byte.source == Source::kMeasured
                                 ? "over the network: links as the tuning file has them"
                                 : "over the network: nothing was measured";
}

}  // namespace

Explanation explain(const CallSite& given) {
  const CallSite call = with_codec_costs(given);
  Explanation result;
  if (call.ranks == 1 || is_message(call.problem.collective)) return result;
  const Hierarchy* hierarchy = call.hierarchy.depth() > 0 ? &call.hierarchy : nullptr;
  // choose() knows no levels that say nothing, such as hosts of one rank each.
  const Hierarchy simple = call.hierarchy.simplified();
  const bool levels = simple.depth() > 0;
  const Choice exact = exact_of(call, simple);
  Choice choice = with_codecs(call.problem, call.ranks, call.medium, &simple, network_of(call),
                              exact, call.codec_times);
  if (call.by_peers)
    choice = for_peers(call.problem, call.ranks, call.rules, call.algorithm, std::move(choice));
  if (call.by_peers_inside)
    choice = for_peers_inside(call.problem, call.ranks, simple, std::move(choice));
  const auto predicted = [&](int algorithm, const Parameters& parameters) {
    return predicted_us(call, algorithm, parameters);
  };
  const double chosen_us = predicted(choice.algorithm, choice.parameters);
  result.chosen = result.fastest = choice.algorithm;
  result.fastest_us = chosen_us;
  result.fastest_parameters = choice.parameters;
  for (int i = 0; i < static_cast<int>(algorithms().size()); ++i) {
    const bool chosen = i == choice.algorithm;
    ExplainedAlgorithm row{.algorithm = i, .measured_us = measured_of(i, call, choice)};
    if (chosen) {
      row.parameters = choice.parameters;
      row.why = fmt::format("what a call gets, by the {}", reason_of(choice));
    }
    if (chosen || (fits(i, call.problem.collective) && !levels_missing(i, levels))) {
      row.predicted_us = predicted(i, row.parameters);
      row.size = size_of_schedule(call, i, row.parameters, simple);
    }
    const Segmented cut = with_best_segment(row, call, hierarchy);
    const bool other_length = cut.segment != row.parameters.segment;
    const double least_us = other_length ? std::min(row.predicted_us, cut.us) : row.predicted_us;
    if (row.predicted_us > 0 && least_us < result.fastest_us) {
      result.fastest = i;
      result.fastest_us = least_us;
      result.fastest_parameters = row.parameters;
      if (least_us < row.predicted_us) result.fastest_parameters.segment = cut.segment;
    }
    const std::string excluded =
        what_excludes(i, call, choice, levels, row.predicted_us < chosen_us);
    row.excluded = !excluded.empty();
    row.why += excluded;
    if (!row.excluded && other_length)
      row.why += fmt::format("{}{:.2f} us with seg={}", chosen ? "; " : "", cut.us,
                             format_size(cut.segment));
    result.algorithms.push_back(std::move(row));
  }
  const auto place = [&](const ExplainedAlgorithm& row) {
    return std::tuple(row.excluded, row.algorithm != choice.algorithm,
                      !fits(row.algorithm, call.problem.collective), row.predicted_us == 0,
                      row.predicted_us);
  };
  std::stable_sort(result.algorithms.begin(), result.algorithms.end(),
                   [&](const ExplainedAlgorithm& a, const ExplainedAlgorithm& b) {
                     return place(a) < place(b);
                   });
  say_sources(call, result);
  if (call.model) result.bound = bound_of(call.problem, call.ranks, *call.model, hierarchy);
  // The bound is that of exact calls.
  if (chosen_us > 0 && !choice.parameters.encodes())
    result.percent_of_bound = 100 * result.bound.us / chosen_us;
  result.codecs = explain_codecs(call, simple, exact, choice);
  return result;
}

}  // namespace banyan
