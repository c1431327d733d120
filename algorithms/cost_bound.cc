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

// Bytes that cross the cut around one of the parts, in the direction that has more. Of sums parts
// have equal shares, so that some part has the mean; into a small part more blocks come than into a
// large one.
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

// The most of what the cuts take on their wires.
double wires_of(const Problem& problem, const Site& site, const CostModel& model,
                const Volume& volume) {
  double most = 0;
  for (int level = 0; level < site.depth(); ++level) {
    const Parted parted = parted_at(problem, site, level);
    if (parted.parts == 1) continue;
    const double byte = level == 0 ? number(model.wire_byte) / std::max(model.nics, 1.0)
                                   : uplink_byte(model, site, level);
    most = std::max(most, byte * least_across(problem.collective, parted, volume.bytes));
  }
  return most;
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

double cuts_of(const Problem& problem, const Site& site, const CostModel& model,
               const Volume& volume) {
  double most = wires_of(problem, site, model, volume);
  for (const PartCost& part : model.parts) {
    double byte = number(part.edge_byte);
    if (!(byte > 0) || part.ranks < 1 || part.ranks >= site.ranks()) continue;
    if (site.hosts() > 1) {
      if (!(number(model.wire_byte) > 0)) continue;
      byte = 1 / (1 / byte + std::max(model.nics, 1.0) / number(model.wire_byte));
    }
    const Parted parted = parted_in_two(site.ranks(), part.ranks);
    most = std::max(most, byte * least_across(problem.collective, parted, volume.bytes));
  }
  return most;
}

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
  const double wire = cuts_of(problem, site, model, volume);
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
