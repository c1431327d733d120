// The user's buffers, agreement and accumulators.
// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <numeric>
#include <utility>

#include "algorithms/generators.h"
#include "algorithms/lengths.h"

namespace banyan {
namespace {

bool cut_in_parts(Collective collective) {
  return collective == Collective::kAllreduce || collective == Collective::kReduce ||
         collective == Collective::kBroadcast;
}

bool at_root(const Group& group, const Problem& problem) {
  return group.at(group.me) == problem.root;
}

uint64_t sum(const std::vector<uint64_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), uint64_t{0});
}

// The last element that a list of blocks reaches; an empty one lies nowhere.
uint64_t extent(const std::vector<uint64_t>& displacements, const std::vector<uint64_t>& counts) {
  uint64_t end = 0;
  for (size_t i = 0; i < counts.size(); ++i)
    if (counts[i] != 0) end = std::max(end, displacements[i] + counts[i]);
  return end;
}

std::vector<Part> listed(const std::vector<uint64_t>& displacements,
                         const std::vector<uint64_t>& counts) {
  std::vector<Part> parts;
  for (size_t i = 0; i < counts.size(); ++i) parts.push_back({displacements[i], counts[i]});
  return parts;
}

std::vector<Part> even_blocks(const Group& group, const Problem& problem) {
  std::vector<Part> parts;
  for (int i = 0; i < group.size(); ++i)
    parts.push_back(cut_in_parts(problem.collective)
                        ? part_of(problem.count, group.size(), i)
                        : Part{static_cast<uint64_t>(i) * problem.count, problem.count});
  return parts;
}

Slice input(uint64_t count, const Problem& problem) {
  return {problem.in_place ? Space::kOutput : Space::kInput, 0, count * problem.element()};
}

Slice output(uint64_t count, const Problem& problem) {
  return {Space::kOutput, 0, count * problem.element()};
}

}  // namespace

Slice whole_input(const Group& group, const Problem& problem) {
  const uint64_t n = problem.count;
  const auto ranks = static_cast<uint64_t>(group.size());
  const auto me = static_cast<uint64_t>(group.me);
  const uint64_t element = problem.element();
  // In place, what this rank gives lies in its block of the output.
  const auto block_of_output = [&](uint64_t begin, uint64_t count) {
    return Slice{Space::kOutput, begin * element, count * element};
  };
  switch (problem.collective) {
    case Collective::kAllreduce: return input(n, problem);
    case Collective::kReduce:
      return at_root(group, problem) ? input(n, problem) : Slice{Space::kInput, 0, n * element};
    case Collective::kBroadcast: return at_root(group, problem) ? input(n, problem) : Slice{};
    case Collective::kAllgather:
      return problem.in_place ? block_of_output(me * n, n) : input(n, problem);
    case Collective::kGather:
      return problem.in_place && at_root(group, problem) ? block_of_output(me * n, n)
                                                         : Slice{Space::kInput, 0, n * element};
    case Collective::kAllgatherv: {
      const uint64_t own = problem.recv_counts[me];
      return problem.in_place ? block_of_output(problem.recv_displacements[me], own)
                              : input(own, problem);
    }
    case Collective::kReduceScatter:
    case Collective::kAlltoall: return input(n * ranks, problem);
    case Collective::kScatter: return at_root(group, problem) ? input(n * ranks, problem) : Slice{};
    case Collective::kReduceScatterv: return input(sum(problem.recv_counts), problem);
    case Collective::kAlltoallv:
      return input(extent(problem.send_displacements, problem.send_counts), problem);
    case Collective::kSend: return {Space::kInput, 0, n * element};
    case Collective::kRecv:
    case Collective::kBarrier:
    case Collective::kFinalize:
    case Collective::kSplit: break;
  }
  return {};
}

Slice whole_output(const Group& group, const Problem& problem) {
  const uint64_t n = problem.count;
  const auto ranks = static_cast<uint64_t>(group.size());
  const auto me = static_cast<size_t>(group.me);
  const uint64_t element = problem.element();
  const auto own_block = [&](uint64_t begin, uint64_t count) {
    return Slice{Space::kOutput, problem.in_place ? begin * element : 0, count * element};
  };
  switch (problem.collective) {
    case Collective::kAllreduce:
    case Collective::kBroadcast: return output(n, problem);
    case Collective::kReduce: return at_root(group, problem) ? output(n, problem) : Slice{};
    case Collective::kAllgather:
    case Collective::kAlltoall: return output(n * ranks, problem);
    case Collective::kGather: return at_root(group, problem) ? output(n * ranks, problem) : Slice{};
    case Collective::kReduceScatter: return own_block(me * n, n);
    case Collective::kScatter:
      return at_root(group, problem) ? own_block(me * n, n) : output(n, problem);
    case Collective::kReduceScatterv:
      return own_block(problem.recv_displacements[me], problem.recv_counts[me]);
    case Collective::kAllgatherv:
    case Collective::kAlltoallv:
      return output(extent(problem.recv_displacements, problem.recv_counts), problem);
    case Collective::kRecv: return output(n, problem);
    case Collective::kSend:
    case Collective::kBarrier:
    case Collective::kFinalize:
    case Collective::kSplit: break;
  }
  return {};
}

std::vector<Part> input_blocks(const Group& group, const Problem& problem) {
  if (problem.collective == Collective::kAlltoallv)
    return listed(problem.send_displacements, problem.send_counts);
  if (problem.collective == Collective::kReduceScatterv)
    return listed(problem.recv_displacements, problem.recv_counts);
  return even_blocks(group, problem);
}

std::vector<Part> output_blocks(const Group& group, const Problem& problem) {
  if (problem.collective == Collective::kAlltoallv || problem.collective == Collective::kAllgatherv)
    return listed(problem.recv_displacements, problem.recv_counts);
  return even_blocks(group, problem);
}

std::vector<Slice> slices_of(Slice buffer, const std::vector<Part>& blocks, uint64_t element) {
  std::vector<Slice> slices;
  slices.reserve(blocks.size());
  for (const Part& block : blocks) slices.push_back(elements(buffer, block, element));
  return slices;
}

bool packed(const std::vector<Slice>& slices) {
  for (size_t i = 1; i < slices.size(); ++i)
    if (slices[i].space != slices[i - 1].space || slices[i].offset != slices[i - 1].end())
      return false;
  return true;
}

void disseminate(ScheduleBuilder& builder, const Group& group) {
  for (int distance = 1; distance < group.size(); distance *= 2) {
    builder.send({}, group.at(group.me + distance));
    builder.recv({}, group.at(group.me - distance));
    builder.fence();
  }
}

void exchange_words(ScheduleBuilder& builder, const Group& group) {
  for (int step = 1; step < group.size(); ++step) builder.send({}, group.at(group.me + step));
  for (int step = 1; step < group.size(); ++step) builder.recv({}, group.at(group.me - step));
  builder.fence();
}

// One round of many messages is over sooner than several rounds, while it is not too many.
void agree(ScheduleBuilder& builder, const Group& group, const Problem& problem) {
  if (!problem.check) return;
  if (group.size() <= kOneRoundMost)
    exchange_words(builder, group);
  else
    disseminate(builder, group);
}

Accumulators::Accumulators(ScheduleBuilder& builder, const Group& group, const Problem& problem,
                           Blocks inputs, std::vector<Slice> targets)
    : Accumulators(builder, problem, std::move(inputs), std::move(targets), Ends{}) {
  // Whoever hears only empty messages cannot pass on what it heard with data.
  bool any_empty = blocks() == 0;
  for (int block = 0; block < blocks(); ++block) any_empty = any_empty || raw(block).size == 0;
  if (any_empty) agree(builder, group, problem);
}

Accumulators::Accumulators(ScheduleBuilder& builder, const Problem& problem, Blocks inputs,
                           std::vector<Slice> targets, Ends ends)
    : builder_(builder),
      problem_(problem),
      accumulator_(problem.accumulator()),
      ends_(ends),
      inputs_(std::move(inputs)),
      targets_(std::move(targets)) {}

Accumulators::Accumulators(ScheduleBuilder& builder, const Problem& problem, Blocks inputs,
                           int block, Slice target, Ends ends)
    : Accumulators(builder, problem, std::move(inputs), {}, ends) {
  only_ = block;
  only_target_ = target;
}

Slice Accumulators::target(int block) const {
  if (!targets_.empty()) return targets_[static_cast<size_t>(block)];
  return block == only_ ? only_target_ : Slice{};
}

uint64_t Accumulators::accumulators_of(uint64_t bytes) const {
  return ends_.sums_in ? bytes : bytes / problem_.element() * size_of(accumulator_);
}

Slice Accumulators::own(int block) {
  if (plain()) return raw(block);
  own_.resize(inputs_.size());
  Slice& own = own_[static_cast<size_t>(block)];
  if (own.size != 0 || raw(block).size == 0) return own;
  own = room(block);
  widen(raw(block), own);
  return own;
}

void Accumulators::widen(Slice raw, Slice dst) {
  builder_.decode(problem_.type, raw, dst);
}

Slice Accumulators::room(int block) {
  return builder_.scratch(accumulators_of(raw(block).size));
}

Slice Accumulators::last(int block) {
  for (const auto& [known, slice] : last_)
    if (known == block) return slice;
  const bool in_target = (same_type() || ends_.sums_out) && target(block).size != 0;
  return last_.emplace_back(block, in_target ? target(block) : room(block)).second;
}

namespace {

// Finished sums are elements as they are.
bool same_as_elements(const Problem& problem) {
  return problem.accumulator() == problem.type && problem.op != ReduceOp::kAvg;
}

}  // namespace

void Accumulators::store(int block) {
  if (!ends_.sums_out && !same_as_elements(problem_))
    finish_sum(builder_, problem_, last(block), target(block));
}

void finish_sum(ScheduleBuilder& builder, const Problem& problem, Slice sum, Slice elements) {
  if (!same_as_elements(problem)) builder.encode(problem.type, sum, elements);
}

void Accumulators::absorb(int block, int peer, Slice partial, Slice dst) {
  const Slice landing = room(block);
  builder_.recv(landing, peer);
  builder_.reduce(accumulator_, partial, landing, dst);
}

std::vector<Slice> output_or_scratch(ScheduleBuilder& builder, const Group& group,
                                     const Problem& problem, const std::vector<Part>& blocks) {
  const Slice output = whole_output(group, problem);
  std::vector<Slice> slices;
  for (const Part& block : blocks)
    slices.push_back(output.size != 0 ? elements(output, block, problem.element())
                                      : builder.scratch(block.count * problem.element()));
  return slices;
}

Accumulators accumulate_parts(ScheduleBuilder& builder, const Group& group,
                              const Problem& problem) {
  const std::vector<Part> blocks = input_blocks(group, problem);
  return {builder, group, problem,
          slices_of(whole_input(group, problem), blocks, problem.element()),
          output_or_scratch(builder, group, problem, blocks)};
}

Accumulators accumulate_scatter(ScheduleBuilder& builder, const Group& group,
                                const Problem& problem) {
  const std::vector<Part> blocks = input_blocks(group, problem);
  std::vector<Slice> targets(blocks.size());
  targets[static_cast<size_t>(group.me)] = whole_output(group, problem);
  return {builder, group, problem,
          slices_of(whole_input(group, problem), blocks, problem.element()), std::move(targets)};
}

namespace {

int segments_of(const Group& group, const Problem& problem) {
  return static_cast<int>(cache_segments(problem.count * problem.element(),
                                         static_cast<uint64_t>(group.size()),
                                         given_length(group.parameters, problem)));
}

}  // namespace

std::vector<Part> cut_evenly(Part whole, int parts) {
  std::vector<Part> cuts;
  cuts.reserve(static_cast<size_t>(parts));
  for (int index = 0; index < parts; ++index) {
    const Part part = part_of(whole.count, parts, index);
    cuts.push_back({whole.begin + part.begin, part.count});
  }
  return cuts;
}

void allreduce_by(ScheduleBuilder& builder, const Group& group, const Problem& problem,
                  ReduceScatterPhase reduce_scatter, AllgatherPhase allgather) {
  const Slice input = whole_input(group, problem);
  const Slice output = whole_output(group, problem);
  const int segments = segments_of(group, problem);
  std::vector<Slice> results, results_before;
  for (int i = 0; i <= segments; ++i) {
    results_before = std::exchange(results, {});
    if (i < segments) {
      const std::vector<Part> blocks =
          cut_evenly(part_of(problem.count, segments, i), group.size());
      results = slices_of(output, blocks, problem.element());
      Accumulators sums(builder, group, problem, slices_of(input, blocks, problem.element()),
                        results);
      reduce_scatter(builder, group, sums);
    }
    if (i > 0) allgather(builder, group, results_before);
  }
}

void reduce_scatter_by(ScheduleBuilder& builder, const Group& group, const Problem& problem,
                       ReduceScatterPhase reduce_scatter) {
  Accumulators sums = accumulate_scatter(builder, group, problem);
  reduce_scatter(builder, group, sums);
}

void reduce_by(ScheduleBuilder& builder, const Group& group, const Problem& problem,
               ReduceScatterPhase reduce_scatter) {
  Accumulators sums = accumulate_parts(builder, group, problem);
  reduce_scatter(builder, group, sums);
  if (group.at(group.me) != problem.root) {
    builder.send(sums.target(group.me), problem.root);
    return;
  }
  for (int index = 0; index < group.size(); ++index)
    if (index != group.me) builder.recv(sums.target(index), group.at(index));
}

void allgather_by(ScheduleBuilder& builder, const Group& group, const Problem& problem,
                  AllgatherPhase allgather) {
  agree(builder, group, problem);
  const std::vector<Slice> output =
      slices_of(whole_output(group, problem), output_blocks(group, problem), problem.element());
  builder.copy(whole_input(group, problem), output[static_cast<size_t>(group.me)]);
  allgather(builder, group, output);
}

}  // namespace banyan
