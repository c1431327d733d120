// Which algorithm a call gets: the user's rules first, then what the measured links say, then the
// default table.
//
// Grammar of rules:  RULE (';' RULE)*                BANYAN_ALGO has 'explain' for a RULE, too
//   RULE   = [COLLECTIVE (',' COLLECTIVE)*] CONDITION* ':' CHOICE
//          | CHOICE                          (for every collective that it fits)
//   CONDITION = 'size=' LO '-' [HI] | 'ranks=' LO '-' [HI] | 'nodes=' LO '-' [HI]
//             | 'ppn=' LO '-' [HI] | 'dtype=' TYPE (',' TYPE)* | 'mem=' MEMORY (',' MEMORY)*
//                                                           each once, in any order
//   CHOICE = NAMED (',' NAMED)* | '^' NAME (',' NAME)*      first that fits; '^': any but these
//   NAMED  = NAME ['(' KEY '=' VALUE (',' KEY '=' VALUE)* ')']   each key once
// NAME may also be recdbl, hier, rab, dtree or tree: recursive_doubling, hierarchical, leaders,
// double_tree, double_tree. Sizes are bytes of the call's count with K M G; ranges include both
// ends. '*' is any collective. Nodes are groups of ranks that share memory; without shared memory
// each rank is one. 'ppn' is the number of ranks of the largest. Types are float32 or fp32 and so
// on; a barrier has none. Memory is host, cuda or managed; calls of this version have host memory,
// what CUDA manages included, and a barrier has none. Keys are those of the algorithm
// (parameters.h): seg=SIZE; of hierarchical also intra= and inter=, circulant, ring, pairwise or
// direct, and rails=N or auto; of torus dims=AxBxC. In a collective that an algorithm does without
// regard to a parameter it is as if it were not there; a rule that names only such collectives is
// an error. A torus whose dimensions have room for another number of ranks does not fit. The first
// rule that matches and has an algorithm for the collective decides; a rule whose names do not fit
// the collective is passed over, so "ring" leaves barrier alone. Errors are a name that fits none
// of the collectives that its rule names, a '^' that leaves a collective nothing, and a rule that
// no call of any job can follow. Words may be in any case. Every rank knows only its own counts of
// alltoallv, so rules with a size do not apply to it: ranks would choose differently; one for it
// alone is an error. Examples:
//   allreduce size=0-32K : recursive_doubling ; allreduce : ring ; ^direct
//   allreduce size=1M- nodes=2- : hierarchical(intra=ring,seg=512K)
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/algorithms.h"
#include "algorithms/choice/measured_choice.h"
#include "algorithms/problem.h"
#include "banyan/status.h"

namespace banyan {

// Who says so; the variable goes before the tuning file.
enum class RuleSource : uint8_t { kVariable, kTuningFile };

// Where the buffers of a call are; the words of 'mem='.
enum class MemoryKind : uint8_t { kHost, kCuda, kManaged };

struct Rule {
  std::vector<Collective> collectives;  // empty: any
  uint64_t size_least = 0, size_most = UINT64_MAX;
  int ranks_least = 0, ranks_most = INT32_MAX;
  int nodes_least = 0, nodes_most = INT32_MAX;
  int ppn_least = 0, ppn_most = INT32_MAX;
  std::vector<DataType> types;         // empty: any
  std::vector<MemoryKind> memories;    // empty: any
  std::vector<int> algorithms;         // indices into algorithms()
  std::vector<Parameters> parameters;  // of each of them
  bool excluding = false;
  RuleSource source = RuleSource::kVariable;
  int number = 1;  // among those of its source
};

using Rules = std::vector<Rule>;

// Collectives with a name in BANYAN_ALGO, from 0 on: single messages need no algorithm, and
// finalize and split are nobody's call.
inline constexpr int kNamedCollectives = static_cast<int>(Collective::kSend);

inline constexpr size_t kMostRulesText = 4096;
// kInvalidArgument names the word, its position (from 1) and the valid words.
Result<Rules> parse_rules(std::string_view text);
// The value of the variable: rules, or the word 'explain' in place of one, which is none and counts
// as none.
struct AlgorithmVariable {
  Rules rules;
  bool explain = false;  // what calls get is to be said when the ranks have met
};
Result<AlgorithmVariable> parse_algorithm_variable(std::string_view text);
// The variable's, then those of the tuning file. What a '^' of the variable leaves is chosen by the
// tuning file, then by the default table.
Rules join_rules(Rules variable, Rules tuning_file);

// Whether a rule can decide calls of the collective, of some size among some number of ranks.
bool any_applies(const Rules& rules, Collective collective);
// kInvalidArgument: "algorithm 'bruck' has none for allreduce; valid: ...", of rules that were read
// from `text`.
Status has_none_for(Collective collective, std::string_view text);

// Bytes that the table and rules go by: count x element size, the total of the counts for `v`
// calls. Ends at the largest number instead of beginning anew.
uint64_t selection_bytes(const Problem& problem);

// What connects the ranks of a communicator: memory that every two of them share, or also a
// network, where a message costs what a hundred small ones cost in memory. In memory, how many of
// them share a core: with two and more (kSharedCores) a call takes as long as what all of them do,
// and with three and more (kCrowdedCores) the turns that each needs are most of it.
// Between ranks of one host a network is its loopback, where messages cost cores and no wire.
enum class Medium : uint8_t { kMemory, kSharedCores, kCrowdedCores, kNetwork, kLoopback };
inline bool is_network(Medium medium) {
  return medium == Medium::kNetwork || medium == Medium::kLoopback;
}

struct Choice {
  int algorithm = 0;  // index into algorithms(); -1 where none fits: kSend, kRecv
  // "default table", "measured links", "BANYAN_ALGO rule 2", "tuning file rule 7"
  std::string because;
  int rule = -1;            // index into the rules; -1: none decided
  Parameters parameters{};  // those that the algorithm goes by in this call
  int naming = -1;  // index into the rules: that names it, beside or after one that leaves some out
};
// "BANYAN_ALGO rule 2, with seg=1M".
std::string reason_of(const Choice& choice);
// As rules count them.
int nodes_of(int ranks, Medium medium, const Hierarchy* hierarchy);
int ppn_of(int ranks, Medium medium, const Hierarchy* hierarchy);
// The same on all ranks: looks at the collective, its bytes, type and operation, the number of
// ranks, the medium, the rules, how the ranks lie (simplified(); null: flat) and the network that
// was measured (null: none was), and at nothing else.
Choice choose(const Problem& problem, int ranks, Medium medium, const Rules& rules,
              const Hierarchy* hierarchy = nullptr, const MeasuredNetwork* measured = nullptr);

struct Candidate {
  int algorithm = 0;
  bool excluded = false;
  std::string why;          // of exclusion, or of being chosen; may be empty
  uint64_t rounds = 0;      // the longest chain of messages, each waiting for the one before
  uint64_t bytes_sent = 0;  // by rank 0
  uint64_t steps = 0;       // of rank 0
  Parameters parameters{};  // of the chosen one
};
// Every algorithm, the chosen one first. Figures are 0 for excluded ones and for more ranks than
// kMostRanksBuilt; `why` says so then.
inline constexpr int kMostRanksBuilt = 256;
std::vector<Candidate> candidates(const Problem& problem, int ranks, Medium medium,
                                  const Rules& rules, const Hierarchy* hierarchy = nullptr,
                                  const MeasuredNetwork* measured = nullptr);

}  // namespace banyan
