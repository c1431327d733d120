// SPDX-License-Identifier: Apache-2.0

#include "algorithms/peers.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>
#include <vector>

#include "algorithms/builder.h"
#include "algorithms/delegated.h"
#include "algorithms/generators.h"
#include "algorithms/peer_portions.h"
#include "algorithms/peer_talk.h"
#include "compression/codecs.h"

namespace banyan {
namespace {

// Appends the steps of portions. The window is filled for one while the one before is being read.
class PeerSteps {
 public:
  PeerSteps(ScheduleBuilder& builder, const Problem& problem, const Group& group)
      : talk_(builder, problem, group), problem_(problem), group_(group) {}

  void agree(Slice input, Slice output) { talk_.agree(input, output); }

  void run(const std::vector<Portion>& portions) {
    rounds_.resize(portions.size());
    if (!portions.empty()) give(portions, 0);
    for (size_t index = 0; index < portions.size(); ++index) {
      if (index + 1 < portions.size()) give(portions, index + 1);
      fold(portions[index], rounds_[index]);
      pull(portions[index], rounds_[index]);
    }
    talk_.withdraw();
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

  bool reads(const Portion& portion, int reader, int owner) const {
    const int root = group_.place_of(problem_.root);
    switch (problem_.collective) {
      case Collective::kReduce:
      case Collective::kGather: return reader == root;
      case Collective::kBroadcast:
      case Collective::kScatter: return owner == root;
      case Collective::kAlltoallv:
        return reader == group_.me ? (portion.owners >> owner & 1) != 0
                                   : (portion.readers >> reader & 1) != 0;
      default: return true;
    }
  }
  // Who reads this rank's window hears that it may.
  void tell_readers(const Portion& portion, const StepIds& after) {
    talk_.for_others([&](int place) {
      if (reads(portion, place, group_.me)) talk_.tell(place, after);
    });
  }
  std::vector<uint32_t> hear_owners(const Portion& portion) {
    std::vector<uint32_t> heard(static_cast<size_t>(group_.size()));
    talk_.for_others([&](int place) {
      if (reads(portion, group_.me, place)) heard[static_cast<size_t>(place)] = talk_.hear(place);
    });
    return heard;
  }
  uint32_t copy(int place, Slice from, Slice to, StepCodec codec, const StepIds& after) {
    const Op by_codec = to.space == Space::kWindow ? Op::kEncode : Op::kDecode;
    return talk_.add({.op = codec.codec == kNoCodec ? Op::kCopy : by_codec,
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
    tell_readers(portions[index], round.given);
    round.ready = hear_owners(portions[index]);
  }

  void fold(const Portion& portion, Round& round) {
    if (portion.folded.size != 0)
      round.folded = {talk_.add(
          {.op = Op::kFold,
           .type = portion.codec.codec == kNoCodec ? problem_.type : problem_.accumulator(),
           .codec = portion.codec.codec,
           .memory = MemoryKind::kDevice,
           .coding = portion.codec.coding,
           .src = portion.folded,
           .src2 = {},
           .dst = portion.sum},
          all_of(round.given, talk_.of_others(round.ready)))};
    if (!portion.shares_sum) return;
    tell_readers(portion, round.folded);
    round.summed = hear_owners(portion);
  }

  void pull(const Portion& portion, Round& round) {
    std::vector<StepIds> read(static_cast<size_t>(group_.size()), round.folded);
    for (const Portion::Pull& pull : portion.pulled) {
      const auto place = static_cast<size_t>(pull.place);
      const StepIds own = all_of(round.given, round.folded);
      const StepIds theirs = {portion.shares_sum ? round.summed[place] : round.ready[place]};
      if (pull.from.size == 0) continue;
      const StepIds& after = pull.place == group_.me ? own : theirs;
      read[place].push_back(copy(pull.place, pull.from, pull.to, pull.codec, after));
      if (portion.divides)
        talk_.add({.op = Op::kEncode,
                   .type = problem_.type,
                   .memory = MemoryKind::kDevice,
                   .src = pull.to,
                   .src2 = {},
                   .dst = pull.to},
                  {});
    }
    talk_.for_others([&](int place) {
      if (reads(portion, group_.me, place)) talk_.tell(place, read[static_cast<size_t>(place)]);
    });
    talk_.for_others([&](int place) {
      if (reads(portion, place, group_.me)) round.done.push_back(talk_.hear(place));
    });
  }

  PeerTalk talk_;
  const Problem& problem_;
  const Group& group_;
  std::vector<Round> rounds_;
};

}  // namespace

namespace {

// Elements of 16 bits are encoded from where they are, and rounded as they are decoded: that is the
// sum, but not the average, of who decodes to float32 and divides.
bool may_encode_in_windows(const Problem& problem, const Parameters& parameters) {
  constexpr CodecId kByGpus[] = {kInt8, kInt4, kDyn8, kE4m3, kE5m2, kFp16, kBf16};
  const CodecId codec = parameters.inter_codec.codec;
  const bool is_cast = codec == kFp16 || codec == kBf16;
  const bool wide = problem.type == DataType::kFloat32;
  const bool sums = problem.op == ReduceOp::kSum || (wide && problem.op == ReduceOp::kAvg);
  return problem.collective == Collective::kAllreduce && may_encode(problem) && sums &&
         (wide || !is_cast) && parameters.intra_codec.is_exact() &&
         std::find(std::begin(kByGpus), std::end(kByGpus), codec) != std::end(kByGpus);
}

// Counts the longer buffer; 0: the collective does not go by windows.
uint64_t longest_bytes(const Problem& problem, int ranks) {
  const uint64_t all =
      std::accumulate(problem.recv_counts.begin(), problem.recv_counts.end(), uint64_t{0});
  switch (problem.collective) {
    case Collective::kAllreduce:
    case Collective::kReduce:
    case Collective::kBroadcast: return problem.count * problem.element();
    case Collective::kAllgather:
    case Collective::kReduceScatter:
    case Collective::kAlltoall:
    case Collective::kGather:
    case Collective::kScatter:
      return problem.count * problem.element() * static_cast<uint64_t>(ranks);
    case Collective::kAllgatherv:
    case Collective::kReduceScatterv: return all * problem.element();
    case Collective::kAlltoallv: return UINT64_MAX;  // the first round says how much there is
    default: return 0;
  }
}

}  // namespace

bool may_go_by_peers(const Problem& problem, int ranks, const Parameters& parameters) {
  if (parameters.encodes() && !may_encode_in_windows(problem, parameters)) return false;
  if (ranks < 2 || ranks > kMostWindows) return false;
  if (problem.keeps_left || problem.memory != MemoryKind::kHost) return false;
  return longest_bytes(problem, ranks) >= kPeersLeast;
}

bool may_go_by_peers_inside(const Problem& problem, int ranks, const Hierarchy& levels,
                            const Parameters& parameters) {
  switch (problem.collective) {
    case Collective::kAllreduce:
    case Collective::kReduce:
    case Collective::kBroadcast:
    case Collective::kAllgather:
    case Collective::kAllgatherv:
    case Collective::kReduceScatter:
    case Collective::kReduceScatterv: break;
    case Collective::kAlltoall:
      if (parameters.intra == Phase::kNccl) return false;  // that is for sums and gathering
      break;
    default: return false;
  }
  const bool in_order = parameters.intra == Phase::kOwn || parameters.intra == Phase::kDirect ||
                        parameters.intra == Phase::kNccl;
  if (!in_order || !parameters.intra_codec.is_exact()) return false;
  if (levels.depth() == 0 || levels.largest_part(0) > kMostWindows) return false;
  if (problem.memory != MemoryKind::kHost) return false;
  return longest_bytes(problem, ranks) >= kPeersInsideLeast;
}

Schedule with_peers(const Schedule& otherwise, const Problem& problem, const Group& group,
                    uint64_t window) {
  ScheduleBuilder builder(otherwise);
  if (delegates(group.parameters)) {
    add_delegated(builder, problem, group, window);
  } else {
    PeerSteps steps(builder, problem, group);
    steps.agree(whole_input(group, problem), whole_output(group, problem));
    steps.run(portions_of(builder, problem, group, window));
  }
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
