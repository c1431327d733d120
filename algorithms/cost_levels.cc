// What algorithms by levels take: inside the hosts, between them, inside again; in segments that
// overlap, the links inside and those between hosts are busy at once, and the slower ones decide:
//
//   T = sum of the stages of one segment + (q - 1) max(stages inside, stages between)
//
// but no less than what all of it takes the cores.
// SPDX-License-Identifier: Apache-2.0

#include <algorithm>

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
        inside_{site.largest(), static_cast<double>(site.hosts()), CostTeam::Where::kInside},
        rails_{site.hosts(), static_cast<double>(site.largest()), CostTeam::Where::kAcross},
        leaders_{site.hosts(), 1, CostTeam::Where::kAcross} {}

  double hierarchical() {
    switch (problem_.collective) {
      case kAllreduce: return allreduce();
      case kReduce:
      case kBroadcast: return rooted();
      case kAllgather:
      case kAllgatherv:
      case kReduceScatter:
      case kReduceScatterv: return blocks();
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

  double overlapped(double segments, const Taken& inside, const Taken& between) const {
    const double links = inside.us + between.us + (segments - 1) * std::max(inside.us, between.us);
    return number(model_.call) + std::max(links, segments * (inside.work + between.work));
  }

  // Raw elements inside where sums are wide, which those who add them widen.
  void sum_inside(Cost& cost, double bytes) const {
    if (!volume_.narrow) {
      circulant_cost(cost, site_, inside_, bytes, Half::kReduceScatter);
      return;
    }
    cost.add({.messages = largest_ - 1,
              .bytes = bytes / largest_,
              .active = largest_ * hosts_,
              .decoded = bytes / largest_ * volume_.wide});
  }

  double allreduce() const {
    const double segments = segments_of_vector();
    const double n = volume_.bytes / segments;
    const Taken inside = of([&](Cost& cost) { sum_inside(cost, n); }) + of([&](Cost& cost) {
                           circulant_cost(cost, site_, inside_, n, Half::kAllgather);
                         });
    const Taken between = of([&](Cost& cost) {
      const double shard = n / largest_;
      circulant_cost(cost, site_, rails_, shard * volume_.wide, Half::kReduceScatter);
      circulant_cost(cost, site_, rails_, shard, Half::kAllgather);
    });
    return overlapped(segments, inside, between);
  }

  // At the top a chain of hosts, where segments fill it; otherwise blocks to or from the root.
  double rooted() const {
    const bool sums = problem_.collective == kReduce;
    const RootedSegments cut = rooted_segments(static_cast<uint64_t>(volume_.bytes),
                                               static_cast<uint64_t>(site_.largest()),
                                               static_cast<uint64_t>(site_.hosts()), sums);
    const auto segments = static_cast<double>(cut.count);
    const double n = volume_.bytes / segments;
    const Taken inside = of([&](Cost& cost) {
      if (sums) {
        sum_inside(cost, n);
        cost.gather(largest_ - 1, 0, n / largest_, 0, 0, hosts_);
      } else {
        cost.scatter(largest_ - 1, 0, n / largest_, hosts_);
        circulant_cost(cost, site_, inside_, n, Half::kAllgather);
      }
    });
    const double shard = n / largest_ * volume_.wide;
    const Taken hop = of([&](Cost& cost) {
      cost.add({.bytes = shard, .active = hosts_ * largest_, .far = 1, .summed = sums ? shard : 0});
    });
    const Taken blocks = of([&](Cost& cost) {
      circulant_cost(cost, site_, rails_, shard, sums ? Half::kReduceScatter : Half::kAllgather);
      // At the host of the root, whose wire they share.
      cost.add(
          {.messages = hosts_ - 1, .bytes = shard / hosts_, .active = largest_ * hosts_, .far = 1});
    });
    const Taken agreed = problem_.check ? of([&](Cost& cost) {
      hear_all(cost);
      tell(cost, 0);
    })
                                        : Taken{};
    if (!cut.chained) return agreed.us + overlapped(segments, inside, blocks);
    return agreed.us + (hosts_ - 2) * hop.us + overlapped(segments, inside, hop);
  }

  double blocks() const {
    const bool sums = reduces(problem_.collective);
    const double segments =
        static_cast<double>(block_segments(static_cast<uint64_t>(volume_.bytes)));
    const double block = volume_.bytes / segments;
    // The blocks of one host after those of the other.
    const Taken inside =
        of([&](Cost& cost) {
          if (sums)
            sum_inside(cost, block * largest_);
          else
            circulant_cost(cost, site_, inside_, block * largest_, Half::kAllgather);
        }) *
        hosts_;
    const Taken between = of([&](Cost& cost) {
      circulant_cost(cost, site_, rails_, block * hosts_ * (sums ? volume_.wide : 1),
                     sums ? Half::kReduceScatter : Half::kAllgather);
      if (!sums) cost.copy(block, largest_ * hosts_);
    });
    const Taken agreed = problem_.check && !sums ? of([&](Cost& cost) {
      hear_all(cost);
      tell(cost, 0);
    })
                                                 : Taken{};
    return agreed.us + overlapped(segments, inside, between);
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

  double segments_of_vector() const {
    return static_cast<double>(level_segments(static_cast<uint64_t>(volume_.bytes),
                                              static_cast<uint64_t>(site_.largest())));
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
  CostTeam inside_, rails_, leaders_;
};

}  // namespace

double hierarchical_cost(const Problem& problem, const CostModel& model, const Site& site,
                         const Volume& volume) {
  return Levelled(problem, model, site, volume).hierarchical();
}

double leaders_cost(const Problem& problem, const CostModel& model, const Site& site,
                    const Volume& volume) {
  return Levelled(problem, model, site, volume).leaders();
}

}  // namespace banyan
