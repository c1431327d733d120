// Flat algorithms, and which formula is whose.
// SPDX-License-Identifier: Apache-2.0

#include "algorithms/cost/cost.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>
#include <limits>
#include <string_view>

#include "algorithms/algorithms.h"
#include "algorithms/cost/cost_rounds.h"
#include "algorithms/lengths.h"

namespace banyan {
namespace {

using enum Collective;

// One call on ranks that need not know of levels.
class Flat {
 public:
  Flat(const Problem& problem, const CostModel& model, const Site& site, const Volume& volume)
      : problem_(problem),
        site_(site),
        volume_(volume),
        all_{site.ranks(), 1, CostTeam::Where::kFlat},
        ranks_(site.ranks()),
        cost_(model, site, volume.buffers) {}

  double recursive_doubling() {
    widen(volume_.bytes);
    recursive_doubling_cost(cost_, site_, all_, volume_.bytes * volume_.wide);
    narrow(volume_.bytes);
    return cost_.us();
  }

  double by_halves(void (*half)(Cost&, const Site&, const CostTeam&, double, Half, double)) {
    const double n = volume_.bytes;
    switch (problem_.collective) {
      case kAllreduce: {
        const double segments = cut(given());
        widen(n);
        half(cost_, site_, all_, n * volume_.wide, Half::kReduceScatter, segments);
        narrow(n / ranks_);
        if (keeps_in_cache(segments)) cost_.warm();
        half(cost_, site_, all_, n, Half::kAllgather, segments);
        break;
      }
      case kReduceScatter:
      case kReduceScatterv:
        widen(n * ranks_);
        half(cost_, site_, all_, n * ranks_ * volume_.wide, Half::kReduceScatter, 1);
        narrow(n);
        break;
      case kReduce:
        agree();
        widen(n);
        half(cost_, site_, all_, n * volume_.wide, Half::kReduceScatter, 1);
        narrow(n / ranks_);
        cost_.gather(ranks_ - 1, site_.far_from(problem_.root), n / ranks_, 0, 0);
        break;
      case kAllgather:
      case kAllgatherv:
        agree();
        cost_.copy(n, ranks_);
        half(cost_, site_, all_, n * ranks_, Half::kAllgather, 1);
        break;
      case kBroadcast:
        agree();
        binomial_blocks_cost(cost_, site_, all_, n);
        half(cost_, site_, all_, n, Half::kAllgather, 1);
        break;
      case kAlltoall:
      case kAlltoallv:
      case kGather:
      case kScatter:
      case kBarrier:
      case kSend:
      case kRecv:
      case kFinalize:
      case kSplit: break;
    }
    return cost_.us();
  }

  double circulant() { return by_halves(circulant_cost); }

  double ring() {
    if (problem_.collective != kBroadcast) return by_halves(ring_cost);
    agree();
    const auto chunks =
        static_cast<double>(ring_chunks(static_cast<uint64_t>(volume_.bytes), given()));
    cost_.pipeline({.hops = ranks_ - 1,
                    .pieces = chunks,
                    .bytes = volume_.bytes / chunks,
                    .messages = 1,
                    .all_messages = ranks_ - 1,
                    .wire_bytes = volume_.bytes,
                    .far = site_.hosts() > 1});
    cost_.copy(volume_.bytes, 1);
    return cost_.us();
  }

  double binomial() {
    const double n = volume_.bytes;
    switch (problem_.collective) {
      case kAllreduce:
        widen(n);
        binomial_cost(cost_, site_, all_, n * volume_.wide, true);
        narrow(n);
        binomial_cost(cost_, site_, all_, n, false);
        break;
      case kReduce:
        agree();
        widen(n);
        binomial_cost(cost_, site_, all_, n * volume_.wide, true);
        narrow(n);
        break;
      case kBroadcast:
        agree();
        binomial_cost(cost_, site_, all_, n, false);
        cost_.copy(n, 1);
        break;
      case kGather:
      case kScatter:
        agree();
        binomial_blocks_cost(cost_, site_, all_, n * ranks_);
        cost_.copy(n * ranks_, 1);
        break;
      case kBarrier:
      case kFinalize:
      case kSplit:
        binomial_cost(cost_, site_, all_, 0, false);
        binomial_cost(cost_, site_, all_, 0, false);
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
    return cost_.us();
  }

  // For two chunks, one of each tree, a rank receives two and passes two on.
  double double_tree() {
    const double n = volume_.bytes;
    const auto pairs = static_cast<double>(tree_chunks(static_cast<uint64_t>(n), given()));
    const double height = std::bit_width(static_cast<unsigned>(site_.ranks() - 1)) + 0.0;
    const auto pass = [&](double bytes, bool sums) {
      const double chunk = bytes / 2 / pairs;
      cost_.pipeline({.hops = height,
                      .pieces = pairs,
                      .bytes = chunk,
                      .messages = 2,
                      .all_messages = 2 * (ranks_ - 1),
                      .wire_bytes = 2 * bytes,
                      .summed = sums ? chunk : 0,
                      .far = site_.hosts() > 1});
    };
    if (problem_.collective != kAllreduce) agree();
    if (reduces(problem_.collective)) {
      widen(n);
      pass(n * volume_.wide, true);
      narrow(n);
    }
    if (problem_.collective != kReduce) pass(n, false);
    if (problem_.collective == kBroadcast) cost_.copy(n, 1);
    return cost_.us();
  }

  double bruck() {
    const double block = volume_.bytes;
    const bool gathers = problem_.collective != kAlltoall;
    for (int distance = 1; distance < site_.ranks(); distance *= 2) {
      const double blocks =
          gathers ? std::min(distance, site_.ranks() - distance) : blocks_with(distance);
      if (!gathers) cost_.copy(blocks * block, ranks_);
      cost_.add({.bytes = blocks * block,
                 .active = ranks_,
                 .far = site_.far(distance),
                 .waits = !gathers || distance == 1 || blocks > 1});
    }
    cost_.copy((ranks_ + (gathers ? 1 : 0)) * block, ranks_);
    return cost_.us();
  }

  double pairwise() {
    const double n = volume_.bytes;
    switch (problem_.collective) {
      case kAllreduce: {
        const double segments = cut(given());
        widen(n);
        one_by_one(n / ranks_ * volume_.wide, true, segments);
        narrow(n / ranks_);
        if (keeps_in_cache(segments)) cost_.warm();
        at_once(n / ranks_ / segments, segments, false);
        break;
      }
      case kReduceScatter:
      case kReduceScatterv:
        widen(n * ranks_);
        one_by_one(n * volume_.wide, true, 1);
        narrow(n);
        break;
      case kAlltoall:
      case kAlltoallv:
        agree();
        if (problem_.in_place) cost_.copy(n * ranks_, ranks_);
        one_by_one(n, false, 1);
        if (!problem_.in_place) cost_.copy(n, ranks_);
        break;
      case kReduce:
      case kBroadcast:
      case kAllgather:
      case kAllgatherv:
      case kGather:
      case kScatter:
      case kBarrier:
      case kSend:
      case kRecv:
      case kFinalize:
      case kSplit: break;
    }
    return cost_.us();
  }

  double dissemination() {
    doubling_words_cost(cost_, site_, all_);
    return cost_.us();
  }

  double direct() {
    const double n = volume_.bytes;
    const bool short_vector = n <= static_cast<double>(kOneShotBytes);
    switch (problem_.collective) {
      case kAllreduce:
        if (short_vector) {
          sum_at_once(n);
        } else {
          sum_at_once(n / ranks_);
          at_once(n / ranks_, 1, false);
        }
        break;
      case kReduce:
        if (short_vector) {
          gather_sum(n);
          if (problem_.check) cost_.words(ranks_ - 1, ranks_ - 1);
        } else {
          agree();
          sum_at_once(n / ranks_);
          cost_.gather(ranks_ - 1, site_.far_from(problem_.root), n / ranks_, 0, 0);
        }
        break;
      case kReduceScatter:
      case kReduceScatterv: sum_at_once(n); break;
      case kAllgather:
      case kAllgatherv: {
        const bool staged = problem_.check && n * ranks_ <= static_cast<double>(kStagedBytes);
        if (!staged) agree();
        at_once(n, 1, true);
        cost_.copy(staged ? n * ranks_ : n, ranks_);
        break;
      }
      case kBroadcast:
        if (!short_vector) agree();
        cost_.scatter(ranks_ - 1, site_.far_from(problem_.root), n, 1, true);
        if (short_vector && problem_.check) cost_.words(ranks_ - 1, ranks_ - 1);
        if (short_vector && problem_.check)
          cost_.copy(n, ranks_);
        else
          cost_.copy_beside(n);
        break;
      case kAlltoall:
      case kAlltoallv:
        at_once(n, 1, true);
        if (problem_.collective == kAlltoallv) agree();
        cost_.copy(n * ranks_, ranks_);
        break;
      case kGather:
        agree();
        cost_.gather(ranks_ - 1, site_.far_from(problem_.root), n, 0, 0);
        cost_.copy(n, 1);
        break;
      case kScatter:
        agree();
        cost_.scatter(ranks_ - 1, site_.far_from(problem_.root), n, 1, true);
        cost_.copy(n, 1);
        break;
      case kBarrier:
      case kFinalize:
      case kSplit: at_once(0, 1, false); break;
      case kSend:
      case kRecv: break;
    }
    return cost_.us();
  }

  double star() {
    const double n = volume_.bytes;
    switch (problem_.collective) {
      case kAllreduce:
        gather_sum(n);
        cost_.scatter(ranks_ - 1, site_.far_from(problem_.root), n);
        break;
      case kReduce:
        gather_sum(n);
        if (problem_.check) cost_.scatter(ranks_ - 1, site_.far_from(problem_.root), 0);
        break;
      case kBroadcast:
        if (problem_.check) cost_.gather(ranks_ - 1, site_.far_from(problem_.root), 0, 0, 0);
        cost_.scatter(ranks_ - 1, site_.far_from(problem_.root), n, 1, true);
        cost_.copy(n, 1);
        break;
      case kAllgather:
        cost_.gather(ranks_ - 1, site_.far_from(problem_.root), n, 0, 0);
        cost_.copy(n, 1);
        cost_.scatter(ranks_ - 1, site_.far_from(problem_.root), n * ranks_);
        cost_.copy(n * ranks_, 1);
        break;
      case kBarrier:
      case kFinalize:
      case kSplit:
        cost_.gather(ranks_ - 1, site_.far_from(problem_.root), 0, 0, 0);
        cost_.scatter(ranks_ - 1, site_.far_from(problem_.root), 0);
        break;
      case kAllgatherv:
      case kReduceScatter:
      case kReduceScatterv:
      case kAlltoall:
      case kAlltoallv:
      case kGather:
      case kScatter:
      case kSend:
      case kRecv: break;
    }
    return cost_.us();
  }

 private:
  void agree() {
    if (problem_.check) agree_cost(cost_, site_);
  }
  uint64_t given() const { return given_length(volume_.parameters, problem_); }
  double cut(uint64_t length) const {
    return static_cast<double>(cache_segments(static_cast<uint64_t>(volume_.bytes),
                                              static_cast<uint64_t>(site_.ranks()), length));
  }
  // Shorter vectors, cut because the call says so, are not: the bound knows nothing of them.
  bool keeps_in_cache(double segments) const { return segments > 1 && cut(0) > 1; }
  // Numbers 1 .. P - 1 with that bit.
  double blocks_with(int bit) const {
    const int ranks = site_.ranks();
    const int with_bit = ranks / (2 * bit) * bit + std::max(ranks % (2 * bit) - bit, 0);
    return with_bit;
  }
  // Elements to accumulators and back, on every rank.
  void widen(double bytes) {
    if (volume_.narrow) cost_.codec(bytes * volume_.wide, ranks_);
  }
  void narrow(double bytes) { widen(bytes); }
  // P - 1 blocks one after the other, none of which waits for another.
  void one_by_one(double block, bool sums, double segments) {
    cost_.add({.bytes = block / segments,
               .peers = ranks_ - 1,
               .active = ranks_,
               .far = site_.far_pairs(),
               .summed = sums ? block / segments : 0,
               .repeats = segments * (ranks_ - 1),
               .given = true});
  }
  void at_once(double block, double segments, bool given) {
    cost_.add({.messages = ranks_ - 1,
               .bytes = block,
               .peers = ranks_ - 1,
               .active = ranks_,
               .far = site_.far_pairs(),
               .repeats = segments,
               .given = given});
  }
  // Raw elements, added by whoever they are for.
  void sum_at_once(double block) {
    const double wide = block * volume_.wide;
    cost_.add({.messages = ranks_ - 1,
               .bytes = block,
               .peers = ranks_ - 1,
               .active = ranks_,
               .far = site_.far_pairs(),
               .summed = volume_.narrow ? 0 : wide,
               .decoded = volume_.narrow ? wide : 0,
               .given = true});
    narrow(block);
  }
  void gather_sum(double bytes) {
    const double wide = bytes * volume_.wide;
    cost_.gather(ranks_ - 1, site_.far_from(problem_.root), bytes, volume_.narrow ? 0 : wide,
                 volume_.narrow ? wide : 0);
    if (volume_.narrow) cost_.codec(wide, 1);
  }

  const Problem& problem_;
  const Site& site_;
  const Volume& volume_;
  CostTeam all_;
  double ranks_;
  Cost cost_;
};

// The formula of an algorithm.
using Formula = double (*)(const Problem& problem, const CostModel& model, const Site& site,
                           const Volume& volume);

template <double (Flat::*formula)()>
double flat_cost(const Problem& problem, const CostModel& model, const Site& site,
                 const Volume& volume) {
  return (Flat(problem, model, site, volume).*formula)();
}

// On one host, algorithms by levels are flat ones.
double hierarchical_or_flat_cost(const Problem& problem, const CostModel& model, const Site& site,
                                 const Volume& volume) {
  if (site.hosts() > 1) return hierarchical_cost(problem, model, site, volume);
  Flat flat(problem, model, site, volume);
  return problem.collective == kAlltoall ? flat.pairwise() : flat.circulant();
}

double leaders_or_flat_cost(const Problem& problem, const CostModel& model, const Site& site,
                            const Volume& volume) {
  if (site.hosts() > 1) return leaders_cost(problem, model, site, volume);
  Flat flat(problem, model, site, volume);
  if (problem.collective == kAllreduce) return flat.recursive_doubling();
  const bool words = fits(find_algorithm("dissemination"), problem.collective);
  return words ? flat.dissemination() : flat.binomial();
}

struct Priced {
  std::string_view algorithm;  // its name in algorithms()
  Formula formula;
};

constexpr Priced kFormulas[] = {
    {"recursive_doubling", flat_cost<&Flat::recursive_doubling>},
    {"circulant", flat_cost<&Flat::circulant>},
    {"ring", flat_cost<&Flat::ring>},
    {"binomial", flat_cost<&Flat::binomial>},
    {"double_tree", flat_cost<&Flat::double_tree>},
    {"bruck", flat_cost<&Flat::bruck>},
    {"pairwise", flat_cost<&Flat::pairwise>},
    {"dissemination", flat_cost<&Flat::dissemination>},
    {"direct", flat_cost<&Flat::direct>},
    {"star", flat_cost<&Flat::star>},
    {"torus", torus_cost},
    {"hierarchical", hierarchical_or_flat_cost},
    {"leaders", leaders_or_flat_cost},
};

// Null: it has none.
Formula formula_of(int algorithm) {
  const std::string_view name = algorithms()[static_cast<size_t>(algorithm)].name;
  const Priced* row = std::find_if(std::begin(kFormulas), std::end(kFormulas),
                                   [&](const Priced& each) { return each.algorithm == name; });
  return row == std::end(kFormulas) ? nullptr : row->formula;
}

}  // namespace

bool has_formula(int algorithm) {
  return formula_of(algorithm) != nullptr;
}

double predict(const Problem& problem, int algorithm, int ranks, const CostModel& model,
               const Hierarchy* hierarchy, const Parameters& parameters) {
  if (ranks < 2) return number(model.call);
  const Formula formula = formula_of(algorithm);
  if (formula == nullptr) return std::numeric_limits<double>::infinity();
  const Site site(ranks, hierarchy);
  Volume volume = volume_of(problem, ranks);
  volume.parameters = effective(parameters, algorithm, problem.collective, hierarchy);
  const double share = least_share(volume, model);
  if (!std::isfinite(share)) return share;
  // As much less crosses each cut as the codec that makes least leaves.
  const double cuts = number(model.call) + share * most_of_cuts(problem, site, model, volume).us;
  const bool levels = site.hosts() > 1 && algorithms()[static_cast<size_t>(algorithm)].by_levels;
  const bool coded = volume.parameters.encodes() && !levels;
  return std::max((coded ? coded_cost : formula)(problem, model, site, volume), cuts);
}

}  // namespace banyan
