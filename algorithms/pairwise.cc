// In step d of a pairwise exchange every rank gives to me + d and takes from me - d. There are P -
// 1 messages of one block each, and no block passes through a third rank.
// SPDX-License-Identifier: Apache-2.0

#include <vector>

#include "algorithms/generators.h"

namespace banyan {
namespace {

void exchange(ScheduleBuilder& builder, const Group& group, const std::vector<Slice>& input,
              const std::vector<Slice>& output) {
  for (int step = 1; step < group.size(); ++step) {
    const int to = group.wrap(group.me + step);
    const int from = group.wrap(group.me - step);
    builder.send(input[static_cast<size_t>(to)], group.at(to));
    builder.recv(output[static_cast<size_t>(from)], group.at(from));
  }
}

std::vector<Slice> room_for(ScheduleBuilder& builder, const std::vector<Slice>& slices) {
  std::vector<Slice> room;
  for (const Slice& slice : slices) room.push_back(builder.scratch(slice.size));
  return room;
}

}  // namespace

std::vector<Slice> set_aside(ScheduleBuilder& builder, const std::vector<Slice>& slices) {
  std::vector<Slice> copies = room_for(builder, slices);
  for (size_t index = 0; index < slices.size(); ++index) builder.copy(slices[index], copies[index]);
  return copies;
}

// With lists of counts, two ranks may disagree without a third one's knowledge: blocks arrive in
// scratch, and agreement comes after them.
void pairwise_alltoall(ScheduleBuilder& builder, const Group& group, const Problem& problem) {
  const bool lists = problem.check && problem.collective == Collective::kAlltoallv;
  if (!lists) agree(builder, group, problem);
  const auto me = static_cast<size_t>(group.me);
  std::vector<Slice> input =
      slices_of(whole_input(group, problem), input_blocks(group, problem), problem.element());
  const std::vector<Slice> output =
      slices_of(whole_output(group, problem), output_blocks(group, problem), problem.element());
  if (problem.in_place) input = set_aside(builder, input);
  if (!lists) {
    exchange(builder, group, input, output);
    if (!problem.in_place) builder.copy(input[me], output[me]);
    return;
  }
  std::vector<Slice> stage = room_for(builder, output);
  stage[me] = input[me];
  exchange(builder, group, input, stage);
  builder.fence();
  disseminate(builder, group);
  for (size_t index = 0; index < output.size(); ++index) builder.copy(stage[index], output[index]);
}

// Every rank gets the others' partial sums of its block, nearest first.
void pairwise_reduce_scatter_phase(ScheduleBuilder& builder, const Group& group,
                                   Accumulators& sums) {
  Slice partial = sums.own(group.me);
  for (int step = 1; step < group.size(); ++step) {
    const int to = group.wrap(group.me + step);
    const bool last = step + 1 == group.size();
    const Slice dst = last ? sums.last(group.me) : sums.room(group.me);
    builder.send(sums.own(to), group.at(to));
    sums.absorb(group.me, group.at(group.me - step), partial, dst);
    partial = dst;
  }
  sums.store(group.me);
}

void pairwise_reduce_scatter(ScheduleBuilder& builder, const Group& group, const Problem& problem) {
  reduce_scatter_by(builder, group, problem, pairwise_reduce_scatter_phase);
}

void pairwise_allreduce(ScheduleBuilder& builder, const Group& group, const Problem& problem) {
  allreduce_by(builder, group, problem, pairwise_reduce_scatter_phase, direct_allgather_phase);
}

}  // namespace banyan
