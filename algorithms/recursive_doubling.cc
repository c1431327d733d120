// In round k of recursive doubling everybody exchanges everything with the rank whose index differs
// in bit k. There are ceil(log2 P) rounds; the ranks beyond the largest power of two fold into a
// partner first and are told the result at the end (Rabenseifner, Träff 2004).
// SPDX-License-Identifier: Apache-2.0

#include <bit>

#include "algorithms/generators.h"

namespace banyan {
namespace {

struct Fold {
  int core;     // the largest power of two within P
  int partner;  // the index that this one folds into, or that folds into this one; -1: none
  bool extra;   // this one is beyond the core
};

Fold fold_of(const Group& group) {
  const auto size = static_cast<unsigned>(group.size());
  const int core = static_cast<int>(std::bit_floor(size));
  const bool extra = group.me >= core;
  const int partner = extra ? group.me - core : group.me + core;
  return {core, partner < group.size() ? partner : -1, extra};
}

}  // namespace

// Both partners of an exchange add the same two sums, so all ranks end with the same bits.
void recursive_doubling_phase(ScheduleBuilder& builder, const Group& group, Accumulators& sum) {
  const Fold fold = fold_of(group);
  if (fold.extra) {
    builder.send(sum.own(0), group.at(fold.partner));
    builder.recv(sum.target(0), group.at(fold.partner));
    return;
  }
  Slice partial = sum.own(0);
  if (fold.partner >= 0) {
    const Slice dst = sum.room(0);
    sum.absorb(0, group.at(fold.partner), partial, dst);
    partial = dst;
  }
  for (int distance = 1; distance < fold.core; distance *= 2) {
    const int peer = group.at(group.me ^ distance);
    // In place on two ranks the sum would overwrite what is still being sent, and neither side
    // could receive before its own message had left.
    const bool last = distance * 2 == fold.core && sum.last(0) != partial;
    const Slice dst = last ? sum.last(0) : sum.room(0);
    builder.send(partial, peer);
    sum.absorb(0, peer, partial, dst);
    partial = dst;
  }
  builder.copy(partial, sum.last(0));
  sum.store(0);
  if (fold.partner >= 0) builder.send(sum.target(0), group.at(fold.partner));
}

void recursive_doubling_allreduce(ScheduleBuilder& builder, const Group& group,
                                  const Problem& problem) {
  Accumulators sum(builder, group, problem, {whole_input(group, problem)},
                   {whole_output(group, problem)});
  recursive_doubling_phase(builder, group, sum);
}

void recursive_doubling_barrier(ScheduleBuilder& builder, const Group& group, const Problem&) {
  const Fold fold = fold_of(group);
  if (fold.extra) {
    builder.send({}, group.at(fold.partner));
    builder.recv({}, group.at(fold.partner));
    return;
  }
  if (fold.partner >= 0) builder.recv({}, group.at(fold.partner));
  builder.fence();
  for (int distance = 1; distance < fold.core; distance *= 2) {
    builder.send({}, group.at(group.me ^ distance));
    builder.recv({}, group.at(group.me ^ distance));
    builder.fence();
  }
  if (fold.partner >= 0) builder.send({}, group.at(fold.partner));
}

}  // namespace banyan
