// Configuration struct and environment, checked and merged.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/choice/compression.h"
#include "algorithms/choice/measured_choice.h"
#include "algorithms/choice/select.h"
#include "banyan/status.h"
#include "src/base/environment.h"
#include "src/base/log.h"
#include "src/tuning/shared_tuning.h"
#include "src/tuning/tuning_file.h"
#include "topology/hierarchy.h"

namespace banyan {

// What a communicator is made with: configuration and environment, checked.
struct Settings {
  // hold_closed_streams(); owners: communicators, and calls that make one. First in, last out.
  std::shared_ptr<void> streams;
  std::string name;  // of the communicator; empty until it has its number
  double timeout_s = 30;
  std::string_view timeout_from = "BANYAN_TIMEOUT";  // a literal
  double init_timeout_s = 60;
  bool invariant = false;  // sums have the same bits wherever the ranks lie
  Rules rules;             // BANYAN_ALGO, then the tuning table once the ranks have met
  bool explain = false;    // BANYAN_ALGO asks for what calls get
  // The tuning file, as rank 0 or the parent of a split has it; nothing: not known.
  std::optional<SharedTuning> tuning;
  // The network under the ranks once they have met, where its links were measured.
  std::optional<MeasuredNetwork> measured;
  // What calls go by that do not ask for something else: the configuration's, or BANYAN_COMPRESS.
  Compression compression;
  bool has_ceiling = false;             // calls may lose no more than that
  bool all_know_gpus = false;           // each rank's process had loaded a CUDA driver
  std::vector<int> transports;          // indices into transport_kinds(), preferred first
  std::vector<Hierarchy::Level> tiers;  // how ranks lie above their hosts, where that is known
  Environment environment;
  Log log;

  // What calls by codecs took in a job like this one.
  std::span<const CodecTime> codec_times() const {
    return tuning ? std::span<const CodecTime>(tuning->codec_times) : std::span<const CodecTime>();
  }
};

// What the caller set; the defaults leave everything to the environment.
struct Wishes {
  std::string name;
  std::string transports;  // empty: BANYAN_TRANSPORTS
  double timeout_s = 0;    // 0: BANYAN_TIMEOUT
  double init_timeout_s = 0;
  bool invariant = false;
  std::optional<Compression> compression{};  // nothing: BANYAN_COMPRESS
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
