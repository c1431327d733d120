// Says which algorithm a call gets: the user's rules first, then what the measured links say, then
// the default table.
//
// Grammar of rules:  RULE (';' RULE)*                BANYAN_ALGO has 'explain' for a RULE, too
//   RULE   = [COLLECTIVE (',' COLLECTIVE)*] CONDITION* ':' CHOICE
//          | CHOICE                          (for every collective that it fits)
//   CONDITION = 'size=' LO '-' [HI] | 'ranks=' LO '-' [HI] | 'nodes=' LO '-' [HI]
//             | 'ppn=' LO '-' [HI] | 'dtype=' TYPE (',' TYPE)* | 'mem=' MEMORY (',' MEMORY)*
//                                                           each once, in any order
//   CHOICE = NAMED (',' NAMED)* | '^' NAME (',' NAME)*      first that fits; '^': any but these
//   NAMED  = NAME ['(' KEY '=' VALUE (',' KEY '=' VALUE)* ')']   each key once
//
//   COLLECTIVE  '*' is any; words may be in any case, as everywhere here
//   NAME        also recdbl, hier, rab, dtree, tree: recursive_doubling, hierarchical, leaders,
//               double_tree, double_tree
//   size        bytes of the call's count with K M G; ranges include both ends
//   nodes       groups of ranks that share memory; without shared memory each rank is one
//   ppn         ranks of the largest node
//   TYPE        float32 or fp32 and so on; a barrier has none
//   MEMORY      host, cuda, managed; all calls of this version count as host memory, since ranks
//   may
//               differ in where their buffers are, and a barrier has none
//   KEY         as the algorithm has them (parameters.h): seg=SIZE
//               of hierarchical also intra= and inter=, circulant, ring, pairwise or direct, and
//               rails=N or auto
//               of torus dims=AxBxC
//
// The first rule that matches and has an algorithm for the collective decides. A rule whose names
// do not fit the collective is passed over, so "ring" leaves barrier alone. A torus whose
// dimensions have room for another number of ranks does not fit. A parameter that an algorithm does
// not regard in a collective is as if it were not there.
//
// Errors are
//   a name that fits none of the collectives that its rule names
//   a parameter that is regarded in none of them
//   a '^' that leaves a collective nothing
//   a rule that no call of any job can follow
//   a rule with a size for alltoallv alone: every rank knows only its own counts of it, and ranks
//   would choose differently, so rules with a size do not apply to it
// Examples:
//   allreduce size=0-32K : recursive_doubling ; allreduce : ring ; ^direct
//   allreduce size=1M- nodes=2- : hierarchical(intra=ring,seg=512K)
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/algorithms.h"
#include "algorithms/choice/measured_choice.h"
#include "algorithms/problem.h"
#include "banyan/status.h"
#include "banyan/types.h"

namespace banyan {

// Who says so; the variable goes before the tuning file.
enum class RuleSource : uint8_t { kVariable, kTuningFile };

// What a rule of a tuning file took when it was measured, at one size within its range.
struct Measured {
  uint64_t bytes = 0;
  double us = 0;  // median of the runs
  uint64_t runs = 0;
  std::string runner_up{};  // empty: there was none
  double runner_up_us = 0;

  bool operator==(const Measured&) const = default;
};

struct Rule {
  std::vector<Collective> collectives;  // empty: any
  uint64_t size_least = 0, size_most = UINT64_MAX;
  int ranks_least = 0, ranks_most = INT32_MAX;
  int nodes_least = 0, nodes_most = INT32_MAX;
  int ppn_least = 0, ppn_most = INT32_MAX;
  std::vector<DataType> types;         // empty: any
  std::vector<MemoryKind> memories;    // of the words of 'mem=', kDevice for cuda; empty: any
  std::vector<int> algorithms;         // indices into algorithms()
  std::vector<Parameters> parameters;  // of each of them
  bool excluding = false;
  RuleSource source = RuleSource::kVariable;
  int number = 1;                    // among those of its source
  std::optional<Measured> measured;  // of its first algorithm
};

using Rules = std::vector<Rule>;

// These collectives have a name in BANYAN_ALGO, from 0 on: single messages need no algorithm, and
// finalize and split are nobody's call.
inline constexpr int kNamedCollectives = static_cast<int>(Collective::kSend);

inline constexpr size_t kMostRulesText = 4096;
// kInvalidArgument names the word, its position (from 1) and the valid words.
Result<Rules> parse_rules(std::string_view text);
// Holds the value of the variable: rules, or the word 'explain' in place of one, which is none and
// counts as none.
struct AlgorithmVariable {
  Rules rules;
  bool explain = false;  // what calls get is to be said when the ranks have met
};
Result<AlgorithmVariable> parse_algorithm_variable(std::string_view text);
// Puts the variable's before those of the tuning file. What a '^' of the variable leaves is chosen
// by the tuning file, then by the default table.
Rules join_rules(Rules variable, Rules tuning_file);

// Whether a rule can decide calls of the collective, of some size among some number of ranks.
bool any_applies(const Rules& rules, Collective collective);
// Says with kInvalidArgument "algorithm 'bruck' has none for allreduce; valid: ...", of rules that
// were read from `text`.
Status has_none_for(Collective collective, std::string_view text);

// Counts the bytes that the table and rules go by: count x element size, the total of the counts
// for `v` calls. It ends at the largest number instead of beginning anew.
uint64_t selection_bytes(const Problem& problem);

// Tells what connects the ranks of a communicator.
//
//   kMemory        memory that every two of them share
//   kSharedCores   the same, two ranks on a core: a call takes as long as what all of them do
//   kCrowdedCores  the same, three and more on a core: the turns that each needs are most of a call
//   kNetwork       also a network, where a message costs what a hundred small ones cost in memory
//   kLoopback      a network between ranks of one host: messages cost cores and no wire
enum class Medium : uint8_t { kMemory, kSharedCores, kCrowdedCores, kNetwork, kLoopback };
inline bool is_network(Medium medium) {
  return medium == Medium::kNetwork || medium == Medium::kLoopback;
}

struct Choice {
  int algorithm = 0;  // index into algorithms(); -1 where none fits: kSend, kRecv
  // "default table", "measured links", "BANYAN_ALGO rule 2", "tuning file rule 7", "invariant sums"
  std::string because;
  int rule = -1;            // index into the rules; -1: none decided
  Parameters parameters{};  // those that the algorithm goes by in this call
  int naming = -1;  // index into the rules: that names it, beside or after one that leaves some out
  // By what was measured of that rule and of those for other lengths of the same calls: between two
  // of them on their chord. Nothing: nothing was.
  std::optional<double> most_us{};
};
// "BANYAN_ALGO rule 2, with seg=1M".
std::string reason_of(const Choice& choice);
// As rules count them.
int nodes_of(int ranks, Medium medium, const Hierarchy* hierarchy);
int ppn_of(int ranks, Medium medium, const Hierarchy* hierarchy);
// Chooses the same on all ranks. It looks at nothing but the collective, its bytes, type and
// operation, the number of ranks, the medium, the rules, how the ranks lie (simplified(); null:
// flat) and the network that was measured (null: none was). Of a call with sums_in_rank_order() it
// looks at that alone: it is direct, which adds in the order of ranks, whatever rules say.
Choice choose(const Problem& problem, int ranks, Medium medium, const Rules& rules,
              const Hierarchy* hierarchy = nullptr, const MeasuredNetwork* measured = nullptr);

}  // namespace banyan
