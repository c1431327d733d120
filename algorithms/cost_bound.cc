// The least that a call can take. Every formula of predict() has these as parts: whoever moves
// the least volume in the fewest rounds reaches them.
// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cmath>

#include "algorithms/cost_rounds.h"
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

// Bytes that cross the cut around one part of a level, in the direction that has more. Of sums
// parts have equal shares, so that some part has the mean; into a small part more blocks come than
// into a large one.
double least_across(const Problem& problem, const Site& site, int level, const Volume& volume) {
  const Hierarchy& levels = site.levels();
  const double parts = levels.parts(level);
  if (parts == 1) return 0;
  const double n = volume.bytes;
  const double ranks = site.ranks();
  const double most = levels.largest_part(level);
  const double fewest = levels.smallest_part(level);
  switch (problem.collective) {
    case kAllreduce: return 2 * (parts - 1) / parts * n;
    case kReduce:
    case kBroadcast: return n;
    case kAllgather:
    case kAllgatherv:
    case kReduceScatter:
    case kReduceScatterv: return (ranks - fewest) * n;
    case kGather:
    case kScatter: {
      const auto part = levels.members(level, levels.part_of(level, problem.root));
      return (ranks - static_cast<double>(part.size())) * n;
    }
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

// The most of what the cuts take on their wires.
double wires_of(const Problem& problem, const Site& site, const CostModel& model,
                const Volume& volume) {
  double most = 0;
  for (int level = 0; level < site.depth(); ++level) {
    const double byte = level == 0 ? number(model.wire_byte) / std::max(model.nics, 1.0)
                                   : uplink_byte(model, site, level);
    most = std::max(most, byte * least_across(problem, site, level, volume));
  }
  return most;
}

// In r rounds of k messages each, what one rank knows gets to (k + 1)^r ranks (Bruck et al. 1997).
double telling(double ranks, double alpha, double message) {
  const double most = std::ceil(std::log2(ranks));
  double least = alpha * most + message * most;
  for (double rounds = 1; rounds < most; ++rounds)
    least = std::min(least, rounds * (alpha + message * (std::pow(ranks, 1 / rounds) - 1)));
  return least;
}

}  // namespace

double lower_bound(const Problem& problem, int ranks, const CostModel& model,
                   const Hierarchy* hierarchy) {
  const double call = number(model.call);
  if (ranks < 2) return call;
  const Site site(ranks, hierarchy);
  const Volume volume = volume_of(problem, ranks);
  const Least least = least_of(problem.collective, ranks, volume);
  const double cold = cold_share(model, site, volume.buffers);
  const double sum = std::min(number(model.reduce_byte), number(model.codec_byte)) +
                     cold * number(model.reduce_far_byte);
  // Segments keep half of what the second half of an allreduce moves in a cache: Cost::warm().
  const bool cut =
      problem.collective == kAllreduce &&
      cache_segments(static_cast<uint64_t>(volume.bytes), static_cast<uint64_t>(ranks)) > 1;
  const double byte = least_byte(model, site, cut ? 0.75 * cold : cold);
  const double work = least.moved * byte + least.summed * sum;
  const double wire = wires_of(problem, site, model, volume);
  const int levels = site.far_pairs().levels();
  double alpha = latency(model, site, 0);
  for (int left = 1; left <= levels; ++left) alpha = std::min(alpha, latency(model, site, left));
  double overhead = number(model.within.overhead);
  if (levels > 0) overhead = std::min(overhead, number(model.between.overhead));
  double told = telling(ranks, alpha, overhead);
  if (levels > 0) told = std::max(told, latency(model, site, levels));
  return call + std::max({work / cores_of(model, site), wire, told});
}

}  // namespace banyan
