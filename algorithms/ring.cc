// In a ring each rank talks to its two neighbours only. An allreduce has 2(P-1) steps and the
// volume 2(P-1)/P of the data (Patarasuk, Yuan 2009). On several hosts the ring enters each of them
// once, however ranks are numbered (Hierarchy::ring), so that each host's wire carries the data
// once each way.
// SPDX-License-Identifier: Apache-2.0

#include <algorithm>

#include "algorithms/generators.h"
#include "algorithms/lengths.h"

namespace banyan {
namespace {

// The ring as one rank sees it. Blocks stay those of their places, wherever these are in the ring.
class Ring {
 public:
  explicit Ring(const Group& group) : group_(group), me_(group.me) {
    if (group.hierarchy == nullptr) return;
    places_ = group.hierarchy->ring();
    if (places_.empty()) return;
    me_ = static_cast<int>(std::find(places_.begin(), places_.end(), group.me) - places_.begin());
  }

  // The place so many behind the own one; before it where negative.
  int place(int distance) const {
    const int index = group_.wrap(me_ + distance);
    return places_.empty() ? index : places_[static_cast<size_t>(index)];
  }
  int next() const { return group_.at(place(1)); }
  int before() const { return group_.at(place(-1)); }

 private:
  const Group& group_;
  int me_;                   // index in the ring
  std::vector<int> places_;  // empty: ascending
};

}  // namespace

// In step s the sum of block me - s - 2 arrives with s + 1 contributions and leaves with one more;
// the last one is block me.
void ring_reduce_scatter_phase(ScheduleBuilder& builder, const Group& group, Accumulators& sums) {
  const Ring ring(group);
  const int size = group.size();
  Slice outgoing = sums.own(ring.place(-1));
  for (int step = 0; step < size - 1; ++step) {
    const int block = ring.place(-step - 2);
    const Slice own = sums.own(block);
    const Slice dst = step == size - 2 ? sums.last(block) : sums.room(block);
    builder.send(outgoing, ring.next());
    sums.absorb(block, ring.before(), own, dst);
    outgoing = dst;
  }
  sums.store(group.me);
}

void ring_allgather_phase(ScheduleBuilder& builder, const Group& group, const Blocks& slices) {
  const Ring ring(group);
  for (int step = 0; step < group.size() - 1; ++step) {
    builder.send(slices[static_cast<size_t>(ring.place(-step))], ring.next());
    builder.recv(slices[static_cast<size_t>(ring.place(-step - 1))], ring.before());
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
  const Ring ring(group);
  const bool last = ring.next() == problem.root;
  const uint64_t given = given_length(group.parameters, problem);
  const auto chunks = static_cast<int>(std::min(ring_chunks(output.size, given), problem.count));
  for (int i = 0; i < chunks; ++i) {
    const Part chunk = part_of(problem.count, chunks, i);
    if (!root) builder.recv(elements(output, chunk, problem.element()), ring.before());
    if (!last) builder.send(elements(source, chunk, problem.element()), ring.next());
  }
  if (root) builder.copy(source, output);
}

}  // namespace banyan
