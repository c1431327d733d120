// Algorithms by levels work inside the parts of the lowest level, between those of one part of the
// next, and so on up, and down again. In segments that overlap, all levels are busy at once. Then
// the slowest decides, or the NICs of a host, which all levels above it have in common:
//
//   T = sum of the stages of one segment + (q - 1) max(slowest stage, all that the NICs do for one)
//
// but no less than what all of it takes the cores.
// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "algorithms/algorithms.h"
#include "algorithms/cost/cost_layers.h"
#include "algorithms/cost/cost_rounds.h"
#include "algorithms/lengths.h"

namespace banyan {
namespace {

using enum Collective;

class Levelled {
 public:
  Levelled(const Problem& problem, const CostModel& model, const Site& site, const Volume& volume)
      : problem_(problem),
        model_(model),
        site_(site),
        volume_(volume),
        layers_(layers_of(site)),
        parts_(layers_.front().team.count),
        largest_(layers_.front().team.size),
        shards_(volume.parameters.rails == 0
                    ? largest_
                    : std::min<double>(volume.parameters.rails, largest_)) {
    layers_.front().team.owners = shards_;
    const Parameters& given = volume.parameters;
    if (!given.intra_codec.is_exact()) intra_codec_ = find_codec(model, given.intra_codec);
    if (!given.inter_codec.is_exact()) inter_codec_ = find_codec(model, given.inter_codec);
  }

  double hierarchical() {
    switch (problem_.collective) {
      case kAllreduce:
      case kReduce:
      case kBroadcast:
      case kAllgather:
      case kAllgatherv:
      case kReduceScatter:
      case kReduceScatterv: return time_of(flow(given()));
      case kAlltoall: return alltoall();
      case kAlltoallv:
      case kGather:
      case kScatter:
      case kBarrier:
      case kSend:
      case kRecv:
      case kFinalize:
      case kSplit: break;
    }
    return 0;
  }

  // Tries powers of two from what the closed form says, and beyond it on both sides; the longest of
  // equals wins.
  uint32_t best_segment() const {
    const double cut = piece();
    if (cut < 1) return 0;
    const double most =
        static_cast<double>(is_cut_in_blocks() ? kMostBlockSegments : kMostLevelSegments);
    // To or from a root, fewer segments than parts are no chain, so that T(q) is another one.
    const bool rooted = !is_cut_in_blocks() && problem_.collective != kAllreduce;
    const double chain = layers_.back().team.size;
    const bool both = rooted && chain > 2;
    const Counts below = best_counts(1, both ? std::min(chain - 1, most) : most);
    const Counts beyond = both && chain <= most ? best_counts(chain, most) : below;
    const double few = std::min(below.few, beyond.few);
    const double many = std::max(below.many, beyond.many);
    const auto power = [&](double segments) {
      const double length = std::clamp(cut / segments, 1.0, static_cast<double>(kMostSegment));
      return std::bit_floor(static_cast<uint32_t>(length));
    };
    uint32_t best = 0;
    double best_us = time_of(flow(0));
    for (uint32_t length = power(few / 4), least = power(many * 2); length >= least && length > 0;
         length /= 2) {
      const double us = time_of(flow(std::max<uint64_t>(length, problem_.element())));
      if (us >= best_us) continue;
      best = length;
      best_us = us;
    }
    return best;
  }

  double leaders() {
    Cost cost = begin();
    const double n = volume_.bytes;
    const CostTeam& top = layers_.back().team;
    switch (problem_.collective) {
      case kAllreduce:
        to_leaders(cost, n);
        recursive_doubling_cost(cost, site_, top, n * volume_.wide);
        tell(cost, n);
        break;
      case kReduce:
        to_leaders(cost, n);
        binomial_cost(cost, site_, top, n * volume_.wide, true);
        if (problem_.check) {
          binomial_cost(cost, site_, top, 0, false);
          tell(cost, 0);
        }
        break;
      case kBroadcast:
        if (problem_.check) hear_all(cost);
        binomial_cost(cost, site_, top, n, false);
        tell(cost, n);
        cost.copy(n, 1);
        break;
      case kGather:
        for (const Layer& layer : layers_)
          cost.gather(layer.team.size - 1, layer.reach, n * layer.below, 0, 0, layer.team.count);
        cost.copy(n * site_.ranks(), 1);
        if (problem_.check) {
          binomial_cost(cost, site_, top, 0, false);
          tell(cost, 0);
        }
        break;
      case kScatter:
        if (problem_.check) hear_all(cost);
        for (auto layer = layers_.rbegin(); layer != layers_.rend(); ++layer)
          cost.scatter(layer->team.size - 1, layer->reach, n * layer->below, layer->team.count);
        cost.copy(n, site_.ranks());
        break;
      case kBarrier:
      case kFinalize:
      case kSplit:
        hear_all(cost);
        tell(cost, 0);
        break;
      case kAllgather:
      case kAllgatherv:
      case kReduceScatter:
      case kReduceScatterv:
      case kAlltoall:
      case kAlltoallv:
      case kSend:
      case kRecv: break;
    }
    return cost.us();
  }

 private:
  Cost begin() const { return {model_, site_, volume_.buffers}; }
  // What a stage takes; each is added up by itself, so that stages can overlap.
  struct Taken {
    double us = 0, work = 0, wire = 0;
    double waited = 0;  // latencies, which are part of `us`

    Taken operator+(const Taken& other) const {
      return {us + other.us, work + other.work, wire + other.wire, waited + other.waited};
    }
    // So many of them, none of which waits for another.
    Taken at_once(double times) const {
      return {(us - waited) * times + waited, work * times, wire * times, waited};
    }
  };
  template <typename Stage>
  Taken of(Stage stage) const {
    Cost cost = begin();
    const double before = cost.us();
    stage(cost);
    return {cost.us() - before, cost.work(), cost.wire(), cost.waited()};
  }

  // What segments of a vector take that follow each other.
  struct Flow {
    double segments = 1;
    std::vector<Taken> stages{};  // of one segment, by layer; the last of one host where it is a
                                  // chain that passes it on
    double hops = 0;              // of the chain, before the first segment has come to its end
    double before = 0;            // us: until they begin, and the latencies of the chain
  };
  double time_of(const Flow& flow) const {
    Taken all;
    double slowest = 0;
    for (const Taken& stage : flow.stages) {
      all = all + stage;
      slowest = std::max(slowest, stage.us);
    }
    const double moved = all.us + (flow.segments - 1) * std::max(slowest, all.wire);
    return number(model_.call) + flow.before + flow.hops * flow.stages.back().us +
           std::max(moved, flow.segments * all.work);
  }
  uint64_t given() const { return given_length(volume_.parameters, problem_); }
  // In segments of that length; 0: of their own.
  Flow flow(uint64_t length) const {
    if (problem_.collective == kAllreduce) return vector_flow(length);
    return is_cut_in_blocks() ? block_flow(length) : rooted_flow(length);
  }

  bool is_cut_in_blocks() const {
    return problem_.collective != kAllreduce && problem_.collective != kReduce &&
           problem_.collective != kBroadcast;
  }
  // Bytes that are cut into segments: of a shard, or a block.
  double piece() const { return is_cut_in_blocks() ? volume_.bytes : volume_.bytes / shards_; }

  // Gives the least T(q), as far as it is a question of q, for whichever stage is the slowest one:
  // the lowest of those numbers and the highest.
  struct Counts {
    double few = 1, many = 1;
  };
  Counts best_counts(double least, double most) const {
    const auto flow_in = [&](double segments) {
      return flow(std::max<uint64_t>(static_cast<uint64_t>(std::ceil(piece() / segments)), 1));
    };
    const Flow one = flow_in(least);
    const Flow other = flow_in(most);
    if (other.segments <= one.segments) return {one.segments, one.segments};
    // Two flows give a and b of a + b/q.
    const auto bytes_of = [&](size_t stage) {
      return (one.stages[stage].us - other.stages[stage].us) /
             (1 / one.segments - 1 / other.segments);
    };
    double all = one.hops * bytes_of(one.stages.size() - 1);
    for (size_t stage = 0; stage < one.stages.size(); ++stage) all += bytes_of(stage);
    Counts counts{other.segments, one.segments};
    for (size_t stage = 0; stage < one.stages.size(); ++stage) {
      const double latency = one.stages[stage].us - bytes_of(stage) / one.segments;
      const double best =
          latency > 0 ? std::sqrt(std::max(all - bytes_of(stage), 0.0) / latency) : other.segments;
      counts.few = std::min(counts.few, std::max(best, one.segments));
      counts.many = std::max(counts.many, std::min(best, other.segments));
    }
    return counts;
  }

  const CostTeam& inside() const { return layers_.front().team; }
  size_t top() const { return layers_.size() - 1; }
  Phase phase_of(size_t layer) const {
    return layer == top() ? volume_.parameters.inter : volume_.parameters.intra;
  }
  // Null: elements travel as they are, or as accumulators.
  const CodecCost* codec_of(size_t layer) const {
    return layer == top() ? inter_codec_ : intra_codec_;
  }
  // What comes down to that layer are sums still, in accumulators.
  double width_down(size_t layer) const {
    return intra_codec_ != nullptr || codec_of(layer) != nullptr ? volume_.wide : 1;
  }
  // Above the lowest, with a team for each shard.
  CostTeam rails(size_t layer) const {
    CostTeam team = layers_[layer].team;
    team.count *= shards_ / largest_ * layers_[layer].below;
    return team;
  }
  // Gives the share of a vector that a team of that layer has, above the lowest.
  double share(double vector, size_t layer) const {
    return vector / shards_ * largest_ / layers_[layer].below;
  }

  // Raw elements travel inside where sums are wide, and those who add them widen them. Blocks are
  // as long as that of an owner, and only owners have one.
  void sum_inside(Cost& cost, double vector) const {
    const double bytes = vector * largest_ / shards_;
    const Phase phase = volume_.parameters.intra;
    if (intra_codec_ != nullptr) {
      if (volume_.narrow) cost.codec(vector * volume_.wide, largest_ * parts_);
      coded_phase_cost(cost, site_, inside(), *intra_codec_, phase, bytes * volume_.wide,
                       Half::kReduceScatter);
      return;
    }
    if (!volume_.narrow ||
        (phase != Phase::kOwn && phase != Phase::kDirect && phase != Phase::kNccl)) {
      if (volume_.narrow) cost.codec(bytes * volume_.wide, largest_ * parts_);
      phase_cost(cost, site_, inside(), phase, bytes * volume_.wide, Half::kReduceScatter);
      return;
    }
    cost.add({.messages = largest_ - 1,
              .bytes = bytes / largest_,
              .peers = largest_ - 1,
              .active = largest_ * parts_,
              .far = layers_.front().reach,
              .decoded = bytes / largest_ * volume_.wide});
  }
  void gather_inside(Cost& cost, double vector) const {
    const double bytes = vector * largest_ / shards_ * width_down(0);
    const Phase phase = volume_.parameters.intra;
    if (intra_codec_ == nullptr)
      return phase_cost(cost, site_, inside(), phase, bytes, Half::kAllgather);
    coded_phase_cost(cost, site_, inside(), *intra_codec_, phase, bytes, Half::kAllgather);
    if (volume_.narrow) cost.codec(vector * volume_.wide, largest_ * parts_);
  }
  void between(Cost& cost, size_t layer, double bytes, Half half) const {
    if (const CodecCost* codec = codec_of(layer); codec != nullptr)
      coded_phase_cost(cost, site_, rails(layer), *codec, phase_of(layer), bytes, half);
    else
      phase_cost(cost, site_, rails(layer), phase_of(layer), bytes, half);
  }
  double agreed() const {
    if (!problem_.check) return 0;
    return of([&](Cost& cost) {
             hear_all(cost);
             tell(cost, 0);
           })
        .us;
  }

  Flow vector_flow(uint64_t length) const {
    Flow flow;
    flow.segments = static_cast<double>(level_segments(static_cast<uint64_t>(volume_.bytes),
                                                       static_cast<uint64_t>(shards_), length));
    const double n = volume_.bytes / flow.segments;
    flow.stages.push_back(of([&](Cost& cost) { sum_inside(cost, n); }) +
                          of([&](Cost& cost) { gather_inside(cost, n); }));
    for (size_t layer = 1; layer <= top(); ++layer)
      flow.stages.push_back(of([&](Cost& cost) {
        between(cost, layer, share(n, layer) * volume_.wide, Half::kReduceScatter);
        between(cost, layer, share(n, layer) * width_down(layer), Half::kAllgather);
        if (volume_.narrow && intra_codec_ == nullptr && codec_of(layer) != nullptr)
          cost.codec(share(n, layer) * volume_.wide, largest_ * parts_);
      }));
    return flow;
  }

  // Goes through a chain of parts at the top, where segments fill it. Otherwise, and below, blocks
  // go to or from the root, or who stands for it.
  Flow rooted_flow(uint64_t length) const {
    const bool sums = problem_.collective == kReduce;
    const double chain = layers_.back().team.size;
    const RootedSegments cut =
        rooted_segments(static_cast<uint64_t>(volume_.bytes), static_cast<uint64_t>(shards_),
                        static_cast<uint64_t>(chain), sums, length);
    Flow flow{.segments = static_cast<double>(cut.count), .before = agreed()};
    const double n = volume_.bytes / flow.segments;
    flow.stages.push_back(of([&](Cost& cost) {
      if (sums) {
        sum_inside(cost, n);
        cost.gather(largest_ - 1, layers_.front().reach, n / largest_, 0, 0, parts_);
      } else {
        cost.scatter(largest_ - 1, layers_.front().reach, n / largest_, parts_);
        gather_inside(cost, n);
      }
    }));
    for (size_t layer = 1; layer <= top(); ++layer)
      flow.stages.push_back(of([&](Cost& cost) {
        const double bytes = share(n, layer) * volume_.wide;
        const double size = layers_[layer].team.size;
        Round round{.active = size * rails(layer).count, .far = layers_[layer].reach};
        if (layer == top() && cut.chained) {
          round.bytes = bytes;
          round.summed = sums ? bytes : 0;
          round.waits = false;  // but for the first segment
        } else {
          between(cost, layer, bytes, sums ? Half::kReduceScatter : Half::kAllgather);
          round.messages = round.peers = size - 1;  // of the root, whose wire all shards share
          round.bytes = bytes / size;
        }
        cost.add(round);
      }));
    if (cut.chained) {
      flow.hops = chain - 2;
      flow.before += (chain - 1) * latency(model_, site_, layers_.back().reach.levels());
    }
    return flow;
  }

  Flow block_flow(uint64_t length) const {
    const bool sums = reduces(problem_.collective);
    Flow flow{.segments =
                  static_cast<double>(block_segments(static_cast<uint64_t>(volume_.bytes), length)),
              .before = sums ? 0 : agreed()};
    const double block = volume_.bytes / flow.segments;
    // The blocks of one part after those of the other.
    flow.stages.push_back(of([&](Cost& cost) {
                            if (sums)
                              sum_inside(cost, block * largest_);
                            else
                              gather_inside(cost, block * largest_);
                          }).at_once(parts_));
    for (size_t layer = 1; layer <= top(); ++layer)
      flow.stages.push_back(of([&](Cost& cost) {
                              between(cost, layer,
                                      block * layers_[layer].team.size * (sums ? volume_.wide : 1),
                                      sums ? Half::kReduceScatter : Half::kAllgather);
                            }).at_once(layers_[layer].team.count));
    if (!sums)
      flow.stages.back() =
          flow.stages.back() + of([&](Cost& cost) { cost.copy(block, largest_ * parts_); });
    return flow;
  }

  // In each layer what is for other parts to whoever takes it there, and what is for this one.
  double alltoall() const {
    Cost cost = begin();
    const double block = volume_.bytes;
    if (problem_.check) {
      hear_all(cost);
      tell(cost, 0);
    }
    cost.copy(block * (problem_.in_place ? site_.ranks() : 1), site_.ranks());
    cost.copy(block * (parts_ - 1), site_.ranks());
    for (size_t layer = 0; layer <= top(); ++layer) {
      const auto& [team, reach, below] = layers_[layer];
      Round round{.messages = team.size - 1.0,
                  .bytes = block * below,
                  .peers = team.size - 1.0,
                  .active = largest_ * parts_,
                  .far = reach,
                  .repeats = team.count - 1};
      if (layer < top()) cost.add(round);
      round.repeats = 1;
      round.waits = layer == top();
      cost.add(round);
    }
    return cost.us();
  }

  // In all parts at the same time, from the lowest layer to the one below the top.
  void to_leaders(Cost& cost, double bytes) const {
    const double wide = bytes * volume_.wide;
    for (size_t layer = 0; layer < top(); ++layer) {
      const auto& [team, reach, below] = layers_[layer];
      const bool raw = volume_.narrow && layer == 0;
      if (team.size > kStarMost)
        binomial_cost(cost, site_, team, wide, true);
      else
        cost.gather(team.size - 1, reach, layer == 0 ? bytes : wide, raw ? 0 : wide, raw ? wide : 0,
                    team.count);
    }
  }
  void tell(Cost& cost, double bytes) const {
    for (size_t layer = top(); layer-- > 0;) {
      const auto& [team, reach, below] = layers_[layer];
      if (team.size > kStarMost)
        binomial_cost(cost, site_, team, bytes, false);
      else
        cost.scatter(team.size - 1, reach, bytes, team.count);
    }
  }
  void hear_all(Cost& cost) const {
    for (size_t layer = 0; layer < top(); ++layer)
      cost.gather(layers_[layer].team.size - 1, layers_[layer].reach, 0, 0, 0,
                  layers_[layer].team.count);
    doubling_words_cost(cost, site_, layers_.back().team);
  }

  const Problem& problem_;
  const CostModel& model_;
  const Site& site_;
  const Volume& volume_;
  std::vector<Layer> layers_;
  double parts_, largest_;  // of the lowest level, and the most ranks of one
  double shards_;           // of a vector: the ranks of such a part that exchange with others
  const CodecCost* intra_codec_ = nullptr;  // below the top
  const CodecCost* inter_codec_ = nullptr;
};

}  // namespace

double hierarchical_cost(const Problem& problem, const CostModel& model, const Site& site,
                         const Volume& volume) {
  return Levelled(problem, model, site, volume).hierarchical();
}

uint32_t best_segment(const Problem& problem, int ranks, const CostModel& model,
                      const Hierarchy* hierarchy, const Parameters& parameters) {
  const int algorithm = find_algorithm("hierarchical");
  const Site site(ranks, hierarchy);
  if (site.hosts() == 1 || !algorithms()[static_cast<size_t>(algorithm)].takes(
                               ParameterKey::kSegment, problem.collective))
    return 0;
  Volume volume = volume_of(problem, ranks);
  volume.parameters = effective(parameters, algorithm, problem.collective, hierarchy);
  volume.parameters.segment = 0;
  return Levelled(problem, model, site, volume).best_segment();
}

double leaders_cost(const Problem& problem, const CostModel& model, const Site& site,
                    const Volume& volume) {
  return Levelled(problem, model, site, volume).leaders();
}

}  // namespace banyan
