// The default table, and how the user's rules and measured links go before it.
// SPDX-License-Identifier: Apache-2.0

#include "algorithms/select.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <span>

#include "algorithms/messages.h"

namespace banyan {

namespace {

constexpr uint64_t kKiB = 1024;
constexpr uint64_t kMiB = 1024 * kKiB;
constexpr uint64_t kAnySize = std::numeric_limits<uint64_t>::max();
constexpr int kAnyRanks = std::numeric_limits<int>::max();

enum class Values { kAny, kNarrow };  // kNarrow: sums of types that are accumulated in a wider one

struct Line {
  Collective collective;
  Values values;
  uint64_t size_most;
  int ranks_least, ranks_most;
  std::string_view algorithm;
};

using enum Collective;
using enum Values;

// The first line that matches decides. A line behind one that always matches is for those who
// exclude the algorithm before it. Narrow sums go direct because there they travel in their own
// type; whoever passes on partial sums sends two or four times as many bytes.
// clang-format off: columns
constexpr Line kTable[] = {
    // collective     values   bytes up to  ranks          algorithm
    {kAllreduce, kAny, 2 * kKiB, 3, 8, "direct"},
    {kAllreduce, kAny, 8 * kKiB, 0, kAnyRanks, "recursive_doubling"},
    {kAllreduce, kNarrow, kAnySize, 0, kAnyRanks, "direct"},
    {kAllreduce, kAny, 32 * kKiB, 0, kAnyRanks, "recursive_doubling"},
    {kAllreduce, kAny, 512 * kKiB, 0, 2, "recursive_doubling"},
    {kAllreduce, kAny, kAnySize, 0, kAnyRanks, "circulant"},
    {kAllreduce, kAny, kAnySize, 0, kAnyRanks, "ring"},

    {kReduceScatter, kNarrow, kAnySize, 0, kAnyRanks, "direct"},
    {kReduceScatter, kAny, 16 * kKiB, 3, 8, "direct"},  // bytes of one rank's result
    {kReduceScatter, kAny, kAnySize, 0, kAnyRanks, "circulant"},
    {kReduceScatter, kAny, kAnySize, 0, kAnyRanks, "ring"},

    {kAllgather, kAny, 8 * kKiB, 0, 2, "direct"},  // bytes of the whole result
    {kAllgather, kAny, 32 * kKiB, 0, 2, "circulant"},
    {kAllgather, kAny, kAnySize, 0, 2, "direct"},
    {kAllgather, kAny, 32 * kKiB, 3, 16, "direct"},
    {kAllgather, kAny, kAnySize, 0, kAnyRanks, "circulant"},
    {kAllgather, kAny, kAnySize, 0, kAnyRanks, "ring"},

    {kBroadcast, kAny, 2 * kMiB, 0, 2, "direct"},
    {kBroadcast, kAny, 4 * kKiB, 3, 8, "direct"},
    {kBroadcast, kAny, 16 * kKiB, 0, kAnyRanks, "binomial"},
    {kBroadcast, kAny, 8 * kMiB - 1, 0, kAnyRanks, "circulant"},
    {kBroadcast, kAny, kAnySize, 9, kAnyRanks, "double_tree"},
    {kBroadcast, kAny, kAnySize, 0, kAnyRanks, "circulant"},
    {kBroadcast, kAny, kAnySize, 0, kAnyRanks, "double_tree"},

    {kReduce, kAny, 4 * kKiB, 0, 8, "direct"},
    {kReduce, kAny, 16 * kKiB, 0, kAnyRanks, "binomial"},
    {kReduce, kNarrow, kAnySize, 0, kAnyRanks, "direct"},
    {kReduce, kAny, 256 * kKiB, 0, 2, "binomial"},
    {kReduce, kAny, kAnySize, 0, kAnyRanks, "circulant"},
    {kReduce, kAny, kAnySize, 0, kAnyRanks, "double_tree"},

    {kAlltoall, kAny, 4 * kKiB, 0, 16, "direct"},
    {kAlltoall, kAny, 32 * kKiB, 3, 8, "direct"},
    {kAlltoall, kAny, 256, 0, kAnyRanks, "bruck"},
    {kAlltoall, kAny, kAnySize, 0, kAnyRanks, "pairwise"},
    {kAlltoallv, kAny, kAnySize, 0, kAnyRanks, "pairwise"},

    {kGather, kAny, 4 * kKiB, 0, kAnyRanks, "binomial"},
    {kGather, kAny, kAnySize, 0, kAnyRanks, "direct"},
    {kScatter, kAny, 4 * kKiB, 0, kAnyRanks, "binomial"},
    {kScatter, kAny, kAnySize, 0, kAnyRanks, "direct"},

    {kBarrier, kAny, kAnySize, 0, 8, "direct"},
    {kBarrier, kAny, kAnySize, 0, kAnyRanks, "dissemination"},
};

// Comes first where ranks share cores: what all of them do counts, not how long the longest chain
// is. So trees, in which a vector is copied P - 1 times, go before a scatter and an allgather.
constexpr Line kSharedTable[] = {
    {kAllreduce, kNarrow, kAnySize, 3, 4, "direct"},
    {kAllreduce, kAny, 4 * kKiB, 3, 3, "direct"},
    {kAllreduce, kAny, 128 * kKiB, 3, 3, "recursive_doubling"},
    {kAllreduce, kAny, 512, 4, 4, "direct"},
    {kAllreduce, kAny, 32 * kKiB, 4, 4, "recursive_doubling"},
    {kAllreduce, kAny, 64 * kKiB, 4, 4, "direct"},

    {kAllgather, kAny, kAnySize, 3, 8, "direct"},

    {kBroadcast, kAny, 4 * kKiB, 0, 8, "direct"},
    {kBroadcast, kAny, kAnySize, 3, 8, "direct"},
    {kBroadcast, kAny, kAnySize, 0, 64, "binomial"},

    {kReduce, kAny, 4 * kKiB, 0, 8, "direct"},
    {kReduce, kAny, 16 * kKiB, 0, kAnyRanks, "binomial"},
    {kReduce, kNarrow, kAnySize, 0, kAnyRanks, "direct"},
    {kReduce, kAny, kAnySize, 0, 64, "binomial"},
};

// Comes first of all where three ranks and more share a core. With P ranks on C cores the hub's
// messages take 2 P, and what a rank waits for its turns 2 P / C; of recursive doubling both grow
// by log P.
constexpr Line kCrowdedTable[] = {
    {kAllreduce, kAny, 2 * kKiB, 3, 5, "direct"},
    {kAllreduce, kAny, 32 * kKiB, 0, 16, "star"},
    {kAllreduce, kAny, 2 * kKiB, 0, 64, "star"},
    {kAllreduce, kAny, 2 * kKiB, 8, 8, "direct"},
    {kAllreduce, kNarrow, kAnySize, 8, 8, "direct"},
    {kAllreduce, kAny, 32 * kKiB, 8, 8, "recursive_doubling"},
    {kAllreduce, kAny, 256 * kKiB, 8, 8, "circulant"},
    {kAllreduce, kAny, kAnySize, 8, 8, "ring"},

    {kReduceScatter, kNarrow, kAnySize, 0, kAnyRanks, "direct"},
    {kReduceScatter, kAny, 2 * kKiB, 7, 8, "circulant"},
    {kReduceScatter, kAny, 128 * kKiB, 7, 8, "direct"},

    {kAllgather, kAny, 4 * kKiB, 6, 8, "star"},
    {kAllgather, kAny, 32 * kKiB, 6, 8, "direct"},
    {kAllgather, kAny, 256 * kKiB, 6, 8, "circulant"},
    {kAllgather, kAny, 32 * kKiB, 9, 16, "star"},

    {kBroadcast, kAny, 128 * kKiB, 6, 8, "star"},
    {kBroadcast, kAny, 256 * kKiB, 9, 16, "star"},
    {kReduce, kAny, 16 * kKiB, 6, 16, "star"},
    {kBarrier, kAny, kAnySize, 6, 64, "star"},
};

// Comes first over a network, where a message costs as much as the copying of tens of kilobytes:
// few of them matter more than their length.
constexpr Line kNetworkTable[] = {
    {kAllreduce, kAny, kKiB, 3, 4, "star"},
    {kAllreduce, kAny, 8 * kKiB, 0, kAnyRanks, "recursive_doubling"},
    {kAllreduce, kNarrow, kAnySize, 0, kAnyRanks, "direct"},
    {kAllreduce, kAny, 128 * kKiB, 0, 4, "recursive_doubling"},

    {kAllgather, kAny, 4 * kKiB, 3, 4, "star"},
    {kAllgather, kAny, 64 * kKiB, 3, kAnyRanks, "bruck"},
    {kBroadcast, kAny, 8 * kKiB, 3, 4, "star"},
    {kReduce, kAny, 8 * kKiB, 3, 4, "star"},
    {kAlltoall, kAny, kKiB, 3, kAnyRanks, "bruck"},
    {kBarrier, kAny, kAnySize, 3, 4, "star"},
};

// Comes first of all where several ranks of a host are on a network with others. Measured on four
// hosts of two ranks, three of one to three and two of four; alltoall, gather and scatter on four
// of two, and two and three of four.
constexpr Line kHostsTable[] = {
    {kAllreduce, kAny, 8 * kKiB, 0, kAnyRanks, "leaders"},
    {kAllreduce, kAny, kAnySize, 0, kAnyRanks, "hierarchical"},
    {kReduceScatter, kAny, kAnySize, 0, kAnyRanks, "hierarchical"},
    {kAllgather, kAny, kKiB, 0, 8, "star"},  // bytes of the whole result
    {kAllgather, kAny, 8 * kKiB, 0, kAnyRanks, "bruck"},
    {kAllgather, kAny, kAnySize, 0, kAnyRanks, "hierarchical"},
    {kBroadcast, kAny, 8 * kKiB, 0, kAnyRanks, "leaders"},
    {kBroadcast, kAny, kAnySize, 0, kAnyRanks, "hierarchical"},
    {kReduce, kAny, 8 * kKiB, 0, kAnyRanks, "leaders"},
    {kReduce, kAny, kAnySize, 0, kAnyRanks, "hierarchical"},
    {kAlltoall, kAny, 256, 9, kAnyRanks, "bruck"},
    {kAlltoall, kAny, 2 * kKiB, 9, kAnyRanks, "hierarchical"},
    {kGather, kAny, 2 * kKiB, 0, kAnyRanks, "leaders"},
    {kScatter, kAny, 8 * kKiB, 0, kAnyRanks, "leaders"},
    {kBarrier, kAny, kAnySize, 0, kAnyRanks, "leaders"},
};
// clang-format on

// What the choice goes by beside the call.
struct Surroundings {
  int ranks;
  Medium medium;
  const Hierarchy* hierarchy;
  const MeasuredNetwork* measured;

  bool in_hosts() const { return hierarchy != nullptr && hierarchy->depth() > 0; }
};

std::vector<std::span<const Line>> tables_for(const Surroundings& place) {
  switch (place.medium) {
    case Medium::kMemory: return {kTable};
    case Medium::kSharedCores: return {kSharedTable, kTable};
    case Medium::kCrowdedCores: return {kCrowdedTable, kSharedTable, kTable};
    case Medium::kNetwork:
      if (place.in_hosts()) return {kHostsTable, kNetworkTable, kTable};
      return {kNetworkTable, kTable};
  }
  return {kTable};
}

// The collective under which a call stands in the table.
Collective heading_of(Collective collective) {
  switch (collective) {
    case kAllgatherv: return kAllgather;
    case kReduceScatterv: return kReduceScatter;
    case kFinalize:
    case kSplit: return kBarrier;
    case kAllreduce:
    case kReduce:
    case kBroadcast:
    case kAllgather:
    case kReduceScatter:
    case kAlltoall:
    case kAlltoallv:
    case kGather:
    case kScatter:
    case kBarrier:
    case kSend:
    case kRecv: return collective;
  }
  return collective;
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

bool contains(const std::vector<int>& list, int value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

// What a table says of algorithms that are not in `excluded`; -1 if it has none.
int from_table(std::span<const Line> table, const Problem& problem, int ranks,
               const std::vector<int>& excluded) {
  const Collective heading = heading_of(problem.collective);
  const bool narrow = problem.accumulator() != problem.type;
  uint64_t bytes = selection_bytes(problem);
  if (problem.collective == kAllgather) bytes = times(bytes, static_cast<uint64_t>(ranks));
  for (const Line& line : table) {
    if (line.collective != heading || (line.values == kNarrow && !narrow)) continue;
    if (bytes > line.size_most || ranks < line.ranks_least || ranks > line.ranks_most) continue;
    const int algorithm = find_algorithm(line.algorithm);
    if (fits(algorithm, problem.collective) && !contains(excluded, algorithm)) return algorithm;
  }
  return -1;
}

// -1 if all that fit are excluded.
int from_tables(const Problem& problem, const Surroundings& place,
                const std::vector<int>& excluded) {
  for (const std::span<const Line> table : tables_for(place)) {
    const int found = from_table(table, problem, place.ranks, excluded);
    if (found >= 0) return found;
  }
  for (int i = 0; i < static_cast<int>(algorithms().size()); ++i)
    if (fits(i, problem.collective) && !contains(excluded, i)) return i;
  return -1;
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

// This version has no other memory (device_memory.h), and a barrier has none.
bool is_for_memory(const Rule& rule, const Problem& problem) {
  const auto& memories = rule.memories;
  if (memories.empty()) return true;
  return heading_of(problem.collective) != kBarrier &&
         std::find(memories.begin(), memories.end(), MemoryKind::kHost) != memories.end();
}

bool is_within(int number, int least, int most) {
  return number >= least && number <= most;
}

bool matches(const Rule& rule, const Problem& problem, const Surroundings& place) {
  const auto& [ranks, medium, hierarchy, measured] = place;
  if (!is_within(ranks, rule.ranks_least, rule.ranks_most) ||
      !is_within(nodes_of(ranks, medium, hierarchy), rule.nodes_least, rule.nodes_most) ||
      !is_within(ppn_of(ranks, medium, hierarchy), rule.ppn_least, rule.ppn_most))
    return false;
  if (!is_for(rule, problem.collective) || !is_for_type(rule, problem) ||
      !is_for_memory(rule, problem))
    return false;
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
    if (const int best = choose_by_links(problem, *place.measured, place.in_hosts(), excluded);
        best >= 0)
      return {best, std::string(kByLinks), -1};
  return {from_tables(problem, place, excluded), "default table", -1};
}

std::string label_of(const Rule& rule) {
  switch (rule.source) {
    case RuleSource::kVariable: return fmt::format("BANYAN_ALGO rule {}", rule.number);
    case RuleSource::kTuningFile: return fmt::format("tuning file rule {}", rule.number);
  }
  return {};
}

struct TunedRest {
  Named named;
  size_t rule = 0;
};
// Of a rule of the variable that leaves algorithms out: what the tuning file says of the rest.
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

// What a rule says, or with it what goes on where it leaves algorithms out; algorithm -1: it has
// nothing for this collective.
Choice from_rule(const Rules& rules, size_t index, const Problem& problem,
                 const Surroundings& place) {
  const Rule& rule = rules[index];
  const auto number = static_cast<int>(index);
  if (!rule.excluding) {
    const Named named = first_that_fits(rule, problem, place, {});
    if (named.algorithm < 0) return {-1, "", -1};
    return {named.algorithm, label_of(rule), number, named.parameters};
  }
  if (const auto [named, tuned] = tuned_rest(rules, index, problem, place); named.algorithm >= 0)
    return {named.algorithm, fmt::format("{}, {}", label_of(rule), label_of(rules[tuned])), number,
            named.parameters};
  const Choice rest = by_default(problem, place, rule.algorithms);
  return {
      rest.algorithm,
      rest.because == kByLinks ? fmt::format("{}, {}", label_of(rule), kByLinks) : label_of(rule),
      number};
}

void measure(Candidate& candidate, const Problem& problem, const Surroundings& place) {
  const int ranks = place.ranks;
  if (ranks > kMostRanksBuilt) {
    candidate.why += fmt::format("{}schedules of more than {} ranks are not built",
                                 candidate.why.empty() ? "" : "; ", kMostRanksBuilt);
    return;
  }
  const Algorithm& algorithm = algorithms()[static_cast<size_t>(candidate.algorithm)];
  std::vector<Schedule> schedules;
  for (int rank = 0; rank < ranks; ++rank)
    schedules.push_back(build_schedule(
        problem, Group::everyone(ranks, rank, place.hierarchy, candidate.parameters), algorithm));
  if (schedules.empty()) return;
  candidate.bytes_sent = schedules.front().bytes_sent();
  candidate.steps = schedules.front().steps.size();
  const std::vector<Message> messages = match_messages(schedules, Group::everyone(ranks, 0).ranks);
  for (const auto& depths : depths_of(schedules, messages, {.dependency = 0, .message = 1}))
    for (const uint32_t depth : depths)
      candidate.rounds = std::max<uint64_t>(candidate.rounds, depth);
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
  if (hierarchy != nullptr && hierarchy->depth() > 0) return hierarchy->parts(0);
  return medium == Medium::kNetwork ? ranks : 1;
}

int ppn_of(int ranks, Medium medium, const Hierarchy* hierarchy) {
  if (hierarchy != nullptr && hierarchy->depth() > 0) return hierarchy->largest_part(0);
  return medium == Medium::kNetwork ? 1 : ranks;
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

std::vector<Candidate> candidates(const Problem& problem, int ranks, Medium medium,
                                  const Rules& rules, const Hierarchy* hierarchy,
                                  const MeasuredNetwork* measured) {
  const Choice choice = choose(problem, ranks, medium, rules, hierarchy, measured);
  const Rule* rule = choice.rule < 0 ? nullptr : &rules[static_cast<size_t>(choice.rule)];
  std::vector<Candidate> all;
  for (int i = 0; i < static_cast<int>(algorithms().size()); ++i) {
    Candidate candidate;
    candidate.algorithm = i;
    if (!fits(i, problem.collective)) {
      candidate.excluded = true;
      candidate.why = fmt::format("does no {}", name_of(problem.collective));
    } else if (rule != nullptr && rule->excluding && contains(rule->algorithms, i)) {
      candidate.excluded = true;
      candidate.why = fmt::format("excluded by {}", label_of(*rule));
    } else {
      if (i == choice.algorithm) {
        candidate.why = reason_of(choice);
        candidate.parameters = choice.parameters;
      }
      measure(candidate, problem, {ranks, medium, hierarchy, measured});
    }
    all.push_back(std::move(candidate));
  }
  std::stable_partition(all.begin(), all.end(), [&](const Candidate& candidate) {
    return candidate.algorithm == choice.algorithm;
  });
  return all;
}

}  // namespace banyan
