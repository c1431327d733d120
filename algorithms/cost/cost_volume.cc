// How much a call moves, as its costs see it.
// SPDX-License-Identifier: Apache-2.0

#include <cstdint>
#include <vector>

#include "algorithms/cost/cost_rounds.h"

namespace banyan {
namespace {

using enum Collective;

double elements_in(const std::vector<uint64_t>& counts) {
  double sum = 0;
  for (const uint64_t count : counts) sum += static_cast<double>(count);
  return sum;
}

// Counts the elements of the call; in calls with lists it is the mean block. A rank knows only its
// own counts of alltoallv: all take the same.
double count_of(const Problem& problem, int ranks) {
  constexpr double kBlockOfAlltoallv = 4096;
  switch (problem.collective) {
    case kAllgatherv:
    case kReduceScatterv: return elements_in(problem.recv_counts) / ranks;
    case kAlltoallv: return kBlockOfAlltoallv;
    case kBarrier:
    case kFinalize:
    case kSplit: return 0;
    case kAllreduce:
    case kReduce:
    case kBroadcast:
    case kAllgather:
    case kReduceScatter:
    case kAlltoall:
    case kGather:
    case kScatter:
    case kSend:
    case kRecv: return static_cast<double>(problem.count);
  }
  return 0;
}

// Multiples of the call's bytes that a rank's buffers have.
double buffers_of(Collective collective, int ranks) {
  switch (collective) {
    case kAllreduce:
    case kReduce:
    case kBroadcast:
    case kBarrier:
    case kFinalize:
    case kSplit:
    case kSend:
    case kRecv: return 2;
    case kAllgather:
    case kAllgatherv:
    case kReduceScatter:
    case kReduceScatterv: return 1.0 + ranks;
    case kAlltoall:
    case kAlltoallv: return 2.0 * ranks;
    case kGather:
    case kScatter: return 2;
  }
  return 2;
}

}  // namespace

Volume volume_of(const Problem& problem, int ranks) {
  Volume volume;
  const auto element = static_cast<double>(problem.element());
  volume.bytes = count_of(problem, ranks) * element;
  volume.narrow = reduces(problem.collective) && problem.accumulator() != problem.type;
  if (volume.narrow) volume.wide = static_cast<double>(size_of(problem.accumulator())) / element;
  volume.buffers = volume.bytes * buffers_of(problem.collective, ranks);
  return volume;
}

}  // namespace banyan
