// SPDX-License-Identifier: Apache-2.0

#include "topology/hierarchy.h"

#include <fmt/core.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace banyan {
namespace {

Status wrong(const std::string& level, const std::string& what) {
  return {Code::kInvalidArgument, fmt::format("level '{}': {}", level, what)};
}

// The number of each place's part as it stands in the list; each place is there once.
Result<std::vector<int>> labels_of(int places, const Hierarchy::Level& level) {
  constexpr int kNone = -1;
  std::vector<int> labels(static_cast<size_t>(places), kNone);
  for (size_t part = 0; part < level.parts.size(); ++part) {
    if (level.parts[part].empty())
      return wrong(level.name, fmt::format("part {} has no place; valid: one or more", part));
    for (const int place : level.parts[part]) {
      if (place < 0 || place >= places)
        return wrong(level.name,
                     fmt::format("place {} in part {}; valid: 0 to {}", place, part, places - 1));
      int& label = labels[static_cast<size_t>(place)];
      if (label != kNone)
        return wrong(level.name,
                     fmt::format("place {} is in parts {} and {}; valid: each place in one part",
                                 place, label, part));
      label = static_cast<int>(part);
    }
  }
  const auto missing = std::find(labels.begin(), labels.end(), kNone);
  if (missing != labels.end())
    return wrong(level.name, fmt::format("place {} is in no part; valid: each place in one part",
                                         missing - labels.begin()));
  return labels;
}

}  // namespace

Hierarchy::Partition Hierarchy::partition_of(std::string_view name, std::span<const int> labels) {
  Partition made{std::string(name), {}, {}, {0}, 0};
  std::unordered_map<int, int> numbers;
  made.part.reserve(labels.size());
  for (const int label : labels) {
    const int number = numbers.emplace(label, static_cast<int>(numbers.size())).first->second;
    made.part.push_back(number);
    if (static_cast<size_t>(number) + 1 == made.begin.size()) made.begin.push_back(0);
    ++made.begin[static_cast<size_t>(number) + 1];
  }
  made.largest = *std::max_element(made.begin.begin(), made.begin.end());
  for (size_t part = 1; part < made.begin.size(); ++part) made.begin[part] += made.begin[part - 1];
  made.members.resize(labels.size());
  std::vector<int> next = made.begin;
  for (size_t place = 0; place < labels.size(); ++place)
    made.members[static_cast<size_t>(next[static_cast<size_t>(made.part[place])]++)] =
        static_cast<int>(place);
  return made;
}

Result<Hierarchy> Hierarchy::make(int places, const std::vector<Level>& levels) {
  if (places < 1)
    return Status(Code::kInvalidArgument, fmt::format("{} places; valid: 1 or more", places));
  Hierarchy made;
  for (const Level& level : levels) {
    const Result<std::vector<int>> labels = labels_of(places, level);
    BANYAN_TRY(labels.status());
    Partition coarse = partition_of(level.name, *labels);
    for (int part = 0; !made.levels_.empty() && part < made.parts(made.depth() - 1); ++part) {
      const std::span<const int> inside = made.members(made.depth() - 1, part);
      for (const int place : inside)
        if (coarse.part[static_cast<size_t>(place)] !=
            coarse.part[static_cast<size_t>(inside.front())])
          return wrong(level.name,
                       fmt::format("places {} and {} are in different parts, but in one part of "
                                   "level '{}'; valid: levels from fine to coarse, each within "
                                   "the next",
                                   inside.front(), place, made.levels_.back().name));
    }
    made.levels_.push_back(std::move(coarse));
  }
  return made;
}

Hierarchy Hierarchy::of_labels(std::string_view name, std::span<const int> labels) {
  Hierarchy made;
  if (!labels.empty()) made.levels_.push_back(partition_of(name, labels));
  return made;
}

int Hierarchy::smallest_part(int level) const {
  int least = places();
  for (int part = 0; part < parts(level); ++part)
    least = std::min(least, static_cast<int>(members(level, part).size()));
  return least;
}

std::vector<Hierarchy::Level> Hierarchy::written() const {
  std::vector<Level> levels;
  for (int level = 0; level < depth(); ++level) {
    Level& copy = levels.emplace_back();
    copy.name = name(level);
    for (int part = 0; part < parts(level); ++part) {
      const std::span<const int> places = members(level, part);
      copy.parts.emplace_back(places.begin(), places.end());
    }
  }
  return levels;
}

// Parts are numbered by their lowest places, and each lies within one of the next level.
std::vector<int> Hierarchy::ring() const {
  if (has_own_ring() || levels_.empty()) return own_ring_;
  std::vector<int> places = levels_.front().members;
  for (int level = 1; level < depth(); ++level)
    std::stable_sort(places.begin(), places.end(),
                     [&](int a, int b) { return part_of(level, a) < part_of(level, b); });
  return places;
}

Hierarchy Hierarchy::in_ring(std::vector<int> places) const {
  Hierarchy made = *this;
  made.own_ring_.clear();
  const bool known =
      levels_.empty() ? std::is_sorted(places.begin(), places.end()) : places == made.ring();
  if (!known) made.own_ring_ = std::move(places);
  return made;
}

// None of the levels that it leaves out changes the ring.
Hierarchy Hierarchy::simplified() const {
  Hierarchy made;
  made.own_ring_ = own_ring_;
  int before = places();
  for (int level = 0; level < depth(); ++level) {
    if (parts(level) == 1 || parts(level) == before) continue;
    before = parts(level);
    made.levels_.push_back(at(level));
  }
  return made;
}

bool Hierarchy::is_simple() const {
  int before = places();
  for (int level = 0; level < depth(); ++level) {
    if (parts(level) == 1 || parts(level) == before) return false;
    before = parts(level);
  }
  return true;
}

std::string Hierarchy::text() const {
  const auto plural = [](const std::string& name) {
    return name == "leaf" ? "leaves" : name + 's';
  };
  std::string text;
  for (int level = 0; level < depth(); ++level) {
    const int least = smallest_part(level);
    const int most = largest_part(level);
    text += fmt::format("{}{} {} of {}", level == 0 ? "" : ", ", parts(level),
                        parts(level) == 1 ? name(level) : plural(name(level)), least);
    if (most != least) text += fmt::format(" to {}", most);
  }
  return text.empty() ? "flat" : text;
}

}  // namespace banyan
