// Leaders are ranks, one of every part, that do what is to be done between the parts, for small
// messages: few messages cross a level, and none waits for another of the same part. On the way up
// everybody gives to the leader, at the top the leaders are among themselves, on the way down each
// tells its part (Karonis et al. 2000).
// SPDX-License-Identifier: Apache-2.0

#include <vector>

#include "algorithms/generators.h"
#include "algorithms/lengths.h"
#include "algorithms/levels.h"

namespace banyan {
namespace {

bool is_star(const Group& members) {
  return members.size() <= kStarMost;
}

int leader_of(const Rung& rung) {
  return rung.members.at(rung.leader);
}

Ladder ladder_for(const Group& group, int first) {
  return ladder_of(group, *Levels(group), first);
}

// The rungs below the top, on which this rank leads or is led.
size_t below_top(const Ladder& ladder) {
  return ladder.rungs.size() - (ladder.at_top ? 1 : 0);
}

// The sum of a part at its leader.
void sum_to_leader(ScheduleBuilder& builder, const Rung& rung, Accumulators& sum,
                   const Problem& problem) {
  if (!is_star(rung.members)) {
    binomial_reduce_phase(builder, rung.members, leader_of(rung), sum);
  } else if (rung.members.me == rung.leader) {
    add_in_order(builder, rung.members, sum, 0, problem);
  } else {
    builder.send(contribution(sum, 0), leader_of(rung));
  }
}

// Gives what this rank, as a leader, has of the sum before the top, in accumulators; empty where it
// leads nobody.
Slice sum_upwards(ScheduleBuilder& builder, const Ladder& ladder, Slice given,
                  const Problem& problem) {
  Ends ends{.sums_in = false, .sums_out = true};
  for (size_t index = 0; index < below_top(ladder); ++index) {
    const Rung& rung = ladder.rungs[index];
    Accumulators sums(builder, problem, {given}, {Slice{}}, ends);
    if (rung.members.size() == 1) {
      given = sums.own(0);
    } else {
      sum_to_leader(builder, rung, sums, problem);
      given = ladder.leads(index) ? sums.last(0) : Slice{};
    }
    ends.sums_in = true;
  }
  if (below_top(ladder) != 0) return given;
  return Accumulators(builder, problem, {given}, {Slice{}}, ends).own(0);
}

// From the leader of a part to the others.
void tell(ScheduleBuilder& builder, const Rung& rung, Slice source, Slice output) {
  if (!is_star(rung.members))
    binomial_broadcast_phase(builder, rung.members, leader_of(rung), source, output);
  else if (rung.members.me == rung.leader)
    send_to_others(builder, rung.members, source);
  else
    builder.recv(output, leader_of(rung));
}

// Empty messages of everybody to the leader.
void gather_words(ScheduleBuilder& builder, const Rung& rung) {
  if (rung.members.me != rung.leader) {
    builder.send({}, leader_of(rung));
    return;
  }
  for (int step = 1; step < rung.members.size(); ++step)
    builder.recv({}, rung.members.at(rung.leader + step));
  builder.fence();
}

// Downwards, below the top.
void tell_below(ScheduleBuilder& builder, const Ladder& ladder, Slice source, Slice output) {
  for (size_t rung = below_top(ladder); rung-- > 0;) {
    const bool leads = ladder.leads(rung);
    tell(builder, ladder.rungs[rung], leads ? source : Slice{}, output);
    // What empty messages say no bytes order.
    if (output.size == 0) builder.fence();
    if (!leads) source = output;
  }
}

}  // namespace

void hear_all(ScheduleBuilder& builder, const Ladder& ladder) {
  for (size_t rung = 0; rung < below_top(ladder); ++rung) gather_words(builder, ladder.rungs[rung]);
  if (ladder.at_top) disseminate(builder, ladder.rungs.back().members);
}

void tell_all(ScheduleBuilder& builder, const Ladder& ladder) {
  if (ladder.at_top) {
    builder.fence();
    const Rung& top = ladder.rungs.back();
    binomial_broadcast_phase(builder, top.members, leader_of(top), {}, {});
  }
  tell_below(builder, ladder, {}, {});
}

void leaders_allreduce(ScheduleBuilder& builder, const Group& group, const Problem& problem) {
  const Ladder ladder = ladder_for(group, -1);
  const Slice output = whole_output(group, problem);
  const Slice sum = sum_upwards(builder, ladder, whole_input(group, problem), problem);
  if (ladder.at_top) {
    Accumulators sums(builder, problem, {sum}, {output}, {.sums_in = true, .sums_out = false});
    recursive_doubling_phase(builder, ladder.rungs.back().members, sums);
  }
  tell_below(builder, ladder, output, output);
}

// Sums go up to the root, which then tells all that it has heard from all.
void leaders_reduce(ScheduleBuilder& builder, const Group& group, const Problem& problem) {
  const Ladder ladder = ladder_for(group, group.place_of(problem.root));
  const Slice sum = sum_upwards(builder, ladder, whole_input(group, problem), problem);
  if (ladder.at_top) {
    const Group& leaders = ladder.rungs.back().members;
    Accumulators sums(builder, problem, {sum}, {whole_output(group, problem)},
                      {.sums_in = true, .sums_out = false});
    binomial_reduce_phase(builder, leaders, problem.root, sums);
  }
  if (problem.check) tell_all(builder, ladder);
}

// The root's data come after the leaders have heard from everybody.
void leaders_broadcast(ScheduleBuilder& builder, const Group& group, const Problem& problem) {
  const Ladder ladder = ladder_for(group, group.place_of(problem.root));
  const bool is_root = group.at(group.me) == problem.root;
  const Slice output = whole_output(group, problem);
  const Slice source = is_root ? whole_input(group, problem) : output;
  if (problem.check) hear_all(builder, ladder);
  if (ladder.at_top)
    binomial_broadcast_phase(builder, ladder.rungs.back().members, problem.root, source, output);
  tell_below(builder, ladder, source, output);
  if (is_root) builder.copy(source, output);
}

void leaders_barrier(ScheduleBuilder& builder, const Group& group, const Problem&) {
  const Ladder ladder = ladder_for(group, -1);
  hear_all(builder, ladder);
  tell_below(builder, ladder, {}, {});
}

}  // namespace banyan
