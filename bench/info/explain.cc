// What a call would take on a machine.
// SPDX-License-Identifier: Apache-2.0

#include "algorithms/choice/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <vector>

#include "algorithms/choice/compression.h"
#include "algorithms/choice/measured_choice.h"
#include "algorithms/choice/show_explanation.h"
#include "bench/info/described.h"
#include "bench/info/meeting.h"
#include "bench/info/show.h"
#include "src/base/parse.h"
#include "src/tuning/codec_speeds.h"
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
  Compression compression;
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
  if (const std::string* text = raw.find("BANYAN_COMPRESS"); text != nullptr && !text->empty()) {
    const auto parsed = parse_compression(*text);
    if (!parsed.ok()) return about("BANYAN_COMPRESS", parsed.status());
    known.compression = *parsed;
  }
  Rules of_file;
  if (const std::string* path = raw.find("BANYAN_TUNE_FILE")) {
    auto file = read_tuning_file(*path);
    if (!file.ok()) return about("BANYAN_TUNE_FILE", file.status());
    known.tuning = std::move(*file);
    auto parsed = parse_table(known.tuning.table(), known.tuning.measured());
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

}  // namespace

Result<Explained> explain_call(const Options& options, const RawEnvironment& raw, Notes* notes) {
  Options one = options;
  one.nodes = 1;
  auto topology = topology_of(one, raw, notes);
  BANYAN_TRY(topology.status());
  *topology = used_of(*topology, raw, notes);
  auto rules = rules_of(raw);
  BANYAN_TRY(rules.status());
  // Links were measured where the tuning file was: they say nothing of another machine.
  MeasuredLinks links = options.from.empty() ? rules->tuning.links : MeasuredLinks();
  complete(links);
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
  // A communicator would know it like this. Hosts of one rank each are no level of that, and yet a
  // network lies between them.
  const bool apart = machine->hosts.size() > 1;
  Explained explained{
      .request = *options.explain,
      .call = {.problem =
                   equal_blocks(options.explain->collective, options.explain->type,
                                options.explain->bytes / size_of(options.explain->type), ranks),
               .ranks = ranks,
               .medium = medium_for(*machine),
               .rules = std::move(rules->all),
               .hierarchy = apart ? machine->hierarchy : machine->hierarchy.simplified(),
               .measured = measured,
               .model = machine->model},
      .figures = std::move(machine->figures),
      .note = measured ? note_of(rules->tuning.tuned_on, *machine) : ""};
  // What was measured here says nothing of another machine.
  if (!options.from.empty())
    for (Rule& rule : explained.call.rules) rule.measured.reset();
  else if (decides(rules->tuning, *machine))
    explained.call.codec_times = rules->tuning.codec_times;
  explained.call.problem.compression = options.compression.value_or(rules->compression);
  if (!explained.call.problem.compression.is_exact()) {
    explained.call.codecs = links.codecs;
    for (const MeasuredCodec& codec :
         measure_codecs(explained_codecs(explained.call.problem.compression)))
      explained.call.codecs.push_back(codec);
  }
  explained.explanation = explain(explained.call);
  return explained;
}

std::string show_explanation(const Explained& explained) {
  std::string known;
  for (const ShownFigure& each : explained.figures) known += fmt::format("# {}\n", text_of(each));
  if (std::any_of(explained.figures.begin(), explained.figures.end(),
                  [](const ShownFigure& each) { return each.figure.doubtful; }))
    known +=
        "# doubtful: of PCI links that may have been idle, or of ports that do not say a rate\n";
  if (!explained.note.empty()) known += fmt::format("# {}\n", explained.note);
  return show_explanation(explained.call, explained.explanation, known);
}

}  // namespace banyan::info
