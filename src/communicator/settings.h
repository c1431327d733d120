// Configuration struct and environment, checked and merged.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "banyan/status.h"
#include "src/base/environment.h"
#include "src/communicator/membership.h"
#include "src/tuning/tuning_file.h"

namespace banyan {

// What the caller set; the defaults leave everything to the environment.
struct Wishes {
  std::string name;
  std::string transports;  // empty: BANYAN_TRANSPORTS
  double timeout_s = 0;    // 0: BANYAN_TIMEOUT
  double init_timeout_s = 0;
  int determinism = 0;
};

// Errors name the variable or field. The rank is for the log; -1 where it is not known yet.
Result<Settings> make_settings(const Wishes& wishes, const RawEnvironment& raw, int rank);

// The file of BANYAN_TUNE_FILE; an error names the variable. Nothing where it is not set.
Result<std::optional<TuningFile>> read_tuning(const Environment& values);

// Every value that a communicator of these variables is refused for, one status for each variable:
// errors of make_settings, detect_launch, read_tuning and ucx, all of them.
std::vector<Status> wrong_values(const RawEnvironment& raw);

// Warns of unknown variables, once per job: rank 0 of its first
// communicator does it.
void report_variables(const RawEnvironment& raw, const Settings& settings, int rank);

}  // namespace banyan
