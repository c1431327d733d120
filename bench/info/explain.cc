// What a call would take on a machine.
// SPDX-License-Identifier: Apache-2.0

#include "algorithms/choice/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <vector>

#include "algorithms/choice/measured_choice.h"
#include "bench/info/described.h"
#include "bench/info/meeting.h"
#include "bench/info/show.h"
#include "src/base/parse.h"
#include "src/tuning/tuning_file.h"

namespace banyan::info {
namespace {

// As a communicator of these ranks would find it.
Medium medium_for(const DescribedMachine& machine) {
  if (machine.hosts.size() > 1) return Medium::kNetwork;
  const int each = (machine.hosts.front() + machine.cores - 1) / machine.cores;
  if (each >= 3) return Medium::kCrowdedCores;
  return each == 2 ? Medium::kSharedCores : Medium::kMemory;
}

struct KnownRules {
  Rules all;
  TuningFile tuning;
};

// Joins the rules of the variable, then those of the tuning file.
Result<KnownRules> rules_of(const RawEnvironment& raw) {
  KnownRules known;
  const auto about = [](std::string_view variable, const Status& status) {
    return Status(status.code(), fmt::format("{}: {}", variable, status.message()));
  };
  Rules of_variable;
  if (const std::string* text = raw.find("BANYAN_ALGO")) {
    auto parsed = parse_algorithm_variable(*text);
    if (!parsed.ok()) return about("BANYAN_ALGO", parsed.status());
    of_variable = std::move(parsed->rules);
  }
  Rules of_file;
  if (const std::string* path = raw.find("BANYAN_TUNE_FILE")) {
    auto file = read_tuning_file(*path);
    if (!file.ok()) return about("BANYAN_TUNE_FILE", file.status());
    known.tuning = std::move(*file);
    auto parsed = parse_table(known.tuning.table());
    if (!parsed.ok()) return about("BANYAN_TUNE_FILE", parsed.status());
    of_file = std::move(*parsed);
  }
  known.all = join_rules(std::move(of_variable), std::move(of_file));
  return known;
}

// Whether calls on such hosts would be chosen for by the file's links.
bool decides(const TuningFile& tuning, const DescribedMachine& machine) {
  const int ranks = std::accumulate(machine.hosts.begin(), machine.hosts.end(), 0);
  return tuning.tuned_on.hosts == static_cast<int>(machine.hosts.size()) &&
         tuning.tuned_on.ranks == ranks;
}

// Links that hosts with other numbers of ranks were measured with.
std::string note_of(const Fingerprint& tuned_on, const DescribedMachine& machine) {
  const int most = *std::max_element(machine.hosts.begin(), machine.hosts.end());
  if (tuned_on.ppn == 0 || tuned_on.ppn == most) return {};
  return fmt::format("tuned with at most {} ranks of a host, here are {}", tuned_on.ppn, most);
}

// What messages take now between so many ranks of this host, or else took when it was tuned.
MessageTimes messages_of(const TuningFile& tuning, int ranks) {
  MessageTimes times = meet(ranks);
  const std::optional<MeasuredLink>& within = tuning.links.within;
  if (!times.messages.empty() || !within || !(within->GBps > 0)) return times;
  constexpr uint64_t kLong = 1 << 20;
  const double us = static_cast<double>(kLong) * 1e-3 / within->GBps;
  times.afar_least = kLong;
  times.word_us = std::max(within->busy_latency_us - 2 * within->message_us, 0.0);
  times.messages.push_back({kLong, us, us, us, 0});
  return times;
}

std::string source_of(const MessageTimes& messages) {
  return messages.messages.empty()
             ? "in memory: by a table, unchecked on this machine"
             : "in memory: messages as they were measured here, the rest by a table, unchecked";
}

// What the rule's algorithm and the runner-up took, where that was a call of this size.
void add_measured(const TuningRule& rule, int algorithm, Explained& explained) {
  if (!rule.measured || rule.measured->bytes != explained.request.bytes) return;
  const Measured& measured = *rule.measured;
  for (ExplainedAlgorithm& each : explained.explanation.algorithms) {
    if (each.algorithm == algorithm) each.measured_us = measured.us;
    if (algorithms()[static_cast<size_t>(each.algorithm)].name == measured.runner_up)
      each.measured_us = measured.runner_up_us;
  }
}

}  // namespace

Result<Explained> explain_call(const Options& options, const RawEnvironment& raw, Notes* notes) {
  Options one = options;
  one.nodes = 1;
  auto topology = topology_of(one, raw, notes);
  BANYAN_TRY(topology.status());
  *topology = used_of(*topology, raw, notes);
  const auto rules = rules_of(raw);
  BANYAN_TRY(rules.status());
  // Links were measured where the tuning file was: they say nothing of another machine.
  const MeasuredLinks links = options.from.empty() ? rules->tuning.links : MeasuredLinks();
  auto machine = describe_machine(*topology, options.nodes, options.ranks_per_node, links);
  BANYAN_TRY(machine.status());
  const bool here = options.from.empty() && raw.find("BANYAN_TOPO_FILE") == nullptr &&
                    raw.find("BANYAN_SYSROOT") == nullptr && machine->hosts.size() == 1;
  MessageTimes messages;
  if (here) messages = messages_of(rules->tuning, machine->hosts.front());
  if (!messages.messages.empty()) {
    machine =
        describe_machine(*topology, options.nodes, options.ranks_per_node, links, 0, messages);
    BANYAN_TRY(machine.status());
  }
  const int cores = rules->tuning.tuned_on.cores;
  const auto measured = decides(rules->tuning, *machine)
                            ? measured_network(links, cores, machine->hierarchy)
                            : std::nullopt;
  // Calls choose by the cores that ranks had.
  if (measured) {
    machine = describe_machine(*topology, options.nodes, options.ranks_per_node, links,
                               std::max(cores, 1));
    BANYAN_TRY(machine.status());
  }
  const int ranks = std::accumulate(machine->hosts.begin(), machine->hosts.end(), 0);
  const Problem problem =
      equal_blocks(options.explain->collective, options.explain->type,
                   options.explain->bytes / size_of(options.explain->type), ranks);
  const Medium medium = medium_for(*machine);
  // A communicator would know it like this. Hosts of one rank each are no level of that, and yet a
  // network lies between them.
  const Hierarchy simple = machine->hierarchy.simplified();
  const bool apart = machine->hosts.size() > 1;
  const Hierarchy& lie = apart ? machine->hierarchy : simple;
  const MeasuredNetwork* network = measured ? &*measured : nullptr;
  Explained explained{
      .request = *options.explain,
      .ranks = ranks,
      .hosts = apart ? lie.text() : "",
      .figures = std::move(machine->figures),
      .note = network == nullptr ? "" : note_of(rules->tuning.tuned_on, *machine),
      .memory_by = machine->model.within.lane_byte.known() ? "" : source_of(messages),
      .explanation = explain(problem, ranks, machine->model, medium, rules->all, &lie, network)};
  const Choice choice =
      choose(problem, ranks, medium, rules->all, simple.depth() > 0 ? &simple : nullptr, network);
  if (choice.naming < 0) return explained;
  const Rule& rule = rules->all[static_cast<size_t>(choice.naming)];
  if (rule.source == RuleSource::kTuningFile && options.from.empty())
    add_measured(rules->tuning.rules[static_cast<size_t>(rule.number) - 1], choice.algorithm,
                 explained);
  return explained;
}

std::string text_of(const Bound& bound) {
  std::string text = fmt::format("{}, {}", bound.by, name_of(bound.source));
  if (!bound.cuts) text += "; of no part is it known what all its links carry";
  return text;
}

std::string show_explanation(const Explained& explained) {
  const Explanation& explanation = explained.explanation;
  const auto name = [](int algorithm) { return algorithms()[static_cast<size_t>(algorithm)].name; };
  std::string text =
      fmt::format("# {} of {} {} on {} ranks{}\n", name_of(explained.request.collective),
                  format_size(explained.request.bytes), name_of(explained.request.type),
                  explained.ranks, explained.hosts.empty() ? "" : " (" + explained.hosts + ")");
  for (const ShownFigure& each : explained.figures) text += fmt::format("# {}\n", text_of(each));
  if (std::any_of(explained.figures.begin(), explained.figures.end(),
                  [](const ShownFigure& each) { return each.figure.doubtful; }))
    text +=
        "# doubtful: of PCI links that may have been idle, or of ports that do not say a rate\n";
  if (!explained.memory_by.empty()) text += fmt::format("# {}\n", explained.memory_by);
  if (!explained.note.empty()) text += fmt::format("# {}\n", explained.note);
  text +=
      fmt::format("{:<20} {:>14} {:>14}  {}\n", "algorithm", "predicted us", "measured us", "why");
  for (const ExplainedAlgorithm& each : explanation.algorithms) {
    const std::string measured =
        each.measured_us ? fmt::format("{:.2f}", *each.measured_us) : std::string("-");
    const std::string predicted =
        each.predicted_us > 0 ? fmt::format("{:.2f}", each.predicted_us) : std::string("-");
    text += fmt::format("{:<20} {:>14} {:>14}  {}{}\n", name(each.algorithm), predicted, measured,
                        each.excluded ? "left out: " : "", each.why);
  }
  text += fmt::format("a call gets {}: {:.1f} % of the bound of {:.2f} us ({})\n",
                      name(explanation.chosen), explanation.percent_of_bound, explanation.bound.us,
                      text_of(explanation.bound));
  if (explanation.fastest_us < explanation.algorithms.front().predicted_us)
    text += fmt::format("the model's fastest: {}, {:.2f} us\n",
                        text_of(explanation.fastest, explanation.fastest_parameters),
                        explanation.fastest_us);
  return text;
}

}  // namespace banyan::info
