// How the user's rules and measured links go before the default table.
// SPDX-License-Identifier: Apache-2.0

#include "algorithms/choice/select.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>

#include "algorithms/choice/codec_times.h"
#include "algorithms/choice/default_table.h"

namespace banyan {

namespace {

using enum Collective;

// What the choice goes by beside the call.
struct Surroundings {
  int ranks;
  Medium medium;
  const Hierarchy* hierarchy;
  const MeasuredNetwork* measured;

  bool in_hosts() const { return hierarchy != nullptr && hierarchy->depth() > 0; }
};

// Its first level may be one above hosts, where each host has one rank.
bool knows_hosts(const Hierarchy* hierarchy) {
  return hierarchy != nullptr && hierarchy->depth() > 0 && hierarchy->name(0) == kHostLevel;
}

Placement placement_of(const Surroundings& place) {
  if (!place.in_hosts()) return Placement::kApart;
  const bool two = knows_hosts(place.hierarchy) && place.hierarchy->parts(0) == 2;
  return two ? Placement::kInTwoHosts : Placement::kInHosts;
}

uint64_t times(uint64_t a, uint64_t b) {
  uint64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? kAnySize : product;
}

uint64_t total(const std::vector<uint64_t>& counts) {
  uint64_t sum = 0;
  for (const uint64_t count : counts)
    if (__builtin_add_overflow(sum, count, &sum)) return kAnySize;
  return sum;
}

bool is_for(const Rule& rule, Collective collective) {
  const auto& list = rule.collectives;
  return list.empty() || std::find(list.begin(), list.end(), collective) != list.end();
}

bool is_for_type(const Rule& rule, const Problem& problem) {
  const auto& types = rule.types;
  if (types.empty()) return true;
  return heading_of(problem.collective) != kBarrier &&
         std::find(types.begin(), types.end(), problem.type) != types.end();
}

// A barrier has no memory.
bool is_for_memory(const Rule& rule, const Problem& problem) {
  const auto& memories = rule.memories;
  if (memories.empty()) return true;
  const bool pinned = problem.memory == MemoryKind::kPinned;  // no word of its own
  const MemoryKind kind = pinned ? MemoryKind::kHost : problem.memory;
  return heading_of(problem.collective) != kBarrier &&
         std::find(memories.begin(), memories.end(), kind) != memories.end();
}

bool is_within(int number, int least, int most) {
  return number >= least && number <= most;
}

bool matches_but_for_size(const Rule& rule, const Problem& problem, const Surroundings& place) {
  const auto& [ranks, medium, hierarchy, measured] = place;
  if (!is_within(ranks, rule.ranks_least, rule.ranks_most) ||
      !is_within(nodes_of(ranks, medium, hierarchy), rule.nodes_least, rule.nodes_most) ||
      !is_within(ppn_of(ranks, medium, hierarchy), rule.ppn_least, rule.ppn_most))
    return false;
  return is_for(rule, problem.collective) && is_for_type(rule, problem) &&
         is_for_memory(rule, problem);
}

bool matches(const Rule& rule, const Problem& problem, const Surroundings& place) {
  if (!matches_but_for_size(rule, problem, place)) return false;
  if (problem.collective == kAlltoallv) return rule.size_least == 0 && rule.size_most == kAnySize;
  const uint64_t bytes = selection_bytes(problem);
  return bytes >= rule.size_least && bytes <= rule.size_most;
}

struct Named {
  int algorithm = -1;  // -1: none
  Parameters parameters{};
};

// The first algorithm of a rule that names some which fits, but none of `excluded`.
Named first_that_fits(const Rule& rule, const Problem& problem, const Surroundings& place,
                      const std::vector<int>& excluded) {
  for (size_t i = 0; i < rule.algorithms.size(); ++i) {
    const int algorithm = rule.algorithms[i];
    if (!fits(algorithm, problem.collective) || contains(excluded, algorithm)) continue;
    const Parameters parameters =
        effective(rule.parameters[i], algorithm, problem.collective, place.hierarchy);
    if (fit_ranks(parameters, place.ranks)) return {algorithm, parameters};
  }
  return {};
}

constexpr std::string_view kByLinks = "measured links";

// Where no rule names an algorithm.
Choice by_default(const Problem& problem, const Surroundings& place,
                  const std::vector<int>& excluded) {
  if (place.measured != nullptr && place.medium == Medium::kNetwork)
    if (const auto best = choose_by_links(problem, *place.measured, place.in_hosts(), excluded);
        best.algorithm >= 0)
      return {best.algorithm, std::string(kByLinks), -1, best.parameters};
  const TableChoice row =
      from_default_table(problem, place.ranks, place.medium, placement_of(place), excluded);
  return {row.algorithm, "default table", -1, row.parameters};
}

std::string label_of(const Rule& rule) {
  switch (rule.source) {
    case RuleSource::kVariable: return fmt::format("BANYAN_ALGO rule {}", rule.number);
    case RuleSource::kTuningFile: return fmt::format("tuning file rule {}", rule.number);
  }
  return {};
}

// By what was measured of that rule, and of those for other lengths of the same calls.
std::optional<double> most_us(const Rules& rules, const Rule& own, int algorithm,
                              const Problem& problem, const Surroundings& place) {
  const auto was_measured = [](const Rule& rule) {
    return rule.measured && rule.measured->bytes != 0;
  };
  if (!was_measured(own) || algorithm != own.algorithms.front()) return std::nullopt;
  std::vector<TimedLength> lengths;
  for (const Rule& rule : rules)
    if (rule.source == own.source && !rule.excluding && was_measured(rule) &&
        matches_but_for_size(rule, problem, place))
      lengths.push_back({rule.measured->bytes, rule.measured->us});
  return time_of(selection_bytes(problem), lengths);
}

struct TunedRest {
  Named named;
  size_t rule = 0;
};
// Gives what the tuning file says of the rest that a rule of the variable leaves.
TunedRest tuned_rest(const Rules& rules, size_t excluding, const Problem& problem,
                     const Surroundings& place) {
  const Rule& rule = rules[excluding];
  if (!rule.excluding || rule.source != RuleSource::kVariable) return {};
  for (size_t i = excluding + 1; i < rules.size(); ++i) {
    const Rule& tuned = rules[i];
    if (tuned.source != RuleSource::kTuningFile || tuned.excluding) continue;
    if (!matches(tuned, problem, place)) continue;
    const Named named = first_that_fits(tuned, problem, place, rule.algorithms);
    if (named.algorithm >= 0) return {named, i};
  }
  return {};
}

// Gives what a rule says; where it leaves algorithms out, with what goes on. algorithm -1: it has
// nothing for this collective.
Choice from_rule(const Rules& rules, size_t index, const Problem& problem,
                 const Surroundings& place) {
  const Rule& rule = rules[index];
  const auto number = static_cast<int>(index);
  if (!rule.excluding) {
    const Named named = first_that_fits(rule, problem, place, {});
    if (named.algorithm < 0) return {-1, "", -1};
    return {named.algorithm, label_of(rule),
            number,          named.parameters,
            number,          most_us(rules, rule, named.algorithm, problem, place)};
  }
  if (const auto [named, tuned] = tuned_rest(rules, index, problem, place); named.algorithm >= 0)
    return {named.algorithm, fmt::format("{}, {}", label_of(rule), label_of(rules[tuned])), number,
            named.parameters, static_cast<int>(tuned)};
  const Choice rest = by_default(problem, place, rule.algorithms);
  return {
      rest.algorithm,
      rest.because == kByLinks ? fmt::format("{}, {}", label_of(rule), kByLinks) : label_of(rule),
      number, rest.parameters};
}

}  // namespace

bool any_applies(const Rules& rules, Collective collective) {
  return std::any_of(rules.begin(), rules.end(), [&](const Rule& rule) {
    return is_for(rule, collective) &&
           (rule.excluding ||  // which leaves every collective something
            std::any_of(rule.algorithms.begin(), rule.algorithms.end(),
                        [&](int algorithm) { return fits(algorithm, collective); }));
  });
}

Rules join_rules(Rules variable, Rules tuning_file) {
  for (Rule& rule : tuning_file) {
    rule.source = RuleSource::kTuningFile;
    rule.number = static_cast<int>(&rule - tuning_file.data()) + 1;
    variable.push_back(std::move(rule));
  }
  return variable;
}

int nodes_of(int ranks, Medium medium, const Hierarchy* hierarchy) {
  if (knows_hosts(hierarchy)) return hierarchy->parts(0);
  return is_network(medium) ? ranks : 1;
}

int ppn_of(int ranks, Medium medium, const Hierarchy* hierarchy) {
  if (knows_hosts(hierarchy)) return hierarchy->largest_part(0);
  return is_network(medium) ? 1 : ranks;
}

uint64_t selection_bytes(const Problem& problem) {
  switch (problem.collective) {
    case kAllgatherv:
    case kReduceScatterv: return times(total(problem.recv_counts), problem.element());
    case kAlltoallv: return times(total(problem.send_counts), problem.element());
    case kAllreduce:
    case kReduce:
    case kBroadcast:
    case kAllgather:
    case kReduceScatter:
    case kAlltoall:
    case kGather:
    case kScatter:
    case kBarrier:
    case kSend:
    case kRecv:
    case kFinalize:
    case kSplit: return times(problem.count, problem.element());
  }
  return 0;
}

Choice choose(const Problem& problem, int ranks, Medium medium, const Rules& rules,
              const Hierarchy* hierarchy, const MeasuredNetwork* measured) {
  if (sums_in_rank_order(problem)) return {find_algorithm("direct"), "invariant sums", -1};
  const Surroundings place{ranks, medium, hierarchy, measured};
  for (size_t i = 0; i < rules.size(); ++i) {
    if (!matches(rules[i], problem, place)) continue;
    Choice choice = from_rule(rules, i, problem, place);
    if (choice.algorithm >= 0) return choice;
  }
  return by_default(problem, place, {});
}

std::string reason_of(const Choice& choice) {
  const std::string parameters = text_of(choice.parameters);
  return parameters.empty() ? choice.because
                            : fmt::format("{}, with {}", choice.because, parameters);
}

}  // namespace banyan
