// Tells which algorithm a call gets: the default table at its boundaries, and rules before it.
// SPDX-License-Identifier: Apache-2.0

#include "algorithms/choice/select.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

namespace banyan::select_test {
namespace {

constexpr uint64_t kKiB = 1024;
constexpr uint64_t kMiB = 1024 * kKiB;

std::string name(int algorithm) {
  return algorithm < 0 ? "none" : std::string(algorithms()[static_cast<size_t>(algorithm)].name);
}

// Makes a call of `bytes` bytes, a multiple of the element's size. The calls with a `v` give it all
// to the first rank but for what the others need to be there.
Problem asked(Collective collective, uint64_t bytes, int ranks, DataType type = DataType::kFloat32,
              ReduceOp op = ReduceOp::kSum) {
  Problem problem;
  problem.collective = collective;
  problem.type = type;
  problem.op = op;
  const uint64_t count = bytes / size_of(type);
  EXPECT_EQ(count * size_of(type), bytes);
  const bool lists = has_blocks_of_own_length(collective);
  if (!lists) {
    problem.count = count;
    return problem;
  }
  const auto size = static_cast<size_t>(ranks);
  problem.recv_counts.assign(size, 0);
  problem.recv_counts[0] = count;
  problem.recv_displacements.assign(size, count);
  problem.recv_displacements[0] = 0;
  if (collective == Collective::kAlltoallv) {
    problem.send_counts.assign(size, count / size);
    problem.send_counts[0] += count % size;
    problem.recv_counts = problem.send_counts;
    problem.send_displacements.assign(size, 0);
    for (size_t i = 1; i < size; ++i)
      problem.send_displacements[i] =
          problem.send_displacements[i - 1] + problem.send_counts[i - 1];
    problem.recv_displacements = problem.send_displacements;
  }
  return problem;
}

Rules rules(std::string_view text) {
  Result<Rules> parsed = parse_rules(text);
  EXPECT_TRUE(parsed.ok()) << text << ": " << parsed.status().message();
  return parsed.ok() ? *parsed : Rules();
}

std::string chosen(const Problem& problem, int ranks, std::string_view text = "",
                   Medium medium = Medium::kMemory) {
  return name(choose(problem, ranks, medium, rules(text)).algorithm);
}

TEST(SelectionBytes, CountTimesElementOrTheTotal) {
  EXPECT_EQ(selection_bytes(asked(Collective::kAllreduce, 20, 3)), 20U);
  EXPECT_EQ(selection_bytes(asked(Collective::kAlltoall, 6, 3, DataType::kBfloat16)), 6U);
  Problem problem;
  problem.type = DataType::kFloat16;
  problem.count = 1000;
  problem.recv_counts = {1, 2, 3};
  problem.send_counts = {10, 20, 30};
  for (const Collective collective : {Collective::kAllgatherv, Collective::kReduceScatterv}) {
    problem.collective = collective;
    EXPECT_EQ(selection_bytes(problem), 12U);
  }
  problem.collective = Collective::kAlltoallv;
  EXPECT_EQ(selection_bytes(problem), 120U);
}

TEST(SelectionBytes, EndsAtTheLargestNumber) {
  constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();
  Problem problem;
  problem.count = kMost / 2;
  EXPECT_EQ(selection_bytes(problem), kMost);
  problem.collective = Collective::kAllgatherv;
  problem.recv_counts = {kMost, 2};
  EXPECT_EQ(selection_bytes(problem), kMost);
  problem.type = DataType::kInt8;
  EXPECT_EQ(selection_bytes(problem), kMost);
}

struct Boundary {
  Collective collective;
  DataType type;
  int ranks;
  uint64_t size;  // the last with `upto`
  std::string_view upto;
  std::string_view above;
};

// What was measured is in the table of rows, and default_tables_test.py looks at that. These are of
// more ranks than were measured.
TEST(DefaultTable, Sizes) {
  using enum Collective;
  using enum DataType;
  const Boundary boundaries[] = {
      {kAllreduce, kFloat32, 3, 2 * kKiB, "direct", "recursive_doubling"},
      {kAllreduce, kBfloat16, 8, 2 * kKiB, "direct", "recursive_doubling"},
      {kAllreduce, kFloat32, 9, 2 * kKiB, "recursive_doubling", "recursive_doubling"},
      {kAllreduce, kFloat32, 3, 32 * kKiB, "recursive_doubling", "circulant"},
      {kAllreduce, kFloat32, 1000, 32 * kKiB, "recursive_doubling", "circulant"},
      {kAllreduce, kInt8, 4, 32 * kKiB, "recursive_doubling", "circulant"},
      {kAllreduce, kFloat8E4m3, 64, 8 * kKiB, "recursive_doubling", "direct"},
      {kReduceScatter, kFloat32, 4, 16 * kKiB, "direct", "circulant"},
      {kReduceScatter, kFloat32, 9, 4, "circulant", "circulant"},
      {kReduceScatter, kFloat16, 4, 4, "direct", "direct"},
      {kReduceScatterv, kFloat32, 4, 16 * kKiB, "direct", "circulant"},
      {kReduceScatterv, kFloat16, 4, 4, "direct", "direct"},
      {kAllgather, kFloat32, 4, 8 * kKiB, "direct", "circulant"},
      {kAllgather, kFloat32, 16, 2 * kKiB, "direct", "circulant"},
      {kAllgather, kFloat32, 17, 4, "circulant", "circulant"},
      {kAllgatherv, kFloat32, 4, 32 * kKiB, "direct", "circulant"},
      {kAllgatherv, kFloat32, 17, 32 * kKiB, "circulant", "circulant"},
      {kBroadcast, kFloat32, 3, 4 * kKiB, "direct", "binomial"},
      {kBroadcast, kFloat32, 8, 4 * kKiB, "direct", "binomial"},
      {kBroadcast, kFloat32, 9, 4 * kKiB, "binomial", "binomial"},
      {kBroadcast, kFloat32, 5, 16 * kKiB, "binomial", "circulant"},
      {kBroadcast, kInt8, 9, 8 * kMiB - 1, "circulant", "double_tree"},
      {kBroadcast, kInt8, 8, 8 * kMiB - 1, "circulant", "circulant"},
      {kReduce, kFloat32, 8, 4 * kKiB, "direct", "binomial"},
      {kReduce, kFloat32, 5, 16 * kKiB, "binomial", "circulant"},
      {kReduce, kBfloat16, 5, 16 * kKiB, "binomial", "direct"},
      {kAlltoall, kInt8, 17, 256, "bruck", "pairwise"},
      {kAlltoall, kInt8, 16, 4 * kKiB, "direct", "pairwise"},
      {kAlltoall, kInt8, 8, 32 * kKiB, "direct", "pairwise"},
      {kAlltoallv, kInt8, 9, 256, "pairwise", "pairwise"},
      {kGather, kFloat32, 5, 4 * kKiB, "binomial", "direct"},
      {kScatter, kFloat32, 5, 4 * kKiB, "binomial", "direct"},
      {kBarrier, kInt8, 8, 0, "direct", "direct"},
      {kBarrier, kInt8, 9, 0, "dissemination", "dissemination"},
      {kFinalize, kInt8, 9, 0, "dissemination", "dissemination"},
      {kSplit, kInt8, 5, 0, "direct", "direct"},
  };
  for (const Boundary& boundary : boundaries) {
    const auto of = [&](uint64_t bytes) {
      return chosen(asked(boundary.collective, bytes, boundary.ranks, boundary.type),
                    boundary.ranks);
    };
    SCOPED_TRACE(testing::Message() << name_of(boundary.collective) << ' ' << name_of(boundary.type)
                                    << ' ' << boundary.size << " ranks " << boundary.ranks);
    EXPECT_EQ(of(boundary.size), boundary.upto);
    EXPECT_EQ(of(boundary.size + size_of(boundary.type)), boundary.above);
  }
}

TEST(DefaultTable, SendsFewerMessagesOverANetwork) {
  using enum Collective;
  const auto of = [](Collective collective, uint64_t bytes, int ranks,
                     DataType type = DataType::kFloat32, std::string_view text = "") {
    return chosen(asked(collective, bytes, ranks, type), ranks, text, Medium::kNetwork);
  };
  EXPECT_EQ(of(kAllreduce, 4, 9), "recursive_doubling");
  EXPECT_EQ(of(kAllreduce, 16 * kKiB, 9), "recursive_doubling");
  EXPECT_EQ(of(kAllreduce, 16 * kKiB + 4, 9), "circulant");
  EXPECT_EQ(of(kAllreduce, 16 * kKiB, 9, DataType::kBfloat16), "direct");
  EXPECT_EQ(of(kAllgather, 4 * kKiB, 16), "bruck");
  EXPECT_EQ(of(kAllgather, 4 * kKiB + 4, 16), "circulant");
  EXPECT_EQ(of(kAllgather, 4, 16, DataType::kFloat32, "^bruck"), "direct");
  EXPECT_EQ(of(kBroadcast, 16 * kKiB, 9), "binomial");
  EXPECT_EQ(of(kBroadcast, 16 * kKiB + 4, 9), "circulant");
  EXPECT_EQ(of(kBroadcast, 512 * kKiB, 9), "circulant");
  EXPECT_EQ(of(kBroadcast, 512 * kKiB + 4, 9), "ring");
  EXPECT_EQ(of(kBroadcast, 64 * kMiB, 16), "ring");
  EXPECT_EQ(of(kBroadcast, 64 * kMiB, 17), "double_tree");
  EXPECT_EQ(of(kAlltoall, kKiB, 9), "bruck");
  EXPECT_EQ(of(kBarrier, 0, 9), "dissemination");
}

TEST(DefaultTable, KnowsMoreRanksThanWereMeasured) {
  using enum Collective;
  const auto of = [](Medium medium, Collective collective, uint64_t bytes, int ranks) {
    return chosen(asked(collective, bytes, ranks, DataType::kFloat32), ranks, "", medium);
  };
  EXPECT_EQ(of(Medium::kLoopback, kAllreduce, 4, 17), "recursive_doubling");
  EXPECT_EQ(of(Medium::kLoopback, kBroadcast, 256 * kKiB, 17), "circulant");
  EXPECT_EQ(of(Medium::kSharedCores, kAllreduce, 4, 9), "recursive_doubling");
  EXPECT_EQ(of(Medium::kSharedCores, kAllgather, 64 * kMiB, 9), "circulant");
  EXPECT_EQ(of(Medium::kSharedCores, kBroadcast, 64 * kMiB, 9), "binomial");
  EXPECT_EQ(of(Medium::kSharedCores, kReduce, 64 * kMiB, 64), "binomial");
  EXPECT_EQ(of(Medium::kSharedCores, kReduce, 64 * kMiB, 65), "circulant");
  EXPECT_EQ(of(Medium::kCrowdedCores, kAllreduce, 64 * kMiB, 8), "ring");
  EXPECT_EQ(of(Medium::kCrowdedCores, kAllreduce, 4, 257), "recursive_doubling");
  EXPECT_EQ(of(Medium::kCrowdedCores, kReduceScatter, 4, 257), "circulant");
}

TEST(DefaultTable, OnlySumsAndProductsOfNarrowFloatsAreNarrow) {
  for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kProd, ReduceOp::kAvg, ReduceOp::kPreMulSum})
    EXPECT_EQ(chosen(asked(Collective::kAllreduce, kMiB, 4, DataType::kBfloat16, op), 4), "direct");
  for (const ReduceOp op : {ReduceOp::kMax, ReduceOp::kMin})
    EXPECT_EQ(chosen(asked(Collective::kAllreduce, kMiB, 4, DataType::kBfloat16, op), 4),
              "circulant");
}

TEST(DefaultTable, AlwaysFindsOneThatFits) {
  for (int i = 0; i < kCollectiveCount; ++i) {
    const auto collective = static_cast<Collective>(i);
    if (collective == Collective::kSend || collective == Collective::kRecv) continue;
    for (const int ranks : {1, 2, 3, 8, 9, 16, 17, 1024}) {
      for (const uint64_t bytes : {uint64_t{0}, uint64_t{8}, 8 * kKiB, kMiB, 64 * kMiB}) {
        for (const DataType type : {DataType::kFloat32, DataType::kBfloat16, DataType::kInt64}) {
          const Choice choice =
              choose(asked(collective, bytes, ranks, type), ranks, Medium::kMemory, {});
          ASSERT_GE(choice.algorithm, 0);
          EXPECT_TRUE(algorithms()[static_cast<size_t>(choice.algorithm)].fits(collective));
          EXPECT_EQ(choice.rule, -1);
          EXPECT_EQ(choice.because, "default table");
        }
      }
    }
  }
}

TEST(DefaultTable, MessagesHaveNone) {
  EXPECT_EQ(chosen(asked(Collective::kSend, 4, 2), 2), "none");
  EXPECT_EQ(chosen(asked(Collective::kRecv, 4, 2), 2, "^ring;direct"), "none");
}

// Ranks that differ in what may differ must not choose differently.
TEST(DefaultTable, DoesNotLookAtWhatRanksMayDifferIn) {
  for (int i = 0; i < kCollectiveCount; ++i) {
    const auto collective = static_cast<Collective>(i);
    for (const uint64_t bytes : {uint64_t{240}, 8 * kKiB, kMiB}) {
      for (const std::string_view text :
           {"", "size=0-4K:direct,pairwise", "^direct", "^pairwise"}) {
        const Problem mine = asked(collective, bytes, 4);
        Problem theirs = mine;
        theirs.in_place = !mine.in_place;
        theirs.send_displacements.assign(4, 77);
        if (collective == Collective::kAlltoallv) {
          theirs.send_counts = {kMiB, 0, 1, 2};
          theirs.recv_counts = {0, 0, 0, 0};
        }
        EXPECT_EQ(chosen(mine, 4, text), chosen(theirs, 4, text))
            << name_of(collective) << ' ' << bytes << ' ' << text;
      }
    }
  }
}

// The least that an allreduce can send in total is 2(P - 1) vectors.
TEST(DefaultTable, LargeAllreduceMovesTheLeast) {
  for (const int ranks : {2, 3, 4, 7, 8, 16}) {
    const Problem problem = asked(Collective::kAllreduce, kMiB, ranks);
    const Choice choice = choose(problem, ranks, Medium::kMemory, {});
    uint64_t sent = 0;
    for (int rank = 0; rank < ranks; ++rank)
      sent += build_schedule(problem, Group::everyone(ranks, rank),
                             algorithms()[static_cast<size_t>(choice.algorithm)])
                  .bytes_sent();
    EXPECT_EQ(sent, 2 * (static_cast<uint64_t>(ranks) - 1) * kMiB) << ranks;
  }
}

TEST(Choose, RulesComeBeforeTheTable) {
  const Problem problem = asked(Collective::kAllreduce, kMiB, 4);
  const Choice choice =
      choose(problem, 4, Medium::kMemory, rules("barrier:direct;allreduce:double_tree;ring"));
  EXPECT_EQ(name(choice.algorithm), "double_tree");
  EXPECT_EQ(choice.rule, 1);
  EXPECT_EQ(choice.because, "BANYAN_ALGO rule 2");
}

TEST(Choose, RangesIncludeBothEnds) {
  const std::string_view text = "allreduce size=4K-8K ranks=3-5:ring";
  for (const auto& [bytes, ranks, expected] :
       std::vector<std::tuple<uint64_t, int, std::string>>{{4 * kKiB, 3, "ring"},
                                                           {8 * kKiB, 5, "ring"},
                                                           {4 * kKiB - 4, 3, "recursive_doubling"},
                                                           {8 * kKiB + 4, 5, "recursive_doubling"},
                                                           {4 * kKiB, 2, "recursive_doubling"},
                                                           {4 * kKiB, 6, "recursive_doubling"}})
    EXPECT_EQ(chosen(asked(Collective::kAllreduce, bytes, ranks), ranks, text), expected)
        << bytes << ' ' << ranks;
  EXPECT_EQ(chosen(asked(Collective::kReduceScatter, 4 * kKiB, 3), 3, text), "direct");
}

TEST(Choose, RulesThatDoNotFitArePassedOver) {
  const Problem barrier = asked(Collective::kBarrier, 0, 4);
  EXPECT_EQ(choose(barrier, 4, Medium::kMemory, rules("ring")).rule, -1);
  EXPECT_EQ(choose(barrier, 4, Medium::kMemory, rules("ring;direct")).rule, 1);
  EXPECT_EQ(chosen(barrier, 4, "ring,bruck,binomial,direct"), "binomial");
  EXPECT_EQ(choose(asked(Collective::kAllreduce, 4, 4), 4, Medium::kMemory, rules("ring")).rule, 0);
}

TEST(Choose, Excluding) {
  const Problem large = asked(Collective::kAllreduce, kMiB, 4);
  const Choice untouched = choose(large, 4, Medium::kMemory, rules("^ring,direct"));
  EXPECT_EQ(name(untouched.algorithm), "circulant");
  EXPECT_EQ(untouched.rule, 0);
  EXPECT_EQ(chosen(large, 4, "^circulant"), "ring");
  EXPECT_EQ(chosen(large, 4, "^circulant,ring"), "recursive_doubling");
  EXPECT_EQ(chosen(large, 4, "^circulant,ring,recursive_doubling"), "binomial");
  EXPECT_EQ(chosen(asked(Collective::kAllreduce, 4, 4), 4, "^direct"), "recursive_doubling");
  EXPECT_EQ(chosen(asked(Collective::kAllreduce, 4, 9), 9, "^recursive_doubling"), "circulant");
  EXPECT_EQ(chosen(asked(Collective::kAllreduce, kMiB, 4, DataType::kBfloat16), 4, "^direct"),
            "circulant");
  EXPECT_EQ(chosen(asked(Collective::kBroadcast, kMiB, 4), 4, "^circulant"), "double_tree");
  EXPECT_EQ(chosen(asked(Collective::kGather, kMiB, 4), 4, "^direct"), "binomial");
}

TEST(Choose, SizesDoNotApplyToAlltoallv) {
  const Problem problem = asked(Collective::kAlltoallv, 400, 4);
  EXPECT_EQ(choose(problem, 4, Medium::kMemory, rules("size=0-1G:direct")).rule, -1);
  EXPECT_EQ(chosen(problem, 4, "ranks=4-4:direct"), "direct");
}

}  // namespace
}  // namespace banyan::select_test
