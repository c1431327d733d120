// What banyan_info prints.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/choice/explain.h"
#include "algorithms/schedule.h"
#include "bench/info/described.h"
#include "bench/info/doctor/doctor.h"
#include "bench/info/options.h"
#include "bench/machine.h"
#include "src/base/environment.h"
#include "src/c_api/inspect.h"
#include "topology/notes.h"
#include "topology/topology.h"

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

// What a variable says, for people; a secret is shown as set, never as it is.
struct ShownVariable {
  std::string value;
  std::string_view source;  // "default", "environment", or "file": the tuning file
};
ShownVariable shown_variable(const Variable& variable, const RawEnvironment& raw);

// Every variable.
std::string show_environment(const RawEnvironment& raw);
std::string show_environment_json(const RawEnvironment& raw);
// Writes a line for each variable that is unknown or has a value that the library would refuse at
// its start.
std::string show_wrong_variables(const RawEnvironment& raw);

// Gives the machine or cluster that was asked for, so many times: that of --from, else of
// BANYAN_TOPO_FILE, else this one (below BANYAN_SYSROOT). Errors are one line that names the file;
// `notes`, where given, gets what else is to be said of it.
Result<Topology> topology_of(const Options& options, const RawEnvironment& raw,
                             Notes* notes = nullptr);
// Gives what jobs with these variables use of a cluster: BANYAN_NET_DEVICES may leave out NICs.
// `notes`, where given, gets what is to be said of its levels.
Topology used_of(const Topology& topology, const RawEnvironment& raw, Notes* notes = nullptr);
// kInvalidArgument: NCCL's form cannot say it.
Result<std::string> show_topology(const Topology& topology, Form form);

// Holds what --explain says. explain_call() reads BANYAN_ALGO from the environment that it is
// given. Errors are one line, and notes are topology_of()'s.
struct Explained {
  ExplainRequest request;
  CallSite call{};  // as the ranks there would know it
  std::vector<ShownFigure> figures{};
  std::string note{};  // what is to be known of them, or nothing
  Explanation explanation{};
};
Result<Explained> explain_call(const Options& options, const RawEnvironment& raw,
                               Notes* notes = nullptr);
std::string show_explanation(const Explained& explained);
std::string show_explanation_json(const Explained& explained);

// Tells what is the matter with this host, or with the one below BANYAN_SYSROOT, of which a process
// says nothing. kInvalidArgument: that is no folder.
Result<Diagnosis> diagnose_host(const RawEnvironment& raw,
                                const std::vector<TransportState>& transports);
std::string show_diagnosis(const Diagnosis& diagnosis);
std::string show_diagnosis_json(const Diagnosis& diagnosis);

// A schedule is asked for without a size: this many elements of float32.
Problem problem_of(const ScheduleRequest& request);
std::vector<int> ranks_of(const ScheduleRequest& request);
Schedule schedule_of(const ScheduleRequest& request, int rank);
// "allreduce, ring, 5 ranks: float32 sum, count 80 (320 bytes)".
std::string schedule_title(const ScheduleRequest& request);
// "# " and the title, then come the steps of each rank.
std::string schedule_header(const ScheduleRequest& request);
// An object without an end, the ranks' objects, and the end.
std::string schedule_json_begin(const ScheduleRequest& request);
std::string schedule_json(const Schedule& schedule, int rank);
std::string schedule_json_end();

}  // namespace banyan::info
