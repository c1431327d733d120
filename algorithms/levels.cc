// SPDX-License-Identifier: Apache-2.0

#include "algorithms/levels.h"

#include <algorithm>
#include <utility>

namespace banyan {
namespace {

int index_of(std::span<const int> places, int place) {
  if (place < 0) return -1;
  const auto found = std::find(places.begin(), places.end(), place);
  return found == places.end() ? -1 : static_cast<int>(found - places.begin());
}

// The owners of a shard, one in each part.
std::vector<int> rail_of(const Parts& parts, int shards, int shard) {
  std::vector<int> rail(parts.count());
  for (size_t part = 0; part < rail.size(); ++part) {
    const std::span<const int> members = parts[part];
    const Cut cut{shards, static_cast<int>(members.size())};
    rail[part] = members[static_cast<size_t>(cut.owner(shard))];
  }
  return rail;
}

// Where each place is in a ring of its own; empty: there is none.
std::vector<int> positions_in_ring(const Hierarchy& levels) {
  if (!levels.has_own_ring()) return {};
  const std::vector<int> ring = levels.ring();
  std::vector<int> positions(ring.size());
  for (size_t index = 0; index < ring.size(); ++index)
    positions[static_cast<size_t>(ring[index])] = static_cast<int>(index);
  return positions;
}

}  // namespace

Parts::Parts(const Hierarchy& levels, int level, std::span<const int> team)
    : levels_(levels), level_(level) {
  if (level == 0) {
    largest_ = levels.largest_part(0);
    return;
  }
  begin_.resize(count() + 1);
  members_.resize(team.size());
  const auto part = [&](int place) { return static_cast<size_t>(levels.part_of(level, place)); };
  for (const int place : team) ++begin_[part(place) + 1];
  for (size_t index = 1; index < begin_.size(); ++index) begin_[index] += begin_[index - 1];
  std::vector<size_t> next(begin_.begin(), begin_.end() - 1);
  for (const int place : team) members_[next[part(place)]++] = place;
  for (size_t index = 0; index < count(); ++index)
    largest_ = std::max(largest_, static_cast<int>(begin_[index + 1] - begin_[index]));
}

Group group_of(const Group& all, std::span<const int> places) {
  Group group;
  group.ranks.resize(places.size());
  for (size_t index = 0; index < places.size(); ++index) {
    if (places[index] == all.me) group.me = static_cast<int>(index);
    group.ranks[index] = all.ranks[static_cast<size_t>(places[index])];
  }
  return group;
}

Levels::Levels(const Group& group) {
  if (group.hierarchy == nullptr) return;
  if (group.hierarchy->is_simple()) {
    which_ = group.hierarchy;
    return;
  }
  own_ = group.hierarchy->simplified();
}

Part Cut::shard(Part vector, int index) const {
  const Part part = part_of_units(vector.count, unit, shards, index);
  return {vector.begin + part.begin, part.count};
}

Part Cut::block(Part vector, int member) const {
  const Part head = shard(vector, first(member));
  const Part last = shard(vector, first(member + 1) - 1);
  return {head.begin, last.begin + last.count - head.begin};
}

int shards_of(const Hierarchy& levels, const Parameters& parameters) {
  const int most = levels.largest_part(0);
  return parameters.rails == 0 ? most : std::min<int>(parameters.rails, most);
}

// The teams of a layer are rails of the one below: each has one member of every part there.
Stages::Stages(const Group& group, const Hierarchy& levels, int root) {
  struct Team {
    std::vector<int> places;
    int source;  // a place, -1: none
  };
  const uint64_t unit = unit_of(group);
  std::vector<Team> teams(1, {{}, root});  // everybody
  layers_.emplace_back(1);
  for (int level = 0; level < levels.depth(); ++level) {
    std::vector<Stage>& here = layers_.back();
    std::vector<Stage> next;
    std::vector<Team> rails;
    for (size_t index = 0; index < here.size(); ++index) {
      const Parts parts(levels, level, teams[index].places);
      const auto part_of = [&](int place) {
        return parts[static_cast<size_t>(levels.part_of(level, place))];
      };
      Stage& stage = here[index];
      const std::span<const int> mine = part_of(group.me);
      stage.inside = group_of(group, mine);
      const int shards = level == 0 ? shards_of(levels, group.parameters) : parts.largest();
      stage.cut = {shards, static_cast<int>(mine.size()), unit};
      stage.in_first = levels.part_of(level, group.me) == 0;
      const int source = teams[index].source;
      stage.source = index_of(mine, source);
      for (int shard = stage.cut.first(stage.inside.me);
           shard < stage.cut.first(stage.inside.me + 1); ++shard) {
        int source_of_rail = -1;
        if (source >= 0) {
          const std::span<const int> theirs = part_of(source);
          const Cut cut{stage.cut.shards, static_cast<int>(theirs.size())};
          source_of_rail = theirs[static_cast<size_t>(cut.owner(shard))];
        }
        rails.push_back({rail_of(parts, stage.cut.shards, shard), source_of_rail});
        next.push_back({.inside = {}, .cut = {}, .from = index, .shard = shard});
      }
    }
    layers_.push_back(std::move(next));
    teams = std::move(rails);
  }
  const std::vector<int> positions = root < 0 ? std::vector<int>() : positions_in_ring(levels);
  for (size_t index = 0; index < teams.size(); ++index) {
    Stage& stage = layers_.back()[index];
    if (!positions.empty())
      std::sort(teams[index].places.begin(), teams[index].places.end(), [&](int a, int b) {
        return positions[static_cast<size_t>(a)] < positions[static_cast<size_t>(b)];
      });
    stage.inside = group_of(group, teams[index].places);
    stage.cut = {stage.inside.size(), stage.inside.size(), unit};
    stage.source = index_of(teams[index].places, teams[index].source);
  }
}

Ladder ladder_of(const Group& group, const Hierarchy& levels, int first) {
  Ladder ladder;
  const auto leader_of = [&](int level, int part) {
    return first >= 0 && levels.part_of(level, first) == part ? first
                                                              : levels.members(level, part).front();
  };
  const auto add_rung = [&](std::span<const int> places, int leader) {
    Rung rung{group_of(group, places), {places.begin(), places.end()}, 0};
    while (places[static_cast<size_t>(rung.leader)] != leader) ++rung.leader;
    ladder.rungs.push_back(std::move(rung));
  };
  std::vector<int> team;  // the leaders of the level before
  for (int level = 0; level < levels.depth(); ++level) {
    const int part = levels.part_of(level, group.me);
    const int leader = leader_of(level, part);
    if (level == 0) {
      const std::span<const int> members = levels.members(level, part);
      team.assign(members.begin(), members.end());
    } else {
      std::erase_if(team, [&](int place) { return levels.part_of(level, place) != part; });
    }
    add_rung(team, leader);
    if (leader != group.me) return ladder;
    team.clear();
    for (int each = 0; each < levels.parts(level); ++each) team.push_back(leader_of(level, each));
  }
  ladder.at_top = true;
  if (levels.depth() == 0) {
    for (int place = 0; place < group.size(); ++place) team.push_back(place);
  }
  add_rung(team, first >= 0 ? first : team.front());
  return ladder;
}

}  // namespace banyan
