// SPDX-License-Identifier: Apache-2.0

#include "algorithms/choice/decision_table.h"

#include <fmt/core.h>

#include <algorithm>

#include "src/base/parse.h"

namespace banyan {
namespace {

using enum Collective;

constexpr uint64_t kMostTried = uint64_t{1} << 40;  // bytes; beyond, only rules have borders

class Asker {
 public:
  Asker(Collective collective, DataType type, int ranks, Medium medium, const Rules& rules,
        const Hierarchy* hierarchy, const MeasuredNetwork* measured, bool invariant)
      : ranks_(ranks),
        medium_(medium),
        rules_(rules),
        hierarchy_(hierarchy),
        measured_(measured),
        invariant_(invariant) {
    problem_.collective = collective;
    problem_.type = type;
  }

  // Those that a call can have: the length of a `v` call is P blocks.
  uint64_t step() const {
    const uint64_t blocks =
        has_blocks_of_own_length(problem_.collective) ? static_cast<uint64_t>(ranks_) : 1;
    return problem_.element() * blocks;
  }

  // `steps` times step() bytes.
  Choice at(uint64_t steps) {
    problem_ = equal_blocks(problem_.collective, problem_.type, steps, ranks_);
    problem_.invariant = invariant_;
    return choose(problem_, ranks_, medium_, rules_, hierarchy_, measured_);
  }

  bool one_answer() const {
    return problem_.collective == kBarrier || problem_.collective == kAlltoallv;
  }

  // Numbers of steps, ascending, between which neighbours are to be compared.
  std::vector<uint64_t> places() const {
    std::vector<uint64_t> bytes{0};
    for (uint64_t size = step(); size <= kMostTried; size *= 2) {
      bytes.push_back(size);
      bytes.push_back(size + size / 2);
    }
    for (const Rule& rule : rules_) {
      bytes.push_back(rule.size_least);
      if (rule.size_most != UINT64_MAX) bytes.push_back(rule.size_most + 1);
    }
    for (uint64_t& each : bytes) each = each / step() + (each % step() != 0 ? 1 : 0);
    std::sort(bytes.begin(), bytes.end());
    bytes.erase(std::unique(bytes.begin(), bytes.end()), bytes.end());
    return bytes;
  }

 private:
  Problem problem_;
  int ranks_;
  Medium medium_;
  const Rules& rules_;
  const Hierarchy* hierarchy_;
  const MeasuredNetwork* measured_;
  bool invariant_;
};

bool same(const Choice& a, const Choice& b) {
  return a.algorithm == b.algorithm && a.because == b.because && a.parameters == b.parameters;
}

// The least number of steps in (low, high] with another answer than `low` has.
uint64_t border(Asker& asker, uint64_t low, uint64_t high, const Choice& at_low) {
  while (high - low > 1) {
    const uint64_t middle = low + (high - low) / 2;
    (same(asker.at(middle), at_low) ? low : high) = middle;
  }
  return high;
}

bool same(const std::vector<Decision>& a, const std::vector<Decision>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& one, const auto& other) {
    return one.most == other.most && same(one.choice, other.choice);
  });
}

// " up to 32K", " beyond", or nothing where there is one answer.
std::string sizes_of(const std::vector<Decision>& all, const Decision& each) {
  if (all.size() == 1) return "";
  return each.most == UINT64_MAX ? " beyond" : fmt::format(" up to {}", format_size(each.most));
}

}  // namespace

std::vector<Decision> decisions(Collective collective, DataType type, int ranks, Medium medium,
                                const Rules& rules, const Hierarchy* hierarchy,
                                const MeasuredNetwork* measured, bool invariant) {
  Asker asker(collective, type, ranks, medium, rules, hierarchy, measured, invariant);
  std::vector<Decision> found{{.choice = asker.at(0)}};
  if (asker.one_answer()) return found;
  const std::vector<uint64_t> places = asker.places();
  for (size_t i = 1; i < places.size(); ++i) {
    const Choice choice = asker.at(places[i]);
    for (uint64_t low = places[i - 1]; !same(choice, found.back().choice);) {
      low = border(asker, low, places[i], found.back().choice);
      found.back().most = (low - 1) * asker.step();
      found.push_back({.choice = asker.at(low)});
    }
  }
  return found;
}

std::vector<std::string> decision_lines(int ranks, Medium medium, const Rules& rules,
                                        const Hierarchy* hierarchy, const MeasuredNetwork* measured,
                                        bool invariant) {
  std::vector<std::string> lines;
  const auto add = [&](Collective collective, std::string_view type,
                       const std::vector<Decision>& all) {
    for (const Decision& each : all)
      lines.push_back(fmt::format(
          "{}{}{}: {}, by the {}", name_of(collective), type, sizes_of(all, each),
          algorithms()[static_cast<size_t>(each.choice.algorithm)].name, reason_of(each.choice)));
  };
  for (int i = 0; i < kNamedCollectives; ++i) {
    const auto collective = static_cast<Collective>(i);
    const auto of = [&](DataType type) {
      return decisions(collective, type, ranks, medium, rules, hierarchy, measured, invariant);
    };
    const std::vector<Decision> usual = of(DataType::kFloat32);
    const std::vector<Decision> narrow = of(DataType::kBfloat16);
    const bool alike = same(usual, narrow);
    add(collective, alike ? "" : " of float32", usual);
    if (!alike) add(collective, " of bfloat16", narrow);
  }
  return lines;
}

}  // namespace banyan
