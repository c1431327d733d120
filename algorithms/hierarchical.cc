// Hierarchical makes on every level a reduce-scatter inside the parts, then the same for each shard
// among the parts (levels.h), then an allgather inside. What crosses a level is the least that can,
// and all ranks of a part carry their share of it. (Two levels: the 2D torus of Mikami et al. 2018;
// more: BlueConnect, Cho et al. 2019.)
//
// Vectors are cut into segments that follow each other through the levels, so that all wires are
// busy at once: in slot t, segment t is reduced inside the parts of the first level, segment t - 1
// inside those of the second, and so on up and down again.
//
// 16- and 8-bit floats travel as they are inside the parts of the first level, are accumulated
// wide, travel between the levels as accumulators, and are rounded once, at the top.
//
// By codecs, each team sums as in coded.cc. What comes down is encoded anew on every level that has
// a codec, shard by shard: the parts of a team cut its vector into the same shards, so they all
// encode the same values together, and have the same bits. That is so even for a rank which is
// alone in its part.
// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <memory>
#include <vector>

#include "algorithms/generators.h"
#include "algorithms/host_windows.h"
#include "algorithms/lengths.h"
#include "algorithms/levels.h"
#include "algorithms/segment_flow.h"

namespace banyan {
namespace {

// The same on all ranks: by the largest part, not by the own one, and by the rule.
int segments_of(const Group& group, const Problem& problem, const Hierarchy& levels) {
  const uint64_t bytes = problem.count * problem.element();
  const auto shards = static_cast<uint64_t>(shards_of(levels, group.parameters));
  return static_cast<int>(level_segments(bytes, shards, given_length(group.parameters, problem)));
}

// So many segments are on their way up at the top, beside the one that has come there and goes
// down: an exchange in several rounds leaves gaps on its wires, which they fill. On four hosts of
// two at 1 Gb/s, 64 MiB took 907 ms with none and 853 with two; 842 is the least.
constexpr int kAhead = 2;

// Does what is to be done with a segment in the slots from its own on: `up` at every layer from the
// lowest to the top, then `down` at every layer from the top to the lowest.
template <typename Up, typename Down>
void in_slots(std::vector<SegmentFlow>& segments, int layers, Up up, Down down) {
  const auto count = static_cast<int>(segments.size());
  const int ways = 2 * layers + kAhead;
  for (int slot = 0; slot < count + ways - 1; ++slot) {
    for (int way = 0; way < ways; ++way) {
      const int index = slot - way;
      if (index < 0 || index >= count) continue;
      SegmentFlow& segment = segments[static_cast<size_t>(index)];
      if (way < layers)
        up(segment, way);
      else if (way >= layers + kAhead)
        down(segment, ways - 1 - way);
    }
  }
}

// How a call goes about it where its hosts may have windows, and where not.
class Windowed {
 public:
  // The ranks of this host agree on their windows first.
  Windowed(ScheduleBuilder& builder, const Group& group, const Problem& problem,
           const Hierarchy& levels)
      : problem_(problem),
        may_(may_have_host_windows(group, problem, levels)),
        group_(may_ ? in_order_inside(group) : group),
        windows_(host_windows(builder, group, problem, levels)) {}

  const Group& group() const { return group_; }
  // So many at least, and as many as it takes for each to have a place in a window.
  int segments(int wanted) const {
    if (!may_) return wanted;
    return std::max(wanted, pieces_in_windows(problem_, problem_.count, unit_of(group_)));
  }
  void serve(std::vector<SegmentFlow>& segments) const {
    for (SegmentFlow& segment : segments)
      if (windows_ != nullptr) segment.use(*windows_);
  }
  void end() const {
    if (windows_ != nullptr) windows_->end();
  }

 private:
  const Problem& problem_;
  const bool may_;
  const Group group_;
  std::unique_ptr<HostWindows> windows_;  // null where the host has none
};

std::vector<SegmentFlow> segments_for(ScheduleBuilder& builder, const Group& group,
                                      const Problem& problem, const Stages& stages, int count,
                                      bool chained) {
  const uint64_t unit = unit_of(group);
  std::vector<SegmentFlow> segments;
  segments.reserve(static_cast<size_t>(count));
  for (int index = 0; index < count; ++index)
    segments.emplace_back(builder, group, problem, stages,
                          part_of_units(problem.count, unit, count, index), chained);
  return segments;
}

}  // namespace

void hierarchical_allreduce(ScheduleBuilder& builder, const Group& group, const Problem& problem) {
  const Levels levels(group);
  if (levels->depth() == 0) {
    const bool coded = !group.parameters.inter_codec.is_exact();
    return (coded ? coded_allreduce : circulant_allreduce)(builder, group, problem);
  }
  const Windowed way(builder, group, problem, *levels);
  const Stages stages(way.group(), *levels);
  const int count = way.segments(segments_of(group, problem, *levels));
  auto segments = segments_for(builder, way.group(), problem, stages, count, false);
  way.serve(segments);
  in_slots(
      segments, stages.layers(), [](SegmentFlow& segment, int layer) { segment.reduce(layer); },
      [](const SegmentFlow& segment, int layer) { segment.gather(layer); });
  way.end();
}

namespace {

// To or from a root; nobody has heard from all by the way of the data.
template <typename Up, typename Down>
void rooted(ScheduleBuilder& builder, const Group& group, const Problem& problem,
            const Hierarchy& levels, Up up, Down down) {
  const Windowed way(builder, group, problem, levels);
  if (problem.check) leaders_barrier(builder, group, problem);
  builder.fence();
  const Stages stages(way.group(), levels, group.place_of(problem.root));
  const RootedSegments cut = rooted_segments(
      problem.count * problem.element(), static_cast<uint64_t>(shards_of(levels, group.parameters)),
      static_cast<uint64_t>(levels.parts(levels.depth() - 1)),
      problem.collective == Collective::kReduce, given_length(group.parameters, problem));
  auto segments = segments_for(builder, way.group(), problem, stages,
                               way.segments(static_cast<int>(cut.count)), cut.chained);
  way.serve(segments);
  in_slots(segments, stages.layers(), up, down);
  way.end();
}

}  // namespace

void hierarchical_reduce(ScheduleBuilder& builder, const Group& group, const Problem& problem) {
  const Levels levels(group);
  if (levels->depth() == 0) return circulant_reduce(builder, group, problem);
  rooted(
      builder, group, problem, *levels,
      [](SegmentFlow& segment, int layer) { segment.reduce(layer); },
      [](const SegmentFlow& segment, int layer) { segment.collect(layer); });
}

void hierarchical_broadcast(ScheduleBuilder& builder, const Group& group, const Problem& problem) {
  const Levels levels(group);
  if (levels->depth() == 0) return circulant_broadcast(builder, group, problem);
  rooted(
      builder, group, problem, *levels,
      [](const SegmentFlow& segment, int layer) { segment.spread(layer); },
      [](const SegmentFlow& segment, int layer) { segment.gather(layer); });
}

}  // namespace banyan
