// Hierarchical does calls with a block for each rank, too: allgather and reduce_scatter.
//
// Blocks lie where the caller has them, in the order of ranks, wherever these are. Member i of a
// part has the blocks of the members i of all parts to carry between the parts. In a part of M
// members the member i mod M does so for i of M and more: a rail for every i. So each block crosses
// a level once to every part, and nothing is packed.
// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "algorithms/generators.h"
#include "algorithms/host_windows.h"
#include "algorithms/lengths.h"
#include "algorithms/levels.h"

namespace banyan {
namespace {

// Ranks, given as places, each with a block; without one it is empty.
struct Team {
  std::vector<int> places;
  std::vector<Slice> blocks;
};

// One team at one level.
class Crossing {
 public:
  Crossing(const Group& group, const Hierarchy& levels, int level, const Team& team)
      : team_(team), parts_(levels, level, team.places) {
    mine_ = static_cast<size_t>(levels.part_of(level, group.me));
    inside_ = group_of(group, parts_[mine_]);
    index_of_.resize(group.ranks.size());
    for (size_t index = 0; index < team.places.size(); ++index)
      index_of_[static_cast<size_t>(team.places[index])] = index;
  }

  const Group& inside() const { return inside_; }
  size_t parts() const { return parts_.count(); }
  // Beginning with the own part.
  size_t part(size_t step) const { return (mine_ + step) % parts_.count(); }
  // The block of member i of a part; empty where it has no such member.
  Slice block(size_t part, int member) const {
    const std::span<const int> members = parts_[part];
    if (member >= static_cast<int>(members.size())) return {};
    return team_.blocks[index_of_[static_cast<size_t>(members[static_cast<size_t>(member)])]];
  }
  // Gives the blocks of a part that the members of this one carry at once: from the first of them
  // on. Where the part has no more members, empty blocks lie behind it, wherever that is: whether
  // blocks are packed must not depend on the rank.
  std::vector<Slice> batch(size_t part, int first) const {
    std::vector<Slice> blocks;
    for (int member = 0; member < inside_.size(); ++member) {
      const bool has = first + member < size_of_part(part);
      blocks.push_back(has ? block(part, first + member)
                           : Slice{blocks.back().space, blocks.back().end(), 0});
    }
    return blocks;
  }
  // Who carries the blocks of members i.
  std::vector<int> carriers(int member) const {
    std::vector<int> places;
    places.reserve(parts_.count());
    for (size_t part = 0; part < parts_.count(); ++part) {
      const std::span<const int> members = parts_[part];
      places.push_back(members[static_cast<size_t>(member) % members.size()]);
    }
    return places;
  }
  int size_of_part(size_t part) const { return static_cast<int>(parts_[part].size()); }
  int largest() const { return parts_.largest(); }

 private:
  const Team& team_;
  Parts parts_;
  size_t mine_ = 0;
  Group inside_;
  std::vector<size_t> index_of_;  // in the team, by place
};

// Between the parts first; then each part has all blocks among its members.
void spread_blocks(ScheduleBuilder& builder, const Group& group, const Hierarchy& levels, int level,
                   const Team& team, bool apart, HostWindows* windows) {
  if (level == levels.depth()) {
    named_allgather_phase(builder, group_of(group, team.places), group.parameters.inter, apart,
                          team.blocks);
    return;
  }
  const Crossing crossing(group, levels, level, team);
  const int size = crossing.inside().size();
  for (int member = crossing.inside().me; member < crossing.largest(); member += size) {
    Team rail{crossing.carriers(member), {}};
    for (size_t part = 0; part < crossing.parts(); ++part)
      rail.blocks.push_back(crossing.block(part, member));
    spread_blocks(builder, group, levels, level + 1, rail, apart, nullptr);
  }
  if (size == 1) return;
  for (size_t step = 0; step < crossing.parts(); ++step) {
    const size_t part = crossing.part(step);
    for (int first = 0; first < crossing.size_of_part(part); first += size) {
      if (windows != nullptr) builder.on(Branch::kOtherwise);
      named_allgather_phase(builder, crossing.inside(), group.parameters.intra, true,
                            crossing.batch(part, first));
      builder.on(Branch::kAlways);
      if (windows != nullptr) windows->gather(crossing.batch(part, first));
    }
  }
}

class BlockSums {
 public:
  // Without windows they are null.
  BlockSums(ScheduleBuilder& builder, const Group& group, const Hierarchy& levels,
            const Problem& problem, HostWindows* windows)
      : builder_(builder),
        group_(group),
        levels_(levels),
        problem_(problem),
        windows_(windows),
        intra_{group.parameters.intra, coder_of(group.parameters.intra_codec, levels.depth() == 1)},
        inter_{group.parameters.inter, coder_of(group.parameters.inter_codec, false)} {}

  // Inside the parts first; `target` is where this rank's block ends up.
  void add(int level, const Team& team, bool are_sums, Slice target) {
    if (level == levels_.depth()) {
      add_among(group_of(group_, team.places), inter_, team.blocks, target,
                {.sums_in = are_sums, .sums_out = false});
      return;
    }
    const Crossing crossing(group_, levels_, level, team);
    const int size = crossing.inside().size();
    std::vector<Team> rails;
    for (int member = crossing.inside().me; member < crossing.largest(); member += size)
      rails.push_back({crossing.carriers(member), room_for(crossing, member, are_sums)});
    // Far parts first: theirs are the blocks that leave first.
    for (size_t step = crossing.parts(); step-- > 0;) {
      const size_t part = crossing.part(step);
      for (int first = 0; first < crossing.size_of_part(part); first += size) {
        const auto rail = static_cast<size_t>(first / size);
        const bool carries = rail < rails.size();  // the last batch may be for others alone
        const Slice sum = carries ? rails[rail].blocks[part] : Slice{};
        const bool by_windows = windows_ != nullptr && level == 0;
        if (by_windows) builder_.on(Branch::kOtherwise);
        add_among(crossing.inside(), intra_, crossing.batch(part, first), sum,
                  {.sums_in = are_sums, .sums_out = true});
        builder_.on(Branch::kAlways);
        if (by_windows) windows_->reduce(crossing.batch(part, first), sum);
      }
    }
    for (size_t index = 0; index < rails.size(); ++index)
      add(level + 1, rails[index], true, index == 0 ? target : Slice{});
  }

 private:
  // These are blocks that are apart; what goes by chance needs them to differ, and no more.
  static std::vector<uint64_t> places_of(const std::vector<Slice>& blocks) {
    std::vector<uint64_t> places;
    places.reserve(blocks.size());
    for (const Slice& block : blocks) places.push_back(block.offset);
    return places;
  }

  // For the sums of members i of all parts, one behind the other.
  std::vector<Slice> room_for(const Crossing& crossing, int member, bool are_sums) {
    const uint64_t narrow = are_sums ? 1 : problem_.element();
    const uint64_t wide = are_sums ? 1 : size_of(problem_.accumulator());
    uint64_t total = 0;
    std::vector<Slice> room;
    for (size_t part = 0; part < crossing.parts(); ++part) {
      const uint64_t bytes = crossing.block(part, member).size / narrow * wide;
      room.push_back({Space::kScratch, total, bytes});
      total += bytes;
    }
    const Slice whole = builder_.scratch(total);
    for (Slice& slice : room) slice.offset += whole.offset;
    return room;
  }

  // How a team sums.
  struct Way {
    Phase phase;
    Coder coder;
  };

  Coder coder_of(CodecChoice codec, bool raw) const {
    return {builder_, group_, problem_, codec, Coder::Of::kContributions, raw};
  }

  void add_among(const Group& members, const Way& way, std::vector<Slice> blocks, Slice target,
                 Ends ends) {
    if (members.size() == 1) {
      add_alone(blocks.front(), target, ends);
      return;
    }
    const bool together = packed(blocks);
    const std::vector<uint64_t> places = places_of(blocks);
    Accumulators sums(builder_, problem_, std::move(blocks), members.me, target, ends);
    if (way.coder.encodes())
      coded_reduce_scatter_phase(builder_, members, way.coder, sums, places);
    else
      named_reduce_scatter_phase(builder_, members, problem_, way.phase, together, sums);
  }

  void add_alone(Slice block, Slice target, Ends ends) {
    Accumulators alone(builder_, problem_, {block}, {target}, ends);
    if (alone.plain())
      builder_.copy(block, target);
    else
      alone.widen(block, target);
  }

  ScheduleBuilder& builder_;
  const Group& group_;
  const Hierarchy& levels_;
  const Problem& problem_;
  HostWindows* windows_;
  Way intra_, inter_;  // below the top, and at it
};

uint64_t longest_of(const std::vector<Part>& blocks) {
  uint64_t most = 0;
  for (const Part& block : blocks) most = std::max(most, block.count);
  return most;
}

int segments_of(const Group& group, const Problem& problem, const std::vector<Part>& blocks) {
  const uint64_t most = longest_of(blocks) * problem.element();
  return static_cast<int>(block_segments(most, given_length(group.parameters, problem)));
}

// So that as many blocks of a segment have a place in a window together.
int pieces_of_blocks(const Problem& problem, const std::vector<Part>& blocks, int together) {
  const auto unit = static_cast<uint64_t>(together);
  return pieces_in_windows(problem, longest_of(blocks) * unit, unit);
}

Team everybody(const Group& group) {
  Team team{std::vector<int>(group.ranks.size()), {}};
  std::iota(team.places.begin(), team.places.end(), 0);
  return team;
}

// Gives the part that one segment has of every block.
std::vector<Slice> slices_of_segment(Slice buffer, const std::vector<Part>& blocks,
                                     uint64_t element, int segments, int index) {
  std::vector<Slice> slices;
  slices.reserve(blocks.size());
  for (const Part& block : blocks) {
    const Part part = part_of(block.count, segments, index);
    slices.push_back(elements(buffer, {block.begin + part.begin, part.count}, element));
  }
  return slices;
}

}  // namespace

void hierarchical_allgather(ScheduleBuilder& builder, const Group& group, const Problem& problem) {
  const Levels levels(group);
  if (levels->depth() == 0) return circulant_allgather(builder, group, problem);
  const std::vector<Part> blocks = output_blocks(group, problem);
  const bool by_windows = may_have_host_windows(group, problem, *levels);
  const std::unique_ptr<HostWindows> windows = host_windows(builder, group, problem, *levels);
  if (problem.check) leaders_barrier(builder, group, problem);
  builder.fence();
  const bool apart = problem.collective == Collective::kAllgatherv;
  const Slice output = whole_output(group, problem);
  builder.copy(whole_input(group, problem),
               elements(output, blocks[static_cast<size_t>(group.me)], problem.element()));
  Team team = everybody(group);
  int segments = segments_of(group, problem, blocks);
  if (by_windows) segments = std::max(segments, pieces_of_blocks(problem, blocks, 1));
  for (int index = 0; index < segments; ++index) {
    team.blocks = slices_of_segment(output, blocks, problem.element(), segments, index);
    spread_blocks(builder, group, *levels, 0, team, apart, windows.get());
  }
  if (windows != nullptr) windows->end();
}

void hierarchical_reduce_scatter(ScheduleBuilder& builder, const Group& group,
                                 const Problem& problem) {
  const Levels levels(group);
  if (levels->depth() == 0) {
    const bool coded = !group.parameters.inter_codec.is_exact();
    return (coded ? direct_reduce_scatter : circulant_reduce_scatter)(builder, group, problem);
  }
  const std::vector<Part> blocks = input_blocks(group, problem);
  const bool by_windows = may_have_host_windows(group, problem, *levels);
  const std::unique_ptr<HostWindows> windows = host_windows(builder, group, problem, *levels);
  int segments = segments_of(group, problem, blocks);
  if (by_windows)
    segments = std::max(segments, pieces_of_blocks(problem, blocks, levels->largest_part(0)));
  const bool any_empty =
      std::any_of(blocks.begin(), blocks.end(), [](const Part& block) { return block.count == 0; });
  if (problem.check && any_empty) {
    leaders_barrier(builder, group, problem);
    builder.fence();
  }
  const Slice input = whole_input(group, problem);
  const Slice output = whole_output(group, problem);
  const Group whole = by_windows ? in_order_inside(group) : group;
  BlockSums sums(builder, whole, *levels, problem, windows.get());
  Team team = everybody(group);
  for (int index = 0; index < segments; ++index) {
    team.blocks = slices_of_segment(input, blocks, problem.element(), segments, index);
    const Part own = part_of(output.size / problem.element(), segments, index);
    sums.add(0, team, false, elements(output, own, problem.element()));
  }
  if (windows != nullptr) windows->end();
}

}  // namespace banyan
