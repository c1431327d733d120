// SPDX-License-Identifier: Apache-2.0

#include "algorithms/measured_choice.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <limits>
#include <string_view>
#include <utility>

#include "algorithms/algorithms.h"
#include "algorithms/machine_cost.h"
#include "algorithms/select.h"

namespace banyan {
namespace {

using enum Collective;

// Those that were measured against the tables, and from which bytes on, as rules count them, links
// lose less (docs/choice.md). Short vectors are left to the tables: what they take is the turns of
// ranks and the way of a message through a host's kernel, of which two figures know little.
constexpr Collective kDecided[] = {kAllreduce,  kBroadcast,     kAllgather,
                                   kAllgatherv, kReduceScatter, kReduceScatterv};
constexpr uint64_t kBytesLeast = (8 << 10) + 1;
// Of what segments of its own length take hierarchical, others must promise to take less than that:
// they were measured.
constexpr double kWorthCutting = 0.95;

}  // namespace

std::optional<MeasuredNetwork> measured_network(const MeasuredLinks& links, int cores,
                                                std::span<const int> host_of_rank) {
  if (!links.between || host_of_rank.empty()) return std::nullopt;
  Hierarchy hosts = Hierarchy::of_labels("host", host_of_rank);
  if (hosts.parts(0) < 2) return std::nullopt;
  const CostModel memory = memory_model(hosts.largest_part(0), std::max(cores, 1));
  return MeasuredNetwork{with_links(memory, links), std::move(hosts)};
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
        predict(problem, index, network.hosts.places(), network.model, &network.hosts);
    if (!(us < best_us)) continue;
    best.algorithm = index;
    best_us = us;
  }
  if (best.algorithm < 0) return best;
  const uint32_t segment =
      best_segment(problem, network.hosts.places(), network.model, &network.hosts);
  if (segment == 0 ||
      algorithms()[static_cast<size_t>(best.algorithm)].name != std::string_view("hierarchical"))
    return best;
  const Parameters cut{.segment = segment};
  if (predict(problem, best.algorithm, network.hosts.places(), network.model, &network.hosts, cut) <
      kWorthCutting * best_us)
    best.parameters = cut;
  return best;
}

}  // namespace banyan
