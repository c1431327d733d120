// What algorithms by levels take: inside the hosts, between them, inside again; in segments that
// overlap, the links inside and those between hosts are busy at once, and the slower ones decide:
//
//   T = sum of the stages of one segment + (q - 1) max(stages inside, stages between)
//
// but no less than what all of it takes the cores.
// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <bit>
#include <cmath>

#include "algorithms/algorithms.h"
#include "algorithms/cost_rounds.h"
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
        hosts_(site.hosts()),
        largest_(site.largest()),
        shards_(volume.parameters.rails == 0 ? largest_
                                             : std::min<double>(volume.parameters.rails, largest_)),
        inside_{site.largest(), static_cast<double>(site.hosts()), CostTeam::Where::kInside},
        rails_{site.hosts(), shards_, CostTeam::Where::kAcross},
        leaders_{site.hosts(), 1, CostTeam::Where::kAcross} {}

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

  // Powers of two from what the closed form says, and beyond it on both sides; the longest of
  // equals.
  uint32_t best_segment() const {
    const double cut = piece();
    if (cut < 1) return 0;
    const double most =
        static_cast<double>(is_cut_in_blocks() ? kMostBlockSegments : kMostLevelSegments);
    // To or from a root, fewer segments than hosts are no chain, so that T(q) is another one.
    const bool rooted = !is_cut_in_blocks() && problem_.collective != kAllreduce;
    const bool both = rooted && hosts_ > 2;
    const Counts below = best_counts(1, both ? std::min(hosts_ - 1, most) : most);
    const Counts beyond = both && hosts_ <= most ? best_counts(hosts_, most) : below;
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
    switch (problem_.collective) {
      case kAllreduce:
        to_leader(cost, n);
        recursive_doubling_cost(cost, site_, leaders_, n * volume_.wide);
        tell(cost, n);
        break;
      case kReduce:
        to_leader(cost, n);
        binomial_cost(cost, site_, leaders_, n * volume_.wide, true);
        if (problem_.check) {
          binomial_cost(cost, site_, leaders_, 0, false);
          tell(cost, 0);
        }
        break;
      case kBroadcast:
        if (problem_.check) hear_all(cost);
        binomial_cost(cost, site_, leaders_, n, false);
        tell(cost, n);
        cost.copy(n, 1);
        break;
      case kGather:
        cost.gather(largest_ - 1, 0, n, 0, 0, hosts_);
        cost.gather(hosts_ - 1, 1, n * largest_, 0, 0);
        cost.copy(n * site_.ranks(), 1);
        if (problem_.check) {
          binomial_cost(cost, site_, leaders_, 0, false);
          tell(cost, 0);
        }
        break;
      case kScatter:
        if (problem_.check) hear_all(cost);
        cost.scatter(hosts_ - 1, 1, n * largest_);
        cost.scatter(largest_ - 1, 0, n, hosts_);
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
    double us = 0, work = 0;

    Taken operator+(const Taken& other) const { return {us + other.us, work + other.work}; }
    Taken operator*(double times) const { return {us * times, work * times}; }
  };
  template <typename Stage>
  Taken of(Stage stage) const {
    Cost cost = begin();
    const double before = cost.us();
    stage(cost);
    return {cost.us() - before, cost.work()};
  }

  // What segments of a vector take that follow each other.
  struct Flow {
    double segments = 1;
    Taken inside{}, between{};  // of one segment; `between` of one host where they pass it on
    double hops = 0;            // of a chain, before the first segment has come to its end
    double before = 0;          // us, until they begin
  };
  double time_of(const Flow& flow) const {
    const auto& [segments, inside, between, hops, before] = flow;
    const double links = inside.us + between.us + (segments - 1) * std::max(inside.us, between.us);
    return number(model_.call) + before + hops * between.us +
           std::max(links, segments * (inside.work + between.work));
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

  // The least T(q), as far as it is a question of q, where the stages inside are the slower ones
  // and where those between are; the lower number first. Two flows give a and b of a + b/q.
  struct Counts {
    double few = 1, many = 1;
  };
  Counts best_counts(double least, double most) const {
    const auto flow_in = [&](double segments) {
      return flow(std::max<uint64_t>(static_cast<uint64_t>(piece() / segments), 1));
    };
    const Flow one = flow_in(least);
    const Flow other = flow_in(most);
    if (other.segments <= one.segments) return {one.segments, one.segments};
    const auto bytes_of = [&](double us, double other_us) {
      return (us - other_us) / (1 / one.segments - 1 / other.segments);
    };
    const double inside = bytes_of(one.inside.us, other.inside.us);
    const double between = bytes_of(one.between.us, other.between.us);
    const auto count = [&](double others, double latency) {
      const double best = latency > 0 ? std::sqrt(std::max(others, 0.0) / latency) : other.segments;
      return std::clamp(best, one.segments, other.segments);
    };
    const double if_between =
        count(one.hops * between + inside, one.between.us - between / one.segments);
    const double if_inside = count((one.hops + 1) * between, one.inside.us - inside / one.segments);
    return {std::min(if_between, if_inside), std::max(if_between, if_inside)};
  }

  // Raw elements inside where sums are wide, which those who add them widen. What an owner gets is
  // what it takes, also where not everybody is one: as if all blocks were as long.
  void sum_inside(Cost& cost, double vector) const {
    const double bytes = vector * largest_ / shards_;
    const Phase phase = volume_.parameters.intra;
    if (!volume_.narrow || (phase != Phase::kOwn && phase != Phase::kDirect)) {
      if (volume_.narrow) cost.codec(bytes * volume_.wide, largest_ * hosts_);
      phase_cost(cost, site_, inside_, phase, bytes * volume_.wide, Half::kReduceScatter);
      return;
    }
    cost.add({.messages = largest_ - 1,
              .bytes = bytes / largest_,
              .active = largest_ * hosts_,
              .decoded = bytes / largest_ * volume_.wide});
  }
  void gather_inside(Cost& cost, double vector) const {
    const double bytes = vector * largest_ / shards_;
    phase_cost(cost, site_, inside_, volume_.parameters.intra, bytes, Half::kAllgather);
  }
  void among_hosts(Cost& cost, double bytes, Half half) const {
    phase_cost(cost, site_, rails_, volume_.parameters.inter, bytes, half);
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
    flow.inside = of([&](Cost& cost) { sum_inside(cost, n); }) +
                  of([&](Cost& cost) { gather_inside(cost, n); });
    flow.between = of([&](Cost& cost) {
      const double shard = n / shards_;
      among_hosts(cost, shard * volume_.wide, Half::kReduceScatter);
      among_hosts(cost, shard, Half::kAllgather);
    });
    return flow;
  }

  // At the top a chain of hosts, where segments fill it; otherwise blocks to or from the root.
  Flow rooted_flow(uint64_t length) const {
    const bool sums = problem_.collective == kReduce;
    const RootedSegments cut =
        rooted_segments(static_cast<uint64_t>(volume_.bytes), static_cast<uint64_t>(shards_),
                        static_cast<uint64_t>(site_.hosts()), sums, length);
    Flow flow{.segments = static_cast<double>(cut.count), .before = agreed()};
    const double n = volume_.bytes / flow.segments;
    flow.inside = of([&](Cost& cost) {
      if (sums) {
        sum_inside(cost, n);
        cost.gather(largest_ - 1, 0, n / largest_, 0, 0, hosts_);
      } else {
        cost.scatter(largest_ - 1, 0, n / largest_, hosts_);
        gather_inside(cost, n);
      }
    });
    const double shard = n / shards_ * volume_.wide;
    flow.between = of([&](Cost& cost) {
      if (cut.chained) {
        cost.add(
            {.bytes = shard, .active = hosts_ * shards_, .far = 1, .summed = sums ? shard : 0});
        return;
      }
      among_hosts(cost, shard, sums ? Half::kReduceScatter : Half::kAllgather);
      // At the host of the root, whose wire they share.
      cost.add(
          {.messages = hosts_ - 1, .bytes = shard / hosts_, .active = shards_ * hosts_, .far = 1});
    });
    flow.hops = cut.chained ? hosts_ - 2 : 0;
    return flow;
  }

  Flow block_flow(uint64_t length) const {
    const bool sums = reduces(problem_.collective);
    Flow flow{.segments =
                  static_cast<double>(block_segments(static_cast<uint64_t>(volume_.bytes), length)),
              .before = sums ? 0 : agreed()};
    const double block = volume_.bytes / flow.segments;
    // The blocks of one host after those of the other.
    flow.inside = of([&](Cost& cost) {
                    if (sums)
                      sum_inside(cost, block * largest_);
                    else
                      gather_inside(cost, block * largest_);
                  }) *
                  hosts_;
    flow.between = of([&](Cost& cost) {
      among_hosts(cost, block * hosts_ * (sums ? volume_.wide : 1),
                  sums ? Half::kReduceScatter : Half::kAllgather);
      if (!sums) cost.copy(block, largest_ * hosts_);
    });
    return flow;
  }

  // What is for another host to whoever takes it there, and what is for this one.
  double alltoall() const {
    Cost cost = begin();
    const double block = volume_.bytes;
    if (problem_.check) {
      hear_all(cost);
      tell(cost, 0);
    }
    cost.copy(block * (problem_.in_place ? site_.ranks() : 1), site_.ranks());
    cost.copy(block * (hosts_ - 1), site_.ranks());
    cost.add({.messages = largest_ - 1,
              .bytes = block,
              .active = largest_ * hosts_,
              .repeats = hosts_ - 1});
    cost.add(
        {.bytes = block * largest_, .active = largest_ * hosts_, .far = 1, .repeats = hosts_ - 1});
    cost.add(
        {.messages = largest_ - 1, .bytes = block, .active = largest_ * hosts_, .waits = false});
    return cost.us();
  }

  // In all hosts at the same time.
  void to_leader(Cost& cost, double bytes) const {
    const double wide = bytes * volume_.wide;
    if (site_.largest() > kStarMost) {
      binomial_cost(cost, site_, inside_, wide, true);
      return;
    }
    cost.gather(largest_ - 1, 0, bytes, volume_.narrow ? 0 : wide, volume_.narrow ? wide : 0,
                hosts_);
  }
  void tell(Cost& cost, double bytes) const {
    if (site_.largest() > kStarMost)
      binomial_cost(cost, site_, inside_, bytes, false);
    else
      cost.scatter(largest_ - 1, 0, bytes, hosts_);
  }
  void hear_all(Cost& cost) const {
    cost.gather(largest_ - 1, 0, 0, 0, 0, hosts_);
    doubling_words_cost(cost, site_, leaders_);
  }

  const Problem& problem_;
  const CostModel& model_;
  const Site& site_;
  const Volume& volume_;
  double hosts_, largest_;
  double shards_;  // of a vector: the ranks of a host that exchange with others
  CostTeam inside_, rails_, leaders_;
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
