// Says who works with whom where ranks lie in levels: teams that share a vector (Stages), or a
// chain of leaders (Ladder). Pure; private to this folder.
//
// A vector that a team shares is cut into as many shards as the largest part of the team's level
// has members. At the lowest level there are fewer where a rule says so ('rails='). A part of M
// members owns all of them. Its member i owns those s with floor(s M / shards) = i, which are
// neighbours; where shards are fewer than members, some own none.
//
// Every M-th shard would do as well between the parts, but not inside. What one member has for
// another is one message of neighbours, and would be shards / M of them: beside a host of eight,
// each rank of a host of two sends 2 inside in an allreduce, and would send 8. Circulant exchanges
// need neighbours, too.
//
// The owners of a shard, one in each part, are a team at the next level: a rail. So every owner
// moves its share over the wires between the parts, a shard is summed once in each part, and parts
// of different sizes need no other schedule: what leaves a part is the least that can leave it.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "algorithms/problem.h"
#include "topology/hierarchy.h"

namespace banyan {

// The levels of a group that say something: its hierarchy, simplified().
class Levels {
 public:
  explicit Levels(const Group& group);
  Levels(const Levels&) = delete;
  Levels& operator=(const Levels&) = delete;

  const Hierarchy& operator*() const { return *which_; }
  const Hierarchy* operator->() const { return which_; }

 private:
  Hierarchy own_;
  const Hierarchy* which_ = &own_;  // that of the group needs no copy where it is simple
};

// Gives the members of a team, as places, part by part of a level. It has one of each part of the
// level below, so none is empty.
class Parts {
 public:
  // At level 0 the team is everybody, and none is looked at.
  Parts(const Hierarchy& levels, int level, std::span<const int> team);

  size_t count() const { return static_cast<size_t>(levels_.parts(level_)); }
  // In the order of the team.
  std::span<const int> operator[](size_t index) const {
    if (level_ == 0) return levels_.members(0, static_cast<int>(index));
    return std::span(members_).subspan(begin_[index], begin_[index + 1] - begin_[index]);
  }
  int largest() const { return largest_; }

 private:
  const Hierarchy& levels_;
  int level_;
  std::vector<size_t> begin_;
  std::vector<int> members_;
  int largest_ = 0;
};

// Makes those places of a group a group of their own, which knows no levels and no parameters:
// those are of the whole.
Group group_of(const Group& all, std::span<const int> places);

// A cut of a team's vector into shards, and of the shards into blocks for the members of one part.
struct Cut {
  int shards = 1;
  int members = 1;
  uint64_t unit = 1;  // elements that shards do not tear

  int owner(int shard) const {
    if (members == shards) return shard;  // of most parts, and there may be thousands
    return static_cast<int>(static_cast<int64_t>(shard) * members / shards);
  }
  // The first shard of a member, if it has any, and one after the last of those before.
  int first(int member) const {
    return static_cast<int>((static_cast<int64_t>(member) * shards + members - 1) / members);
  }
  // Elements of the shard, or of all shards of a member, of a vector.
  Part shard(Part vector, int index) const;
  Part block(Part vector, int member) const;
};

// Says into how many shards everybody's vector is cut: how many ranks of a host, of the largest at
// least, exchange with other hosts.
int shards_of(const Hierarchy& levels, const Parameters& parameters);

// One team at one level, as one of its ranks sees it.
struct Stage {
  Group inside;     // the members in this rank's part; at the top, all, with a root in ring order
  Cut cut;          // of the team's vector
  size_t from = 0;  // the stage below it of which its vector is a shard, and which one
  int shard = 0;
  bool in_first = true;  // this rank's part is the first of its level; at the top there is one
  int source = -1;  // index in `inside` of who has the team's vector first, or gets it; -1: none
};

// Holds the stages of a rank, from the team of all ranks upwards. Requires a hierarchy that is
// simplified(), with levels; the top stage of every rail then has two members at least. `root`: the
// place that is the source of the whole vector; -1: none. The source of a shard is its owner in the
// part of the team's source.
class Stages {
 public:
  Stages(const Group& group, const Hierarchy& levels, int root = -1);

  int layers() const { return static_cast<int>(layers_.size()); }
  int top() const { return layers() - 1; }
  std::span<const Stage> at(int layer) const { return layers_[static_cast<size_t>(layer)]; }

 private:
  std::vector<std::vector<Stage>> layers_;
};

// Each part of the lowest level has a leader, the parts of the next level have one of the leaders
// in them, and so on. A rank is on the rungs up to the first that it does not lead.
struct Rung {
  Group members;  // of this rank's part, by their places; at the top, the leaders of all parts
  std::vector<int> places;  // of the members
  int leader = 0;           // index in members; at the top, of the first place or of who must lead
};
struct Ladder {
  std::vector<Rung> rungs;
  bool at_top = false;  // the last of them is the top

  bool leads(size_t rung) const { return rungs[rung].members.me == rungs[rung].leader; }
};
// `first` is a place that leads wherever it is; without one, -1, the lowest places do.
Ladder ladder_of(const Group& group, const Hierarchy& levels, int first);

}  // namespace banyan
