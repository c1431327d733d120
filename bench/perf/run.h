// What one rank does from joining to leaving.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <memory>
#include <string>

#include "bench/perf/job.h"
#include "bench/perf/options.h"
#include "bench/perf/report.h"
#include "bench/perf/team.h"
#include "src/base/environment.h"

namespace banyan::perf {

// A communicator of the team's ranks, by the id of rank 0; without a team, the launcher's.
// `invariant`: as for Job::join().
Result<std::unique_ptr<Job>> join_team(Team* team, int rank, bool invariant = false);

// This rank and its place among those of its host, under a launcher. kInvalidUsage: there is none.
struct Launched {
  int rank = 0;
  int place = 0;
  std::string launcher;
};
Result<Launched> find_launched(const RawEnvironment& raw);

struct Outcome {
  int status = 0;    // of the process
  std::string text;  // why it is not 0
};

// `place` is this rank's among those of its host. In a team, which has no other host, it is the
// rank; `team` is null where a launcher started the ranks. Where the report could not be opened
// this rank meets the others all the same, so that they end with it.
Outcome run_rank(const Options& options, Team* team, int place, Result<Report>& report);

}  // namespace banyan::perf
