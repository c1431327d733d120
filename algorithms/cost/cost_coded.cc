// Sums by codecs, as in coded.cc: everybody's shares to their owners, and the sums back.
//
// Shares are whole units, so that of a short vector some ranks own none. The busiest own most.
// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cmath>
#include <limits>

#include "algorithms/cost/cost_rounds.h"

namespace banyan {
namespace {

constexpr double kValue = sizeof(float);

}  // namespace

const CodecCost* find_codec(const CostModel& model, const CodecChoice& choice) {
  const auto found = std::find_if(model.codecs.begin(), model.codecs.end(),
                                  [&](const CodecCost& each) { return each.choice == choice; });
  return found == model.codecs.end() ? nullptr : &*found;
}

double least_share(const Volume& volume, const CostModel& model) {
  double least = 1;
  for (const CodecChoice& choice : {volume.parameters.intra_codec, volume.parameters.inter_codec}) {
    if (choice.is_exact()) continue;
    const CodecCost* codec = find_codec(model, choice);
    if (codec == nullptr) return std::numeric_limits<double>::infinity();
    const double bytes = codec->unit * kValue / volume.wide;  // of the call's elements
    least = std::min(least, std::min(codec->message_bytes, codec->sum_bytes) / bytes);
  }
  return least;
}

void coded_phase_cost(Cost& cost, const Site& site, const CostTeam& team, const CodecCost& codec,
                      Phase phase, double bytes, Half half) {
  const bool sums = half == Half::kReduceScatter;
  const double units = std::ceil(std::ceil(bytes / kValue / codec.unit) / team.size);
  const double block = std::min(units * codec.unit * kValue, bytes);
  const double message = units * (sums ? codec.message_bytes : codec.sum_bytes);
  const double active = team.size * team.count;
  const Cost before = cost;
  phase_cost(cost, site, team, sums ? Phase::kDirect : phase, message * team.size,
             Half::kAllgather);
  const Cost::Coded all{codec, sums ? bytes : block, sums ? block * team.size : bytes};
  cost.code_beside(before, all, {codec, block, block}, active);
}

double coded_cost(const Problem& problem, const CostModel& model, const Site& site,
                  const Volume& volume) {
  const CodecCost& codec = *find_codec(model, volume.parameters.inter_codec);
  const CostTeam all{site.ranks(), 1, CostTeam::Where::kFlat};
  const bool gathers = problem.collective == Collective::kAllreduce;
  const double ranks = site.ranks();
  const double values = volume.bytes * volume.wide * (gathers ? 1 : ranks);
  Cost cost(model, site, volume.buffers);
  if (volume.narrow) cost.codec(values, ranks);
  coded_phase_cost(cost, site, all, codec, Phase::kDirect, values, Half::kReduceScatter);
  if (gathers) coded_phase_cost(cost, site, all, codec, Phase::kDirect, values, Half::kAllgather);
  if (volume.narrow) cost.codec(gathers ? values : values / ranks, ranks);
  return cost.us();
}

}  // namespace banyan
