// SPDX-License-Identifier: Apache-2.0

#include "algorithms/choice/measured_choice.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <limits>
#include <string_view>
#include <utility>

#include "algorithms/algorithms.h"
#include "algorithms/choice/codec_costs.h"
#include "algorithms/choice/machine_cost.h"
#include "algorithms/choice/select.h"

namespace banyan {
namespace {

using enum Collective;

// These were measured against the tables, and links lose less from so many bytes on, as rules count
// them (docs/choice.md). Short vectors are left to the tables: what they take is the turns of ranks
// and the way of a message through a host's kernel, of which two figures know little.
constexpr Collective kDecided[] = {kAllreduce,  kBroadcast,     kAllgather,
                                   kAllgatherv, kReduceScatter, kReduceScatterv};
constexpr uint64_t kBytesLeast = (8 << 10) + 1;
// Segments of other lengths must promise to take less than that part of what hierarchical takes
// with its own, which was measured.
constexpr double kWorthCutting = 0.95;

bool has_level(const Hierarchy& levels, std::string_view name) {
  for (int level = 0; level < levels.depth(); ++level)
    if (levels.name(level) == name) return true;
  return false;
}

// The same pairs, as many of a host as between others.
MeasuredLink as_between(MeasuredLink link, const MeasuredLinks& links) {
  link.pairs = links.between->pairs;
  return link;
}

}  // namespace

std::optional<MeasuredNetwork> measured_network(const MeasuredLinks& links, int cores,
                                                const Hierarchy& levels) {
  if (!links.between || levels.depth() == 0 || levels.parts(0) < 2) return std::nullopt;
  MeasuredLinks known = links;
  std::erase_if(known.beyond, [&](const MeasuredTier& tier) {
    if (has_level(levels, tier.name)) return false;
    if (tier.link.busy_GBps < known.between->busy_GBps)
      known.between = as_between(tier.link, links);
    return true;
  });
  const CostModel memory = memory_model(levels.largest_part(0), std::max(cores, 1));
  MeasuredNetwork network{with_links(memory, known), levels};
  for (const CodecChoice& choice : automatic_codecs())
    network.model.codecs.push_back(cost_of(choice, levels.parts(0), links.codecs));
  return network;
}

bool links_decide(const Problem& problem) {
  return selection_bytes(problem) >= kBytesLeast &&
         std::find(std::begin(kDecided), std::end(kDecided), problem.collective) !=
             std::end(kDecided);
}

// Whether buffers are the same is each rank's own affair.
ChosenByLinks choose_by_links(const Problem& problem, const MeasuredNetwork& network, bool levels,
                              const std::vector<int>& excluded) {
  if (!links_decide(problem)) return {};
  if (problem.in_place) {
    Problem apart = problem;
    apart.in_place = false;
    return choose_by_links(apart, network, levels, excluded);
  }
  ChosenByLinks best;
  double best_us = std::numeric_limits<double>::infinity();
  for (int index = 0; index < static_cast<int>(algorithms().size()); ++index) {
    const Algorithm& algorithm = algorithms()[static_cast<size_t>(index)];
    if (!algorithm.fits(problem.collective) || (algorithm.by_levels && !levels)) continue;
    if (std::find(excluded.begin(), excluded.end(), index) != excluded.end()) continue;
    const double us =
        predict(problem, index, network.levels.places(), network.model, &network.levels);
    if (!(us < best_us)) continue;
    best.algorithm = index;
    best_us = us;
  }
  if (best.algorithm < 0) return best;
  const uint32_t segment =
      best_segment(problem, network.levels.places(), network.model, &network.levels);
  if (segment == 0 ||
      algorithms()[static_cast<size_t>(best.algorithm)].name != std::string_view("hierarchical"))
    return best;
  const Parameters cut{.segment = segment};
  if (predict(problem, best.algorithm, network.levels.places(), network.model, &network.levels,
              cut) < kWorthCutting * best_us)
    best.parameters = cut;
  return best;
}

}  // namespace banyan
