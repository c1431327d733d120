// Circulant graphs: reduce-scatter and allgather in ceil(log2 P) rounds each for any number of
// ranks, with the least volume, (P-1)/P of the data (Träff 2024, "Optimal, non-pipelined
// reduce-scatter and allreduce algorithms").
//
// Skips: s_q = P, s_k = ceil(s_{k+1} / 2), s_0 = 1. Blocks are numbered from the own one: i stands
// for block me + i. In the round of skip s_k a rank gives the sums of blocks [s_k, s_{k+1}) to rank
// me + s_k, for which they are [0, s_{k+1} - s_k), and gets its own [0, s_{k+1} - s_k) from me -
// s_k.
// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <vector>

#include "algorithms/generators.h"

namespace banyan {
namespace {

std::vector<int> skips_of(int size) {
  std::vector<int> skips{size};
  while (skips.back() > 1) skips.push_back((skips.back() + 1) / 2);
  std::reverse(skips.begin(), skips.end());
  return skips;
}

// Blocks that may share a message: neighbours in memory on the sender, in number.
struct Run {
  int first;  // block, not relative
  int count;
};

// Cuts the blocks `first`, first + 1, ... (modulo P) where they wrap around.
std::vector<Run> runs_of(const Group& group, int first, int count, bool together) {
  std::vector<Run> runs;
  for (int i = 0; i < count;) {
    const int block = group.wrap(first + i);
    const int length = together ? std::min(count - i, group.size() - block) : 1;
    runs.push_back({block, length});
    i += length;
  }
  return runs;
}

Slice joined(const std::vector<Slice>& slices, Run run) {
  const Slice& first = slices[static_cast<size_t>(run.first)];
  const Slice& last = slices[static_cast<size_t>(run.first + run.count - 1)];
  return {first.space, first.offset, last.end() - first.offset};
}

}  // namespace

void circulant_reduce_scatter_phase(ScheduleBuilder& builder, const Group& group,
                                    Accumulators& sums) {
  const std::vector<int> skips = skips_of(group.size());
  std::vector<Slice> partial(static_cast<size_t>(group.size()));
  for (int block = 0; block < group.size(); ++block)
    partial[static_cast<size_t>(block)] = sums.own(block);

  for (size_t round = skips.size() - 1; round-- > 0;) {
    const int skip = skips[round];
    const int count = skips[round + 1] - skip;
    for (int i = 0; i < count; ++i)
      builder.send(partial[static_cast<size_t>(group.wrap(group.me + skip + i))],
                   group.at(group.me + skip));
    for (int i = 0; i < count; ++i) {
      const int block = group.wrap(group.me + i);
      Slice& mine = partial[static_cast<size_t>(block)];
      const bool last = round == 0;
      const Slice dst = last ? sums.last(block) : sums.room(block);
      sums.absorb(block, group.at(group.me - skip), mine, dst);
      mine = dst;
    }
  }
  sums.store(group.me);
}

// The rounds of the reduce-scatter backwards.
void circulant_allgather_phase(ScheduleBuilder& builder, const Group& group,
                               const std::vector<Slice>& slices) {
  const std::vector<int> skips = skips_of(group.size());
  const bool together = packed(slices);
  for (size_t round = 0; round + 1 < skips.size(); ++round) {
    const int skip = skips[round];
    const int count = skips[round + 1] - skip;
    for (const Run& run : runs_of(group, group.me, count, together))
      builder.send(joined(slices, run), group.at(group.me - skip));
    for (const Run& run : runs_of(group, group.me + skip, count, together))
      builder.recv(joined(slices, run), group.at(group.me + skip));
  }
}

void circulant_allreduce(ScheduleBuilder& builder, const Group& group, const Problem& problem) {
  allreduce_by(builder, group, problem, circulant_reduce_scatter_phase, circulant_allgather_phase);
}

void circulant_reduce(ScheduleBuilder& builder, const Group& group, const Problem& problem) {
  agree(builder, group, problem);
  reduce_by(builder, group, problem, circulant_reduce_scatter_phase);
}

void circulant_allgather(ScheduleBuilder& builder, const Group& group, const Problem& problem) {
  allgather_by(builder, group, problem, circulant_allgather_phase);
}

void circulant_reduce_scatter(ScheduleBuilder& builder, const Group& group,
                              const Problem& problem) {
  reduce_scatter_by(builder, group, problem, circulant_reduce_scatter_phase);
}

void circulant_broadcast(ScheduleBuilder& builder, const Group& group, const Problem& problem) {
  broadcast_by(builder, group, problem, circulant_allgather_phase);
}

}  // namespace banyan
