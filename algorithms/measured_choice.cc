// SPDX-License-Identifier: Apache-2.0

#include "algorithms/measured_choice.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <limits>
#include <utility>

#include "algorithms/algorithms.h"
#include "algorithms/machine_cost.h"
#include "algorithms/select.h"

namespace banyan {
namespace {

using enum Collective;

constexpr uint64_t kAnySize = std::numeric_limits<uint64_t>::max();

// Bytes as rules count them; a collective that has no line, or no line for a size, is left to the
// tables.
struct Decided {
  Collective collective;
  uint64_t bytes_least, bytes_most;
};
constexpr Decided kDecided[] = {
    {kAllreduce, 0, kAnySize}, {kReduce, 0, kAnySize},     {kBroadcast, 0, kAnySize},
    {kAllgather, 0, kAnySize}, {kAllgatherv, 0, kAnySize}, {kReduceScatter, 0, kAnySize},
    {kAlltoall, 0, kAnySize},  {kGather, 0, kAnySize},     {kReduceScatterv, 0, kAnySize},
    {kScatter, 0, kAnySize},   {kBarrier, 0, kAnySize},    {kFinalize, 0, kAnySize},
    {kSplit, 0, kAnySize},
};

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
  const uint64_t bytes = selection_bytes(problem);
  return std::any_of(std::begin(kDecided), std::end(kDecided), [&](const Decided& line) {
    return line.collective == problem.collective && line.bytes_least <= bytes &&
           bytes <= line.bytes_most;
  });
}

// Whether buffers are the same is each rank's own affair.
int choose_by_links(const Problem& problem, const MeasuredNetwork& network, bool levels,
                    const std::vector<int>& excluded) {
  if (!links_decide(problem)) return -1;
  if (problem.in_place) {
    Problem apart = problem;
    apart.in_place = false;
    return choose_by_links(apart, network, levels, excluded);
  }
  int best = -1;
  double best_us = std::numeric_limits<double>::infinity();
  for (int index = 0; index < static_cast<int>(algorithms().size()); ++index) {
    const Algorithm& algorithm = algorithms()[static_cast<size_t>(index)];
    if (!algorithm.fits(problem.collective) || (algorithm.by_levels && !levels)) continue;
    if (std::find(excluded.begin(), excluded.end(), index) != excluded.end()) continue;
    const double us =
        predict(problem, index, network.hosts.places(), network.model, &network.hosts);
    if (!(us < best_us)) continue;
    best = index;
    best_us = us;
  }
  return best;
}

}  // namespace banyan
