// What the command line of banyan_tune asks for.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/perf/home.h"
#include "bench/perf/pattern.h"

namespace banyan::tune {

struct Options {
  int ranks = 0;  // 0: the launcher's
  double budget_s = 60;
  std::vector<perf::Pattern> collectives;  // each once
  perf::Home home = perf::Home::kHost;     // of the buffers: kHost or kDevice
  std::string output = "banyan_tune.json";
};

// Options, or what to say instead: help and version with status 0, else an error.
struct CommandLine {
  std::optional<Options> options;
  int status = 0;
  std::string text;
};
CommandLine parse_command_line(int argc, const char* const* argv);

}  // namespace banyan::tune
