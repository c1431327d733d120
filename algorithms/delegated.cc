// SPDX-License-Identifier: Apache-2.0

#include "algorithms/delegated.h"

#include <algorithm>
#include <cassert>
#include <utility>
#include <vector>

#include "algorithms/generators.h"
#include "algorithms/peer_portions.h"
#include "algorithms/peer_talk.h"
#include "algorithms/peers.h"

namespace banyan {
namespace {

// How a window is used: two halves for portions, and two for what comes to be folded.
struct Room {
  uint64_t portions;      // bytes of the former
  uint64_t landing_half;  // of one of the latter

  // The shares of a vector may each be longer than the rest by a unit.
  Room(uint64_t window, int ranks) {
    constexpr uint64_t kWidest = 8;
    const uint64_t slack = static_cast<uint64_t>(ranks) * kPortionUnit * kWidest;
    assert(window > 4 * slack);
    portions = (window / 2 - slack) / 2 / kPortionUnit * kPortionUnit * 2;
    landing_half = (window - portions) / 2 / kPortionUnit * kPortionUnit;
  }
};

class DelegatedSteps {
 public:
  DelegatedSteps(ScheduleBuilder& builder, const Problem& problem, const Group& group,
                 uint64_t window)
      : talk_(builder, problem, group),
        problem_(problem),
        group_(group),
        room_(window, group.size()) {
    const uint64_t one_shot =
        std::min(kOneShotMost, room_.landing_half / static_cast<uint64_t>(group.size()));
    for (Group other = group; all_.size() < group.ranks.size();) {
      other.me = static_cast<int>(all_.size());
      all_.push_back(portions_in_shares(problem, other, room_.portions, one_shot));
    }
  }

  // A portion's sums are folded while the next one's contributions travel.
  void run() {
    talk_.agree(whole_input(group_, problem_), whole_output(group_, problem_), true);
    const size_t count = all_.front().size();
    for (size_t index = 0; index <= count; ++index) {
      if (index < count) give(index);
      if (index > 0 && own(index - 1).shares_sum) share(own(index - 1), index - 1);
    }
    talk_.withdraw();
  }

 private:
  const Portion& own(size_t index) const { return all_[static_cast<size_t>(group_.me)][index]; }
  size_t me() const { return static_cast<size_t>(group_.me); }

  // Where in this rank's window, or, from `pulled` on, of its sum, that rank reads.
  Slice read_by(const Portion& theirs, bool sums) const {
    if (theirs.shares_sum && !sums) return theirs.folded;
    if (!theirs.shares_sum && theirs.folded.size != 0) return theirs.folded;
    for (const Portion::Pull& pull : theirs.pulled)
      if (pull.place == group_.me) return pull.from;
    return {};
  }
  // Where it is before it is copied to the window.
  static Slice source_of(const Portion& portion, Slice in_window) {
    for (const Portion::Move& move : portion.given)
      if (in_window.size != 0 && in_window.offset >= move.to.offset &&
          in_window.end() <= move.to.end())
        return move.from.sub(in_window.offset - move.to.offset, in_window.size);
    return in_window;
  }
  Slice landing(size_t index, uint64_t bytes) const {
    assert(bytes <= room_.landing_half);
    return {Space::kWindow, room_.portions + index % 2 * room_.landing_half, bytes};
  }
  static bool meets(const std::vector<Slice>& left, const std::vector<Slice>& right) {
    for (const Slice& one : left)
      for (const Slice& other : right)
        if (one.size != 0 && other.size != 0 && one.space == other.space &&
            one.offset < other.end() && other.offset < one.end())
          return true;
    return false;
  }
  void copy(Slice from, Slice to) {
    if (from.size == 0 || from == to) return;
    talk_.add({.op = Op::kCopy,
               .type = problem_.type,
               .memory = MemoryKind::kDevice,
               .src = from,
               .src2 = {},
               .dst = to},
              {});
  }

  void give(size_t index) {
    const Portion& portion = own(index);
    const bool folds = portion.folded.size != 0;
    const auto ranks = static_cast<uint64_t>(group_.size());
    const Slice contributions = landing(index, portion.folded.size * ranks);
    Delegation round{std::vector<Slice>(all_.size()), std::vector<Slice>(all_.size())};
    for (size_t place = 0; place < all_.size(); ++place) {
      round.to[place] = source_of(portion, read_by(all_[place][index], false));
      if (folds)
        round.from[place] = contributions.sub(portion.folded.size * place, portion.folded.size);
    }
    for (const Portion::Pull& pull : portion.pulled)
      if (!portion.shares_sum) round.from[static_cast<size_t>(pull.place)] = pull.to;
    if (!folds) round.to[me()] = {};
    for (const Portion::Move& move : portion.own) copy(move.from, move.to);
    if (meets(round.to, round.from)) {
      for (const Portion::Move& move : portion.given) copy(move.from, move.to);
      for (size_t place = 0; place < all_.size(); ++place)
        if (place != me()) round.to[place] = read_by(all_[place][index], false);
    }
    talk_.delegate(std::move(round));
    if (!folds) return;
    talk_.add({.op = Op::kFold,
               .type = problem_.type,
               .memory = MemoryKind::kDevice,
               .src = contributions.sub(0, portion.folded.size),
               .src2 = contributions,
               .dst = portion.sum},
              {});
  }

  void share(const Portion& portion, size_t index) {
    Delegation round{std::vector<Slice>(all_.size()), std::vector<Slice>(all_.size())};
    for (size_t place = 0; place < all_.size(); ++place)
      round.to[place] = read_by(all_[place][index], true);
    for (const Portion::Pull& pull : portion.pulled)
      round.from[static_cast<size_t>(pull.place)] = pull.to;
    talk_.delegate(std::move(round));
  }

  PeerTalk talk_;
  const Problem& problem_;
  const Group& group_;
  const Room room_;
  std::vector<std::vector<Portion>> all_;  // by place
};

}  // namespace

void add_delegated(ScheduleBuilder& builder, const Problem& problem, const Group& group,
                   uint64_t window) {
  assert(problem.collective != Collective::kAlltoallv);
  DelegatedSteps(builder, problem, group, window).run();
}

}  // namespace banyan
