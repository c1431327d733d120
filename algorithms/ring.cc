// Ring: each rank talks to its two neighbours only. 2(P-1) steps for an allreduce, volume 2(P-1)/P
// of the data (Patarasuk, Yuan 2009).
// SPDX-License-Identifier: Apache-2.0

#include <algorithm>

#include "algorithms/generators.h"
#include "algorithms/lengths.h"

namespace banyan {
// In step s the sum of block me - s - 2 arrives with s + 1 contributions and leaves with one more;
// the last one is block me.
void ring_reduce_scatter_phase(ScheduleBuilder& builder, const Group& group, Accumulators& sums) {
  const int size = group.size();
  Slice outgoing = sums.own(group.wrap(group.me - 1));
  for (int step = 0; step < size - 1; ++step) {
    const int block = group.wrap(group.me - step - 2);
    const Slice own = sums.own(block);
    const Slice dst = step == size - 2 ? sums.last(block) : sums.room(block);
    builder.send(outgoing, group.at(group.me + 1));
    sums.absorb(block, group.at(group.me - 1), own, dst);
    outgoing = dst;
  }
  sums.store(group.me);
}

void ring_allgather_phase(ScheduleBuilder& builder, const Group& group,
                          const std::vector<Slice>& slices) {
  for (int step = 0; step < group.size() - 1; ++step) {
    builder.send(slices[static_cast<size_t>(group.wrap(group.me - step))], group.at(group.me + 1));
    builder.recv(slices[static_cast<size_t>(group.wrap(group.me - step - 1))],
                 group.at(group.me - 1));
  }
}

void ring_allreduce(ScheduleBuilder& builder, const Group& group, const Problem& problem) {
  allreduce_by(builder, group, problem, ring_reduce_scatter_phase, ring_allgather_phase);
}

void ring_reduce(ScheduleBuilder& builder, const Group& group, const Problem& problem) {
  agree(builder, group, problem);
  reduce_by(builder, group, problem, ring_reduce_scatter_phase);
}

void ring_allgather(ScheduleBuilder& builder, const Group& group, const Problem& problem) {
  allgather_by(builder, group, problem, ring_allgather_phase);
}

void ring_reduce_scatter(ScheduleBuilder& builder, const Group& group, const Problem& problem) {
  reduce_scatter_by(builder, group, problem, ring_reduce_scatter_phase);
}

// A chain from the root, in chunks that follow each other.
void ring_broadcast(ScheduleBuilder& builder, const Group& group, const Problem& problem) {
  agree(builder, group, problem);
  const Slice output = whole_output(group, problem);
  const bool root = group.at(group.me) == problem.root;
  const Slice source = root ? whole_input(group, problem) : output;
  const bool last = group.at(group.me + 1) == problem.root;
  const uint64_t given = given_length(group.parameters, problem);
  const auto chunks = static_cast<int>(std::min(ring_chunks(output.size, given), problem.count));
  for (int i = 0; i < chunks; ++i) {
    const Part chunk = part_of(problem.count, chunks, i);
    if (!root) builder.recv(elements(output, chunk, problem.element()), group.at(group.me - 1));
    if (!last) builder.send(elements(source, chunk, problem.element()), group.at(group.me + 1));
  }
  if (root) builder.copy(source, output);
}

}  // namespace banyan
