// Finds which algorithm is fastest at which size, by trials within a time limit: a search over
// whoever can run a trial, so that it can be tested without ranks.
//
// At one size all algorithms that fit run in turns, in an order drawn anew each time, and those
// that are far behind drop out (successive halving; Karnin, Koren and Somekh, ICML 2013). The last
// ones have at least seven runs each, and their medians count. The default choice stays unless it
// is beaten turn by turn, or goes with its neighbours. Sizes are looked at coarsely first, then
// more finely, and at last between neighbours with different answers.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "banyan/status.h"
#include "bench/perf/pattern.h"

namespace banyan::tune {

inline constexpr uint64_t kElementBytes = 4;  // of float32, on which all is measured

// So many calls of one algorithm, one after the other.
struct Trial {
  perf::Pattern pattern = perf::Pattern::kAllreduce;
  uint64_t bytes = 0;
  int algorithm = 0;  // a candidate (candidates.h), as all algorithms here
  uint64_t iterations = 1;
  uint64_t warm_up = 1;
  int codec = -1;  // index into automatic_codecs(); -1: exact
};

struct Laboratory {
  // Is called before the first trial, and before each turn of all contenders at a size unless that
  // takes too much of the time. The trials that follow share nothing with those before, whose
  // memory and what they learnt of it may favour one algorithm as long as they last.
  std::function<Status()> renew;
  std::function<Result<double>(const Trial&)> run;  // microseconds of a call
  std::function<Result<int>(perf::Pattern, uint64_t bytes)> default_of;
  std::function<double()> seconds_left;
  // A fraction of the time, and what is done; may do nothing.
  std::function<void(perf::Pattern, uint64_t bytes)> progress;
};

// What was found at one size.
struct Finding {
  uint64_t bytes = 0;
  int by_default = 0;  // algorithms, as indices
  double default_us = 0;
  int best = 0;  // by_default unless another is clearly faster, here or at both neighbours
  double best_us = 0;
  uint64_t runs = 0;  // of the best
  int runner_up = -1;
  double runner_up_us = 0;

  bool changed() const { return best != by_default; }
};

struct Subject {
  perf::Pattern pattern = perf::Pattern::kAllreduce;
  std::vector<int> algorithms;  // those that fit
  uint64_t most_bytes = 0;      // 0: it has one size
  std::map<uint64_t, Finding> findings{};

  // Up to the size that was the goal.
  bool complete() const { return findings.count(most_bytes) != 0; }
};

// Fills in the findings. An error is that of a trial. The same seed, times and clock give the same
// trials.
Status search(std::vector<Subject>& subjects, const Laboratory& laboratory, uint32_t seed);

// The runs of one algorithm at one size.
struct Contender {
  int algorithm = 0;
  std::vector<double> us{};

  double median() const;
};
// Tells whether it was faster by at least 5 % in the middle one of the turns, and faster at all in
// three of four. What a turn has in common, such as where pages lie, does not count.
bool beats(const Contender& one, const Contender& other);
// `contenders` have runs; the one of `by_default` is among them.
Finding judge(uint64_t bytes, int by_default, const std::vector<Contender>& contenders);

}  // namespace banyan::tune
