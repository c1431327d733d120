// Circulant graphs do reduce-scatter and allgather in ceil(log2 P) rounds each for any number of
// ranks, with the least volume, (P-1)/P of the data (Träff 2024, "Optimal, non-pipelined
// reduce-scatter and allreduce algorithms").
//
// Skips: s_q = P, s_k = ceil(s_{k+1} / 2), s_0 = 1. Blocks are numbered from the own one: i stands
// for block me + i. In the round of skip s_k a rank gives the sums of blocks [s_k, s_{k+1}) to rank
// me + s_k, for which they are [0, s_{k+1} - s_k), and gets its own [0, s_{k+1} - s_k) from me -
// s_k.
// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <utility>
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

// Blocks that may share a message, being neighbours in memory.
struct Run {
  int first;
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

Slice joined(const Blocks& slices, Run run) {
  const Slice first = slices[static_cast<size_t>(run.first)];
  if (run.count == 1) return first;
  const Slice last = slices[static_cast<size_t>(run.first + run.count - 1)];
  return {first.space, first.offset, last.end() - first.offset};
}

// Holds the partial sums of a reduce-scatter, by relative blocks. Those that nothing was added to
// are contributions: the user's input, which wraps around after block P - 1, or a widened copy,
// which does not. The first round adds to blocks [0, floor(P/2)) and moves them into one piece of
// scratch; later rounds add to a part of these.
class RelativeSums {
 public:
  RelativeSums(ScheduleBuilder& builder, const Group& group, Accumulators& sums,
               const std::vector<int>& skips)
      : builder_(builder), group_(group), sums_(sums) {
    added_most_ = group.size() / 2;
    landing_ = builder.scratch(offset(added_most_));
    if (skips.size() > 2) added_ = builder.scratch(offset(added_most_));
    if (!sums.plain()) widen(skips);
  }

  // Cuts this rank's blocks [first, end) into runs, each in one piece of memory.
  std::vector<Run> runs(int first, int end) const { return cut(first, end, added_so_far_); }
  // Gives the runs that the sender of blocks [skip, next) makes of them, by the receiver's numbers.
  // What wraps around does so at the same block on both.
  std::vector<Run> runs_of_sender(int skip, int next) const {
    return cut(0, next - skip, added_so_far_ - skip);
  }

  Slice of(Run run) const {
    if (run.first < added_so_far_) return within(added_, run);
    if (!sums_.plain()) return within(own_, run);
    const int block = group_.wrap(group_.me + run.first);
    const Slice first = sums_.raw(block);
    return {first.space, first.offset, sums_.raw(block + run.count - 1).end() - first.offset};
  }

  void absorb(Run run, int peer, bool last) {
    const Slice landing = within(landing_, run);
    builder_.recv(landing, peer);
    builder_.reduce(sums_.type(), of(run), landing,
                    last ? sums_.last(group_.me) : within(added_, run));
  }

  void end_round() { added_so_far_ = added_most_; }

 private:
  // Counts the bytes of accumulators before a relative block: they lie one behind the other, as the
  // blocks do.
  uint64_t offset(int block) const {
    const auto begin = [&](int place) {
      return place == group_.size() ? sums_.raw(place - 1).end() : sums_.raw(place).offset;
    };
    const int place = group_.me + block;
    uint64_t bytes = begin(std::min(place, group_.size())) - begin(group_.me);
    if (place > group_.size()) bytes += begin(place - group_.size()) - begin(0);
    return sums_.accumulators_of(bytes);
  }

  Slice within(Slice room, Run run) const {
    const uint64_t begin = offset(run.first);
    return room.sub(begin, offset(run.first + run.count) - begin);
  }

  // Cuts [first, end) at `added`, where scratch ends, and where the user's input wraps around.
  std::vector<Run> cut(int first, int end, int added) const {
    const int wrap = sums_.plain() && added_so_far_ == 0 ? group_.size() - group_.me : 0;
    std::vector<Run> runs;
    for (int begin = first; begin < end;) {
      int stop = end;
      for (const int place : {added, wrap})
        if (begin < place && place < stop) stop = place;
      runs.push_back({begin, stop - begin});
      begin = stop;
    }
    return runs;
  }

  // In the runs that the first round sends and keeps.
  void widen(const std::vector<int>& skips) {
    own_ = builder_.scratch(offset(group_.size()));
    const int kept = skips.size() > 1 ? skips[skips.size() - 2] : 0;
    const int wrap = group_.size() - group_.me;
    for (const auto& [begin, end] : {std::pair(kept, group_.size()), std::pair(0, kept)})
      for (int first = begin; first < end;) {
        const int stop = first < wrap && wrap < end ? wrap : end;
        const int block = group_.wrap(group_.me + first);
        const Slice head = sums_.raw(block);
        const uint64_t bytes = sums_.raw(block + stop - first - 1).end() - head.offset;
        sums_.widen({head.space, head.offset, bytes}, within(own_, {first, stop - first}));
        first = stop;
      }
  }

  ScheduleBuilder& builder_;
  const Group& group_;
  Accumulators& sums_;
  int added_most_ = 0;
  int added_so_far_ = 0;
  Slice landing_, added_, own_;
};

}  // namespace

void circulant_reduce_scatter_phase(ScheduleBuilder& builder, const Group& group,
                                    Accumulators& sums) {
  const std::vector<int> skips = skips_of(group.size());
  RelativeSums partial(builder, group, sums, skips);
  for (size_t round = skips.size() - 1; round-- > 0;) {
    const int skip = skips[round];
    const int next = skips[round + 1];
    for (const Run& run : partial.runs(skip, next))
      builder.send(partial.of(run), group.at(group.me + skip));
    for (const Run& run : partial.runs_of_sender(skip, next))
      partial.absorb(run, group.at(group.me - skip), round == 0);
    partial.end_round();
  }
  sums.store(group.me);
}

namespace {

// Makes the rounds of the reduce-scatter backwards. `together`: neighbouring blocks as one message,
// which both ends must see alike.
void pass_on(ScheduleBuilder& builder, const Group& group, const Blocks& slices, bool together) {
  const std::vector<int> skips = skips_of(group.size());
  for (size_t round = 0; round + 1 < skips.size(); ++round) {
    const int skip = skips[round];
    const int count = skips[round + 1] - skip;
    for (const Run& run : runs_of(group, group.me, count, together))
      builder.send(joined(slices, run), group.at(group.me - skip));
    for (const Run& run : runs_of(group, group.me + skip, count, together))
      builder.recv(joined(slices, run), group.at(group.me + skip));
  }
}

}  // namespace

// Displacements are each rank's own, so what is together here may be apart elsewhere.
void circulant_allgather_apart_phase(ScheduleBuilder& builder, const Group& group,
                                     const Blocks& slices) {
  pass_on(builder, group, slices, false);
}

void circulant_allgather_phase(ScheduleBuilder& builder, const Group& group, const Blocks& slices) {
  pass_on(builder, group, slices, slices.are_packed());
}

void circulant_allreduce(ScheduleBuilder& builder, const Group& group, const Problem& problem) {
  allreduce_by(builder, group, problem, circulant_reduce_scatter_phase, circulant_allgather_phase);
}

void circulant_reduce(ScheduleBuilder& builder, const Group& group, const Problem& problem) {
  agree(builder, group, problem);
  reduce_by(builder, group, problem, circulant_reduce_scatter_phase);
}

void circulant_allgather(ScheduleBuilder& builder, const Group& group, const Problem& problem) {
  const bool apart = problem.collective == Collective::kAllgatherv;
  allgather_by(builder, group, problem,
               apart ? circulant_allgather_apart_phase : circulant_allgather_phase);
}

void circulant_reduce_scatter(ScheduleBuilder& builder, const Group& group,
                              const Problem& problem) {
  reduce_scatter_by(builder, group, problem, circulant_reduce_scatter_phase);
}

void circulant_broadcast(ScheduleBuilder& builder, const Group& group, const Problem& problem) {
  broadcast_by(builder, group, problem, circulant_allgather_phase);
}

}  // namespace banyan
