// What was found, as a tuning file and for people.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <string>
#include <vector>

#include "algorithms/cost/measured_links.h"
#include "algorithms/ring_order.h"
#include "bench/tune/probes.h"
#include "bench/tune/search.h"
#include "src/tuning/tuning_file.h"

namespace banyan::tune {

// How the ranks of the job lie, as rules count: of a node, the most.
struct Spread {
  int ranks = 1;
  int nodes = 1;
  int ppn = 1;
};

// Gives the rules. Neighbouring sizes with one answer make one rule, whose ends lie half way to the
// next sizes (as ratios). The last rule is open where the largest size was measured. Reductions are
// for float32, which was measured: the sums of other types move other numbers of bytes. Only sizes
// at which the default choice was beaten have one. `all_of_them`: others have one, too, where links
// would decide what no rule does.
std::vector<TuningRule> rules_of(const Subject& subject, const Spread& spread,
                                 bool all_of_them = false);

// Tells in which order rings should go through the hosts, given as their numbers. Empty: in that of
// their numbers, as without a file, since no other gains more than measuring makes of equal links.
std::vector<int> ring_that_gains(const EdgeCosts& edges);

// A line for each level that was measured, and one for the sums.
std::string report_of(const MeasuredLinks& links);

// Writes a line for each reason not to believe what was measured:
//
//   what long messages took is off a line by more than 15 %
//   a host carries clearly more, or much less, than its NICs say they do
//
// `nics`: GB/s of each that says it.
std::string doubts_of(const Measurement& measurement, const std::vector<double>& nics);

// A line for each size at which the default choice was beaten, and a summary.
std::string report_of(const std::vector<Subject>& subjects);

}  // namespace banyan::tune
