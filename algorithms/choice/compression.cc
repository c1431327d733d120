// SPDX-License-Identifier: Apache-2.0

#include "algorithms/choice/compression.h"

#include <fmt/format.h>

#include <limits>
#include <string>
#include <vector>

#include "algorithms/algorithms.h"
#include "algorithms/choice/codec_costs.h"
#include "algorithms/choice/measured_choice.h"
#include "compression/codecs.h"
#include "compression/grammar.h"
#include "src/base/parse.h"

namespace banyan {
namespace {

Status wrong_word(size_t position, std::string_view word, std::string_view why) {
  return {Code::kInvalidArgument,
          fmt::format("word {} '{}' is no compression: {}", position, printable(word), why)};
}

constexpr std::string_view kLevelForms = "valid: CODEC, or inter=CODEC and intra=CODEC, each once";

Result<CodecChoice> parse_name(std::string_view name, size_t position, std::string_view word) {
  if (name == "auto") return CodecChoice{.codec = kAutomatic};
  Result<CodecChoice> choice = parse_codec(name);
  if (choice.ok()) return choice;
  return wrong_word(position, word, fmt::format("{}, auto", choice.status().message()));
}

std::string text_of_name(const CodecChoice& choice) {
  return choice.codec == kAutomatic ? "auto" : text_of(choice);
}

// All blocks count, where a call has several.
uint64_t vector_bytes(const Problem& problem, int ranks) {
  const uint64_t bytes = selection_bytes(problem);
  const auto blocks = static_cast<uint64_t>(ranks);
  if (problem.collective != Collective::kReduceScatter || bytes > UINT64_MAX / blocks) return bytes;
  return bytes * blocks;
}

}  // namespace

Result<Compression> parse_compression(std::string_view text) {
  Compression read;
  bool intra = false, inter = false;
  const std::vector<std::string_view> words = split(text, ',');
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string_view word = trim(words[i]);
    const size_t equals = word.find('=');
    const bool alone = equals == std::string_view::npos;
    const std::string_view level = alone ? "" : trim(word.substr(0, equals));
    bool& said = level == "intra" ? intra : inter;
    if (alone ? words.size() != 1 : (level != "intra" && level != "inter") || said)
      return wrong_word(i + 1, word, kLevelForms);
    said = true;
    const Result<CodecChoice> codec =
        parse_name(alone ? word : trim(word.substr(equals + 1)), i + 1, word);
    BANYAN_TRY(codec.status());
    if (alone) return Compression{.inter = *codec, .alone = *codec};
    (level == "intra" ? read.intra : read.inter) = *codec;
  }
  read.alone = read.intra;
  return read;
}

Compression within_bound(const Compression& codecs, bool relative, double bound) {
  CodecChoice choice{.codec = relative ? kRelativeBound : kAbsoluteBound, .parameter = bound};
  if (codecs.inter.is_exact()) choice = {};
  if (codecs.inter.codec != kAutomatic && !choice.is_exact()) choice.within = codecs.inter.codec;
  return {.inter = choice, .alone = choice};
}

Parameters codecs_for(const Problem& problem, int ranks, Medium medium,
                      const Hierarchy* hierarchy) {
  Parameters codecs;
  const Compression& compression = problem.compression;
  const bool sums = problem.collective == Collective::kAllreduce ||
                    problem.collective == Collective::kReduceScatter ||
                    problem.collective == Collective::kReduceScatterv;
  if (compression.is_exact() || !sums || !may_encode(problem) || ranks == 1 ||
      vector_bytes(problem, ranks) < compression.least_bytes)
    return codecs;
  // A bound is kept from end to end, not level by level.
  if (sums_in_rank_order(problem) || is_bound(compression.inter)) {
    if (compression.inter == compression.alone) codecs.inter_codec = compression.inter;
    return codecs;
  }
  const bool several_hosts = nodes_of(ranks, medium, hierarchy) > 1;
  codecs.inter_codec = several_hosts ? compression.inter : compression.alone;
  if (several_hosts) codecs.intra_codec = compression.intra;
  return codecs;
}

bool keeps_within(const Compression& asked, const Compression& ceiling) {
  const auto keeps = [](const CodecChoice& one, const CodecChoice& most) {
    if (is_bound(one) && one.codec == most.codec) return one.parameter <= most.parameter;
    return one.is_exact() || one == most || most.codec == kAutomatic;
  };
  const auto is_automatic = [](const CodecChoice& choice) { return choice.codec == kAutomatic; };
  if (is_automatic(ceiling.inter) && is_automatic(ceiling.alone)) return true;
  return keeps(asked.intra, ceiling.intra) && keeps(asked.inter, ceiling.inter) &&
         keeps(asked.alone, ceiling.alone);
}

std::string text_of(const Compression& compression) {
  const bool bare = compression.intra.is_exact() && compression.alone == compression.inter;
  return bare ? text_of_name(compression.inter)
              : fmt::format("inter={},intra={}", text_of_name(compression.inter),
                            text_of_name(compression.intra));
}

Choice encoded(Choice choice, const Parameters& codecs, Collective collective,
               const Hierarchy* hierarchy) {
  if (!codecs.encodes()) return choice;
  const bool levels = hierarchy != nullptr && hierarchy->depth() > 0;
  const auto serves = [&](int algorithm) {
    const Algorithm& which = algorithms()[static_cast<size_t>(algorithm)];
    return which.encodes(collective) &&
           (which.by_levels == levels || codecs.intra_codec.is_exact());
  };
  if (is_bound(codecs.inter_codec))
    choice = {find_algorithm("direct"), "compression", -1};
  else if (choice.algorithm < 0 || !serves(choice.algorithm))
    choice = {find_algorithm(levels ? "hierarchical" : "direct"), "compression", -1};
  choice.parameters.intra_codec = levels ? codecs.intra_codec : CodecChoice();
  choice.parameters.inter_codec = codecs.inter_codec;
  return choice;
}

namespace {

// Another codec must promise to take less than that part of what one takes that loses less.
constexpr double kWorthLosing = 0.98;

// What a level may get, beginning with what loses least. Values of 16 bits would gain nothing by
// bf16.
std::vector<CodecChoice> candidates_for(const CodecChoice& asked, const Problem& problem) {
  if (asked.codec != kAutomatic) return {asked};
  std::vector<CodecChoice> candidates{CodecChoice()};
  for (const CodecChoice& choice : automatic_codecs())
    if (choice.codec != kBf16 || problem.element() > 2) candidates.push_back(choice);
  return candidates;
}

std::string label_of(const Parameters& codecs) {
  if (!codecs.encodes()) return "exact";
  Compression compression{.intra = codecs.intra_codec, .inter = codecs.inter_codec};
  if (compression.intra.is_exact()) compression.alone = compression.inter;
  return text_of(compression);
}

// A call by some codecs, and what it takes.
struct Predicted {
  Choice choice;
  Parameters codecs;
  double us = std::numeric_limits<double>::infinity();
  bool is_measured = false;

  std::string text() const {
    return fmt::format("{} {} {:.2f} us", label_of(codecs), is_measured ? "measured" : "predicted",
                       us);
  }
};

// What is asked of the levels of a call, and the call by other codecs.
struct CallLevels {
  const Problem& problem;
  const Hierarchy* hierarchy;
  const Choice& exact;
  Parameters codecs;  // some automatic

  Predicted by(const CodecChoice& inside, const CodecChoice& between) const {
    Predicted one;
    one.codecs.intra_codec = inside;
    one.codecs.inter_codec = between;
    one.choice = encoded(exact, one.codecs, problem.collective, hierarchy);
    return one;
  }
};

// The fastest of the first, which loses least, and others in that order, and the next best.
struct BestCodec {
  Predicted best;
  Predicted other;

  void look_at(const Predicted& one) {
    if (one.us < kWorthLosing * best.us) best = one;
    if (one.us < other.us) other = one;
  }
  Choice choice(const Predicted& least_lossy) const {
    const bool loses_more = !(best.codecs == least_lossy.codecs);
    Choice chosen = best.choice;
    chosen.because +=
        fmt::format("; auto: {}, {}", best.text(), (loses_more ? least_lossy : other).text());
    return chosen;
  }
};

// What was measured is an allreduce of float32 that goes by codecs between hosts alone.
std::optional<Choice> by_times(const CallLevels& levels, std::span<const CodecTime> times) {
  const Problem& problem = levels.problem;
  const CodecChoice exact;
  if (problem.collective != Collective::kAllreduce || problem.type != DataType::kFloat32 ||
      levels.codecs.inter_codec.codec != kAutomatic || !levels.codecs.intra_codec.is_exact())
    return std::nullopt;
  const auto timed = [&](const CodecChoice& choice) {
    Predicted one = levels.by(exact, choice);
    one.us = time_of(selection_bytes(problem), choice, times).value_or(one.us);
    one.is_measured = true;
    return one;
  };
  const Predicted least_lossy = timed(exact);
  if (std::isinf(least_lossy.us)) return std::nullopt;
  BestCodec found{least_lossy, {}};
  for (const CodecChoice& choice : automatic_codecs()) found.look_at(timed(choice));
  if (std::isinf(found.other.us)) return std::nullopt;
  return found.choice(least_lossy);
}

}  // namespace

// Whether buffers are the same is each rank's own affair.
Choice with_codecs(const Problem& problem, int ranks, Medium medium, const Hierarchy* hierarchy,
                   const MeasuredNetwork* measured, Choice exact,
                   std::span<const CodecTime> times) {
  const Collective collective = problem.collective;
  const Parameters codecs = codecs_for(problem, ranks, medium, hierarchy);
  const bool automatic =
      codecs.intra_codec.codec == kAutomatic || codecs.inter_codec.codec == kAutomatic;
  if (!automatic) return encoded(std::move(exact), codecs, collective, hierarchy);
  const CallLevels levels{problem, hierarchy, exact, codecs};
  if (!sums_in_rank_order(problem))
    if (std::optional<Choice> timed = by_times(levels, times)) return *std::move(timed);
  const std::vector<CodecChoice> intra = candidates_for(codecs.intra_codec, problem),
                                 inter = candidates_for(codecs.inter_codec, problem);
  Predicted best = levels.by(intra.front(), inter.front());
  if (sums_in_rank_order(problem) || measured == nullptr || !links_decide(problem)) {
    best.choice.because += sums_in_rank_order(problem)
                               ? "; auto: exact, as links do not decide invariant sums"
                               : "; auto: exact, as no measured links decide that";
    return best.choice;
  }
  Problem apart = problem;
  apart.in_place = false;
  CostModel model = measured->model;
  for (const CodecChoice& choice : {codecs.intra_codec, codecs.inter_codec})
    if (choice.codec != kAutomatic && !choice.is_exact() && find_codec(model, choice) == nullptr)
      model.codecs.push_back(cost_of(choice, measured->levels.parts(0), {}));
  const auto predicted = [&](Predicted one) {
    one.us = predict(apart, one.choice.algorithm, measured->levels.places(), model,
                     &measured->levels, one.choice.parameters);
    return one;
  };
  best = predicted(best);
  if (!best.codecs.encodes() && exact.most_us && *exact.most_us < best.us) {
    best.us = *exact.most_us;
    best.is_measured = true;
  }
  BestCodec found{best, {}};
  for (const CodecChoice& between : inter)
    for (const CodecChoice& inside : intra) {
      const Predicted one = predicted(levels.by(inside, between));
      if (one.codecs != best.codecs) found.look_at(one);
    }
  return found.choice(best);
}

}  // namespace banyan
