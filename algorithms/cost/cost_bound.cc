// This is the least that a call can take. Every formula of predict() has these as parts: whoever
// moves the least volume in the fewest rounds reaches them.
// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "algorithms/cost/cost_rounds.h"
#include "algorithms/lengths.h"

namespace banyan {
namespace {

using enum Collective;

struct Least {
  double moved = 0;   // bytes between ranks, all together
  double summed = 0;  // bytes of results of additions
};

Least least_of(Collective collective, double ranks, const Volume& volume) {
  const double n = volume.bytes;
  switch (collective) {
    case kAllreduce: return {2 * (ranks - 1) * n, (ranks - 1) * n};
    case kReduce: return {(ranks - 1) * n, (ranks - 1) * n};
    case kBroadcast: return {(ranks - 1) * n, 0};
    case kAllgather:
    case kAllgatherv: return {(ranks - 1) * n * ranks, 0};
    case kReduceScatter:
    case kReduceScatterv: return {(ranks - 1) * n * ranks, (ranks - 1) * n * ranks};
    case kAlltoall:
    case kAlltoallv: return {(ranks - 1) * n * ranks, 0};
    case kGather:
    case kScatter: return {(ranks - 1) * n, 0};
    case kBarrier:
    case kFinalize:
    case kSplit:
    case kSend:
    case kRecv: break;
  }
  return {};
}

// All ranks, in parts.
struct Parted {
  double ranks = 0;
  double parts = 0;
  double most = 0, fewest = 0;  // ranks of a part
  double of_root = 0;           // ranks of the part that the root is in
};

Parted parted_at(const Problem& problem, const Site& site, int level) {
  const Hierarchy& levels = site.levels();
  const auto part = levels.members(level, levels.part_of(level, problem.root));
  return {.ranks = site.ranks() + 0.0,
          .parts = levels.parts(level) + 0.0,
          .most = levels.largest_part(level) + 0.0,
          .fewest = levels.smallest_part(level) + 0.0,
          .of_root = static_cast<double>(part.size())};
}

// A part and all the others. Where the root is nobody says.
Parted parted_in_two(double ranks, double own) {
  const double most = std::max(own, ranks - own);
  return {.ranks = ranks, .parts = 2, .most = most, .fewest = ranks - most, .of_root = most};
}

// Counts the bytes that cross the cut around one of the parts, in the direction that has more.
// Parts have equal shares of sums, so that some part has the mean. Into a small part more blocks
// come than into a large one.
double least_across(Collective collective, const Parted& parted, double n) {
  const auto& [ranks, parts, most, fewest, of_root] = parted;
  switch (collective) {
    case kAllreduce: return 2 * (parts - 1) / parts * n;
    case kReduce:
    case kBroadcast: return n;
    case kAllgather:
    case kAllgatherv:
    case kReduceScatter:
    case kReduceScatterv: return (ranks - fewest) * n;
    case kGather:
    case kScatter: return (ranks - of_root) * n;
    case kAlltoall:
    case kAlltoallv: return std::max(most * (ranks - most), fewest * (ranks - fewest)) * n;
    case kBarrier:
    case kFinalize:
    case kSplit:
    case kSend:
    case kRecv: break;
  }
  return 0;
}

bool has_parts(const CostModel& model, std::string_view name) {
  return std::any_of(model.parts.begin(), model.parts.end(),
                     [&](const PartCost& part) { return part.name == name; });
}

void take_longer(CutCost& most, const CutCost& other) {
  if (other.us > most.us || most.part.empty()) most = other;
}

// Gives the cut around hosts and parts above them that the model does not have one by one, as if
// all of a level were joined alike.
CutCost cut_of_levels(const Problem& problem, const Site& site, const CostModel& model,
                      const Volume& volume) {
  CutCost most;
  for (int level = 0; level < site.depth(); ++level) {
    const Parted parted = parted_at(problem, site, level);
    const std::string_view name = site.levels().name(level);
    if (parted.parts == 1 || has_parts(model, name)) continue;
    const double byte = level == 0 ? number(model.wire_byte) / std::max(model.nics, 1.0)
                                   : uplink_byte(model, site, level);
    if (byte > 0)
      take_longer(most, {byte * least_across(problem.collective, parted, volume.bytes), name,
                         model.wire_byte.source});
  }
  return most;
}

// us of a byte through all NICs of the host that has most of them; 0: it is not known.
double widest_host(const CostModel& model) {
  double least = 0;
  for (const PartCost& part : model.parts) {
    const double byte = number(part.widest_byte);
    if (part.name == kHostLevel && (least == 0 || byte < least)) least = byte;
  }
  return has_parts(model, kHostLevel) ? least : number(model.wire_byte) / std::max(model.nics, 1.0);
}

// Around each part.
CutCost cut_of_part(const PartCost& part, const Problem& problem, const Site& site,
                    const CostModel& model, const Volume& volume) {
  double byte = number(part.cut_byte);
  if (!(byte > 0) || part.ranks < 1 || part.ranks >= site.ranks()) return {};
  if (site.hosts() > 1 && part.leaves_by_nics) {
    const double nics = widest_host(model);
    if (!(nics > 0)) return {};
    byte = 1 / (1 / byte + 1 / nics);
  }
  const Parted parted = parted_in_two(site.ranks(), part.ranks);
  return {byte * least_across(problem.collective, parted, volume.bytes), part.name,
          part.cut_byte.source};
}

// Gives the cut around all parts of one name, where each rank is in one of them: together they let
// pass what all together send, and one of them is the root's.
CutCost cut_of_all(std::string_view name, const Problem& problem, const Site& site,
                   const CostModel& model, const Volume& volume) {
  double ranks = 0, count = 0, rate = 0, rooted = std::numeric_limits<double>::infinity();
  Source source = Source::kMeasured;
  for (const PartCost& part : model.parts) {
    if (part.name != name) continue;
    const double together = number(part.together_byte);
    if (!(together > 0) || (site.hosts() > 1 && part.leaves_by_nics)) return {};
    ranks += part.count * part.ranks;
    count += part.count;
    rate += 1 / together;
    rooted = std::min(rooted, (site.ranks() - part.ranks) * number(part.widest_byte));
    source = std::max(source, part.together_byte.source);
  }
  if (static_cast<int64_t>(ranks) != site.ranks() || count < 2) return {};
  const Collective collective = problem.collective;
  if (collective == kAllreduce) return {2 * (count - 1) * volume.bytes / rate, name, source};
  if (collective == kGather || collective == kScatter) return {rooted * volume.bytes, name, source};
  return {};
}

// In r rounds of k messages each, what one rank knows gets to (k + 1)^r ranks (Bruck et al. 1997).
double telling(double ranks, double alpha, double message) {
  const int most = static_cast<int>(std::ceil(std::log2(ranks)));
  double least = alpha * most + message * most;
  for (int rounds = 1; rounds < most; ++rounds)
    least = std::min(least, rounds * (alpha + message * (std::pow(ranks, 1.0 / rounds) - 1)));
  return least;
}

}  // namespace

CutCost most_of_cuts(const Problem& problem, const Site& site, const CostModel& model,
                     const Volume& volume) {
  CutCost most = cut_of_levels(problem, site, model, volume);
  for (const PartCost& part : model.parts) {
    take_longer(most, cut_of_part(part, problem, site, model, volume));
    take_longer(most, cut_of_all(part.name, problem, site, model, volume));
  }
  return most;
}

Bound bound_of(const Problem& problem, int ranks, const CostModel& model,
               const Hierarchy* hierarchy) {
  const double call = number(model.call);
  if (ranks < 2) return {.us = call, .by = "latency"};
  const Site site(ranks, hierarchy);
  const Volume volume = volume_of(problem, ranks);
  const Least least = least_of(problem.collective, ranks, volume);
  const double cold = cold_share(model, site, volume.buffers);
  const double sum = std::min(number(model.reduce_byte), number(model.codec_byte)) +
                     cold * number(model.reduce_far_byte);
  // Segments keep half of what the second half of an allreduce moves in a cache: Cost::warm().
  const bool segmented =
      problem.collective == kAllreduce &&
      cache_segments(static_cast<uint64_t>(volume.bytes), static_cast<uint64_t>(ranks)) > 1;
  const double byte = least_byte(model, site, segmented ? 0.75 * cold : cold);
  const double work = (least.moved * byte + least.summed * sum) / cores_of(model, site);
  const CutCost cut = most_of_cuts(problem, site, model, volume);
  const int levels = site.far_pairs().levels();
  double alpha = latency(model, site, 0);
  for (int left = 1; left <= levels; ++left) alpha = std::min(alpha, latency(model, site, left));
  double overhead = number(model.within.overhead);
  if (levels > 0) overhead = std::min(overhead, number(model.between.overhead));
  double told = telling(ranks, alpha, overhead);
  if (levels > 0) told = std::max(told, latency(model, site, levels));

  const bool edges = site.hosts() > 1 || model.within.lane_byte.known();
  Bound bound{.us = call + std::max({work, cut.us, told}), .cuts = !cut.part.empty() || !edges};
  if (cut.us >= std::max(work, told) && !cut.part.empty()) {
    bound.by = fmt::format("edge of a {}", cut.part);
    bound.source = cut.source;
  } else if (work > told) {
    bound.by = "work of cores";
    bound.source = model.within.long_byte.source;
  } else {
    bound.by = "latency";
    bound.source = model.within.alpha.source;
  }
  return bound;
}

double lower_bound(const Problem& problem, int ranks, const CostModel& model,
                   const Hierarchy* hierarchy) {
  return bound_of(problem, ranks, model, hierarchy).us;
}

}  // namespace banyan
