// SPDX-License-Identifier: Apache-2.0

#include "algorithms/peers.h"

#include <algorithm>
#include <cassert>
#include <iterator>
#include <numeric>
#include <utility>
#include <vector>

#include "algorithms/builder.h"
#include "algorithms/generators.h"
#include "compression/codecs.h"

namespace banyan {
namespace {

// Where parts of vectors begin: a pack of a kernel, of the smallest elements.
constexpr uint64_t kUnit = 16;

// A part of the call, as one rank does it in one half of its window.
struct Portion {
  struct Move {
    Slice from;
    Slice to;
    StepCodec codec{};  // by which it is encoded
  };
  struct Pull {
    int place;  // in the group, whose window is read
    Slice from;
    Slice to;
    StepCodec codec{};  // by which it is decoded
  };
  std::vector<Move> own{};    // from this rank to itself
  std::vector<Move> given{};  // to this rank's window
  Slice folded{};             // of all windows; empty: nothing is
  Slice sum{};                // and where that goes
  StepCodec codec{};          // of both, which are messages
  bool divides = false;       // what was pulled
  bool shares_sum = false;    // others read it, so they must hear of it
  std::vector<Pull> pulled{};
};

using StepIds = std::vector<uint32_t>;

StepIds joined(StepIds left, const StepIds& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

// Appends the steps of portions. The window is filled for one while the one before is being read.
class PeerSteps {
 public:
  PeerSteps(ScheduleBuilder& builder, const Problem& problem, const Group& group)
      : builder_(builder), problem_(problem), group_(group) {}

  // What all say of their windows, and what follows from it.
  void agree(Slice input, Slice output) {
    const Slice offers = builder_.scratch(kOfferBytes * static_cast<uint64_t>(group_.size()));
    const auto offer_of = [&](int place) {
      return offers.sub(kOfferBytes * static_cast<uint64_t>(place), kOfferBytes);
    };
    const MemoryKind memory = problem_.staging.any() ? MemoryKind::kDevice : MemoryKind::kHost;
    const Slice own = offer_of(group_.me);
    builder_.repeat({.op = Op::kOffer, .memory = memory, .src = input, .src2 = output, .dst = own},
                    {});
    for_others([&](int place) { builder_.send(own, group_.at(place)); });
    for_others([&](int place) { builder_.recv(offer_of(place), group_.at(place)); });
    builder_.repeat({.op = Op::kDecide, .memory = memory, .src = offers, .src2 = {}, .dst = {}},
                    {});
    builder_.fence();
  }

  void run(const std::vector<Portion>& portions) {
    rounds_.resize(portions.size());
    if (!portions.empty()) give(portions, 0);
    for (size_t index = 0; index < portions.size(); ++index) {
      if (index + 1 < portions.size()) give(portions, index + 1);
      fold(portions[index], rounds_[index]);
      pull(portions[index], rounds_[index]);
    }
    builder_.fence();
    add({.op = Op::kWithdraw, .memory = MemoryKind::kDevice, .src = {}, .src2 = {}, .dst = {}}, {});
  }

 private:
  // What has been said in a portion. By place in the group; the own one is not used.
  struct Round {
    StepIds given{};              // this rank's copies
    StepIds folded{};             // this rank's sum
    std::vector<uint32_t> ready;  // their windows have what they give
    std::vector<uint32_t> summed;
    StepIds done{};  // they have read this rank's window
  };

  template <typename Visit>
  void for_others(Visit visit) const {
    for (int step = 1; step < group_.size(); ++step) visit(group_.wrap(group_.me + step));
  }

  uint32_t add(Step step, const StepIds& after) {
    step.branch = Branch::kPeers;
    return builder_.repeat(step, after);
  }
  void tell(int place, const StepIds& after) {
    add({.op = Op::kSend, .peer = group_.at(place), .src = {}, .src2 = {}, .dst = {}}, after);
  }
  uint32_t hear(int place) {
    return add({.op = Op::kRecv, .peer = group_.at(place), .src = {}, .src2 = {}, .dst = {}}, {});
  }
  bool reads(int reader, int owner) const {
    const int root = group_.place_of(problem_.root);
    if (problem_.collective == Collective::kReduce) return reader == root;
    return problem_.collective != Collective::kBroadcast || owner == root;
  }
  // Who reads this rank's window hears that it may.
  void tell_readers(const StepIds& after) {
    for_others([&](int place) {
      if (reads(place, group_.me)) tell(place, after);
    });
  }
  std::vector<uint32_t> hear_owners() {
    std::vector<uint32_t> heard(static_cast<size_t>(group_.size()));
    for_others([&](int place) {
      if (reads(group_.me, place)) heard[static_cast<size_t>(place)] = hear(place);
    });
    return heard;
  }
  StepIds of_others(const std::vector<uint32_t>& heard) const {
    StepIds ids;
    for_others([&](int place) { ids.push_back(heard[static_cast<size_t>(place)]); });
    return ids;
  }
  uint32_t copy(int place, Slice from, Slice to, StepCodec codec, const StepIds& after) {
    const Op by_codec = to.space == Space::kWindow ? Op::kEncode : Op::kDecode;
    return add({.op = codec.codec == kNoCodec ? Op::kCopy : by_codec,
                .type = problem_.type,
                .codec = codec.codec,
                .memory = MemoryKind::kDevice,
                .peer = place == group_.me ? -1 : group_.at(place),
                .coding = codec.coding,
                .src = from,
                .src2 = {},
                .dst = to},
               after);
  }

  // The half of the window is free once all have read what was there before.
  void give(const std::vector<Portion>& portions, size_t index) {
    Round& round = rounds_[index];
    const StepIds free = index < 2 ? StepIds() : rounds_[index - 2].done;
    for (const Portion::Move& move : portions[index].own)
      if (move.from.size != 0 && move.from != move.to) copy(group_.me, move.from, move.to, {}, {});
    for (const Portion::Move& move : portions[index].given)
      if (move.from.size != 0)
        round.given.push_back(copy(group_.me, move.from, move.to, move.codec, free));
    tell_readers(round.given);
    round.ready = hear_owners();
  }

  void fold(const Portion& portion, Round& round) {
    if (portion.folded.size != 0)
      round.folded = {add({.op = Op::kFold,
                           .type = problem_.type,
                           .codec = portion.codec.codec,
                           .memory = MemoryKind::kDevice,
                           .coding = portion.codec.coding,
                           .src = portion.folded,
                           .src2 = {},
                           .dst = portion.sum},
                          joined(round.given, of_others(round.ready)))};
    if (!portion.shares_sum) return;
    tell_readers(round.folded);
    round.summed = hear_owners();
  }

  void pull(const Portion& portion, Round& round) {
    std::vector<StepIds> read(static_cast<size_t>(group_.size()), round.folded);
    for (const Portion::Pull& pull : portion.pulled) {
      const auto place = static_cast<size_t>(pull.place);
      const StepIds own = joined(round.given, round.folded);
      const StepIds theirs = {portion.shares_sum ? round.summed[place] : round.ready[place]};
      if (pull.from.size == 0) continue;
      const StepIds& after = pull.place == group_.me ? own : theirs;
      read[place].push_back(copy(pull.place, pull.from, pull.to, pull.codec, after));
      if (portion.divides)
        add({.op = Op::kEncode,
             .type = problem_.type,
             .memory = MemoryKind::kDevice,
             .src = pull.to,
             .src2 = {},
             .dst = pull.to},
            {});
    }
    for_others([&](int place) {
      if (reads(group_.me, place)) tell(place, read[static_cast<size_t>(place)]);
    });
    for_others([&](int place) {
      if (reads(place, group_.me)) round.done.push_back(hear(place));
    });
  }

  ScheduleBuilder& builder_;
  const Problem& problem_;
  const Group& group_;
  std::vector<Round> rounds_;
};

// Cuts a call into portions: of each of `blocks` blocks so many elements that all fit half a
// window. Slices of vectors and of windows are asked for by block.
class Portions {
 public:
  Portions(const Problem& problem, int blocks, uint64_t window)
      : element_(problem.element()), half_(window / 2 / kUnit * kUnit) {
    const uint64_t most = half_ / element_ / static_cast<uint64_t>(blocks) / kUnit * kUnit;
    assert(most != 0);
    for (uint64_t begin = 0; begin < problem.count; begin += most)
      parts_.push_back({begin, std::min(most, problem.count - begin)});
    block_ = most;
  }

  size_t size() const { return parts_.size(); }
  const Part& operator[](size_t index) const { return parts_[index]; }
  // A block of a vector that has `stride` elements for each.
  Slice of(Slice vector, size_t index, int block = 0, uint64_t stride = 0) const {
    const uint64_t first = static_cast<uint64_t>(block) * stride + parts_[index].begin;
    return vector.sub(first * element_, parts_[index].count * element_);
  }
  Slice window(size_t index, int block = 0) const {
    const uint64_t first = static_cast<uint64_t>(block) * block_ * element_;
    return {Space::kWindow, index % 2 * half_ + first, parts_[index].count * element_};
  }
  // The part of one of those that a rank combines.
  Slice share(Slice slice, int ranks, int place) const {
    const Part part = part_of_units(slice.size / element_, kUnit, ranks, place);
    return slice.sub(part.begin * element_, part.count * element_);
  }

 private:
  uint64_t element_;
  uint64_t half_;
  uint64_t block_ = 0;
  std::vector<Part> parts_;
};

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
        unit_(std::lcm(unit_of(group), kUnit)),
        half_(window / 2 / kUnit * kUnit) {}

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

class PeerPortions {
 public:
  PeerPortions(const Problem& problem, const Group& group, uint64_t window)
      : problem_(problem),
        ranks_(group.size()),
        me_(group.me),
        root_(group.place_of(problem.root)),
        input_(whole_input(group, problem)),
        output_(whole_output(group, problem)),
        portions_(problem, has_block_for_each(problem.collective) ? group.size() : 1, window) {}

  std::vector<Portion> make() const {
    std::vector<Portion> made;
    for (size_t index = 0; index < portions_.size(); ++index) made.push_back(portion(index));
    return made;
  }

 private:
  static bool has_block_for_each(Collective collective) {
    return collective == Collective::kReduceScatter || collective == Collective::kAlltoall;
  }

  Portion portion(size_t index) const {
    switch (problem_.collective) {
      case Collective::kAllreduce: return allreduce(index);
      case Collective::kReduceScatter: return reduce_scatter(index);
      case Collective::kReduce: return reduce(index);
      case Collective::kBroadcast: return broadcast(index);
      case Collective::kAllgather: return allgather(index);
      default: return alltoall(index);
    }
  }

  Portion allreduce(size_t index) const {
    const Slice window = portions_.window(index);
    const Slice result = portions_.of(output_, index);
    Portion made{.given = {{portions_.of(input_, index), window}}};
    if (input_.size <= kOneShotMost) {
      made.folded = window;
      made.sum = result;
      return made;
    }
    // Nobody else reads this rank's share of this rank's window before it is the sum.
    made.folded = made.sum = portions_.share(window, ranks_, me_);
    made.shares_sum = true;
    for (int place = 0; place < ranks_; ++place)
      made.pulled.push_back(
          {place, portions_.share(window, ranks_, place), portions_.share(result, ranks_, place)});
    return made;
  }

  Portion reduce(size_t index) const {
    Portion made{.given = {{portions_.of(input_, index), portions_.window(index)}}};
    if (me_ != root_) return made;
    made.folded = portions_.window(index);
    made.sum = portions_.of(output_, index);
    return made;
  }

  Portion reduce_scatter(size_t index) const {
    Portion made;
    for (int block = 0; block < ranks_; ++block)
      made.given.push_back(
          {portions_.of(input_, index, block, problem_.count), portions_.window(index, block)});
    made.folded = portions_.window(index, me_);
    made.sum = portions_.of(output_, index);
    return made;
  }

  Portion broadcast(size_t index) const {
    const Slice window = portions_.window(index);
    Portion made;
    const Slice result = portions_.of(output_, index);
    if (me_ != root_) {
      made.pulled = {{root_, window, result}};
      return made;
    }
    made.own = {{portions_.of(input_, index), result}};
    made.given = {{portions_.of(input_, index), window}};
    return made;
  }

  Portion allgather(size_t index) const {
    const Slice window = portions_.window(index);
    const Slice mine = portions_.of(input_, index);
    const auto result = [&](int place) {
      return portions_.of(output_, index, place, problem_.count);
    };
    Portion made{.own = {{mine, result(me_)}}, .given = {{mine, window}}};
    for (int place = 0; place < ranks_; ++place)
      if (place != me_) made.pulled.push_back({place, window, result(place)});
    return made;
  }

  Portion alltoall(size_t index) const {
    Portion made;
    for (int place = 0; place < ranks_; ++place) {
      const Slice mine = portions_.of(input_, index, place, problem_.count);
      const Slice result = portions_.of(output_, index, place, problem_.count);
      if (place == me_) {
        made.own = {{mine, result}};
        continue;
      }
      made.given.push_back({mine, portions_.window(index, place)});
      made.pulled.push_back({place, portions_.window(index, me_), result});
    }
    return made;
  }

  const Problem& problem_;
  int ranks_;
  int me_;
  int root_;
  Slice input_;
  Slice output_;
  Portions portions_;
};

}  // namespace

namespace {

bool may_encode_in_windows(const Problem& problem, const Parameters& parameters) {
  constexpr CodecId kByGpus[] = {kInt8, kInt4, kE4m3, kE5m2, kFp16, kBf16};
  return problem.collective == Collective::kAllreduce && problem.type == DataType::kFloat32 &&
         (problem.op == ReduceOp::kSum || problem.op == ReduceOp::kAvg) &&
         parameters.intra_codec.is_exact() &&
         std::find(std::begin(kByGpus), std::end(kByGpus), parameters.inter_codec.codec) !=
             std::end(kByGpus);
}

}  // namespace

bool may_go_by_peers(const Problem& problem, int ranks, const Parameters& parameters) {
  if (parameters.encodes() && !may_encode_in_windows(problem, parameters)) return false;
  if (ranks < 2 || ranks > kMostWindows) return false;
  if (problem.keeps_left || problem.on_hosts) return false;
  if (problem.memory != MemoryKind::kHost || problem.op == ReduceOp::kPreMulSum) return false;
  switch (problem.collective) {
    case Collective::kAllreduce:
    case Collective::kReduce:
    case Collective::kBroadcast: return problem.count * problem.element() >= kPeersLeast;
    case Collective::kAllgather:
    case Collective::kReduceScatter:
    case Collective::kAlltoall:
      return problem.count * problem.element() * static_cast<uint64_t>(ranks) >= kPeersLeast;
    default: return false;
  }
}

Schedule with_peers(const Schedule& otherwise, const Problem& problem, const Group& group,
                    uint64_t window) {
  ScheduleBuilder builder(otherwise);
  PeerSteps steps(builder, problem, group);
  steps.agree(whole_input(group, problem), whole_output(group, problem));
  steps.run(group.parameters.encodes() ? CodedPortions(builder, problem, group, window).make()
                                       : PeerPortions(problem, group, window).make());
  builder.fence();
  const StepLists before = predecessors_of(otherwise);
  std::vector<uint32_t> now_at;
  std::vector<uint32_t> also_after;
  for (uint32_t id = 0; id < otherwise.steps.size(); ++id) {
    Step step = otherwise.steps[id];
    step.branch = Branch::kOtherwise;
    also_after.clear();
    for (const uint32_t earlier : before[id]) also_after.push_back(now_at[earlier]);
    now_at.push_back(builder.repeat(step, also_after));
  }
  return std::move(builder).finish();
}

}  // namespace banyan
