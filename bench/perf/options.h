// What the command line of banyan_perf asks for.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "banyan/status.h"
#include "banyan/types.h"
#include "bench/perf/home.h"
#include "bench/perf/pattern.h"

namespace banyan::perf {

// That it starts on this machine.
inline constexpr int kMostLocalRanks = 1024;

struct Options {
  Pattern pattern = Pattern::kAllreduce;
  int ranks = 0;  // 0: the launcher's
  uint64_t least_bytes = 4;
  uint64_t most_bytes = uint64_t{64} << 20;
  std::optional<uint64_t> iterations;  // empty: by size, as OSU
  std::optional<uint64_t> warm_up;
  int rounds = 1;
  DataType type = DataType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  bool check = false;
  bool full = false;   // -f
  bool tails = false;  // -z
  bool in_place = false;
  Home home = Home::kHost;  // of buffers: --shared, -d
  bool fresh = false;
  bool bind = false;
  bool invariant = false;  // --determinism
  std::string algorithm;   // empty: as BANYAN_ALGO has it
  std::string transports;  // empty: as BANYAN_TRANSPORTS has it
  std::string compress;    // empty: as BANYAN_COMPRESS has it
  std::string csv;         // a file, "-": stdout, empty: none
  std::string json;

  // What has an effect on this pattern.
  bool runs_in_place() const {
    return in_place && !is_pair(pattern) && pattern != Pattern::kBarrier;
  }
  bool validates() const { return check && pattern != Pattern::kBarrier; }
  bool quiet() const { return csv == "-" || json == "-"; }
};

// Options, or what to say instead of running: help and version with status 0, else an error.
struct CommandLine {
  std::optional<Options> options;
  int status = 0;
  std::string text;
};
CommandLine parse_command_line(int argc, const char* const* argv);

struct Size {
  uint64_t count = 0;  // elements, as the C call has it
  uint64_t bytes = 0;
};
// Doubling, whole elements, at least one, none twice. A barrier has one size, 0.
std::vector<Size> sizes_of(const Options& options);

// As OSU: more for small messages.
uint64_t iterations_at(const Options& options, uint64_t bytes);
uint64_t warm_up_at(const Options& options, uint64_t bytes);

}  // namespace banyan::perf
