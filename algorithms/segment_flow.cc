// SPDX-License-Identifier: Apache-2.0

#include "algorithms/segment_flow.h"

#include <algorithm>
#include <utility>

namespace banyan {
namespace {

bool is_source(const Stage& stage) {
  return stage.source == stage.inside.me;
}

// How many places behind the source, in the order of the chain.
int distance_of(const Stage& stage) {
  return stage.inside.wrap(stage.inside.me - stage.source);
}

}  // namespace

SegmentFlow::SegmentFlow(ScheduleBuilder& builder, const Group& group, const Problem& problem,
                         const Stages& stages, Part vector, bool chained)
    : builder_(builder),
      problem_(problem),
      stages_(stages),
      chained_(chained),
      is_root_(is_source(stages.at(0).front())),
      intra_(group.parameters.intra),
      inter_(group.parameters.inter),
      intra_coders_(builder, group, problem, group.parameters.intra_codec, stages.layers() == 2),
      inter_coders_(builder, group, problem, group.parameters.inter_codec, false),
      pieces_(static_cast<size_t>(stages.layers())) {
  const uint64_t element = problem.element();
  const Stage& lowest = stages.at(0).front();
  const Slice input = whole_input(group, problem);
  const Slice output = whole_output(group, problem);
  if (input.size != 0) input_ = elements(input, vector, element);
  kept_ = vector;
  if (output.size != 0) {
    results_ = elements(output, vector, element);
  } else {
    kept_ = lowest.cut.block(vector, lowest.inside.me);
    results_ = builder.scratch(kept_.count * element);
  }
  if (has_sums(stages.top())) {
    const uint64_t width = size_of(problem.accumulator());
    summed_ = intra_coders_.encode() ? vector : lowest.cut.block(vector, lowest.inside.me);
    sums_ = width == element ? result(summed_) : builder.scratch(summed_.count * width);
  }
  pieces_.front().push_back({vector, input_, false});
  for (int layer = 0; layer < stages.top(); ++layer)
    for (const Stage& next : stages.at(layer + 1))
      pieces_[static_cast<size_t>(layer) + 1].push_back(
          {stages.at(layer)[next.from].cut.shard(piece(layer, next.from).elements, next.shard),
           {},
           false});
}

uint64_t SegmentFlow::width_of(const Piece& piece) const {
  return piece.is_sum ? size_of(problem_.accumulator()) : problem_.element();
}

Slice SegmentFlow::part_of_piece(const Piece& piece, Part part) const {
  return elements(piece.where, {part.begin - piece.elements.begin, part.count}, width_of(piece));
}

Slice SegmentFlow::result(Part part) const {
  return elements(results_, {part.begin - kept_.begin, part.count}, problem_.element());
}

Slice SegmentFlow::sum(Part part) const {
  return elements(sums_, {part.begin - summed_.begin, part.count}, size_of(problem_.accumulator()));
}

Slice SegmentFlow::given(const Stage& stage, Part part) const {
  if (!is_root_ || !is_source(stage)) return result(part);
  const Part vector = pieces_.front().front().elements;
  return elements(input_, {part.begin - vector.begin, part.count}, problem_.element());
}

// The only one of its part: its contribution is the sum.
SegmentFlow::Piece SegmentFlow::widened(const Piece& given) {
  if (given.is_sum) return given;
  Accumulators alone(builder_, problem_, {given.where}, {Slice{}},
                     {.sums_in = false, .sums_out = true});
  return {given.elements, alone.own(0), true};
}

std::vector<Slice> SegmentFlow::blocks_of(const Stage& stage, Slice all) const {
  const uint64_t element = problem_.element();
  std::vector<Slice> blocks;
  for (int member = 0; member < stage.inside.size(); ++member)
    blocks.push_back(elements(all, stage.cut.block({0, all.size / element}, member), element));
  return blocks;
}

SegmentFlow::Piece SegmentFlow::reduce_inside(const Stage& stage, const Piece& given, int layer) {
  if (stage.inside.size() == 1) return widened(given);
  const bool at_top = layer == stages_.top();
  const bool stores = at_top && !has_sums(layer);
  const Part own = stage.cut.block(given.elements, stage.inside.me);
  Slice target;
  if (!at_top)
    target = builder_.scratch(own.count * size_of(problem_.accumulator()));
  else
    target = stores ? result(own) : sum(own);
  Accumulators sums(builder_, problem_,
                    Blocks(given.where, given.elements.count, width_of(given), stage.cut),
                    stage.inside.me, target, {.sums_in = given.is_sum, .sums_out = !stores});
  if (coders(layer).encode()) {
    std::vector<uint64_t> first;
    for (int member = 0; member < stage.inside.size(); ++member)
      first.push_back(stage.cut.block(given.elements, member).begin);
    coded_reduce_scatter_phase(builder_, stage.inside, coders(layer).contributions, sums, first);
    return {own, target, true};
  }
  named_reduce_scatter_phase(builder_, stage.inside, problem_, at_top ? inter_ : intra_, true,
                             sums);
  return {own, target, true};
}

// From the last of the chain to the source.
void SegmentFlow::reduce_chain(const Stage& stage, const Piece& given) {
  const int distance = distance_of(stage);
  const Slice target = distance == 0 ? result(given.elements) : Slice{};
  Accumulators sum(builder_, problem_, {given.where}, {target},
                   {.sums_in = given.is_sum, .sums_out = distance != 0});
  Slice partial = sum.own(0);
  if (distance + 1 < stage.inside.size()) {
    const Slice dst = sum.last(0);
    sum.absorb(0, stage.inside.at(stage.inside.me + 1), partial, dst);
    partial = dst;
  }
  if (distance == 0)
    sum.store(0);
  else
    builder_.send(partial, stage.inside.at(stage.inside.me - 1));
}

void SegmentFlow::reduce(int layer) {
  const std::span<const Stage> here = stages_.at(layer);
  const bool at_top = layer == stages_.top();
  std::vector<Piece> sums;
  for (size_t index = 0; index < here.size(); ++index) {
    if (at_top && chained_) {
      reduce_chain(here[index], piece(layer, index));
      continue;
    }
    if (by_windows(layer)) builder_.on(Branch::kOtherwise);
    sums.push_back(reduce_inside(here[index], piece(layer, index), layer));
    builder_.on(Branch::kAlways);
    if (by_windows(layer)) windows_->reduce(blocks_of(here[index], input_), sums.back().where);
  }
  if (at_top) return;
  const std::span<const Stage> above = stages_.at(layer + 1);
  for (size_t index = 0; index < above.size(); ++index) {
    Piece& next = pieces_[static_cast<size_t>(layer) + 1][index];
    const Piece& sum = sums[above[index].from];
    next.where = part_of_piece(sum, next.elements);
    next.is_sum = sum.is_sum;
  }
}

// Shard by shard: a member of a smaller part has several. What is left is kept in one part only,
// since all of them encode the same.
void SegmentFlow::gather_coded(const Stage& stage, Part vector, int layer) const {
  const Cut& cut = stage.cut;
  const Coder& sums = coders(layer).sums;
  const Coder coder = stage.in_first ? sums : sums.kept_elsewhere();
  for (int round = 0; round * cut.members < cut.shards; ++round) {
    std::vector<Slice> values(static_cast<size_t>(cut.members));
    std::vector<uint64_t> first(values.size());
    for (int member = 0; member < cut.members; ++member) {
      const int shard = cut.first(member) + round;
      if (shard >= cut.first(member + 1)) continue;
      const Part elements = cut.shard(vector, shard);
      values[static_cast<size_t>(member)] = sum(elements);
      first[static_cast<size_t>(member)] = elements.begin;
    }
    coded_allgather_phase(builder_, stage.inside, layer == stages_.top() ? inter_ : intra_, coder,
                          values, first);
  }
}

void SegmentFlow::gather(int layer) const {
  const std::span<const Stage> here = stages_.at(layer);
  const bool at_top = layer == stages_.top();
  const bool stores = layer == 0 || !intra_coders_.encode();  // in layers below are elements
  const uint64_t width = has_sums(layer) ? size_of(problem_.accumulator()) : problem_.element();
  for (size_t index = 0; index < here.size(); ++index) {
    const Stage& stage = here[index];
    if (chained_ && at_top) continue;
    const Part vector = piece(layer, index).elements;
    if (by_windows(layer)) builder_.on(Branch::kOtherwise);
    if (coders(layer).encode())
      gather_coded(stage, vector, layer);
    else if (stage.inside.size() > 1)
      named_allgather_phase(
          builder_, stage.inside, at_top ? inter_ : intra_, false,
          Blocks(has_sums(layer) ? sum(vector) : result(vector), vector.count, width, stage.cut));
    builder_.on(Branch::kAlways);
    if (by_windows(layer)) windows_->gather(blocks_of(stage, result(vector)));
    if (has_sums(layer) && stores) finish_sum(builder_, problem_, sum(vector), result(vector));
  }
}

void SegmentFlow::collect(int layer) const {
  const std::span<const Stage> here = stages_.at(layer);
  for (size_t index = 0; index < here.size(); ++index) {
    const Stage& stage = here[index];
    if (stage.source < 0 || (chained_ && layer == stages_.top())) continue;
    const auto block = [&](int member) {
      return result(stage.cut.block(piece(layer, index).elements, member));
    };
    if (!is_source(stage)) {
      builder_.send(block(stage.inside.me), stage.inside.at(stage.source));
      continue;
    }
    for (int step = 1; step < stage.inside.size(); ++step) {
      const int from = stage.inside.wrap(stage.inside.me + step);
      builder_.recv(block(from), stage.inside.at(from));
    }
  }
}

void SegmentFlow::pass_chain(const Stage& stage, Part vector) const {
  const int distance = distance_of(stage);
  if (distance != 0) builder_.recv(result(vector), stage.inside.at(stage.inside.me - 1));
  if (distance + 1 < stage.inside.size())
    builder_.send(given(stage, vector), stage.inside.at(stage.inside.me + 1));
}

void SegmentFlow::spread(int layer) const {
  const std::span<const Stage> here = stages_.at(layer);
  for (size_t index = 0; index < here.size(); ++index) {
    const Stage& stage = here[index];
    const Part vector = piece(layer, index).elements;
    if (stage.source < 0) continue;
    if (chained_ && layer == stages_.top()) {
      pass_chain(stage, vector);
      continue;
    }
    if (!is_source(stage)) {
      builder_.recv(result(stage.cut.block(vector, stage.inside.me)),
                    stage.inside.at(stage.source));
      continue;
    }
    for (int step = 1; step < stage.inside.size(); ++step) {
      const int to = stage.inside.wrap(stage.inside.me + step);
      builder_.send(given(stage, stage.cut.block(vector, to)), stage.inside.at(to));
    }
    if (layer == 0 && is_root_) builder_.copy(input_, results_);
  }
}

}  // namespace banyan
