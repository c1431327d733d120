// What banyan_info prints.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <span>
#include <string>
#include <vector>

#include "algorithms/schedule.h"
#include "bench/info/options.h"
#include "bench/machine.h"
#include "src/base/environment.h"
#include "src/c_api/inspect.h"

namespace banyan::info {

struct Build {
  std::string version;
  std::string compiler;
  std::string features;  // "UCX 1.13.1, PMIx"
};

// Version, build, transports and machine.
std::string show_build(const Build& build, const std::vector<TransportState>& transports,
                       const Machine& machine);
std::string show_build_json(const Build& build, const std::vector<TransportState>& transports,
                            const Machine& machine);

// Every variable; a secret is shown as set, never as it is.
std::string show_environment(const RawEnvironment& raw);
std::string show_environment_json(const RawEnvironment& raw);
// A line for each variable that is unknown, without effect, or has a value that the library would
// refuse at its start.
std::string show_wrong_variables(const RawEnvironment& raw);

// A schedule is asked for without a size: this many elements of float32.
Problem problem_of(const ScheduleRequest& request);
std::vector<int> ranks_of(const ScheduleRequest& request);
Schedule schedule_of(const ScheduleRequest& request, int rank);
// "# allreduce, ring, 5 ranks: float32 sum, count 80 (320 bytes)", then the steps of each rank.
std::string schedule_header(const ScheduleRequest& request);
// An object without an end, the ranks' objects, and the end.
std::string schedule_json_begin(const ScheduleRequest& request);
std::string schedule_json(const Schedule& schedule, int rank);
std::string schedule_json_end();

}  // namespace banyan::info
