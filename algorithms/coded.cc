// Sums by a codec are made in two rounds, whatever the number of ranks: everybody's shares to their
// owners, and the sums from their owners to everybody. So each value is encoded twice, where a ring
// would encode partial sums at every rank, and the error does not grow with the ranks.
//
// Contributions and sums are encoded as accumulators. An average is divided, and 16-bit elements
// are made, by everyone after the last decoding: what is sent is then that of the sum, and the same
// bits become the same results.
// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <vector>

#include "algorithms/generators.h"

namespace banyan {

// The owner's share goes the way of all others, so that the bits do not tell who the owner is.
void coded_reduce_scatter_phase(ScheduleBuilder& builder, const Group& group, const Coder& coder,
                                Accumulators& sums, const std::vector<uint64_t>& first,
                                Slice selection) {
  const auto encode = [&](int block) {
    return coder.encode(sums.own(block), first[static_cast<size_t>(block)], selection);
  };
  for (int step = 1; step < group.size(); ++step) {
    const int to = group.wrap(group.me + step);
    builder.send(encode(to), group.at(to));
  }
  std::vector<Slice> slots(group.ranks.size());
  for (int index = 0; index < group.size(); ++index) {
    Slice& slot = slots[static_cast<size_t>(index)];
    if (index == group.me) {
      slot = encode(group.me);
    } else {
      slot = coder.room(sums.own(group.me));
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
                           const Coder& coder, const std::vector<Slice>& values,
                           const std::vector<uint64_t>& first, Slice selection) {
  const auto me = static_cast<size_t>(group.me);
  std::vector<Slice> slots(values.size());
  for (size_t index = 0; index < slots.size(); ++index)
    slots[index] = index == me ? coder.encode(values[index], first[index], selection)
                               : coder.room(values[index]);
  if (group.size() > 1) named_allgather_phase(builder, group, phase, true, slots);
  for (size_t index = 0; index < slots.size(); ++index) {
    const size_t next = (me + slots.size() - index) % slots.size();  // as they come, if all at once
    coder.decode(slots[next], values[next]);
  }
}

namespace {

// What a sum by a codec begins with: the vector, and its blocks as elements or as accumulators.
struct Begin {
  Slice vector;
  uint64_t width;  // of an element of it
  bool sums_in;
};

// A selection is from the whole vector, so that has to be there as accumulators.
Begin begin_of(ScheduleBuilder& builder, const Group& group, const Problem& problem,
               const Coder& coder) {
  const Slice input = whole_input(group, problem);
  const DataType accumulator = problem.accumulator();
  const bool plain = problem.type == accumulator && problem.op != ReduceOp::kPreMulSum;
  if (!coder.selects() || plain) return {input, problem.element(), plain};
  const uint64_t width = size_of(accumulator);
  const Slice wide = builder.scratch(input.size / problem.element() * width);
  builder.decode(problem.type, input, wide);
  return {wide, width, true};
}

std::vector<uint64_t> first_of(const std::vector<Part>& blocks) {
  std::vector<uint64_t> first;
  first.reserve(blocks.size());
  for (const Part& block : blocks) first.push_back(block.begin);
  return first;
}

}  // namespace

void coded_allreduce(ScheduleBuilder& builder, const Group& group, const Problem& problem) {
  const CodecChoice codec = group.parameters.inter_codec;
  const Coder contributions(builder, group, problem, codec, Coder::Of::kContributions, true);
  const Coder results(builder, group, problem, codec, Coder::Of::kSums, true);
  std::vector<Part> blocks;
  for (int index = 0; index < group.size(); ++index)
    blocks.push_back(part_of_units(problem.count, unit_of(group), group.size(), index));
  const std::vector<Slice> outputs =
      slices_of(whole_output(group, problem), blocks, problem.element());
  std::vector<Slice> values = outputs;
  const DataType accumulator = problem.accumulator();
  if (accumulator != problem.type)
    values = slices_of(builder.scratch(problem.count * size_of(accumulator)), blocks,
                       size_of(accumulator));
  if (blocks.back().count == 0) agree(builder, group, problem);
  const Begin begin = begin_of(builder, group, problem, contributions);
  Accumulators sums(builder, problem, slices_of(begin.vector, blocks, begin.width), values,
                    {.sums_in = begin.sums_in, .sums_out = true});
  const std::vector<uint64_t> first = first_of(blocks);
  const Slice selection = contributions.select(group, begin.vector);
  coded_reduce_scatter_phase(builder, group, contributions, sums, first, selection);
  coded_allgather_phase(builder, group, Phase::kDirect, results, values, first,
                        results.looks() ? selection : Slice{});
  for (size_t index = 0; index < values.size(); ++index)
    finish_sum(builder, problem, values[index], outputs[index]);
}

void coded_reduce_scatter(ScheduleBuilder& builder, const Group& group, const Problem& problem) {
  const Coder coder(builder, group, problem, group.parameters.inter_codec,
                    Coder::Of::kContributions, true);
  const std::vector<Part> blocks = input_blocks(group, problem);
  const auto is_empty = [](const Part& block) { return block.count == 0; };
  if (std::any_of(blocks.begin(), blocks.end(), is_empty)) agree(builder, group, problem);
  const Begin begin = begin_of(builder, group, problem, coder);
  Accumulators sums(builder, problem, slices_of(begin.vector, blocks, begin.width), group.me,
                    whole_output(group, problem), {.sums_in = begin.sums_in, .sums_out = false});
  coded_reduce_scatter_phase(builder, group, coder, sums, first_of(blocks),
                             coder.select(group, begin.vector));
}

}  // namespace banyan
