// SPDX-License-Identifier: Apache-2.0

#include "algorithms/choice/show_explanation.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "algorithms/choice/default_table.h"
#include "src/base/parse.h"

namespace banyan {
namespace {

std::string title_of(const CallSite& call) {
  const Problem& problem = call.problem;
  const uint64_t bytes = selection_bytes(problem);
  std::string title = fmt::format("# {}", name_of(problem.collective));
  if (heading_of(problem.collective) != Collective::kBarrier)
    title += fmt::format(" of {} bytes ({} {})", format_size(bytes), bytes / problem.element(),
                         name_of(problem.type));
  title += fmt::format(" on {} rank{}", call.ranks, call.ranks == 1 ? "" : "s");
  if (call.hierarchy.depth() > 0) title += fmt::format(" ({})", call.hierarchy.text());
  if (!call.transports.empty()) title += fmt::format(" over {}", call.transports);
  return title;
}

std::string time_of(double us) {
  return us > 0 ? fmt::format("{:.2f}", us) : "-";
}

// Without a measured time no line has room for one.
std::string table_of(const Explanation& explanation) {
  const bool measured =
      std::any_of(explanation.algorithms.begin(), explanation.algorithms.end(),
                  [](const ExplainedAlgorithm& each) { return each.measured_us.has_value(); });
  const auto line = [&](std::string_view name, const std::array<std::string, 5>& columns,
                        std::string_view why) {
    std::string text = fmt::format("{:<18} {:>6} {:>5} {:>10} {:>12}", name, columns[0], columns[1],
                                   columns[2], columns[3]);
    if (measured) text += fmt::format(" {:>11}", columns[4]);
    if (!why.empty()) text += fmt::format("  {}", why);
    return text + '\n';
  };
  std::string text =
      line("algorithm", {"rounds", "steps", "bytes sent", "predicted us", "measured us"}, "why");
  for (const ExplainedAlgorithm& each : explanation.algorithms) {
    const auto count = [&](uint64_t ScheduleSize::*member) {
      return each.size ? fmt::format("{}", (*each.size).*member) : std::string("-");
    };
    text += line(algorithms()[static_cast<size_t>(each.algorithm)].name,
                 {count(&ScheduleSize::rounds), count(&ScheduleSize::steps),
                  count(&ScheduleSize::bytes_sent), time_of(each.predicted_us),
                  time_of(each.measured_us.value_or(0))},
                 each.excluded ? "left out: " + each.why : each.why);
  }
  return text;
}

// Empty where the call accepts none.
std::string codecs_of(const CallSite& call, const Explanation& explanation) {
  const Compression& compression = call.problem.compression;
  if (compression.is_exact()) return {};
  if (explanation.codecs.empty())
    return fmt::format("# exact: codecs are for sums of float32, float16 and bfloat16 from {} on\n",
                       format_size(compression.least_bytes));
  size_t width = 32;
  for (const ExplainedCodec& each : explanation.codecs) width = std::max(width, each.law.size());
  const auto line = [width](std::string_view codec, std::string_view bytes, std::string_view us,
                            std::string_view law, std::string_view why) {
    std::string text = fmt::format("{:<18} {:>10} {:>12}  {:<{}}", codec, bytes, us, law, width);
    if (!why.empty()) text += fmt::format("  {}", why);
    return text.erase(text.find_last_not_of(' ') + 1) + '\n';
  };
  std::string text = line("codec", "bytes sent", "predicted us", "error", "why");
  for (const ExplainedCodec& each : explanation.codecs)
    text += line(each.name, each.bytes_sent ? fmt::format("{}", *each.bytes_sent) : "-",
                 time_of(each.predicted_us), each.law, each.why);
  const bool inside = std::any_of(
      explanation.codecs.begin(), explanation.codecs.end(),
      [](const ExplainedCodec& each) { return each.law.find("c'") != std::string::npos; });
  text += fmt::format(
      "# c: what one encoding of normal data loses of its power{}; ranks do not add to that\n",
      inside ? ", c': the same inside hosts" : "");
  if (!call.codecs.empty()) text += "# how fast codecs are was measured on a core of this host\n";
  return text;
}

}  // namespace

std::string text_of(const Bound& bound) {
  std::string text = fmt::format("{}, {}", bound.by, name_of(bound.source));
  if (!bound.cuts) text += "; of no part is it known what all its links carry";
  return text;
}

std::string show_explanation(const CallSite& call, const Explanation& explanation,
                             const std::string& known) {
  std::string text = title_of(call);
  if (explanation.algorithms.empty())
    return text + (is_message(call.problem.collective)
                       ? ": a message, which needs no algorithm\n"
                       : ": a copy, since one rank needs no algorithm\n");
  text += '\n' + known;
  for (const std::string& source : {explanation.memory_by, explanation.network_by})
    if (!source.empty()) text += fmt::format("# {}\n", source);
  text += call.ranks > kMostRanksBuilt
              ? fmt::format(
                    "# schedules of more than {} ranks are not built, so rounds, steps and "
                    "bytes are not known\n",
                    kMostRanksBuilt)
              : "# steps and bytes are those of rank 0\n";
  text += table_of(explanation) + codecs_of(call, explanation);
  const ExplainedAlgorithm& chosen = explanation.algorithms.front();
  text += fmt::format("a call gets {}", text_of(chosen.algorithm, chosen.parameters));
  if (explanation.percent_of_bound > 0)
    text += fmt::format(": {:.1f} % of the bound of {:.2f} us ({})", explanation.percent_of_bound,
                        explanation.bound.us, text_of(explanation.bound));
  text += '\n';
  if (explanation.fastest_us < chosen.predicted_us)
    text += fmt::format("the model's fastest: {}, {:.2f} us\n",
                        text_of(explanation.fastest, explanation.fastest_parameters),
                        explanation.fastest_us);
  return text;
}

}  // namespace banyan
