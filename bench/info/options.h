// What the command line of banyan_info asks for.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <optional>
#include <string>

#include "algorithms/problem.h"
#include "banyan/status.h"

namespace banyan::info {

enum class Form { kText, kJson, kDot, kSvg, kNccl };

// Holds COLLECTIVE:ALGORITHM:RANKS[:RANK], where RANKS may say how they lie on hosts: 4x2 (four
// hosts of two), 1+2+3.
struct ScheduleRequest {
  Collective collective = Collective::kAllreduce;
  int algorithm = 0;  // index into algorithms()
  Parameters parameters{};
  int ranks = 1;
  Hierarchy hierarchy;
  std::optional<int> rank;  // empty: all of them
};
// kInvalidArgument names the part that is wrong and the valid words.
Result<ScheduleRequest> parse_schedule_request(const std::string& text);

// COLLECTIVE:SIZE[:TYPE]; "barrier" needs no size.
struct ExplainRequest {
  std::string text;
  Collective collective = Collective::kAllreduce;
  DataType type = DataType::kFloat32;
  uint64_t bytes = 0;  // of the call's count, whole elements
};
// kInvalidArgument names the part that is wrong and what would be right.
Result<ExplainRequest> parse_explain_request(const std::string& text);

struct Options {
  Form form = Form::kText;
  bool topology = false;                    // --topo
  std::string from;                         // --from: a file; empty: this host
  int nodes = 1;                            // --nodes: that many of it
  bool environment = false;                 // --env
  bool doctor = false;                      // --doctor
  std::optional<ScheduleRequest> schedule;  // --schedule
  std::optional<ExplainRequest> explain;    // --explain
  int ranks_per_node = 0;                   // --ranks-per-node; 0: one for each GPU, else core
  std::optional<Compression> compression;   // --compress; nothing: as BANYAN_COMPRESS
};

// Options, or what to say instead: help and version with status 0, else an error.
struct CommandLine {
  std::optional<Options> options;
  int status = 0;
  std::string text;
};
CommandLine parse_command_line(int argc, const char* const* argv);

}  // namespace banyan::info
