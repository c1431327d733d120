// A hierarchy says how ranks lie: on which host, the hosts in which rack, and so on upwards.
//
// A level is a partition of the places 0 to P - 1. The first level is the finest, and each part of
// a level lies within one part of the next. Parts may be of any size. A hierarchy is a value: it
// knows nothing of edges or speeds, and the same one is derived on every rank.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "banyan/status.h"

namespace banyan {

// What the level of hosts is called, the first one where it says something.
inline constexpr std::string_view kHostLevel = "host";

class Hierarchy {
 public:
  // A level as it is written down: each place once, in any order.
  struct Level {
    std::string name;  // "host", "rack"
    std::vector<std::vector<int>> parts;
  };

  // No levels: a flat group.
  Hierarchy() = default;
  // Fails with kInvalidArgument, which names the level and what is wrong: a place that is missing,
  // twice or not one of `places`, an empty part, or one that lies in two parts of the next level.
  static Result<Hierarchy> make(int places, const std::vector<Level>& levels);
  // One level: places with equal labels share a part.
  static Hierarchy of_labels(std::string_view name, std::span<const int> labels);

  // 0 for a flat group.
  int places() const { return levels_.empty() ? 0 : static_cast<int>(levels_.front().part.size()); }
  int depth() const { return static_cast<int>(levels_.size()); }
  const std::string& name(int level) const { return at(level).name; }
  // Parts are numbered by their lowest places.
  int parts(int level) const { return static_cast<int>(at(level).begin.size()) - 1; }
  int part_of(int level, int place) const { return at(level).part[static_cast<size_t>(place)]; }
  // Ascending.
  std::span<const int> members(int level, int part) const {
    const int* begin = &at(level).begin[static_cast<size_t>(part)];
    return std::span(at(level).members)
        .subspan(static_cast<size_t>(begin[0]), static_cast<size_t>(begin[1] - begin[0]));
  }
  int largest_part(int level) const { return at(level).largest; }
  int smallest_part(int level) const;

  // As they are written down, so that levels can be added.
  std::vector<Level> written() const;

  // Gives the places in the order of a ring that enters each part once: the parts of the highest
  // level one after the other, within them those of the next, within the lowest ascending.
  // in_ring() may have told another order. Empty: ascending.
  std::vector<int> ring() const;
  bool has_own_ring() const { return !own_ring_.empty(); }
  // The same levels with another ring, which has each place once.
  Hierarchy in_ring(std::vector<int> places) const;

  // Leaves out the levels that say nothing: those with one part, with a part for each place, or
  // with the parts of the level before.
  Hierarchy simplified() const;
  bool is_simple() const;
  // "3 hosts of 1 to 3", for people; "flat" without levels.
  std::string text() const;

  bool operator==(const Hierarchy&) const = default;

 private:
  struct Partition {
    std::string name;
    std::vector<int> part;     // by place
    std::vector<int> members;  // part by part
    std::vector<int> begin;    // of each part in members, and the end
    int largest = 0;           // members of a part

    bool operator==(const Partition&) const = default;
  };

  static Partition partition_of(std::string_view name, std::span<const int> labels);
  const Partition& at(int level) const { return levels_[static_cast<size_t>(level)]; }

  std::vector<Partition> levels_;
  std::vector<int> own_ring_;  // empty where it is what follows from the levels
};

}  // namespace banyan
