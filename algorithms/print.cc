// Text and Graphviz. The drawing is in svg.cc.
// SPDX-License-Identifier: Apache-2.0

#include "algorithms/print.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <iterator>
#include <vector>

#include "algorithms/builder.h"
#include "algorithms/messages.h"
#include "algorithms/step_text.h"

namespace banyan {

std::string to_text(const Schedule& schedule, int rank) {
  if (schedule.steps.empty()) return fmt::format("rank {}  no steps\n", rank);
  std::string text;
  const StepLists predecessors = predecessors_of(schedule);
  for (uint32_t step = 0; step < schedule.steps.size(); ++step) {
    const StepText words = text_of(schedule.steps[step]);
    fmt::format_to(std::back_inserter(text), "rank {}  s{}: {}{}{}", rank, step, words.what,
                   words.where.starts_with("->") ? " " : ", ", words.where);
    std::string_view separator = "  after ";
    for (const uint32_t before : predecessors[step]) {
      fmt::format_to(std::back_inserter(text), "{}s{}", separator, before);
      separator = ", ";
    }
    text += '\n';
  }
  return text;
}

std::string to_dot(std::span<const Schedule> schedules, std::span<const int> ranks) {
  assert(schedules.size() == ranks.size());
  std::string text =
      "digraph schedule {\n"
      "  node [shape=box, fontname=\"monospace\", fontsize=10];\n";
  const auto out = std::back_inserter(text);
  for (size_t i = 0; i < schedules.size(); ++i) {
    const Schedule& schedule = schedules[i];
    fmt::format_to(out, "  subgraph cluster_rank_{0} {{\n    label=\"rank {0}\";\n", ranks[i]);
    // A cluster without nodes would not be drawn.
    if (schedule.steps.empty())
      fmt::format_to(out, "    r{}_none [label=\"no steps\", shape=plaintext];\n", ranks[i]);
    for (uint32_t step = 0; step < schedule.steps.size(); ++step) {
      const StepText words = text_of(schedule.steps[step]);
      fmt::format_to(out, "    r{}_s{} [label=\"s{}: {}\\n{}\"];\n", ranks[i], step, step,
                     words.what, words.where);
    }
    for (uint32_t step = 0; step < schedule.steps.size(); ++step)
      for (const uint32_t next : schedule.successors_of(step))
        fmt::format_to(out, "    r{0}_s{1} -> r{0}_s{2};\n", ranks[i], step, next);
    text += "  }\n";
  }
  for (const auto& [from, to] : match_messages(schedules, ranks))
    fmt::format_to(out, "  r{}_s{} -> r{}_s{} [style=dashed];\n", ranks[from.schedule], from.step,
                   ranks[to.schedule], to.step);
  text += "}\n";
  return text;
}

}  // namespace banyan
