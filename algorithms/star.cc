// In a star everybody sends to one rank, the hub, which sends everybody the result. There are 2(P -
// 1) messages in all, the fewest there can be, and two of them at each rank but the hub. That is
// cheapest where ranks share cores, so that the time of a call is the sum of what all of them do.
// Sums are taken in the order of ranks, in wide accumulators for 16- and 8-bit floats, which travel
// as they are. What carries no data carries the agreement of arguments.
// SPDX-License-Identifier: Apache-2.0

#include <vector>

#include "algorithms/generators.h"

namespace banyan {
namespace {

int hub_of(const Group& group, const Problem& problem) {
  const bool rooted =
      problem.collective == Collective::kReduce || problem.collective == Collective::kBroadcast;
  return rooted ? problem.root : group.ranks.front();
}

// What a rank sends the hub, and the hub sends back to all.
void give_and_take(ScheduleBuilder& builder, int hub, Slice given, Slice taken) {
  builder.send(given, hub);
  builder.recv(taken, hub);
}

void hear_from_others(ScheduleBuilder& builder, const Group& group) {
  for (int step = 1; step < group.size(); ++step) builder.recv({}, group.at(group.me + step));
  builder.fence();
}

}  // namespace

void star_allreduce(ScheduleBuilder& builder, const Group& group, const Problem& problem) {
  const int hub = hub_of(group, problem);
  const Slice output = whole_output(group, problem);
  Accumulators sum(builder, group, problem, {whole_input(group, problem)}, {output});
  if (group.at(group.me) != hub) {
    give_and_take(builder, hub, contribution(sum, 0), output);
    return;
  }
  add_in_order(builder, group, sum, 0, problem);
  send_to_others(builder, group, output);
}

void star_reduce(ScheduleBuilder& builder, const Group& group, const Problem& problem) {
  const int hub = hub_of(group, problem);
  Accumulators sum(builder, group, problem, {whole_input(group, problem)},
                   {whole_output(group, problem)});
  if (group.at(group.me) != hub) {
    builder.send(contribution(sum, 0), hub);
    if (problem.check) builder.recv({}, hub);
    return;
  }
  add_in_order(builder, group, sum, 0, problem);
  builder.fence();
  if (problem.check) send_to_others(builder, group, {});
}

void star_broadcast(ScheduleBuilder& builder, const Group& group, const Problem& problem) {
  const int hub = hub_of(group, problem);
  const Slice output = whole_output(group, problem);
  if (group.at(group.me) != hub) {
    if (problem.check) builder.send({}, hub);
    builder.recv(output, hub);
    return;
  }
  if (problem.check) hear_from_others(builder, group);
  const Slice source = whole_input(group, problem);
  send_to_others(builder, group, source);
  builder.copy(source, output);
}

// Blocks go through scratch: the hub writes its output once it has heard from all others. Those of
// allgatherv do not, since they lie elsewhere on each rank.
void star_allgather(ScheduleBuilder& builder, const Group& group, const Problem& problem) {
  const int hub = hub_of(group, problem);
  const Slice own = whole_input(group, problem);
  const Slice output = whole_output(group, problem);
  if (group.at(group.me) != hub) {
    give_and_take(builder, hub, own, output);
    return;
  }
  const Slice stage = builder.scratch(output.size);
  for (int index = 0; index < group.size(); ++index) {
    const Slice landing = stage.sub(static_cast<uint64_t>(index) * own.size, own.size);
    if (index == group.me)
      builder.copy(own, landing);
    else
      builder.recv(landing, group.at(index));
  }
  builder.fence();
  send_to_others(builder, group, stage);
  builder.copy(stage, output);
}

void star_barrier(ScheduleBuilder& builder, const Group& group, const Problem& problem) {
  const int hub = hub_of(group, problem);
  if (group.at(group.me) != hub) {
    give_and_take(builder, hub, {}, {});
    return;
  }
  hear_from_others(builder, group);
  send_to_others(builder, group, {});
}

}  // namespace banyan
