// Predicts how long an algorithm takes, by formulas: a pure function of the call, of how ranks lie,
// and of a few figures of the machine. It looks at no clock and no measurement, so all ranks that
// have the same figures come to the same result.
//
// A schedule is seen as rounds. In a round every rank that takes part sends and receives some
// messages. It takes a latency, and the longest of
//
//   what the busiest rank does
//   what all ranks of a host do on the cores that they share
//   what crosses a host's NICs, or the uplinks of a part of a level above
//
//   T = sum over rounds of  alpha + max(rank, host's ranks / cores, bytes across / NICs or uplinks)
//
// (LogGP: Alexandrov et al. 1995, as far as cores go; the max-rate model of Gropp, Olson, Samfass
// 2016 for NICs.) Rounds and volumes of the algorithms are those of
//
//   recursive doubling, ring, binomial, scatter and allgather   Thakur, Rabenseifner, Gropp 2005
//   circulant                                                   Träff 2024
//   double tree                                                 Sanders, Speck, Träff 2009
//   bruck                                                       Bruck et al. 1997
//   levels in a row or overlapping                              Cho et al. 2019
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "algorithms/problem.h"
#include "src/base/codec.h"
#include "topology/hierarchy.h"
#include "topology/topology.h"

namespace banyan {

// Holds what messages between two ranks of one level take. All times are in microseconds, none
// negative; an unknown figure counts as 0.
struct PairCost {
  Figure alpha;      // from the end of sending to where the receiver can go on
  Figure overhead;   // of a core, for each message at each end
  Figure send_byte;  // of the sender's core, of one byte
  Figure recv_byte;  // of the receiver's core, of one byte
  // Long messages: the receiver takes them from the sender's memory, where that is cheaper.
  Figure long_overhead;  // beside `overhead`, at the receiver
  Figure long_byte;      // of what the sender writes in each call, writing it included
  // What a byte takes beside the above, at the receiver, where buffers are in no cache.
  Figure far_byte;
  // Edges of a machine may move bytes by themselves, as NVLinks do. Each is a lane: this is what a
  // byte takes on it, and how many of them a rank uses at the same time to different ranks.
  Figure lane_byte{};
  double lanes = 1;
  // This goes in the place of long_byte for what the caller gave and the call only reads. Unknown:
  // that takes the same.
  Figure given_byte{};
  double long_least = 0;  // bytes of the shortest long message

  friend bool operator==(const PairCost&, const PairCost&) = default;
};

// Holds what messages take that leave a part of a level above hosts: a leaf switch, a pod.
struct TierCost {
  std::string name{};  // of the level
  Figure alpha{};      // in place of that between hosts
  // us a byte takes through all that joins a part to others, in each direction; unknown: no limit
  Figure uplink_byte{};

  friend bool operator==(const TierCost&, const TierCost&) = default;
};

// Holds parts of one kind that have as many ranks each: GPUs, sockets, what is below a PCI switch,
// hosts, or those of a level above. What the ranks of a part have for all others crosses the cut
// around it. Bytes take the time of all edges that do, in each direction.
struct PartCost {
  std::string name{};  // of the kind, or of the level
  int ranks = 0;       // of each
  // us of a byte, of the narrowest one. Unknown: nobody says what joins them.
  Figure cut_byte{};
  // On several hosts, what is in such a part may leave it through any NIC, too.
  bool leaves_by_nics = true;
  double count = 0;        // of such parts on all hosts; 0: not known, and nor are:
  Figure widest_byte{};    // of the widest one
  Figure together_byte{};  // over the cuts of all of them at once

  friend bool operator==(const PartCost&, const PartCost&) = default;
};

// Holds what a codec makes of values, which are float32 here, whatever the type of the call.
struct CodecCost {
  CodecChoice choice{};
  double unit = 1;           // values that are encoded together
  double message_bytes = 0;  // of a message, for each unit that is begun
  double sum_bytes = 0;      // the same of a sum's, which may say something of more values
  Figure encode_byte{};      // us, of one byte of values; unknown: as CostModel::codec_byte
  Figure decode_byte{};      // decoding and adding

  friend bool operator==(const CodecCost&, const CodecCost&) = default;
};

struct CostModel {
  Figure call;                  // us: what begins and ends a call
  PairCost within;              // a host
  PairCost between;             // hosts
  std::vector<TierCost> tiers;  // of levels of the hierarchy, by name; others cost what hosts do
  std::vector<PartCost> parts;  // nothing is faster than these let pass
  Figure wire_byte;             // us a byte takes on the wire of one NIC in each direction
  double nics = 1;              // of a host
  double cores = 0;             // that the ranks of a host share; 0: one each
  Figure turn;             // us: until a rank has its core again, for each other rank of that core
  Figure reduce_byte;      // us, of one byte of result, in the accumulator's type
  Figure reduce_far_byte;  // beside it, where buffers are in no cache
  Figure codec_byte;       // widening or narrowing, of one byte of the wider type
  Figure copy_byte;        // within a rank's memory
  Figure copy_far_byte;
  double cache_bytes = 0;           // of a host, that buffers may stay in; 0: any number
  std::vector<CodecCost> codecs{};  // of the codecs that parameters may name

  friend bool operator==(const CostModel&, const CostModel&) = default;
};
// Null: the model does not know it.
const CodecCost* find_codec(const CostModel& model, const CodecChoice& choice);

// Predicts the microseconds of a call. Requires that the algorithm fits the collective.
// `hierarchy`: how ranks lie; its first level is that of hosts, also where each has one rank. Null:
// all on one host. Takes time logarithmic in the number of ranks. The result is infinite where the
// algorithm has no formula, or the model does not know a codec that it goes by, so that nobody
// chooses it for its cost.
double predict(const Problem& problem, int algorithm, int ranks, const CostModel& model,
               const Hierarchy* hierarchy = nullptr, const Parameters& parameters = {});

// Tells whether the algorithm at that place of algorithms() has a formula: all of them have, and a
// test holds that.
bool has_formula(int algorithm);

// Finds the parameter `seg` with which hierarchical takes least by the model, with `parameters` as
// they are otherwise. It is a power of two, or 0 where none is better than its own length, or it
// has none. With q segments a stage takes a + b/q, so T(q) is least at q = sqrt(b of all other
// stages / a of the slowest one): the lengths around that are tried.
uint32_t best_segment(const Problem& problem, int ranks, const CostModel& model,
                      const Hierarchy* hierarchy, const Parameters& parameters = {});

// Says what no algorithm can be faster than by that model, and why. It is the most of what these
// take:
//
//   cuts       around hosts, parts of them and parts above: bytes that must cross / bandwidth of
//              all edges that do (the cuts of ForestColl, Zhao et al. 2024)
//   messages   those that tell everybody
//   cores      their work
//
// Not all cuts are looked at, so it may be lower than it could be.
struct Bound {
  double us = 0;
  std::string by{};                   // "edge of a gpu", "work of cores", "latency"
  Source source = Source::kMeasured;  // of the figure of the cut that decides
  bool cuts = false;  // edges around some part are known, or the model has none to know
};
Bound bound_of(const Problem& problem, int ranks, const CostModel& model,
               const Hierarchy* hierarchy = nullptr);
// Its microseconds.
double lower_bound(const Problem& problem, int ranks, const CostModel& model,
                   const Hierarchy* hierarchy = nullptr);

}  // namespace banyan
