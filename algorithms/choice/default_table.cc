// SPDX-License-Identifier: Apache-2.0

#include "algorithms/choice/default_table.h"

#include <algorithm>
#include <limits>
#include <span>
#include <string_view>

#include "algorithms/algorithms.h"

namespace banyan {

namespace {

constexpr uint64_t kKiB = 1024;
constexpr uint64_t kMiB = 1024 * kKiB;
constexpr int kAnyRanks = std::numeric_limits<int>::max();
constexpr int kMostCrowded = 256;  // ranks of a host that were tried

enum class Values { kAny, kNarrow };  // kNarrow: sums of types that are accumulated in a wider one

struct TableRow {
  Collective collective;
  Values values;
  uint64_t size_most;
  int ranks_least, ranks_most;
  std::string_view algorithm;
  uint32_t segment = 0;  // Parameters::segment
};

using enum Collective;
using enum Values;

// The first row that matches decides. Sums of narrow types go direct in many of them because there
// they travel in their own type; whoever passes on partial sums sends two or four times as many
// bytes. Where ranks share cores, what all of them do counts, not how long the longest chain is. So
// trees, in which a vector is copied P - 1 times, go before a scatter and an allgather. Over a
// network a message costs as much as the copying of tens of kilobytes: few of them matter more than
// their length.
#include "algorithms/choice/measured_rows.inc"

// The tables below are typed, not measured. They hold where the measured ones have no row: for more
// ranks, for more cores than there were, and for those who exclude what a row says. An algorithm is
// there because its cost grows least with the number of ranks, or with the bytes.
// clang-format off
constexpr TableRow kAssumed[] = {
    // collective     values   bytes up to  ranks          algorithm
    {kAllreduce, kAny, 2 * kKiB, 3, 8, "direct"},
    {kAllreduce, kAny, 8 * kKiB, 0, kAnyRanks, "recursive_doubling"},
    {kAllreduce, kNarrow, kAnySize, 0, kAnyRanks, "direct"},
    {kAllreduce, kAny, 32 * kKiB, 0, kAnyRanks, "recursive_doubling"},
    {kAllreduce, kAny, kAnySize, 0, kAnyRanks, "circulant"},
    {kAllreduce, kAny, kAnySize, 0, kAnyRanks, "ring"},

    {kReduceScatter, kNarrow, kAnySize, 0, kAnyRanks, "direct"},
    {kReduceScatter, kAny, 16 * kKiB, 3, 8, "direct"},  // bytes of one rank's result
    {kReduceScatter, kAny, kAnySize, 0, kAnyRanks, "circulant"},
    {kReduceScatter, kAny, kAnySize, 0, kAnyRanks, "ring"},

    {kAllgather, kAny, 32 * kKiB, 3, 16, "direct"},  // bytes of the whole result
    {kAllgather, kAny, kAnySize, 0, kAnyRanks, "circulant"},
    {kAllgather, kAny, kAnySize, 0, kAnyRanks, "ring"},

    {kBroadcast, kAny, 4 * kKiB, 3, 8, "direct"},
    {kBroadcast, kAny, 16 * kKiB, 0, kAnyRanks, "binomial"},
    {kBroadcast, kAny, 8 * kMiB - 1, 0, kAnyRanks, "circulant"},
    {kBroadcast, kAny, kAnySize, 9, kAnyRanks, "double_tree"},
    {kBroadcast, kAny, kAnySize, 0, kAnyRanks, "circulant"},
    {kBroadcast, kAny, kAnySize, 0, kAnyRanks, "double_tree"},

    {kReduce, kAny, 4 * kKiB, 0, 8, "direct"},
    {kReduce, kAny, 16 * kKiB, 0, kAnyRanks, "binomial"},
    {kReduce, kNarrow, kAnySize, 0, kAnyRanks, "direct"},
    {kReduce, kAny, kAnySize, 0, kAnyRanks, "circulant"},
    {kReduce, kAny, kAnySize, 0, kAnyRanks, "double_tree"},

    {kAlltoall, kAny, 4 * kKiB, 0, 16, "direct"},
    {kAlltoall, kAny, 32 * kKiB, 3, 8, "direct"},
    {kAlltoall, kAny, 256, 0, kAnyRanks, "bruck"},
    {kAlltoall, kAny, kAnySize, 0, kAnyRanks, "pairwise"},
    {kAlltoallv, kAny, kAnySize, 0, kAnyRanks, "pairwise"},

    {kGather, kAny, 4 * kKiB, 0, kAnyRanks, "binomial"},
    {kGather, kAny, kAnySize, 0, kAnyRanks, "direct"},
    {kScatter, kAny, 4 * kKiB, 0, kAnyRanks, "binomial"},
    {kScatter, kAny, kAnySize, 0, kAnyRanks, "direct"},

    {kBarrier, kAny, kAnySize, 0, 8, "direct"},
    {kBarrier, kAny, kAnySize, 0, kAnyRanks, "dissemination"},
};

constexpr TableRow kAssumedShared[] = {
    {kBroadcast, kAny, kAnySize, 0, 64, "binomial"},
    {kReduce, kAny, 16 * kKiB, 0, kAnyRanks, "binomial"},
    {kReduce, kNarrow, kAnySize, 0, kAnyRanks, "direct"},
    {kReduce, kAny, kAnySize, 0, 64, "binomial"},
};

// Three ranks and more share a core, more than bench/select has measured. With P ranks on C cores the
// hub's messages take 2 P, and what a rank waits for its turns 2 P / C; of recursive doubling both
// grow by log P (docs/algorithms.md has figures of 32, 64 and 128 ranks on two cores).
constexpr TableRow kAssumedCrowded[] = {
    {kAllreduce, kAny, 32 * kKiB, 0, kMostCrowded, "star"},
    {kAllreduce, kAny, kAnySize, 0, 8, "ring"},
    {kAllgather, kAny, 128 * kKiB, 17, kMostCrowded, "star"},
    {kBroadcast, kAny, 256 * kKiB, 9, kMostCrowded, "star"},
    {kReduce, kAny, 16 * kKiB, 6, kMostCrowded, "star"},
    {kBarrier, kAny, kAnySize, 6, kMostCrowded, "star"},
};

constexpr TableRow kAssumedNetwork[] = {
    {kAllreduce, kAny, 8 * kKiB, 0, kAnyRanks, "recursive_doubling"},
    {kAllreduce, kNarrow, kAnySize, 0, kAnyRanks, "direct"},
    {kAllreduce, kAny, 16 * kKiB, 0, kAnyRanks, "recursive_doubling"},
    {kAllreduce, kAny, 2 * kMiB, 0, kAnyRanks, "circulant"},
    {kAllreduce, kAny, kAnySize, 3, 8, "ring", 512 * kKiB},  // docs/algorithms.md has figures
    {kAllreduce, kAny, kAnySize, 0, kAnyRanks, "circulant"},
    {kAllgather, kAny, 64 * kKiB, 3, kAnyRanks, "bruck"},
    {kBroadcast, kAny, 16 * kKiB, 6, kAnyRanks, "binomial"},
    {kBroadcast, kAny, 512 * kKiB, 6, kAnyRanks, "circulant"},
    {kBroadcast, kAny, kAnySize, 6, 16, "ring"},
    {kAlltoall, kAny, kKiB, 3, kAnyRanks, "bruck"},
};

constexpr TableRow kAssumedHosts[] = {
    {kAllreduce, kAny, 16 * kKiB, 0, kAnyRanks, "leaders"},
    {kAllreduce, kAny, kAnySize, 0, kAnyRanks, "hierarchical"},
    {kReduceScatter, kAny, kAnySize, 0, kAnyRanks, "hierarchical"},
    {kAllgather, kAny, 8 * kKiB, 0, kAnyRanks, "bruck"},  // bytes of the whole result
    {kAllgather, kAny, kAnySize, 0, kAnyRanks, "hierarchical"},
    {kBroadcast, kAny, 16 * kKiB, 0, kAnyRanks, "leaders"},
    {kBroadcast, kAny, kAnySize, 0, kAnyRanks, "hierarchical"},
    {kReduce, kAny, 8 * kKiB, 0, kAnyRanks, "leaders"},
    {kReduce, kAny, kAnySize, 0, kAnyRanks, "hierarchical"},
    {kAlltoall, kAny, 256, 9, kAnyRanks, "bruck"},
    {kAlltoall, kAny, 2 * kKiB, 9, kAnyRanks, "hierarchical"},
    {kGather, kAny, 2 * kKiB, 0, kAnyRanks, "leaders"},
    {kScatter, kAny, 8 * kKiB, 0, kAnyRanks, "leaders"},
    {kBarrier, kAny, kAnySize, 0, kAnyRanks, "leaders"},
};
// clang-format on

std::vector<std::span<const TableRow>> tables_for(Medium medium, Placement placement) {
  switch (medium) {
    case Medium::kMemory: return {kMemoryRows, kAssumed};
    case Medium::kSharedCores: return {kSharedRows, kAssumedShared, kAssumed};
    case Medium::kCrowdedCores: return {kCrowdedRows, kAssumedCrowded, kAssumedShared, kAssumed};
    case Medium::kLoopback: return {kLoopbackRows, kAssumedNetwork, kAssumed};
    case Medium::kNetwork: break;
  }
  switch (placement) {
    case Placement::kApart: return {kNetworkRows, kAssumedNetwork, kAssumed};
    case Placement::kInHosts: return {kHostsRows, kAssumedHosts, kAssumedNetwork, kAssumed};
    case Placement::kInTwoHosts: return {kTwoHostsRows, kAssumedHosts, kAssumedNetwork, kAssumed};
  }
  return {kAssumed};
}

// What a table says of algorithms that are not in `excluded`; -1 if it has none.
TableChoice from_table(std::span<const TableRow> table, const Problem& problem, int ranks,
                       const std::vector<int>& excluded) {
  const Collective heading = heading_of(problem.collective);
  const bool narrow = problem.accumulator() != problem.type;
  uint64_t bytes = selection_bytes(problem);
  const auto blocks = static_cast<uint64_t>(ranks);
  if (problem.collective == kAllgather)
    bytes = bytes > kAnySize / blocks ? kAnySize : bytes * blocks;
  for (const TableRow& row : table) {
    if (row.collective != heading || (row.values == kNarrow && !narrow)) continue;
    if (bytes > row.size_most || ranks < row.ranks_least || ranks > row.ranks_most) continue;
    const int algorithm = find_algorithm(row.algorithm);
    if (fits(algorithm, problem.collective) && !contains(excluded, algorithm))
      return {algorithm, {.segment = row.segment}};
  }
  return {};
}

}  // namespace

bool contains(const std::vector<int>& algorithms, int algorithm) {
  return std::find(algorithms.begin(), algorithms.end(), algorithm) != algorithms.end();
}

Collective heading_of(Collective collective) {
  switch (collective) {
    case kAllgatherv: return kAllgather;
    case kReduceScatterv: return kReduceScatter;
    case kFinalize:
    case kSplit: return kBarrier;
    case kAllreduce:
    case kReduce:
    case kBroadcast:
    case kAllgather:
    case kReduceScatter:
    case kAlltoall:
    case kAlltoallv:
    case kGather:
    case kScatter:
    case kBarrier:
    case kSend:
    case kRecv: return collective;
  }
  return collective;
}

TableChoice from_default_table(const Problem& problem, int ranks, Medium medium,
                               Placement placement, const std::vector<int>& excluded) {
  for (const std::span<const TableRow> table : tables_for(medium, placement)) {
    const TableChoice found = from_table(table, problem, ranks, excluded);
    if (found.algorithm >= 0) return found;
  }
  for (int i = 0; i < static_cast<int>(algorithms().size()); ++i)
    if (fits(i, problem.collective) && !contains(excluded, i)) return {i, {}};
  return {};
}

}  // namespace banyan
