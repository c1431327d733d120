// SPDX-License-Identifier: Apache-2.0

#include "bench/tune/result.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>
#include <numeric>

#include "bench/tune/candidates.h"
#include "compression/grammar.h"
#include "src/base/parse.h"

namespace banyan::tune {

namespace {

// Between the two, of few digits.
uint64_t half_way(uint64_t low, uint64_t high) {
  const auto middle =
      static_cast<uint64_t>(std::sqrt(static_cast<double>(low) * static_cast<double>(high)));
  const uint64_t step = std::max<uint64_t>(std::bit_floor(middle) / 32, 1);
  return middle / step * step;
}

// Neighbours with the same answer: positions in the list of findings.
struct Run {
  size_t first;
  size_t last;
};

std::string size_condition(const Subject& subject, const std::vector<Finding>& all,
                           const Run& run) {
  const bool first = run.first == 0;
  const bool last = run.last + 1 == all.size();
  const bool open = last && subject.complete();
  if (first && open) return "";
  const uint64_t least = first ? 0 : half_way(all[run.first - 1].bytes, all[run.first].bytes);
  if (open) return fmt::format(" size={}-", format_size(least));
  const uint64_t most =
      last ? all[run.last].bytes : half_way(all[run.last].bytes, all[run.last + 1].bytes);
  return fmt::format(" size={}-{}", format_size(least), format_size(most));
}

constexpr double kUneven = 0.15;

std::string line_of(const std::string& where, const std::optional<MeasuredLink>& link) {
  if (!link) return "";
  return fmt::format(
      "# {}: {:.2f} us, {:.3f} GB/s each way; {} at once {:.2f} us, {:.3f} GB/s each{}\n", where,
      link->latency_us, link->GBps,
      link->pairs == 1 ? "1 pair" : fmt::format("{} pairs", link->pairs), link->busy_latency_us,
      link->busy_GBps,
      link->spread > kUneven
          ? fmt::format("; uneven: single pairs differ by {:.0f} %", 100 * link->spread)
          : "");
}

// Gives edges as if those that differ by less than links of one kind may do were equal: the fastest
// of each kind stands for all of it.
EdgeCosts in_kinds(const EdgeCosts& edges) {
  std::vector<double> costs;
  for (const double cost : edges.rows)
    if (std::isfinite(cost)) costs.push_back(cost);
  std::sort(costs.begin(), costs.end());
  std::vector<double> kinds;
  for (const double cost : costs)
    if (kinds.empty() || cost > kinds.back() * (1 + kUneven)) kinds.push_back(cost);
  EdgeCosts known = edges;
  for (double& cost : known.rows)
    if (std::isfinite(cost)) cost = *std::prev(std::upper_bound(kinds.begin(), kinds.end(), cost));
  return known;
}

}  // namespace

std::vector<int> ring_that_gains(const EdgeCosts& edges) {
  constexpr double kGain = 0.1;
  if (edges.hosts < 3) return {};
  const EdgeCosts known = in_kinds(edges);
  std::vector<int> order = ring_order(known);
  std::vector<int> numbers(order.size());
  std::iota(numbers.begin(), numbers.end(), 0);
  const RingCost found = cost_of(known, order), usual = cost_of(known, numbers);
  const bool gains = found.slowest < (1 - kGain) * usual.slowest ||
                     (found.slowest <= usual.slowest && found.sum < (1 - kGain) * usual.sum);
  return gains ? order : std::vector<int>();
}

std::string report_of(const MeasuredLinks& links) {
  std::string text =
      line_of("within a host", links.within) + line_of("between hosts", links.between);
  for (const MeasuredTier& tier : links.beyond)
    text += line_of("beyond a " + printable(tier.name), tier.link);
  if (links.sums)
    text += fmt::format("# sums of a core: {:.1f} GB/s in its cache, {:.1f} GB/s beyond\n",
                        links.sums->GBps, links.sums->far_GBps);
  for (const MeasuredCodec& codec : links.codecs)
    text += fmt::format("# {} of a core: {:.1f} GB/s to messages, {:.1f} GB/s back\n",
                        text_of(codec.choice), codec.encode_GBps, codec.decode_GBps);
  return text;
}

std::string doubts_of(const Measurement& measurement, const std::vector<double>& nics) {
  constexpr double kMore = 1.2, kLess = 0.25;
  std::string text;
  for (const Misfit& misfit : measurement.misfits)
    if (misfit.share > kUneven)
      text += fmt::format(
          "# doubtful: {} long messages are {:.0f} % off a line, so no one rate is right\n",
          misfit.where, 100 * misfit.share);
  const std::optional<MeasuredLink>& between = measurement.links.between;
  if (!between || nics.empty()) return text;
  const double together = std::accumulate(nics.begin(), nics.end(), 0.0);
  const double slowest = *std::min_element(nics.begin(), nics.end());
  const double host = std::max(between->GBps, between->busy_GBps * between->pairs);
  if (host > kMore * together)
    text += fmt::format(
        "# doubtful: a host carries {:.3g} GB/s to others, its NICs {:.3g} by their own account\n",
        host, together);
  if (host < kLess * slowest)
    text += fmt::format(
        "# doubtful: a host carries only {:.3g} GB/s to others, a NIC {:.3g} by its own account\n",
        host, slowest);
  return text;
}

std::vector<TuningRule> rules_of(const Subject& subject, const Spread& spread, bool all_of_them) {
  const auto& [ranks, nodes, ppn] = spread;
  std::vector<Finding> all;
  for (const auto& [bytes, finding] : subject.findings) all.push_back(finding);
  const auto counts = [&](const Finding& finding) { return all_of_them || finding.changed(); };
  std::vector<TuningRule> rules;
  for (Run run{0, 0}; run.first < all.size(); run.first = run.last + 1) {
    run.last = run.first;
    const Finding& first = all[run.first];
    if (!counts(first)) continue;
    while (run.last + 1 < all.size() && counts(all[run.last + 1]) &&
           all[run.last + 1].best == first.best)
      ++run.last;
    const Finding& shown = all[(run.first + run.last) / 2];
    Measured measured{.bytes = shown.bytes, .us = shown.best_us, .runs = shown.runs};
    if (shown.runner_up >= 0) {
      measured.runner_up = candidate_algorithm(shown.runner_up);
      measured.runner_up_us = shown.runner_up_us;
    }
    rules.push_back(
        {fmt::format("{}{} ranks={}-{} nodes={}-{} ppn={}-{}{}: {}", perf::name_of(subject.pattern),
                     size_condition(subject, all, run), ranks, ranks, nodes, nodes, ppn, ppn,
                     perf::is_reducing_pattern(subject.pattern) ? " dtype=float32" : "",
                     candidate_text(first.best)),
         std::move(measured)});
  }
  return rules;
}

std::string report_of(const std::vector<Subject>& subjects) {
  std::string text = fmt::format("{:<16}{:>10}  {:<20}{:>12}  {:<20}{:>12}{:>8}\n", "# collective",
                                 "bytes", "default", "us", "faster", "us", "gain");
  size_t changed = 0;
  size_t measured = 0;
  for (const Subject& subject : subjects) {
    measured += subject.findings.size();
    for (const auto& [bytes, finding] : subject.findings) {
      if (!finding.changed()) continue;
      ++changed;
      text += fmt::format("{:<16}{:>10}  {:<20}{:>12.2f}  {:<20}{:>12.2f}{:>6.0f} %\n",
                          perf::name_of(subject.pattern), bytes, candidate_text(finding.by_default),
                          finding.default_us, candidate_text(finding.best), finding.best_us,
                          100 * (1 - finding.best_us / finding.default_us));
    }
  }
  return text + fmt::format("# {} of {} measured choices changed\n", changed, measured);
}

}  // namespace banyan::tune
