// Knows the traffic patterns that banyan_perf measures: what each rank holds before and after, and
// how time becomes bandwidth.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "banyan/status.h"
#include "banyan/types.h"

namespace banyan::perf {

enum class Pattern : uint8_t {
  kAllreduce,
  kAllgather,
  kReduceScatter,
  kBroadcast,
  kReduce,
  kAlltoall,
  kGather,
  kScatter,
  kBarrier,
  kLatency,
  kBandwidth,
  kBothWays,
};
inline constexpr int kPatternCount = 12;
// Whoever has a root has this one.
inline constexpr int kRoot = 0;
// Messages in flight in the bandwidth patterns, as OSU.
inline constexpr int kWindow = 64;

std::string_view name_of(Pattern pattern);
std::span<const std::string_view> pattern_names();
Result<Pattern> parse_pattern(std::string_view text);
// Between ranks 0 and 1; any others look on.
bool is_pair(Pattern pattern);
bool is_reducing_pattern(Pattern pattern);
// Every rank ends with the same output.
bool is_replicated(Pattern pattern);

// Who and how much.
struct Case {
  Pattern pattern = Pattern::kAllreduce;
  int rank = 0;
  int size = 1;
  uint64_t count = 0;
  bool in_place = false;
};

// Tells the elements of the buffers of a rank, and where they lie. In place, both are in one buffer
// of `span` elements; otherwise each has its own and the offsets are 0. A length of 0: this rank
// has none.
struct Layout {
  uint64_t input = 0;
  uint64_t output = 0;
  bool one_buffer = false;
  uint64_t input_offset = 0;
  uint64_t output_offset = 0;
  uint64_t span = 0;
};
Layout layout_of(const Case& which);

// Where a run of output elements comes from.
struct Origin {
  uint64_t begin = 0;  // of the run, in the output
  uint64_t count = 0;
  bool reduced = false;  // over all ranks; otherwise moved from `rank`
  int rank = 0;
  uint64_t index = 0;  // of the first one in the inputs
};
std::vector<Origin> origins_of(const Case& which);

// As nccl-tests define them; GB/s of 10^9 bytes.
double algorithm_bandwidth(Pattern pattern, int ranks, uint64_t bytes, double microseconds);
double bus_factor(Pattern pattern, int ranks);

}  // namespace banyan::perf
