// Hierarchical alltoall sends in one message what the ranks of a part have for one rank of another
// part. Member i of a part collects, from all members, what is for the members i of all other
// parts. In a part of M members the member i mod M does so for i of M and more.
//
// These collectors, one of each part, are a team that has the same to do at the next level, with
// what they have collected. So a rank sends a message to each other part of each level instead of
// one to each rank. (Blocks that go the same way share a message, as in Bruck et al. 1997.)
// What ranks of one host have for each other may go by windows.
// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "algorithms/generators.h"
#include "algorithms/host_windows.h"
#include "algorithms/levels.h"

namespace banyan {
namespace {

struct AlltoallMember {
  int place = 0;
  uint64_t sources = 1;  // ranks whose blocks it has for each other member that takes any
  bool takes = true;     // blocks for itself
};

// An alltoall of some ranks, as one of them sees it.
struct AlltoallTeam {
  std::vector<AlltoallMember> members{};
  std::vector<Slice> input{};                // for each member, one block of each of its sources
  std::vector<std::vector<Slice>> output{};  // from each member: where the blocks of its sources go
};

class LevelExchange {
 public:
  // `windows`: the lowest level goes by other steps where there are some.
  LevelExchange(ScheduleBuilder& builder, const Group& group, const Hierarchy& levels,
                uint64_t block, const HostWindows* windows)
      : builder_(builder), group_(group), levels_(levels), block_(block), windows_(windows) {}

  // The own part's last: the others' have farther to go.
  void run(int level, const AlltoallTeam& team) {
    std::vector<std::vector<size_t>> parts = parts_of(level, team);
    const auto mine =
        parts.size() == 1 ? 0 : static_cast<size_t>(levels_.part_of(level, group_.me));
    if (parts.size() > 1) {
      size_t largest = 0;
      for (const auto& part : parts) largest = std::max(largest, part.size());
      for (size_t index = 0; index < largest; ++index) {
        const AlltoallTeam rail = rail_of(team, parts, mine, index);
        if (!rail.members.empty()) run(level + 1, rail);
      }
    }
    if (level == 0 && windows_ != nullptr) builder_.on(Branch::kOtherwise);
    exchange(team, parts[mine]);
    builder_.on(Branch::kAlways);
  }

 private:
  // Indices of members, part by part; above the highest level all are of one.
  std::vector<std::vector<size_t>> parts_of(int level, const AlltoallTeam& team) const {
    const bool above = level == levels_.depth();
    std::vector<std::vector<size_t>> parts(above ? 1 : static_cast<size_t>(levels_.parts(level)));
    for (size_t index = 0; index < team.members.size(); ++index) {
      const int part = above ? 0 : levels_.part_of(level, team.members[index].place);
      parts[static_cast<size_t>(part)].push_back(index);
    }
    return parts;
  }

  bool is_me(const AlltoallMember& member) const { return member.place == group_.me; }
  int rank_of(const AlltoallMember& member) const { return group_.at(member.place); }

  // Gives who collects what is for the members of that index in all parts, with what this rank has
  // collected. It has no members where another rank does that; this one then gives it to that one.
  AlltoallTeam rail_of(const AlltoallTeam& team, const std::vector<std::vector<size_t>>& parts,
                       size_t mine, size_t index) {
    const std::vector<size_t>& own = parts[mine];
    const AlltoallMember& collector = team.members[own[index % own.size()]];
    AlltoallTeam rail;
    rail.input.resize(parts.size());
    rail.output.resize(parts.size());
    for (size_t step = 1; step < parts.size(); ++step) {
      const size_t part = (mine + step) % parts.size();
      if (index >= parts[part].size()) continue;
      const size_t target = parts[part][index];
      if (!team.members[target].takes) continue;
      if (is_me(collector))
        rail.input[part] = collect(team, own, team.input[target]);
      else
        builder_.send(team.input[target], rank_of(collector));
    }
    if (!is_me(collector)) return {};
    for (size_t part = 0; part < parts.size(); ++part) {
      const std::vector<size_t>& theirs = parts[part];
      AlltoallMember member = team.members[theirs[index % theirs.size()]];
      member.takes = member.takes && index < theirs.size();
      member.sources = 0;
      for (const size_t each : theirs) {
        member.sources += team.members[each].sources;
        const std::vector<Slice>& blocks = team.output[each];
        rail.output[part].insert(rail.output[part].end(), blocks.begin(), blocks.end());
      }
      rail.members.push_back(member);
    }
    return rail;
  }

  // From each member of the own part, in their order.
  Slice collect(const AlltoallTeam& team, const std::vector<size_t>& part, Slice own) {
    if (part.size() == 1) return own;
    uint64_t sources = 0;
    for (const size_t each : part) sources += team.members[each].sources;
    const Slice all = builder_.scratch(sources * block_);
    uint64_t begin = 0;
    for (const size_t each : part) {
      const AlltoallMember& member = team.members[each];
      const Slice room = all.sub(begin, member.sources * block_);
      begin += room.size;
      if (is_me(member))
        builder_.copy(own, room);
      else
        builder_.recv(room, rank_of(member));
    }
    return all;
  }

  // Between any two members of a part.
  void exchange(const AlltoallTeam& team, const std::vector<size_t>& part) {
    size_t me = 0;
    while (!is_me(team.members[part[me]])) ++me;
    for (size_t step = 1; step < part.size(); ++step) {
      const size_t to = part[(me + step) % part.size()];
      if (team.members[to].takes) builder_.send(team.input[to], rank_of(team.members[to]));
    }
    if (!team.members[part[me]].takes) return;
    for (size_t step = 1; step < part.size(); ++step) {
      const size_t from = part[(me + part.size() - step) % part.size()];
      take(team.output[from], rank_of(team.members[from]));
    }
  }

  void take(const std::vector<Slice>& blocks, int peer) {
    const uint64_t bytes = block_ * blocks.size();
    if (packed(blocks)) {
      builder_.recv({blocks.front().space, blocks.front().offset, bytes}, peer);
      return;
    }
    const Slice landing = builder_.scratch(bytes);
    builder_.recv(landing, peer);
    for (size_t index = 0; index < blocks.size(); ++index)
      builder_.copy(landing.sub(index * block_, block_), blocks[index]);
  }

  ScheduleBuilder& builder_;
  const Group& group_;
  const Hierarchy& levels_;
  uint64_t block_;
  const HostWindows* windows_;
};

std::vector<Slice> chosen(const std::vector<Slice>& slices, std::span<const int> places) {
  std::vector<Slice> found;
  found.reserve(places.size());
  for (const int place : places) found.push_back(slices[static_cast<size_t>(place)]);
  return found;
}

}  // namespace

void hierarchical_alltoall(ScheduleBuilder& builder, const Group& group, const Problem& problem) {
  const Levels levels(group);
  if (levels->depth() == 0) return pairwise_alltoall(builder, group, problem);
  const std::unique_ptr<HostWindows> windows = host_windows(builder, group, problem, *levels);
  if (problem.check) leaders_barrier(builder, group, problem);
  builder.fence();
  const std::span<const int> host = levels->members(0, levels->part_of(0, group.me));
  AlltoallTeam everybody{.input = slices_of(whole_input(group, problem),
                                            input_blocks(group, problem), problem.element())};
  const std::vector<Slice> output =
      slices_of(whole_output(group, problem), output_blocks(group, problem), problem.element());
  const std::vector<Slice> given = chosen(everybody.input, host);
  for (int place = 0; place < group.size(); ++place) {
    const bool inside = std::find(host.begin(), host.end(), place) != host.end();
    if (inside && windows != nullptr) builder.on(Branch::kOtherwise);
    Slice& block = everybody.input[static_cast<size_t>(place)];
    if (problem.in_place)
      block = set_aside(builder, {block}).front();
    else if (place == group.me)
      builder.copy(block, output[static_cast<size_t>(place)]);
    builder.on(Branch::kAlways);
  }
  for (int place = 0; place < group.size(); ++place) {
    everybody.members.push_back({.place = place});
    everybody.output.push_back({output[static_cast<size_t>(place)]});
  }
  LevelExchange(builder, group, *levels, problem.count * problem.element(), windows.get())
      .run(0, everybody);
  if (windows == nullptr) return;
  windows->exchange(given, chosen(output, host));
  windows->end();
}

}  // namespace banyan
