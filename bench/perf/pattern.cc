// The traffic patterns, one switch for each question about them.
// SPDX-License-Identifier: Apache-2.0

#include "bench/perf/pattern.h"

#include <algorithm>
#include <array>

#include "src/base/parse.h"
#include "src/base/same_word.h"

namespace banyan::perf {

namespace {

constexpr std::array<std::string_view, kPatternCount> kNames = {
    "allreduce", "allgather", "reduce_scatter", "broadcast", "reduce", "alltoall",
    "gather",    "scatter",   "barrier",        "latency",   "bw",     "bibw"};

struct Lengths {
  uint64_t input;
  uint64_t output;
};

// In multiples of count.
Lengths lengths_of(Pattern pattern, int rank, int size) {
  const auto ranks = static_cast<uint64_t>(size);
  const bool at_root = rank == kRoot;
  switch (pattern) {
    case Pattern::kAllreduce: return {1, 1};
    case Pattern::kAllgather: return {1, ranks};
    case Pattern::kReduceScatter: return {ranks, 1};
    case Pattern::kBroadcast: return {at_root ? 1U : 0U, 1};
    case Pattern::kReduce: return {1, at_root ? 1U : 0U};
    case Pattern::kAlltoall: return {ranks, ranks};
    case Pattern::kGather: return {1, at_root ? ranks : 0};
    case Pattern::kScatter: return {at_root ? ranks : 0, 1};
    case Pattern::kBarrier: return {0, 0};
    case Pattern::kLatency:
    case Pattern::kBothWays: return rank < 2 ? Lengths{1, 1} : Lengths{0, 0};
    case Pattern::kBandwidth: return {rank == 0 ? 1U : 0U, rank == 1 ? 1U : 0U};
  }
  return {0, 0};
}

std::vector<Origin> blocks_of_all(const Case& which, uint64_t index) {
  std::vector<Origin> origins;
  for (int rank = 0; rank < which.size; ++rank)
    origins.push_back({.begin = static_cast<uint64_t>(rank) * which.count,
                       .count = which.count,
                       .reduced = false,
                       .rank = rank,
                       .index = index});
  return origins;
}

}  // namespace

std::string_view name_of(Pattern pattern) {
  return kNames[static_cast<size_t>(pattern)];
}

std::span<const std::string_view> pattern_names() {
  return kNames;
}

Result<Pattern> parse_pattern(std::string_view text) {
  const auto* found = std::find_if(kNames.begin(), kNames.end(),
                                   [&](std::string_view name) { return same_word(name, text); });
  if (found == kNames.end()) return unknown_word("COLLECTIVE", text, kNames);
  return static_cast<Pattern>(found - kNames.begin());
}

bool is_pair(Pattern pattern) {
  return pattern >= Pattern::kLatency;
}

bool is_reducing_pattern(Pattern pattern) {
  return pattern == Pattern::kAllreduce || pattern == Pattern::kReduceScatter ||
         pattern == Pattern::kReduce;
}

bool is_replicated(Pattern pattern) {
  return pattern == Pattern::kAllreduce || pattern == Pattern::kAllgather ||
         pattern == Pattern::kBroadcast;
}

Layout layout_of(const Case& which) {
  const auto [input, output] = lengths_of(which.pattern, which.rank, which.size);
  Layout layout{.input = input * which.count, .output = output * which.count};
  layout.span = std::max(layout.input, layout.output);
  // Where a rank has one side only, or sends and receives messages, there is nothing to share.
  if (!which.in_place || input == 0 || output == 0 || is_pair(which.pattern)) return layout;
  layout.one_buffer = true;
  const uint64_t mine = static_cast<uint64_t>(which.rank) * which.count;
  if (input < output) layout.input_offset = mine;
  if (input > output) layout.output_offset = mine;
  return layout;
}

std::vector<Origin> origins_of(const Case& which) {
  const uint64_t mine = static_cast<uint64_t>(which.rank) * which.count;
  const Lengths lengths = lengths_of(which.pattern, which.rank, which.size);
  if (lengths.output == 0 || which.count == 0) return {};
  const Origin whole{.begin = 0, .count = which.count};
  Origin only = whole;
  switch (which.pattern) {
    case Pattern::kAllreduce:
    case Pattern::kReduce: only.reduced = true; return {only};
    case Pattern::kReduceScatter:
      only.reduced = true;
      only.index = mine;
      return {only};
    case Pattern::kBroadcast: only.rank = kRoot; return {only};
    case Pattern::kScatter:
      only.rank = kRoot;
      only.index = mine;
      return {only};
    case Pattern::kAllgather:
    case Pattern::kGather: return blocks_of_all(which, 0);
    case Pattern::kAlltoall: return blocks_of_all(which, mine);
    case Pattern::kBarrier: return {};
    case Pattern::kLatency:
    case Pattern::kBandwidth:
    case Pattern::kBothWays: only.rank = 1 - which.rank; return {only};
  }
  return {};
}

double algorithm_bandwidth(Pattern pattern, int ranks, uint64_t bytes, double microseconds) {
  if (microseconds <= 0) return 0;
  double factor = 1;
  switch (pattern) {
    case Pattern::kAllgather:
    case Pattern::kReduceScatter:
    case Pattern::kAlltoall:
    case Pattern::kGather:
    case Pattern::kScatter: factor = ranks; break;
    case Pattern::kAllreduce:
    case Pattern::kBroadcast:
    case Pattern::kReduce:
    case Pattern::kBarrier:
    case Pattern::kLatency:
    case Pattern::kBandwidth:
    case Pattern::kBothWays: break;
  }
  return factor * static_cast<double>(bytes) / microseconds / 1000;
}

double bus_factor(Pattern pattern, int ranks) {
  const double others = static_cast<double>(ranks - 1) / ranks;
  switch (pattern) {
    case Pattern::kAllreduce: return 2 * others;
    case Pattern::kAllgather:
    case Pattern::kReduceScatter:
    case Pattern::kAlltoall:
    case Pattern::kGather:
    case Pattern::kScatter: return others;
    case Pattern::kBroadcast:
    case Pattern::kReduce:
    case Pattern::kBarrier:
    case Pattern::kLatency:
    case Pattern::kBandwidth: return 1;
    case Pattern::kBothWays: return 2;
  }
  return 1;
}

}  // namespace banyan::perf
