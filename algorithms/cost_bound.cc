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
  double across = 0;  // bytes over the NICs of a host, in the direction that has more
};

// Hosts of different sizes count as the largest one.
Least least_of(Collective collective, const Site& site, const Volume& volume) {
  const double ranks = site.ranks();
  const double hosts = site.hosts();
  const double others = ranks - site.largest();
  const double n = volume.bytes;
  const bool several = hosts > 1;
  switch (collective) {
    case kAllreduce: return {2 * (ranks - 1) * n, (ranks - 1) * n, 2 * (hosts - 1) / hosts * n};
    case kReduce: return {(ranks - 1) * n, (ranks - 1) * n, several ? n : 0};
    case kBroadcast: return {(ranks - 1) * n, 0, several ? n : 0};
    case kAllgather:
    case kAllgatherv: return {(ranks - 1) * n * ranks, 0, others * n};
    case kReduceScatter:
    case kReduceScatterv: return {(ranks - 1) * n * ranks, (ranks - 1) * n * ranks, others * n};
    case kAlltoall:
    case kAlltoallv: return {(ranks - 1) * n * ranks, 0, others * n};
    case kGather:
    case kScatter: return {(ranks - 1) * n, 0, others * n};
    case kBarrier:
    case kFinalize:
    case kSplit:
    case kSend:
    case kRecv: break;
  }
  return {};
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
  const Least least = least_of(problem.collective, site, volume);
  const bool far = site.hosts() > 1;
  const double cold = cold_share(model, site, volume.buffers);
  const double sum = std::min(number(model.reduce_byte), number(model.codec_byte)) +
                     cold * number(model.reduce_far_byte);
  // Segments keep half of what the second half of an allreduce moves in a cache: Cost::warm().
  const bool cut =
      problem.collective == kAllreduce &&
      cache_segments(static_cast<uint64_t>(volume.bytes), static_cast<uint64_t>(ranks)) > 1;
  const double byte = least_byte(model, site, cut ? 0.75 * cold : cold);
  const double work = least.moved * byte + least.summed * sum;
  const double wire =
      least.across / std::max(model.nics, 1.0) * (far ? number(model.wire_byte) : 0);
  double alpha = latency(model, site, false);
  double overhead = number(model.within.overhead);
  if (far) {
    alpha = std::min(alpha, latency(model, site, true));
    overhead = std::min(overhead, number(model.between.overhead));
  }
  double told = telling(ranks, alpha, overhead);
  if (far) told = std::max(told, latency(model, site, true));
  return call + std::max({work / cores_of(model, site), wire, told});
}

}  // namespace banyan
