// Direct lets every rank talk to every other, in one round. Sums are taken in the order of ranks.
// Raw elements travel, so 16- and 8-bit floats are added in wide accumulators by the one rank that
// owns their block, and half or a quarter of the bytes are sent.
// SPDX-License-Identifier: Apache-2.0

#include <vector>

#include "algorithms/generators.h"
#include "algorithms/lengths.h"

namespace banyan {
namespace {

class OrderedSum {
 public:
  OrderedSum(ScheduleBuilder& builder, const Group& group, Accumulators& sums, int block,
             const Problem& problem)
      : builder_(builder),
        group_(group),
        sums_(sums),
        block_(block),
        problem_(problem),
        raw_(sums.sends_raw()) {}

  void add_all() {
    for (int index = 0; index < group_.size(); ++index) add(index);
    sums_.store(block_);
  }

 private:
  Slice contribution_of(int index) {
    if (index == group_.me) return contribution(sums_, block_);
    const Slice landing = raw_ ? builder_.scratch(sums_.raw(block_).size) : sums_.room(block_);
    builder_.recv(landing, group_.at(index));
    return landing;
  }

  void add(int index) {
    const Slice part = contribution_of(index);
    if (index == 0 && !raw_) {
      partial_ = part;
      return;
    }
    const bool last = index + 1 == group_.size();
    const Slice dst = last ? sums_.last(block_) : sums_.room(block_);
    if (index == 0)
      builder_.decode(problem_.type, part, dst);
    else if (raw_)
      builder_.decode_add(problem_.type, partial_, part, dst);
    else
      builder_.reduce(sums_.type(), partial_, part, dst);
    partial_ = dst;
  }

  ScheduleBuilder& builder_;
  const Group& group_;
  Accumulators& sums_;
  int block_;
  const Problem& problem_;
  bool raw_;
  Slice partial_;
};

// Sends out(i) to every other place i and receives in(i) from it. All sends come first, so that
// whoever executes steps in their order keeps nobody waiting.
template <typename Out, typename In>
void exchange_at_once(ScheduleBuilder& builder, const Group& group, Out out, In in) {
  for (int step = 1; step < group.size(); ++step) {
    const int to = group.wrap(group.me + step);
    builder.send(out(to), group.at(to));
  }
  for (int step = 1; step < group.size(); ++step) {
    const int from = group.wrap(group.me - step);
    builder.recv(in(from), group.at(from));
  }
}

}  // namespace

Slice contribution(Accumulators& sums, int block) {
  return sums.sends_raw() ? sums.raw(block) : sums.own(block);
}

void add_in_order(ScheduleBuilder& builder, const Group& group, Accumulators& sums, int block,
                  const Problem& problem) {
  OrderedSum(builder, group, sums, block, problem).add_all();
}

void send_to_others(ScheduleBuilder& builder, const Group& group, Slice slice) {
  for (int step = 1; step < group.size(); ++step) builder.send(slice, group.at(group.me + step));
}

void direct_reduce_scatter_phase(ScheduleBuilder& builder, const Group& group, Accumulators& sums,
                                 const Problem& problem) {
  for (int step = 1; step < group.size(); ++step) {
    const int to = group.wrap(group.me + step);
    builder.send(contribution(sums, to), group.at(to));
  }
  add_in_order(builder, group, sums, group.me, problem);
}

void direct_allgather_phase(ScheduleBuilder& builder, const Group& group, const Blocks& slices) {
  exchange_at_once(
      builder, group, [&](int) { return slices[static_cast<size_t>(group.me)]; },
      [&](int from) { return slices[static_cast<size_t>(from)]; });
}

void direct_allreduce(ScheduleBuilder& builder, const Group& group, const Problem& problem) {
  if (!group.parameters.inter_codec.is_exact()) return coded_allreduce(builder, group, problem);
  const Slice input = whole_input(group, problem);
  const Slice output = whole_output(group, problem);
  if (input.size <= kOneShotBytes) {
    Accumulators sum(builder, group, problem, {input}, {output});
    send_to_others(builder, group, contribution(sum, 0));
    add_in_order(builder, group, sum, 0, problem);
    return;
  }
  Accumulators sums = accumulate_parts(builder, group, problem);
  direct_reduce_scatter_phase(builder, group, sums, problem);
  direct_allgather_phase(builder, group,
                         slices_of(output, output_blocks(group, problem), problem.element()));
}

void direct_reduce_scatter(ScheduleBuilder& builder, const Group& group, const Problem& problem) {
  if (!group.parameters.inter_codec.is_exact())
    return coded_reduce_scatter(builder, group, problem);
  Accumulators sums = accumulate_scatter(builder, group, problem);
  direct_reduce_scatter_phase(builder, group, sums, problem);
}

// A small vector goes from all to the root, and a word from it to all others. Of a large one each
// rank sums one block, and the root gathers them.
void direct_reduce(ScheduleBuilder& builder, const Group& group, const Problem& problem) {
  const Slice input = whole_input(group, problem);
  const bool root = group.at(group.me) == problem.root;
  if (input.size <= kOneShotBytes) {
    Accumulators sum(builder, group, problem, {input}, {whole_output(group, problem)});
    if (root) {
      if (problem.check) send_to_others(builder, group, {});
      add_in_order(builder, group, sum, 0, problem);
      return;
    }
    const Slice own = contribution(sum, 0);
    if (!problem.check) {
      builder.send(own, problem.root);
      return;
    }
    exchange_at_once(
        builder, group, [&](int to) { return group.at(to) == problem.root ? own : Slice{}; },
        [](int) { return Slice{}; });
    return;
  }
  agree(builder, group, problem);
  Accumulators sums = accumulate_parts(builder, group, problem);
  direct_reduce_scatter_phase(builder, group, sums, problem);
  if (!root) builder.send(sums.target(group.me), problem.root);
  for (int index = 0; root && index < group.size(); ++index)
    if (index != group.me) builder.recv(sums.target(index), group.at(index));
}

// Small blocks go through scratch, so that hearing from all others is agreement enough. The own
// block is copied last, while messages are on their way.
void direct_allgather(ScheduleBuilder& builder, const Group& group, const Problem& problem) {
  const std::vector<Slice> output =
      slices_of(whole_output(group, problem), output_blocks(group, problem), problem.element());
  uint64_t total = 0;
  for (const Slice& slice : output) total += slice.size;
  const bool staged = total <= kStagedBytes && problem.check;
  if (!staged) agree(builder, group, problem);
  std::vector<Slice> landings = output;
  if (staged)
    for (Slice& landing : landings) landing = builder.scratch(landing.size);
  const auto me = static_cast<size_t>(group.me);
  const Slice own = whole_input(group, problem);
  exchange_at_once(
      builder, group, [&](int) { return own; },
      [&](int from) { return landings[static_cast<size_t>(from)]; });
  if (staged) builder.fence();
  builder.copy(own, output[me]);
  for (size_t index = 0; staged && index < output.size(); ++index)
    if (index != me) builder.copy(landings[index], output[index]);
}

// Small: through scratch, like allgather.
void direct_broadcast(ScheduleBuilder& builder, const Group& group, const Problem& problem) {
  const Slice output = whole_output(group, problem);
  const bool root = group.at(group.me) == problem.root;
  const Slice source = whole_input(group, problem);
  if (problem.check && output.size <= kOneShotBytes) {
    const Slice stage = root ? source : builder.scratch(output.size);
    exchange_at_once(
        builder, group, [&](int) { return root ? source : Slice{}; },
        [&](int from) { return group.at(from) == problem.root ? stage : Slice{}; });
    builder.fence();
    builder.copy(stage, output);
    return;
  }
  agree(builder, group, problem);
  if (!root) {
    builder.recv(output, problem.root);
    return;
  }
  send_to_others(builder, group, source);
  builder.copy(source, output);
}

void direct_gather(ScheduleBuilder& builder, const Group& group, const Problem& problem) {
  agree(builder, group, problem);
  const Slice own = whole_input(group, problem);
  if (group.at(group.me) != problem.root) {
    builder.send(own, problem.root);
    return;
  }
  const std::vector<Slice> output =
      slices_of(whole_output(group, problem), output_blocks(group, problem), problem.element());
  for (int index = 0; index < group.size(); ++index) {
    if (index == group.me)
      builder.copy(own, output[static_cast<size_t>(index)]);
    else
      builder.recv(output[static_cast<size_t>(index)], group.at(index));
  }
}

void direct_scatter(ScheduleBuilder& builder, const Group& group, const Problem& problem) {
  agree(builder, group, problem);
  const Slice output = whole_output(group, problem);
  if (group.at(group.me) != problem.root) {
    builder.recv(output, problem.root);
    return;
  }
  const std::vector<Slice> input =
      slices_of(whole_input(group, problem), input_blocks(group, problem), problem.element());
  for (int index = 0; index < group.size(); ++index) {
    if (index == group.me)
      builder.copy(input[static_cast<size_t>(index)], output);
    else
      builder.send(input[static_cast<size_t>(index)], group.at(index));
  }
}

// Through scratch: whoever has heard from all others has their blocks, and may write.
void direct_alltoall(ScheduleBuilder& builder, const Group& group, const Problem& problem) {
  const std::vector<Slice> input =
      slices_of(whole_input(group, problem), input_blocks(group, problem), problem.element());
  const std::vector<Slice> output =
      slices_of(whole_output(group, problem), output_blocks(group, problem), problem.element());
  std::vector<Slice> stage;
  for (const Slice& slice : output) stage.push_back(builder.scratch(slice.size));
  const auto me = static_cast<size_t>(group.me);
  exchange_at_once(
      builder, group, [&](int to) { return input[static_cast<size_t>(to)]; },
      [&](int from) { return stage[static_cast<size_t>(from)]; });
  builder.fence();
  // Lists of counts concern pairs of ranks only; that all pairs agree must be told.
  if (problem.collective == Collective::kAlltoallv) agree(builder, group, problem);
  builder.copy(input[me], output[me]);
  for (size_t index = 0; index < output.size(); ++index)
    if (index != me) builder.copy(stage[index], output[index]);
}

void direct_barrier(ScheduleBuilder& builder, const Group& group, const Problem&) {
  exchange_words(builder, group);
}

}  // namespace banyan
