// Explains why one algorithm and not another: all of them with what they would take, beside the
// least that any could. Communicators and programs have it from here (show_explanation.h).
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "algorithms/choice/codec_times.h"
#include "algorithms/choice/select.h"
#include "algorithms/cost/cost.h"

namespace banyan {

// What is known of a call and of the ranks that make it.
struct CallSite {
  Problem problem{};
  int ranks = 1;
  Medium medium = Medium::kMemory;
  Rules rules{};
  // Hosts, also where each has one rank, and what is above them; flat: one host, or nobody knows.
  Hierarchy hierarchy{};
  std::optional<MeasuredNetwork> measured{};  // calls there choose by it
  std::optional<CostModel> model{};           // nothing: of the network nothing is known
  Parameters parameters{};                    // with which the call itself names
  int algorithm = -1;                         // an algorithm; -1: it names none
  std::string transports{};                   // "shm,ucx"; empty: not known
  bool by_peers = false;                      // ranks may read each other's memory of GPUs
  bool by_peers_inside = false;               // the same inside hosts
  std::vector<CodecTime> codec_times{};       // what such calls took
  std::vector<MeasuredCodec> codecs{};        // what was measured of explained_codecs()
};

struct ScheduleSize {
  uint64_t rounds = 0;      // the longest chain of messages, each waiting for the one before
  uint64_t steps = 0;       // of rank 0
  uint64_t bytes_sent = 0;  // by rank 0
};

struct ExplainedAlgorithm {
  int algorithm = 0;  // index into algorithms()
  bool excluded = false;
  std::string why{};                    // of exclusion; else what there is to say, or nothing
  double predicted_us = 0;              // 0 where it is no algorithm for the call, or no model
  std::optional<double> measured_us{};  // of a tuning file
  Parameters parameters{};              // of what a call gets
  std::optional<ScheduleSize> size{};   // of what is an algorithm for the call
};

struct ExplainedCodec {
  CodecChoice codec{};  // of the top or only level; where others are asked for, they have those
  std::string name{};   // "int8", "threshold:T", "off"
  bool chosen = false;
  std::string why{};                     // it was chosen, or else what there is to say
  double predicted_us = 0;               // 0: without a model
  std::optional<uint64_t> bytes_sent{};  // by rank 0; of sparse codecs, as expected
  std::string law{};                     // how far its sum is from the exact one
};

struct Explanation {
  int chosen = -1;   // what a call gets; -1: it needs no algorithm
  int fastest = -1;  // as predicted, of those that rules exclude, too
  double fastest_us = 0;
  Parameters fastest_parameters{};  // with the best length of segments, where that is another
  Bound bound{};
  double percent_of_bound = 0;  // 100 bound.us / time of the chosen; 0: without a model
  std::string memory_by{};      // where figures of messages in memory are from; empty: there are
                                // none, or the machine has others
  std::string network_by{};     // the same of the network; empty: there is none
  // The chosen, then by time; after them those excluded, and of these last what is no algorithm for
  // the call.
  std::vector<ExplainedAlgorithm> algorithms{};
  // Where the call accepts codecs: what it gets, then the others by time.
  std::vector<ExplainedCodec> codecs{};
};

// The codecs that are explained to whoever accepts these: one each, as it is asked for.
std::vector<CodecChoice> explained_codecs(const Compression& asked);

// More ranks have no ScheduleSize.
inline constexpr int kMostRanksBuilt = 256;

// Explains a call. A message and a call of one rank have no algorithms. Pure.
//
//   what decides                  excludes
//   the call, a rule that names   all others
//   algorithms, invariant sums
//   any other rule                as for choose()
//   anything else                 those that are predicted to be faster than what it has
Explanation explain(const CallSite& given);

}  // namespace banyan
