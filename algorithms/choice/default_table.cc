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
constexpr int kMostCrowded = 256;  // ranks of a host that were measured

enum class Values { kAny, kNarrow };  // kNarrow: sums of types that are accumulated in a wider one

struct TableRow {
  Collective collective;
  Values values;
  uint64_t size_most;
  int ranks_least, ranks_most;
  std::string_view algorithm;
};

using enum Collective;
using enum Values;

// The first row that matches decides. A row behind one that always matches is for those who
// exclude the algorithm before it. Narrow sums go direct because there they travel in their own
// type; whoever passes on partial sums sends two or four times as many bytes.
// In columns.
// clang-format off
constexpr TableRow kTable[] = {
    // collective     values   bytes up to  ranks          algorithm
    {kAllreduce, kAny, 2 * kKiB, 3, 8, "direct"},
    {kAllreduce, kAny, 8 * kKiB, 0, kAnyRanks, "recursive_doubling"},
    {kAllreduce, kNarrow, kAnySize, 0, kAnyRanks, "direct"},
    {kAllreduce, kAny, 32 * kKiB, 0, kAnyRanks, "recursive_doubling"},
    {kAllreduce, kAny, 256 * kKiB, 0, 2, "recursive_doubling"},
    {kAllreduce, kAny, kAnySize, 0, kAnyRanks, "circulant"},
    {kAllreduce, kAny, kAnySize, 0, kAnyRanks, "ring"},

    {kReduceScatter, kNarrow, kAnySize, 0, kAnyRanks, "direct"},
    {kReduceScatter, kAny, 16 * kKiB, 3, 8, "direct"},  // bytes of one rank's result
    {kReduceScatter, kAny, kAnySize, 0, kAnyRanks, "circulant"},
    {kReduceScatter, kAny, kAnySize, 0, kAnyRanks, "ring"},

    {kAllgather, kAny, 8 * kKiB, 0, 2, "direct"},  // bytes of the whole result
    {kAllgather, kAny, 32 * kKiB, 0, 2, "circulant"},
    {kAllgather, kAny, kAnySize, 0, 2, "direct"},
    {kAllgather, kAny, 32 * kKiB, 3, 16, "direct"},
    {kAllgather, kAny, kAnySize, 0, kAnyRanks, "circulant"},
    {kAllgather, kAny, kAnySize, 0, kAnyRanks, "ring"},

    {kBroadcast, kAny, 2 * kMiB, 0, 2, "direct"},
    {kBroadcast, kAny, 4 * kKiB, 3, 8, "direct"},
    {kBroadcast, kAny, 16 * kKiB, 0, kAnyRanks, "binomial"},
    {kBroadcast, kAny, 8 * kMiB - 1, 0, kAnyRanks, "circulant"},
    {kBroadcast, kAny, kAnySize, 9, kAnyRanks, "double_tree"},
    {kBroadcast, kAny, kAnySize, 0, kAnyRanks, "circulant"},
    {kBroadcast, kAny, kAnySize, 0, kAnyRanks, "double_tree"},

    {kReduce, kAny, 4 * kKiB, 0, 8, "direct"},
    {kReduce, kAny, 16 * kKiB, 0, kAnyRanks, "binomial"},
    {kReduce, kNarrow, kAnySize, 0, kAnyRanks, "direct"},
    {kReduce, kAny, 256 * kKiB, 0, 2, "binomial"},
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

// Comes first where ranks share cores: what all of them do counts, not how long the longest chain
// is. So trees, in which a vector is copied P - 1 times, go before a scatter and an allgather.
constexpr TableRow kSharedTable[] = {
    {kAllreduce, kNarrow, kAnySize, 3, 4, "direct"},
    {kAllreduce, kAny, 4 * kKiB, 3, 3, "direct"},
    {kAllreduce, kAny, 128 * kKiB, 3, 3, "recursive_doubling"},
    {kAllreduce, kAny, 512, 4, 4, "direct"},
    {kAllreduce, kAny, 32 * kKiB, 4, 4, "recursive_doubling"},
    {kAllreduce, kAny, 64 * kKiB, 4, 4, "direct"},

    {kAllgather, kAny, kAnySize, 3, 8, "direct"},

    {kBroadcast, kAny, 4 * kKiB, 0, 8, "direct"},
    {kBroadcast, kAny, kAnySize, 3, 8, "direct"},
    {kBroadcast, kAny, kAnySize, 0, 64, "binomial"},

    {kReduce, kAny, 4 * kKiB, 0, 8, "direct"},
    {kReduce, kAny, 16 * kKiB, 0, kAnyRanks, "binomial"},
    {kReduce, kNarrow, kAnySize, 0, kAnyRanks, "direct"},
    {kReduce, kAny, kAnySize, 0, 64, "binomial"},
};

// This table comes first of all where three ranks and more share a core. With P ranks on C cores
// the hub's messages take 2 P, and what a rank waits for its turns 2 P / C; of recursive doubling
// both grow by log P. It was measured for more than 16 ranks with 32, 64, 128 and 256 on two cores.
constexpr TableRow kCrowdedTable[] = {
    {kAllreduce, kAny, 2 * kKiB, 3, 5, "direct"},
    {kAllreduce, kAny, 32 * kKiB, 0, kMostCrowded, "star"},
    {kAllreduce, kAny, 2 * kKiB, 8, 8, "direct"},
    {kAllreduce, kNarrow, kAnySize, 8, 8, "direct"},
    {kAllreduce, kAny, 32 * kKiB, 8, 8, "recursive_doubling"},
    {kAllreduce, kAny, 256 * kKiB, 8, 8, "circulant"},
    {kAllreduce, kAny, kAnySize, 8, 8, "ring"},

    {kReduceScatter, kNarrow, kAnySize, 0, kAnyRanks, "direct"},
    {kReduceScatter, kAny, 2 * kKiB, 7, 8, "circulant"},
    {kReduceScatter, kAny, 128 * kKiB, 7, 8, "direct"},

    {kAllgather, kAny, 4 * kKiB, 6, 8, "star"},
    {kAllgather, kAny, 32 * kKiB, 6, 8, "direct"},
    {kAllgather, kAny, 256 * kKiB, 6, 8, "circulant"},
    {kAllgather, kAny, 32 * kKiB, 9, 16, "star"},
    {kAllgather, kAny, 128 * kKiB, 17, kMostCrowded, "star"},

    {kBroadcast, kAny, 128 * kKiB, 6, 8, "star"},
    {kBroadcast, kAny, 256 * kKiB, 9, kMostCrowded, "star"},
    {kReduce, kAny, 16 * kKiB, 6, kMostCrowded, "star"},
    {kBarrier, kAny, kAnySize, 6, kMostCrowded, "star"},
};

// Comes first over a network, where a message costs as much as the copying of tens of kilobytes:
// few of them matter more than their length.
constexpr TableRow kNetworkTable[] = {
    {kAllreduce, kAny, kKiB, 3, 4, "star"},
    {kAllreduce, kAny, 8 * kKiB, 0, kAnyRanks, "recursive_doubling"},
    {kAllreduce, kNarrow, kAnySize, 0, kAnyRanks, "direct"},
    {kAllreduce, kAny, 512 * kKiB, 0, 2, "recursive_doubling"},
    {kAllreduce, kAny, 16 * kKiB, 0, kAnyRanks, "recursive_doubling"},
    {kAllreduce, kAny, kAnySize, 0, kAnyRanks, "circulant"},

    {kAllgather, kAny, 4 * kKiB, 3, 4, "star"},
    {kAllgather, kAny, 64 * kKiB, 3, kAnyRanks, "bruck"},
    {kBroadcast, kAny, 4 * kKiB, 3, 4, "star"},
    {kBroadcast, kAny, 4 * kKiB, 5, 8, "direct"},
    {kBroadcast, kAny, 8 * kKiB, 3, 5, "binomial"},
    {kBroadcast, kAny, kAnySize, 0, 2, "direct"},
    {kBroadcast, kAny, kAnySize, 3, 5, "ring"},
    {kBroadcast, kAny, 16 * kKiB, 6, kAnyRanks, "binomial"},
    {kBroadcast, kAny, 512 * kKiB, 6, kAnyRanks, "circulant"},
    {kBroadcast, kAny, kAnySize, 6, 16, "ring"},
    {kReduce, kAny, 8 * kKiB, 3, 4, "star"},
    {kAlltoall, kAny, kKiB, 3, kAnyRanks, "bruck"},
    {kBarrier, kAny, kAnySize, 3, 4, "star"},
};

// Comes before it over loopback, where few messages matter most: what all ranks do counts, as where
// they share cores.
constexpr TableRow kLoopbackTable[] = {
    {kAllreduce, kAny, 8 * kKiB, 3, 8, "star"},
    {kAllreduce, kNarrow, kAnySize, 3, 8, "direct"},
    {kAllreduce, kAny, 64 * kKiB, 3, 8, "star"},
    {kAllreduce, kAny, 128 * kKiB, 3, 4, "direct"},
    {kAllgather, kAny, 128 * kKiB, 0, 2, "bruck"},  // bytes of the whole result
    {kAllgather, kAny, 4 * kKiB, 3, 4, "star"},
    {kAllgather, kAny, 2 * kMiB, 3, 8, "bruck"},
    {kBroadcast, kAny, 256 * kKiB, 3, 8, "star"},
    {kBroadcast, kAny, kAnySize, 3, 8, "binomial"},
};

// This table comes first of all where several ranks of a host are on a network with others. It was
// measured on four hosts of two ranks, three of one to three and two of four; alltoall, gather and
// scatter on four of two, and two and three of four.
constexpr TableRow kHostsTable[] = {
    {kAllreduce, kAny, 16 * kKiB, 0, kAnyRanks, "leaders"},
    {kAllreduce, kAny, kAnySize, 0, kAnyRanks, "hierarchical"},
    {kReduceScatter, kAny, kAnySize, 0, kAnyRanks, "hierarchical"},
    {kAllgather, kAny, kKiB, 0, 8, "star"},  // bytes of the whole result
    {kAllgather, kAny, 8 * kKiB, 0, kAnyRanks, "bruck"},
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

// Comes before it where there are two hosts, whose leaders have one message each way: measured on
// 1 + 2, 2 + 2, 3 + 3 and 4 + 4 ranks.
constexpr TableRow kTwoHostsTable[] = {
    {kAllreduce, kAny, 32 * kKiB, 0, 8, "leaders"},
    {kReduceScatter, kAny, 64 * kKiB, 3, 3, "pairwise"},
    {kAllgather, kAny, 48 * kKiB, 3, 3, "bruck"},  // bytes of the whole result
    {kAllgather, kAny, kKiB, 4, 4, "star"},
    {kAllgather, kAny, 6 * kKiB, 4, 4, "direct"},
    {kAllgather, kAny, 4 * kKiB, 7, 8, "star"},
    {kAllgather, kAny, kAnySize, 7, 8, "hierarchical"},
    {kBroadcast, kAny, 32 * kKiB, 0, 8, "leaders"},
};
// clang-format on

std::vector<std::span<const TableRow>> tables_for(Medium medium, Placement placement) {
  switch (medium) {
    case Medium::kMemory: return {kTable};
    case Medium::kSharedCores: return {kSharedTable, kTable};
    case Medium::kCrowdedCores: return {kCrowdedTable, kSharedTable, kTable};
    case Medium::kLoopback: return {kLoopbackTable, kNetworkTable, kTable};
    case Medium::kNetwork: break;
  }
  switch (placement) {
    case Placement::kApart: return {kNetworkTable, kTable};
    case Placement::kInHosts: return {kHostsTable, kNetworkTable, kTable};
    case Placement::kInTwoHosts: return {kTwoHostsTable, kHostsTable, kNetworkTable, kTable};
  }
  return {kTable};
}

// What a table says of algorithms that are not in `excluded`; -1 if it has none.
int from_table(std::span<const TableRow> table, const Problem& problem, int ranks,
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
    if (fits(algorithm, problem.collective) && !contains(excluded, algorithm)) return algorithm;
  }
  return -1;
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

int from_default_table(const Problem& problem, int ranks, Medium medium, Placement placement,
                       const std::vector<int>& excluded) {
  for (const std::span<const TableRow> table : tables_for(medium, placement)) {
    const int found = from_table(table, problem, ranks, excluded);
    if (found >= 0) return found;
  }
  for (int i = 0; i < static_cast<int>(algorithms().size()); ++i)
    if (fits(i, problem.collective) && !contains(excluded, i)) return i;
  return -1;
}

}  // namespace banyan
