// The phases of flat algorithms, round by round.
// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <bit>
#include <cmath>

#include "algorithms/cost/cost_rounds.h"
#include "algorithms/lengths.h"

namespace banyan {
namespace {

Reach far_of(const Site& site, const CostTeam& team, int distance) {
  switch (team.where) {
    case CostTeam::Where::kFlat: return site.far(distance);
    case CostTeam::Where::kInside: return {};
    case CostTeam::Where::kAcross: return site.across(team.level);
  }
  return {};
}

// Costs a block of the team's vector to every other one: at once, or one after the other, none of
// which waits for another.
void blocks_cost(Cost& cost, const Site& site, const CostTeam& team, double bytes, bool sums,
                 bool at_once) {
  const double block = bytes / team.size;
  cost.add({.messages = at_once ? team.size - 1.0 : 1,
            .bytes = block,
            .peers = team.size - 1.0,
            .active = team.size * team.count,
            .far = team.where == CostTeam::Where::kFlat ? site.far_pairs() : far_of(site, team, 1),
            .summed = sums ? block : 0,
            .repeats = at_once ? 1 : team.size - 1.0,
            .given = sums});
}

// Counts the ranks on one host, of those that send along a tree.
double on_host(const Site& site, const CostTeam& team, double active) {
  if (team.where == CostTeam::Where::kFlat) return std::min<double>(active, site.largest());
  return std::max(team.count * team.size / site.hosts(), 1.0);
}

bool whole_rounds(const CostTeam& team) {
  return std::has_single_bit(static_cast<unsigned>(team.size));
}

}  // namespace

void agree_cost(Cost& cost, const Site& site) {
  const int ranks = site.ranks();
  if (ranks <= kOneRoundMost)
    cost.add(
        {.messages = ranks - 1.0, .active = static_cast<double>(ranks), .far = site.far_pairs()});
  else
    doubling_words_cost(cost, site, {ranks, 1, CostTeam::Where::kFlat});
}

void doubling_words_cost(Cost& cost, const Site& site, const CostTeam& team) {
  for (int distance = 1; distance < team.size; distance *= 2)
    cost.add({.active = team.size * team.count, .far = far_of(site, team, distance)});
}

// The longest rounds have most of the blocks, which wrap around on some ranks and are two messages
// there. What the last round of a reduce-scatter sends has been there since the one before the
// last, unless P is a power of two. In an allgather the round of skip 2 may send the own block
// only.
void circulant_cost(Cost& cost, const Site& site, const CostTeam& team, double bytes, Half half,
                    double segments) {
  for (int next = team.size; next > 1;) {
    const int skip = (next + 1) / 2;
    const int blocks = next - skip;
    const double full = team.owners > 0 ? std::ceil(blocks * team.owners / team.size) : blocks;
    const double moved = bytes / segments * full / team.size;
    const double messages = 1 + (blocks - 1.0) / team.size;
    cost.add({.messages = messages,
              .bytes = moved / messages,
              .active = team.size * team.count,
              .far = far_of(site, team, skip),
              .summed = half == Half::kReduceScatter ? moved / messages : 0,
              .repeats = segments,
              .waits = half == Half::kAllgather ? next != 3 : next > 2 || whole_rounds(team),
              .given = half == Half::kReduceScatter && next == team.size});
    next = skip;
  }
}

void ring_cost(Cost& cost, const Site& site, const CostTeam& team, double bytes, Half half,
               double segments) {
  const double block = bytes / segments / team.size;
  Round round{
      .bytes = block,
      .active = team.size * team.count,
      .far = team.where == CostTeam::Where::kFlat ? site.far_in_ring() : far_of(site, team, 1),
      .summed = half == Half::kReduceScatter ? block : 0,
      .repeats = segments,
      .passes = true,
      .given = half == Half::kReduceScatter};
  if (team.size > 1) cost.add(round);
  round.given = false;
  cost.add(round, team.size - 2.0);
}

void phase_cost(Cost& cost, const Site& site, const CostTeam& team, Phase phase, double bytes,
                Half half) {
  const bool sums = half == Half::kReduceScatter;
  switch (phase) {
    case Phase::kOwn:
    case Phase::kCirculant: return circulant_cost(cost, site, team, bytes, half);
    case Phase::kRing: return ring_cost(cost, site, team, bytes, half);
    case Phase::kPairwise: return blocks_cost(cost, site, team, bytes, sums, !sums);
    case Phase::kNccl:
    case Phase::kDirect: return blocks_cost(cost, site, team, bytes, sums, true);
  }
}

void recursive_doubling_cost(Cost& cost, const Site& site, const CostTeam& team, double bytes) {
  const int core = static_cast<int>(std::bit_floor(static_cast<unsigned>(team.size)));
  const int extra = team.size - core;
  const Reach far = extra > 0 ? far_of(site, team, core) : Reach();
  if (extra > 0)
    cost.add({.bytes = bytes,
              .active = extra * team.count,
              .far = far,
              .summed = bytes,
              .one_way = true,
              .on_host = on_host(site, team, extra * team.count)});
  for (int distance = 1; distance < core; distance *= 2)
    cost.add({.bytes = bytes,
              .active = core * team.count,
              .far = team.where == CostTeam::Where::kFlat ? site.far_by_bit(distance)
                                                          : far_of(site, team, distance),
              .summed = bytes,
              .given = distance == 1 && extra == 0,
              .on_host = on_host(site, team, core * team.count)});
  if (extra > 0)
    cost.add({.bytes = bytes,
              .active = extra * team.count,
              .far = far,
              .one_way = true,
              .on_host = on_host(site, team, extra * team.count)});
}

// The chain has floor(log2 P) messages: in a last round that is not whole, others wait for no more
// than the sending.
void binomial_cost(Cost& cost, const Site& site, const CostTeam& team, double bytes, bool sums) {
  for (int distance = 1; distance < team.size; distance *= 2)
    cost.add({.bytes = bytes,
              .active = std::min(distance, team.size - distance) * team.count,
              .far = far_of(site, team, distance),
              .summed = sums ? bytes : 0,
              .waits = distance <= team.size - distance,
              .one_way = true,
              .on_host = on_host(site, team, std::min(distance, team.size - distance))});
}

void binomial_blocks_cost(Cost& cost, const Site& site, const CostTeam& team, double bytes) {
  const int top = static_cast<int>(std::bit_ceil(static_cast<unsigned>(team.size))) / 2;
  int senders = 1;
  for (int distance = top; distance > 0; distance /= 2, senders *= 2) {
    const double share = std::min(distance, team.size - distance) / static_cast<double>(team.size);
    cost.add({.bytes = bytes * share,
              .active = std::min(senders, team.size - senders) * team.count,
              .far = far_of(site, team, distance),
              .one_way = true,
              .on_host = on_host(site, team, std::min(senders, team.size - senders))});
  }
}

}  // namespace banyan
