// Sums by a codec are made in two rounds, whatever the number of ranks: everybody's shares to their
// owners, and the sums from their owners to everybody. So each value is encoded twice, where a ring
// would encode partial sums at every rank, and the error does not grow with the ranks.
//
// Contributions and sums are encoded as accumulators. An average is divided, and 16-bit elements
// are made, by everyone after the last decoding: what is sent is then that of the sum, and the same
// bits become the same results.
// SPDX-License-Identifier: Apache-2.0

#include <vector>

#include "algorithms/generators.h"

namespace banyan {

// The owner's share goes the way of all others, so that the bits do not tell who the owner is.
void coded_reduce_scatter_phase(ScheduleBuilder& builder, const Group& group, const Coder& coder,
                                Accumulators& sums) {
  for (int step = 1; step < group.size(); ++step) {
    const int to = group.wrap(group.me + step);
    builder.send(coder.encode(sums.own(to)), group.at(to));
  }
  std::vector<Slice> slots(group.ranks.size());
  for (int index = 0; index < group.size(); ++index) {
    Slice& slot = slots[static_cast<size_t>(index)];
    const Slice own = sums.own(group.me);
    if (index == group.me) {
      slot = coder.encode(own);
    } else {
      slot = coder.room(own);
      builder.recv(slot, group.at(index));
    }
  }
  const Slice partial = sums.room(group.me);
  coder.decode(slots.front(), partial);
  for (size_t index = 1; index < slots.size(); ++index)
    coder.decode_add(partial, slots[index],
                     index + 1 == slots.size() ? sums.last(group.me) : partial);
  sums.store(group.me);
}

void coded_allgather_phase(ScheduleBuilder& builder, const Group& group, Phase phase,
                           const Coder& coder, const std::vector<Slice>& values) {
  const auto me = static_cast<size_t>(group.me);
  std::vector<Slice> slots(values.size());
  for (size_t index = 0; index < slots.size(); ++index)
    slots[index] = index == me ? coder.encode(values[index]) : coder.room(values[index]);
  if (group.size() > 1) named_allgather_phase(builder, group, phase, true, slots);
  for (size_t index = 0; index < slots.size(); ++index) {
    const size_t next = (me + slots.size() - index) % slots.size();  // as they come, if all at once
    coder.decode(slots[next], values[next]);
  }
}

void coded_allreduce(ScheduleBuilder& builder, const Group& group, const Problem& problem) {
  const Coder coder(builder, group, problem, group.parameters.inter_codec);
  const std::vector<Part> blocks = input_blocks(group, problem);
  const std::vector<Slice> outputs =
      slices_of(whole_output(group, problem), blocks, problem.element());
  std::vector<Slice> values = outputs;
  const DataType accumulator = problem.accumulator();
  if (accumulator != problem.type)
    values = slices_of(builder.scratch(problem.count * size_of(accumulator)), blocks,
                       size_of(accumulator));
  if (problem.count < blocks.size()) agree(builder, group, problem);
  Accumulators sums(builder, problem,
                    slices_of(whole_input(group, problem), blocks, problem.element()), values,
                    {.sums_in = false, .sums_out = true});
  coded_reduce_scatter_phase(builder, group, coder, sums);
  coded_allgather_phase(builder, group, Phase::kDirect, coder, values);
  for (size_t index = 0; index < values.size(); ++index)
    finish_sum(builder, problem, values[index], outputs[index]);
}

}  // namespace banyan
