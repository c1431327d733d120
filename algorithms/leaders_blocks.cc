// Leaders do calls with a block for each rank at the root, too: gather and scatter. A leader has
// the blocks of its part in one piece, in the order of places. They go to the next leader, or come
// from it, in one message: to the root as many as there are parts, not as there are ranks.
// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <numeric>
#include <span>
#include <vector>

#include "algorithms/generators.h"
#include "algorithms/levels.h"

namespace banyan {
namespace {

using Places = std::span<const int>;

// One rank on its way up and down the ladder to the root.
class Ascent {
 public:
  Ascent(const Group& group, const Problem& problem)
      : group_(group),
        levels_(group),
        ladder_(ladder_of(group, *levels_, group.place_of(problem.root))),
        block_(problem.count * problem.element()),
        everybody_(group.ranks.size()) {
    std::iota(everybody_.begin(), everybody_.end(), 0);
  }

  bool is_flat() const { return levels_->depth() == 0; }
  bool is_root() const { return ladder_.at_top && leads(ladder_.rungs.size() - 1); }
  const Ladder& ladder() const { return ladder_; }
  // The rungs that this rank leads; they are the lowest ones.
  size_t led() const { return ladder_.rungs.size() - (leads(ladder_.rungs.size() - 1) ? 0 : 1); }
  // Whose leader takes this rank's blocks; not of the root.
  int superior() const { return ladder_.rungs.back().members.at(ladder_.rungs.back().leader); }

  Places self() const { return below(0, group_.me); }
  // The places whose blocks this rank has in the end, or at first.
  Places own() const { return below(led(), group_.me); }
  uint64_t bytes(Places places) const { return block_ * places.size(); }

  // Every other member of a rung that this rank leads: its rank, and the places below it.
  template <typename Visit>
  void for_each_below(size_t rung, Visit visit) const {
    const Group& members = ladder_.rungs[rung].members;
    for (int step = 1; step < members.size(); ++step) {
      const int index = members.wrap(members.me + step);
      visit(members.at(index), below(rung, ladder_.rungs[rung].places[static_cast<size_t>(index)]));
    }
  }

  // Where the blocks of some places are within `held`, which has those of own(): runs without gaps.
  std::vector<Slice> runs(Slice held, Places places) const {
    const Places all = own();
    std::vector<Slice> found;
    for (const int place : places) {
      const auto index =
          static_cast<uint64_t>(std::lower_bound(all.begin(), all.end(), place) - all.begin());
      const Slice block = held.sub(index * block_, block_);
      if (!found.empty() && found.back().end() == block.offset)
        found.back().size += block_;
      else
        found.push_back(block);
    }
    return found;
  }

 private:
  bool leads(size_t rung) const { return ladder_.leads(rung); }
  // The places below a member of a rung; of a rung above the top: all.
  Places below(size_t rung, int place) const {
    if (rung == 0) return Places(everybody_).subspan(static_cast<size_t>(place), 1);
    const auto level = static_cast<int>(rung) - 1;
    if (level >= levels_->depth()) return everybody_;
    return levels_->members(level, levels_->part_of(level, place));
  }

  const Group& group_;
  Levels levels_;
  Ladder ladder_;
  uint64_t block_;
  std::vector<int> everybody_;
};

void copy_apart(ScheduleBuilder& builder, Slice from, const std::vector<Slice>& runs) {
  for (const Slice& run : runs) {
    builder.copy(from.sub(0, run.size), run);
    from = from.sub(run.size, from.size - run.size);
  }
}

void copy_together(ScheduleBuilder& builder, const std::vector<Slice>& runs, Slice to) {
  for (const Slice& run : runs) {
    builder.copy(run, to.sub(0, run.size));
    to = to.sub(run.size, to.size - run.size);
  }
}

}  // namespace

// With agreement, blocks go up through scratch, so that the root has heard from all before it
// writes its output, and all are told so.
void leaders_gather(ScheduleBuilder& builder, const Group& group, const Problem& problem) {
  const Ascent ascent(group, problem);
  if (ascent.is_flat()) return binomial_gather(builder, group, problem);
  const Slice input = whole_input(group, problem);
  const Slice output = whole_output(group, problem);
  Slice held = input;
  if (ascent.is_root() && !problem.check)
    held = output;
  else if (ascent.led() > 0)
    held = builder.scratch(ascent.bytes(ascent.own()));
  if (ascent.led() > 0) copy_apart(builder, input, ascent.runs(held, ascent.self()));
  for (size_t rung = 0; rung < ascent.led(); ++rung)
    ascent.for_each_below(rung, [&](int rank, Places places) {
      const std::vector<Slice> runs = ascent.runs(held, places);
      const bool together = runs.size() == 1;
      const Slice landing = together ? runs.front() : builder.scratch(ascent.bytes(places));
      builder.recv(landing, rank);
      if (!together) copy_apart(builder, landing, runs);
    });
  if (!ascent.is_root()) {
    builder.send(held, ascent.superior());
  } else if (held != output) {
    builder.fence();
    builder.copy(held, output);
  }
  if (problem.check) tell_all(builder, ascent.ladder());
}

// The root sends when it has heard from all.
void leaders_scatter(ScheduleBuilder& builder, const Group& group, const Problem& problem) {
  const Ascent ascent(group, problem);
  if (ascent.is_flat()) return binomial_scatter(builder, group, problem);
  if (problem.check) hear_all(builder, ascent.ladder());
  const Slice output = whole_output(group, problem);
  Slice held = output;
  if (ascent.is_root())
    held = whole_input(group, problem);
  else if (ascent.led() > 0)
    held = builder.scratch(ascent.bytes(ascent.own()));
  if (!ascent.is_root()) builder.recv(held, ascent.superior());
  for (size_t rung = ascent.led(); rung-- > 0;)
    ascent.for_each_below(rung, [&](int rank, Places places) {
      const std::vector<Slice> runs = ascent.runs(held, places);
      if (runs.size() == 1) return builder.send(runs.front(), rank);
      const Slice together = builder.scratch(ascent.bytes(places));
      copy_together(builder, runs, together);
      builder.send(together, rank);
    });
  if (ascent.led() > 0) builder.copy(ascent.runs(held, ascent.self()).front(), output);
}

}  // namespace banyan
