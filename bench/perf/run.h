// What one rank does from joining to leaving.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <string>

#include "bench/perf/options.h"
#include "bench/perf/report.h"
#include "bench/perf/team.h"

namespace banyan::perf {

struct Outcome {
  int status = 0;    // of the process
  std::string text;  // why it is not 0
};

// `place` is this rank's among those of its host. In a team, which has no other host, it is the
// rank; `team` is null where a launcher started the ranks. Where the report could not be opened
// this rank meets the others all the same, so that they end with it.
Outcome run_rank(const Options& options, Team* team, int place, Result<Report>& report);

}  // namespace banyan::perf
