// Algorithms are made of these rounds, each with what it takes; cost.h adds them up. Private to
// this folder.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "algorithms/cost/cost.h"

namespace banyan {

// At most so many levels of a hierarchy count, the lowest, beginning with hosts.
inline constexpr int kMostCostLevels = 8;

// The share of messages that leave a part of each level: a host, a leaf, and so on.
struct Reach {
  std::array<double, kMostCostLevels> beyond{};
  // What leaves the part that most leave, by what an average part sends: parts may differ.
  std::array<double, kMostCostLevels> busiest{};

  double hosts() const { return beyond[0]; }
  // How many levels some of them leave; 0: they stay on their hosts.
  int levels() const;
};

// How the ranks of a call lie, as far as costs go.
class Site {
 public:
  Site(int ranks, const Hierarchy* hierarchy);

  int ranks() const { return ranks_; }
  int hosts() const { return hosts_; }
  int largest() const { return largest_; }  // ranks of a host
  // Levels that count, at least that of hosts; those of one host are none.
  int depth() const { return depth_; }
  const Hierarchy& levels() const { return *levels_; }  // where depth() is above 0
  // The most parts of one level that lie in one part of another above it.
  int parts_within(int level, int above) const;

  // Tells how far messages reach from every rank to the one so many places on.
  Reach far(int distance) const;
  // To the one whose place differs in that bit.
  Reach far_by_bit(int bit) const;
  // From every rank to the next one of a ring, which enters each part once.
  Reach far_in_ring() const;
  // Between all pairs of ranks.
  Reach far_pairs() const;
  // From one rank to all others, or back.
  Reach far_from(int rank) const;
  // Between parts of that level that lie in one part of the next.
  Reach across(int level) const;

 private:
  double mean_part(int level) const;  // ranks
  template <typename Share>
  Reach reach_of(Share share) const;
  // The same, of ranks that send so many places on; parts of unequal size send unequally many.
  template <typename Share>
  Reach reach_of_shift(int distance, Share share) const;
  // Gives the share that leaves its part, of messages from each of the first so many places to
  // partner(place), by some of them.
  template <typename Partner>
  double sampled(int level, int places, Partner partner) const;

  int ranks_;
  int hosts_ = 1;
  int largest_;
  int depth_ = 0;
  std::array<bool, kMostCostLevels> in_order_{};  // parts of equal size, one after the other
  const Hierarchy* levels_ = nullptr;             // null: one host
};

// Ranks that do one collective among themselves, and how many such teams do so at a time.
struct CostTeam {
  enum class Where { kFlat, kInside, kAcross };
  int size = 1;
  double count = 1;
  Where where = Where::kFlat;
  int level = 0;  // kAcross: one of each of some parts of that level, which are in one of the next
  // So many members have a block of the vector, evenly among the others, and as long as if all had
  // one; 0: all.
  double owners = 0;
};

// What every one of `active` ranks does: sends some messages and receives as many.
struct Round {
  double messages = 1;
  double bytes = 0;   // of each message
  double peers = 1;   // ranks that a rank's messages are for and on their way to at the same time
  double active = 1;  // ranks, on all hosts
  Reach far{};
  double summed = 0;   // bytes of result that adding one message makes
  double decoded = 0;  // the same, where elements are widened first
  double repeats = 1;  // rounds like it that follow each other without waiting for the first
  bool waits = true;   // for the round before it; otherwise its latency is not felt
  // Passes on what came from the same side: the mean latency is felt, not the longest.
  bool passes = false;
  // Ranks only send or only receive, so that the two ends work at the same time.
  bool one_way = false;
  bool given = false;  // the messages are what the caller gave, as it is
  double on_host = 0;  // of the active ranks, on the host that has most; 0: as many on each
};

class Cost {
 public:
  // `buffers`: bytes of the caller's memory on one rank that the call touches.
  Cost(const CostModel& model, const Site& site, double buffers);

  void add(const Round& round);
  // The same round so many times, each waiting for the one before.
  void add(const Round& round, double times);
  // From `others` to one rank, or back, at the same time, in so many places.
  void gather(double others, const Reach& far, double bytes, double summed, double decoded,
              double hubs = 1);
  // `given`: as of a Round.
  void scatter(double others, const Reach& far, double bytes, double hubs = 1, bool given = false);
  // Empty messages beside others of the same round, so many of each rank.
  void words(double each, double active);
  // On `active` ranks at a time, each so many bytes.
  void copy(double bytes, double active);
  // On one rank while others are busy with what came before.
  void copy_beside(double bytes);
  void codec(double wide_bytes, double active);
  // Values of so many bytes, on each of `active` ranks, to messages and back.
  struct Coded {
    const CodecCost& codec;
    double encoded = 0, decoded = 0;
  };
  void code(const Coded& coded, double active);
  // The same beside the messages that were added since `before`: while wires have them, cores work
  // on others. `first_and_last` is what nothing goes on beside.
  void code_beside(const Cost& before, const Coded& all, const Coded& first_and_last,
                   double active);
  // A pipeline is a chain of `hops` ranks through which `pieces` of so many bytes follow each
  // other. The busiest rank passes on each piece with so many messages, and all ranks with so many.
  struct Pipeline {
    double hops = 1, pieces = 1, bytes = 0;
    double messages = 1, all_messages = 1;
    double wire_bytes = 0;  // of the busiest host, or part, in one direction, in all
    double summed = 0;
    bool far = false;  // between all hosts
  };
  void pipeline(const Pipeline& pipeline);
  // From here on, half of what passes through memory is still in a cache.
  void warm() { cold_ /= 2; }

  double us() const { return us_; }
  // These are parts of that: what keeps cores busy, or the NICs of a host, and the latencies.
  double work() const { return work_; }
  double wire() const { return wire_; }
  double waited() const { return waited_; }

 private:
  // A lane takes its time while the receiver does; whoever sends on it waits as long.
  struct Ends {
    double send, recv;
    double lane = 0;  // of recv
  };
  Ends message(const PairCost& cost, double bytes, double peers, bool given) const;
  Ends message(double bytes, double far, double peers, bool given) const;
  double alpha(const Reach& far) const { return alphas_[static_cast<size_t>(far.levels())]; }
  double mean_alpha(const Reach& far) const;
  void wait(double us) { us_ += us, waited_ += us; }
  double sum_of(double summed, double decoded) const;
  double time_of(const Coded& coded) const;
  // Adds what takes a core so long, and all cores together so long as one.
  double busy(double core, double all);
  double on_cores(double work) const { return work / cores_; }
  double on_wire(double bytes, double largest_message) const;
  // Tells what `active` ranks that send so many bytes each, in messages of `message`, take on the
  // wires of the host and of the parts that have most of them.
  struct Wires {
    double nics = 0;  // of the host
    double most = 0;  // of them and all uplinks
  };
  Wires on_wires(const Reach& far, double sent, double message, double active,
                 double on_host) const;
  void add_wires(const Wires& wires, double work);

  const CostModel& model_;
  const Site& site_;
  double cores_ = 1;                                  // of all hosts
  double cold_ = 0;                                   // the share of bytes that are in no cache
  std::array<double, 1 + kMostCostLevels> alphas_{};  // by Reach::levels()
  std::array<double, kMostCostLevels> uplinks_{};     // us of a byte, by level; of hosts: 0
  double us_ = 0;
  double work_ = 0;
  double wire_ = 0;
  double waited_ = 0;
};

// What a byte costs two cores at least, in a message of any length.
double least_byte(const CostModel& model, const Site& site, double cold);
double cold_share(const CostModel& model, const Site& site, double buffers);
// What a round takes beside its bytes where its messages leave so many levels: Reach::levels().
double latency(const CostModel& model, const Site& site, int levels);
// What a byte takes through the uplinks of a part; 0: none is known.
double uplink_byte(const CostModel& model, const Site& site, int level);
double cores_of(const CostModel& model, const Site& site);

inline double number(const Figure& figure) {
  return figure.value.value_or(0);
}

// A call as its costs see it.
struct Volume {
  double bytes = 0;     // of the vector: of allreduce, reduce and broadcast the whole; else a block
  double wide = 1;      // bytes of an accumulator for each byte of an element
  bool narrow = false;  // sums are taken in a wider type
  double buffers = 0;   // bytes of the caller's memory on one rank
  Parameters parameters{};
};
Volume volume_of(const Problem& problem, int ranks);

// This is the one of all cuts that takes most, around hosts, parts of levels above them and parts
// of hosts: no algorithm is faster, whatever its rounds.
struct CutCost {
  double us = 0;
  std::string_view part{};  // empty: none is known
  Source source = Source::kMeasured;
};
CutCost most_of_cuts(const Problem& problem, const Site& site, const CostModel& model,
                     const Volume& volume);

double torus_cost(const Problem& problem, const CostModel& model, const Site& site,
                  const Volume& volume);

// The least bytes that a codec of the call makes of one; infinite: the model does not know one.
double least_share(const Volume& volume, const CostModel& model);
// Allreduce and reduce_scatter by the codec of the only level, as in coded.cc.
double coded_cost(const Problem& problem, const CostModel& model, const Site& site,
                  const Volume& volume);

// The algorithms by levels, for a site of several hosts.
double hierarchical_cost(const Problem& problem, const CostModel& model, const Site& site,
                         const Volume& volume);
double leaders_cost(const Problem& problem, const CostModel& model, const Site& site,
                    const Volume& volume);

// Phases, of a team of ranks.
void agree_cost(Cost& cost, const Site& site);
void doubling_words_cost(Cost& cost, const Site& site, const CostTeam& team);
enum class Half { kReduceScatter, kAllgather };
// `bytes`: of the whole vector as it travels; `segments` of it follow each other.
void circulant_cost(Cost& cost, const Site& site, const CostTeam& team, double bytes, Half half,
                    double segments = 1);
void ring_cost(Cost& cost, const Site& site, const CostTeam& team, double bytes, Half half,
               double segments = 1);
// That of the name; kOwn counts as circulant.
void phase_cost(Cost& cost, const Site& site, const CostTeam& team, Phase phase, double bytes,
                Half half);
// The same by a codec, as in coded.cc. `bytes`: of the whole vector as float32, before it is
// encoded and after it is decoded.
void coded_phase_cost(Cost& cost, const Site& site, const CostTeam& team, const CodecCost& codec,
                      Phase phase, double bytes, Half half);
void recursive_doubling_cost(Cost& cost, const Site& site, const CostTeam& team, double bytes);
// Along a binomial tree: the whole vector in every message.
void binomial_cost(Cost& cost, const Site& site, const CostTeam& team, double bytes, bool sums);
// The same with what the subtree needs only, of so many bytes in all.
void binomial_blocks_cost(Cost& cost, const Site& site, const CostTeam& team, double bytes);

}  // namespace banyan
