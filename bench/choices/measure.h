// Every algorithm of a collective is timed here: the choice between them is judged by that.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/choices/rows.h"

namespace banyan::choices {

struct Plan {
  int ranks = 2;  // 0: those that a launcher has started
  std::vector<Kind> kinds;
  std::vector<uint64_t> sizes;  // bytes of the call's count, ascending; a barrier has none
  int first = 0;                // the algorithm of the list that begins
  double least_us = 1000;       // of calls timed together, unless two take longer
};

// Shows the predictions of the communicator beside what its calls take. It starts the ranks and
// prints a line for each point, of the algorithm that a call gets by default:
//   kind bytes algorithm predicted measured ratio
// and at the end how many are within 30 %. Measured is what banyan_perf measures: calls that follow
// each other, the mean over calls and ranks, here the median of several such means.
int compare_predictions(const Plan& plan);

// Bytes that all buffers of a host's ranks may take together, at the size of a point.
inline constexpr uint64_t kMostBytes = uint64_t{3} << 30;

// Starts the ranks and prints a line for each point and algorithm:
//   kind,ranks,medium,bytes,algorithm,us,hosts
// `hosts` is there on a network only: for each rank the lowest rank of its host, "0.0.2.2".
// The time is the mean over calls, of the slowest rank: see Trials of banyan_tune. Where pages lie,
// what ranks share a core and what a communicator has come to favours one algorithm over another as
// long as the processes live: compare medians of several runs. Points whose buffers would take more
// than kMostBytes are left out. The exit status of the program.
int measure(const Plan& plan);

}  // namespace banyan::choices
