// SPDX-License-Identifier: Apache-2.0

#include "algorithms/peer_portions.h"

#include <algorithm>
#include <cassert>
#include <numeric>

#include "algorithms/generators.h"
#include "algorithms/peers.h"

namespace banyan {
namespace {

uint64_t half_of(uint64_t window) {
  return window / 2 / kPortionUnit * kPortionUnit;
}

// By a codec whose messages are as long as their values are many. It says the same of values
// wherever a vector is cut at multiples of its unit.
class CodedPortions {
 public:
  CodedPortions(ScheduleBuilder& builder, const Problem& problem, const Group& group,
                uint64_t window)
      : problem_(problem),
        group_(group),
        contributions_(builder, group, problem, group.parameters.inter_codec,
                       Coder::Of::kContributions, true),
        sums_(builder, group, problem, group.parameters.inter_codec, Coder::Of::kSums, true),
        unit_(std::lcm(unit_of(group), kPortionUnit)),
        half_(half_of(window)) {}

  std::vector<Portion> make() const {
    std::vector<Portion> made;
    const uint64_t most = half_ / contributions_.capacity(unit_) * unit_;
    assert(most != 0);
    for (uint64_t begin = 0; begin < problem_.count; begin += most)
      made.push_back(portion({begin, std::min(most, problem_.count - begin)}, made.size() % 2));
    return made;
  }

 private:
  Portion portion(Part part, uint64_t half) const {
    Portion made;
    made.shares_sum = true;
    made.divides = problem_.op == ReduceOp::kAvg;
    const Slice input = whole_input(group_, problem_), output = whole_output(group_, problem_);
    for (int place = 0; place < group_.size(); ++place) {
      const Part share = part_of_units(part.count, unit_, group_.size(), place);
      const Slice message{Space::kWindow, half * half_ + contributions_.capacity(share.begin),
                          contributions_.capacity(share.count)};
      const Part elements_of{part.begin + share.begin, share.count};
      const Slice values = elements(input, elements_of, problem_.element());
      if (share.count == 0) continue;
      made.given.push_back({values, message, contributions_.codec_from(elements_of.begin)});
      made.pulled.push_back({place, message, elements(output, elements_of, problem_.element()),
                             sums_.codec_from(elements_of.begin)});
      if (place != group_.me) continue;
      made.folded = made.sum = message;
      made.codec = sums_.codec_from(elements_of.begin);
    }
    return made;
  }

  const Problem& problem_;
  const Group& group_;
  Coder contributions_;
  Coder sums_;
  uint64_t unit_;
  uint64_t half_;
};

// Blocks are those of the call, one for each rank; of vectors that are not cut there is one.
class PeerPortions {
 public:
  // Where vectors for a root are summed: there, or share by share.
  enum class Reduces { kAtRoot, kInShares };

  PeerPortions(const Problem& problem, const Group& group, uint64_t window,
               uint64_t one_shot_most = kOneShotMost, Reduces reduces = Reduces::kAtRoot)
      : problem_(problem),
        ranks_(group.size()),
        me_(group.me),
        root_(group.place_of(problem.root)),
        element_(problem.element()),
        input_(whole_input(group, problem)),
        output_(whole_output(group, problem)),
        inputs_(input_blocks(group, problem)),
        outputs_(output_blocks(group, problem)),
        half_(half_of(window)),
        one_shot_most_(one_shot_most),
        reduces_(reduces),
        most_(half_ / element_ / (gives_blocks() ? static_cast<uint64_t>(ranks_) : 1) /
              kPortionUnit * kPortionUnit) {
    assert(most_ != 0);
  }

  std::vector<Portion> make() const {
    uint64_t longest = 0;
    for (int block = 0; block < ranks_; ++block) longest = std::max(longest, count_of(block));
    for (const uint64_t count : problem_.send_counts) longest = std::max(longest, count);
    std::vector<Portion> made;
    for (uint64_t begin = 0; begin < longest; begin += most_)
      made.push_back(portion({begin, made.size() % 2 * half_}));
    return made;
  }

 private:
  // Which elements of each block a portion has, and where in the window it is.
  struct At {
    uint64_t begin;
    uint64_t half;
  };

  bool is_vector() const {
    return problem_.collective == Collective::kAllreduce ||
           problem_.collective == Collective::kReduce ||
           problem_.collective == Collective::kBroadcast;
  }
  // A window has a block for each rank, and not one for all of them.
  bool gives_blocks() const {
    return problem_.collective == Collective::kReduceScatter ||
           problem_.collective == Collective::kReduceScatterv ||
           problem_.collective == Collective::kAlltoall ||
           problem_.collective == Collective::kAlltoallv ||
           problem_.collective == Collective::kScatter;
  }
  uint64_t count_of(int block) const {
    if (problem_.recv_counts.empty()) return problem_.count;
    return problem_.recv_counts[static_cast<size_t>(block)];
  }
  // Elements of a block in the portion, counted from `first`.
  Part part(At at, int block, uint64_t first = 0) const {
    const uint64_t count = count_of(block);
    return {first + at.begin, at.begin < count ? std::min(most_, count - at.begin) : 0};
  }
  Slice input(At at, int block) const {
    const uint64_t first = gives_blocks() ? inputs_[static_cast<size_t>(block)].begin : 0;
    return elements(input_, part(at, block, first), element_);
  }
  // This rank's own, where it has no more.
  Slice output(At at, int block) const { return elements(output_, part(at, block), element_); }
  Slice block_of_output(At at, int block) const {
    return elements(output_, part(at, block, outputs_[static_cast<size_t>(block)].begin), element_);
  }
  Slice window(At at, int block) const {
    const uint64_t place = gives_blocks() ? static_cast<uint64_t>(block) * most_ * element_ : 0;
    return {Space::kWindow, at.half + place, part(at, block).count * element_};
  }
  // The part of one of those that a rank combines.
  Slice share(Slice slice, int place) const {
    return elements(slice, part_of_units(slice.size / element_, kPortionUnit, ranks_, place),
                    element_);
  }

  Portion portion(At at) const {
    switch (problem_.collective) {
      case Collective::kAllreduce: return allreduce(at);
      case Collective::kReduce: return reduce(at);
      case Collective::kBroadcast: return broadcast(at);
      case Collective::kReduceScatter:
      case Collective::kReduceScatterv: return reduce_scatter(at);
      case Collective::kAllgather:
      case Collective::kAllgatherv: return allgather(at, true);
      case Collective::kGather: return allgather(at, me_ == root_);
      case Collective::kScatter: return scatter(at);
      case Collective::kAlltoallv: return alltoallv(at);
      default: return alltoall(at);
    }
  }

  Portion allreduce(At at) const {
    const Slice whole = window(at, 0);
    const Slice result = output(at, 0);
    Portion made{.given = {{input(at, 0), whole}}};
    if (input_.size <= one_shot_most_) {
      made.folded = whole;
      made.sum = result;
      return made;
    }
    fold_share(whole, made);
    pull_shares(whole, result, made);
    return made;
  }

  // Nobody else reads this rank's share of this rank's window before it is the sum.
  void fold_share(Slice whole, Portion& made) const {
    made.folded = made.sum = share(whole, me_);
    made.shares_sum = true;
  }
  void pull_shares(Slice whole, Slice result, Portion& made) const {
    for (int place = 0; place < ranks_; ++place)
      made.pulled.push_back({place, share(whole, place), share(result, place)});
  }

  Portion reduce(At at) const {
    Portion made{.given = {{input(at, 0), window(at, 0)}}};
    if (reduces_ == Reduces::kInShares) fold_share(window(at, 0), made);
    if (me_ != root_) return made;
    if (reduces_ == Reduces::kInShares) {
      pull_shares(window(at, 0), output(at, 0), made);
      return made;
    }
    made.folded = window(at, 0);
    made.sum = output(at, 0);
    return made;
  }

  Portion broadcast(At at) const {
    Portion made;
    if (me_ != root_) {
      made.pulled = {{root_, window(at, 0), output(at, 0)}};
      return made;
    }
    made.own = {{input(at, 0), output(at, 0)}};
    made.given = {{input(at, 0), window(at, 0)}};
    return made;
  }

  Portion reduce_scatter(At at) const {
    Portion made;
    for (int block = 0; block < ranks_; ++block)
      made.given.push_back({input(at, block), window(at, block)});
    made.folded = window(at, me_);
    made.sum = output(at, me_);
    return made;
  }

  Portion allgather(At at, bool pulls) const {
    Portion made{.given = {{input(at, me_), window(at, me_)}}};
    if (!pulls) return made;
    made.own = {{input(at, me_), block_of_output(at, me_)}};
    for (int place = 0; place < ranks_; ++place)
      if (place != me_)
        made.pulled.push_back({place, window(at, place), block_of_output(at, place)});
    return made;
  }

  Portion scatter(At at) const {
    Portion made;
    if (me_ != root_) {
      made.pulled = {{root_, window(at, me_), output(at, me_)}};
      return made;
    }
    made.own = {{input(at, me_), output(at, me_)}};
    for (int block = 0; block < ranks_; ++block)
      if (block != me_) made.given.push_back({input(at, block), window(at, block)});
    return made;
  }

  Portion alltoall(At at) const {
    Portion made;
    for (int place = 0; place < ranks_; ++place) {
      if (place == me_) {
        made.own = {{input(at, place), block_of_output(at, place)}};
        continue;
      }
      made.given.push_back({input(at, place), window(at, place)});
      made.pulled.push_back({place, window(at, me_), block_of_output(at, place)});
    }
    return made;
  }

  Portion alltoallv(At at) const {
    Portion made;
    const auto part_of_block = [&](const Part& block) {
      return Part{block.begin + at.begin,
                  at.begin < block.count ? std::min(most_, block.count - at.begin) : 0};
    };
    const auto room = [&](int block, const Slice& values) {
      return Slice{Space::kWindow, at.half + static_cast<uint64_t>(block) * most_ * element_,
                   values.size};
    };
    for (int place = 0; place < ranks_; ++place) {
      const auto index = static_cast<size_t>(place);
      const Slice given = elements(input_, part_of_block(inputs_[index]), element_);
      const Slice taken = elements(output_, part_of_block(outputs_[index]), element_);
      if (place == me_) {
        made.own = {{given, taken}};
        continue;
      }
      made.given.push_back({given, room(place, given)});
      made.pulled.push_back({place, room(me_, taken), taken});
      if (given.size != 0) made.readers |= uint32_t{1} << place;
      if (taken.size != 0) made.owners |= uint32_t{1} << place;
    }
    return made;
  }

  const Problem& problem_;
  int ranks_;
  int me_;
  int root_;
  uint64_t element_;
  Slice input_;
  Slice output_;
  std::vector<Part> inputs_;
  std::vector<Part> outputs_;
  uint64_t half_;
  uint64_t one_shot_most_;
  Reduces reduces_;
  uint64_t most_;  // elements of a block in a portion
};

}  // namespace

std::vector<Portion> portions_of(ScheduleBuilder& builder, const Problem& problem,
                                 const Group& group, uint64_t window) {
  return group.parameters.encodes() ? CodedPortions(builder, problem, group, window).make()
                                    : PeerPortions(problem, group, window).make();
}

std::vector<Portion> portions_in_shares(const Problem& problem, const Group& group, uint64_t window,
                                        uint64_t one_shot_most) {
  return PeerPortions(problem, group, window, one_shot_most, PeerPortions::Reduces::kInShares)
      .make();
}

}  // namespace banyan
