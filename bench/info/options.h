// What the command line of banyan_info asks for.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <optional>
#include <string>

#include "algorithms/problem.h"
#include "banyan/status.h"

namespace banyan::info {

enum class Form { kText, kJson, kDot, kSvg };

// COLLECTIVE:ALGORITHM:RANKS[:RANK]
struct ScheduleRequest {
  Collective collective = Collective::kAllreduce;
  int algorithm = 0;  // index into algorithms()
  int ranks = 1;
  std::optional<int> rank;  // empty: all of them
};
// kInvalidArgument names the part that is wrong and the valid words.
Result<ScheduleRequest> parse_schedule_request(const std::string& text);

struct Options {
  Form form = Form::kText;
  bool environment = false;                 // --env
  std::optional<ScheduleRequest> schedule;  // --schedule
};

// Options, or what to say instead: help and version with status 0, else an error.
struct CommandLine {
  std::optional<Options> options;
  int status = 0;
  std::string text;
};
CommandLine parse_command_line(int argc, const char* const* argv);

}  // namespace banyan::info
