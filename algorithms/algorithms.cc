// SPDX-License-Identifier: Apache-2.0

#include "algorithms/algorithms.h"

#include <fmt/core.h>

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <initializer_list>
#include <utility>

#include "algorithms/generators.h"
#include "src/base/same_word.h"

namespace banyan {
namespace {

using Row = std::pair<Collective, Generator>;

constexpr Algorithm algorithm(std::string_view name, std::string_view text,
                              std::initializer_list<Row> rows) {
  Algorithm made{name, text, {}};
  for (const Row& row : rows) made.generators[static_cast<size_t>(row.first)] = row.second;
  return made;
}

constexpr Algorithm by_levels(Algorithm made) {
  made.by_levels = true;
  return made;
}

constexpr Algorithm taking(Algorithm made, std::initializer_list<ParameterKey> keys,
                           std::initializer_list<Collective> collectives) {
  for (const ParameterKey key : keys)
    for (const Collective collective : collectives)
      made.parameters[static_cast<size_t>(key)] |= uint32_t{1} << static_cast<int>(collective);
  return made;
}

constexpr Algorithm encoding(Algorithm made, std::initializer_list<Collective> collectives) {
  for (const Collective collective : collectives)
    made.encoding |= uint32_t{1} << static_cast<int>(collective);
  return made;
}

using enum Collective;
using enum ParameterKey;

constexpr Algorithm kAlgorithms[] = {
    algorithm("recursive_doubling", "everything to the rank that differs in bit k; log2 P rounds",
              {{kAllreduce, recursive_doubling_allreduce},
               {kBarrier, recursive_doubling_barrier},
               {kFinalize, recursive_doubling_barrier},
               {kSplit, recursive_doubling_barrier}}),
    taking(algorithm("circulant", "least volume in 2 log2 P rounds for any P (Träff 2024)",
                     {{kAllreduce, circulant_allreduce},
                      {kReduce, circulant_reduce},
                      {kBroadcast, circulant_broadcast},
                      {kAllgather, circulant_allgather},
                      {kAllgatherv, circulant_allgather},
                      {kReduceScatter, circulant_reduce_scatter},
                      {kReduceScatterv, circulant_reduce_scatter}}),
           {kSegment}, {kAllreduce}),
    taking(algorithm("ring", "neighbours only, least volume in 2(P-1) rounds",
                     {{kAllreduce, ring_allreduce},
                      {kReduce, ring_reduce},
                      {kBroadcast, ring_broadcast},
                      {kAllgather, ring_allgather},
                      {kAllgatherv, ring_allgather},
                      {kReduceScatter, ring_reduce_scatter},
                      {kReduceScatterv, ring_reduce_scatter}}),
           {kSegment}, {kAllreduce, kBroadcast}),
    algorithm("binomial", "one binomial tree; log2 P rounds",
              {{kAllreduce, binomial_allreduce},
               {kReduce, binomial_reduce},
               {kBroadcast, binomial_broadcast},
               {kGather, binomial_gather},
               {kScatter, binomial_scatter},
               {kBarrier, binomial_barrier},
               {kFinalize, binomial_barrier},
               {kSplit, binomial_barrier}}),
    taking(algorithm("double_tree",
                     "two binary trees with half the data each, pipelined (Sanders 2009)",
                     {{kAllreduce, double_tree_allreduce},
                      {kReduce, double_tree_reduce},
                      {kBroadcast, double_tree_broadcast}}),
           {kSegment}, {kAllreduce, kReduce, kBroadcast}),
    algorithm("bruck", "small blocks in log2 P rounds for any P (Bruck 1997)",
              {{kAllgather, bruck_allgather},
               {kAllgatherv, bruck_allgather},
               {kAlltoall, bruck_alltoall}}),
    taking(algorithm("pairwise", "one partner after the other, no block through a third rank",
                     {{kAllreduce, pairwise_allreduce},
                      {kReduceScatter, pairwise_reduce_scatter},
                      {kReduceScatterv, pairwise_reduce_scatter},
                      {kAlltoall, pairwise_alltoall},
                      {kAlltoallv, pairwise_alltoall}}),
           {kSegment}, {kAllreduce}),
    algorithm("dissemination", "empty messages over doubling distances (Hensgen 1988)",
              {{kBarrier, dissemination_barrier},
               {kFinalize, dissemination_barrier},
               {kSplit, dissemination_barrier}}),
    encoding(algorithm("direct", "everybody to everybody; sums in the order of ranks",
                       {{kAllreduce, direct_allreduce},
                        {kReduce, direct_reduce},
                        {kBroadcast, direct_broadcast},
                        {kAllgather, direct_allgather},
                        {kAllgatherv, direct_allgather},
                        {kReduceScatter, direct_reduce_scatter},
                        {kReduceScatterv, direct_reduce_scatter},
                        {kAlltoall, direct_alltoall},
                        {kAlltoallv, direct_alltoall},
                        {kGather, direct_gather},
                        {kScatter, direct_scatter},
                        {kBarrier, direct_barrier},
                        {kFinalize, direct_barrier},
                        {kSplit, direct_barrier}}),
             {kAllreduce, kReduceScatter, kReduceScatterv}),
    algorithm("star", "everybody to one rank, which sends the result to all; fewest messages",
              {{kAllreduce, star_allreduce},
               {kReduce, star_reduce},
               {kBroadcast, star_broadcast},
               {kAllgather, star_allgather},
               {kBarrier, star_barrier},
               {kFinalize, star_barrier},
               {kSplit, star_barrier}}),
    taking(algorithm("torus", "rings in each of its dimensions, both ways, all at once (Jain 2010)",
                     {{kAllreduce, torus_allreduce},
                      {kAllgather, torus_allgather},
                      {kAllgatherv, torus_allgather},
                      {kReduceScatter, torus_reduce_scatter},
                      {kReduceScatterv, torus_reduce_scatter}}),
           {kDimensions}, {kAllreduce, kAllgather, kAllgatherv, kReduceScatter, kReduceScatterv}),
    encoding(taking(taking(by_levels(algorithm(
                               "hierarchical",
                               "inside the hosts, then between them by all ranks, in segments",
                               {{kAllreduce, hierarchical_allreduce},
                                {kReduce, hierarchical_reduce},
                                {kBroadcast, hierarchical_broadcast},
                                {kAllgather, hierarchical_allgather},
                                {kAllgatherv, hierarchical_allgather},
                                {kReduceScatter, hierarchical_reduce_scatter},
                                {kReduceScatterv, hierarchical_reduce_scatter},
                                {kAlltoall, hierarchical_alltoall}})),
                           {kSegment, kIntra, kInter},
                           {kAllreduce, kReduce, kBroadcast, kAllgather, kAllgatherv,
                            kReduceScatter, kReduceScatterv}),
                    {kRails}, {kAllreduce, kReduce, kBroadcast}),
             {kAllreduce, kReduceScatter, kReduceScatterv}),
    by_levels(algorithm("leaders", "inside the hosts to one rank, and these among themselves",
                        {{kAllreduce, leaders_allreduce},
                         {kReduce, leaders_reduce},
                         {kBroadcast, leaders_broadcast},
                         {kGather, leaders_gather},
                         {kScatter, leaders_scatter},
                         {kBarrier, leaders_barrier},
                         {kFinalize, leaders_barrier},
                         {kSplit, leaders_barrier}})),
};

// Nothing to move anywhere: the call is agreement only.
bool moves_nothing(const Problem& problem) {
  uint64_t total = problem.count;
  for (const uint64_t count : problem.recv_counts) total += count;
  // A rank knows only its own counts of alltoallv, so it cannot tell.
  return total == 0 && problem.collective != Collective::kAlltoallv;
}

// A group of one: its contribution is the result.
void alone(ScheduleBuilder& builder, const Group& group, const Problem& problem) {
  const Slice output = whole_output(group, problem);
  if (problem.collective == Collective::kAlltoallv) {
    builder.copy(
        slices_of(whole_input(group, problem), input_blocks(group, problem), problem.element())
            .front(),
        slices_of(output, output_blocks(group, problem), problem.element()).front());
    return;
  }
  if (problem.collective == Collective::kAllgatherv) {
    builder.copy(whole_input(group, problem),
                 slices_of(output, output_blocks(group, problem), problem.element()).front());
    return;
  }
  const Slice input = whole_input(group, problem);
  if (problem.op != ReduceOp::kPreMulSum) {
    builder.copy(input, output);
    return;
  }
  const uint64_t count = output.size / problem.element();
  const Slice scaled = problem.accumulator() == problem.type
                           ? output
                           : builder.scratch(count * size_of(problem.accumulator()));
  builder.decode(problem.type, input, scaled);
  if (scaled != output) builder.encode(problem.type, scaled, output);
}

void stamp(Schedule& schedule, MemoryKind memory) {
  for (Step& step : schedule.steps)
    if (step.memory == MemoryKind::kHost) step.memory = memory;
}

bool synchronises(Collective collective) {
  return collective == kBarrier || collective == kFinalize || collective == kSplit;
}

}  // namespace

std::span<const Algorithm> algorithms() {
  return kAlgorithms;
}

int find_algorithm(std::string_view name) {
  for (size_t i = 0; i < std::size(kAlgorithms); ++i)
    if (same_word(kAlgorithms[i].name, name)) return static_cast<int>(i);
  return -1;
}

bool fits(int algorithm, Collective collective) {
  return algorithm >= 0 && algorithms()[static_cast<size_t>(algorithm)].fits(collective);
}

std::string lack_of(int algorithm, Collective collective) {
  // A schedule is made of the own rank's counts only.
  const bool passes_on = collective == kAlltoallv && fits(algorithm, kAlltoall);
  return fmt::format("does no {}{}", name_of(collective),
                     passes_on ? ": who passes blocks on would need the counts of others" : "");
}

Parameters effective(const Parameters& parameters, int algorithm, Collective collective,
                     const Hierarchy* hierarchy) {
  if (algorithm < 0) return {};
  const Algorithm& which = algorithms()[static_cast<size_t>(algorithm)];
  const bool has_levels = which.by_levels && hierarchy != nullptr && hierarchy->depth() != 0;
  const CodecChoice codec = which.encodes(collective) ? parameters.inter_codec : CodecChoice();
  // Ranks of one host may be all there are.
  const Phase alone = parameters.intra == Phase::kNccl && which.takes(kIntra, collective)
                          ? Phase::kNccl
                          : Phase::kOwn;
  if (which.by_levels && !has_levels) return {.intra = alone, .inter_codec = codec};
  Parameters kept = parameters;
  kept.inter_codec = codec;
  if (!has_levels || !which.encodes(collective)) kept.intra_codec = {};
  if (!which.takes(kSegment, collective)) kept.segment = 0;
  if (!which.takes(kIntra, collective)) kept.intra = Phase::kOwn;
  if (!which.takes(kInter, collective)) kept.inter = Phase::kOwn;
  if (!which.takes(kRails, collective)) kept.rails = 0;
  if (!which.takes(kDimensions, collective)) kept.dimensions = {};
  return kept;
}

std::string text_of(int algorithm, const Parameters& parameters) {
  const std::string_view name = algorithms()[static_cast<size_t>(algorithm)].name;
  const std::string text = text_of(parameters);
  return text.empty() ? std::string(name) : fmt::format("{}({})", name, text);
}

Schedule build_schedule(const Problem& problem, const Group& group, const Algorithm& algorithm) {
  assert(!group.parameters.encodes() ||
         (may_encode(problem) && algorithm.encodes(problem.collective)));
  assert(!problem.keeps_left || may_keep_left(problem));
  ScheduleBuilder builder;
  if (group.size() == 1) {
    alone(builder, group, problem);
  } else if (!synchronises(problem.collective) && moves_nothing(problem)) {
    agree(builder, group, problem);
  } else {
    assert(algorithm.fits(problem.collective));
    algorithm.generators[static_cast<size_t>(problem.collective)](builder, group, problem);
  }
  Schedule schedule = std::move(builder).finish();
  stamp(schedule, problem.memory);
  return fuse(std::move(schedule));
}

Schedule build_message(const Problem& problem, uint64_t piece) {
  ScheduleBuilder builder;
  const bool sends = problem.collective == Collective::kSend;
  const uint64_t bytes = problem.count * problem.element();
  for (uint64_t at = 0; at <= bytes; at += piece) {
    const Slice part{sends ? Space::kInput : Space::kOutput, at, std::min(piece, bytes - at)};
    sends ? builder.send(part, problem.root) : builder.recv(part, problem.root);
  }
  Schedule schedule = std::move(builder).finish();
  stamp(schedule, problem.memory);
  return schedule;
}

}  // namespace banyan
