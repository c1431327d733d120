// Sums that are invariant are taken in the order of ranks, in one schedule for all hierarchies,
// whatever anybody names. The verifier finds those that are not.
// SPDX-License-Identifier: Apache-2.0

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "algorithms/choice/compression.h"
#include "algorithms/choice/decision_table.h"
#include "algorithms/choice/explain.h"
#include "algorithms/choice/select.h"
#include "algorithms/print.h"
#include "algorithms/verify/verify.h"
#include "tests/algorithms/verified_case.h"
#include "tests/support/toy_codec.h"

namespace banyan::invariant_test {
namespace {

using test::kToy;
using test::kToyWhole;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr Collective kCollectives[] = {Collective::kAllreduce, Collective::kReduce,
                                       Collective::kReduceScatter, Collective::kReduceScatterv};
constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kProd, ReduceOp::kAvg, ReduceOp::kPreMulSum};
constexpr DataType kFloats[] = {DataType::kFloat16,  DataType::kFloat32,    DataType::kFloat64,
                                DataType::kBfloat16, DataType::kFloat8E4m3, DataType::kFloat8E5m2};
constexpr Compression kByToy{.intra = kToyWhole, .inter = kToy, .alone = kToy, .least_bytes = 0};

// Where a call is made, beside what it is.
struct Site {
  int ranks = 1;
  Medium medium = Medium::kMemory;
  Rules rules{};
  const Hierarchy* hierarchy = nullptr;
};

Problem invariant(Collective collective, DataType type, ReduceOp op, uint64_t count, int ranks) {
  Problem problem = equal_blocks(collective, type, count, ranks);
  if (collective == Collective::kReduceScatterv)
    problem =
        problem_of({.collective = collective, .ranks = ranks, .count = count, .type = type}, 0);
  problem.op = op;
  problem.invariant = true;
  return problem;
}

// As a communicator chooses.
Choice choice_of(const Problem& problem, const Site& site) {
  return encoded(choose(problem, site.ranks, site.medium, site.rules, site.hierarchy),
                 codecs_for(problem, site.ranks, site.medium, site.hierarchy), problem.collective,
                 site.hierarchy);
}

Schedule schedule_of(const Problem& problem, const Site& site, int rank) {
  const Choice choice = choice_of(problem, site);
  Group group = Group::everyone(site.ranks, rank, site.hierarchy, choice.parameters);
  group.codecs = test::toy_codecs();
  return build_schedule(problem, group, algorithms()[static_cast<size_t>(choice.algorithm)]);
}

std::string fault_of(const Problem& problem, const Site& site) {
  std::vector<Schedule> schedules;
  std::vector<Problem> problems(static_cast<size_t>(site.ranks), problem);
  for (int rank = 0; rank < site.ranks; ++rank) {
    Problem& own = problems[static_cast<size_t>(rank)];
    own.in_place = problem.in_place && (!has_root(problem.collective) || rank == problem.root);
    schedules.push_back(schedule_of(own, site, rank));
  }
  return verify(schedules, problems, {.seed = 7}).reason;
}

// Below and above the length at which everybody sums all.
std::vector<uint64_t> counts_of(int ranks) {
  const auto size = static_cast<uint64_t>(ranks);
  return {0, 1, size - 1, size, size + 1, 37, 4099};
}

template <typename TryIt>
void for_each_problem(int ranks, TryIt try_it) {
  for (const Collective collective : kCollectives)
    for (const DataType type : kFloats)
      for (const ReduceOp op : kOps)
        for (const uint64_t count : counts_of(ranks))
          try_it(invariant(collective, type, op, count, ranks));
}

TEST(Invariant, SumsAreInTheOrderOfRanks) {
  int turn = 0;
  for (int ranks = 1; ranks <= 9; ++ranks)
    for_each_problem(ranks, [&](Problem problem) {
      const bool by_codec = ++turn % 2 == 0;
      if (by_codec) problem.compression = kByToy;
      problem.in_place = turn % 3 == 0;
      problem.root = problem.collective == Collective::kReduce ? turn % ranks : 0;
      EXPECT_EQ(fault_of(problem, {.ranks = ranks}), "")
          << name_of(problem.collective) << " of " << problem.count << ' ' << name_of(problem.type)
          << ' ' << name_of(problem.op) << " P=" << ranks << (by_codec ? " by a codec" : "");
    });
}

// What is not shown symbolically: that no bit depends on where the hosts are, or on who names what.
TEST(Invariant, OneScheduleServesAllHierarchiesAndRules) {
  std::vector<Rules> all{{}};
  for (const Algorithm& each : algorithms()) all.push_back(*parse_rules(each.name));
  all.push_back(*parse_rules("^direct"));
  int turn = 0;
  for (const int ranks : {4, 9})
    for_each_problem(ranks, [&](Problem problem) {
      const Compression within{.intra = kToy, .inter = kNoCodec, .alone = kToy};
      const Compression between{.inter = kToy};
      problem.compression = std::vector{Compression(), kByToy, within, between}[++turn % 4U];
      problem.compression.least_bytes = 0;
      const std::string flat = to_text(schedule_of(problem, {.ranks = ranks}, ranks - 1), 0);
      for (const Shape& shape : shapes_of(ranks)) {
        const Hierarchy simple = shape.hierarchy.simplified();
        const Site site{.ranks = ranks,
                        .medium = turn % 3 == 0 ? Medium::kSharedCores : Medium::kNetwork,
                        .rules = all[static_cast<size_t>(turn) % all.size()],
                        .hierarchy = &simple};
        EXPECT_EQ(to_text(schedule_of(problem, site, ranks - 1), 0), flat) << shape.name;
        EXPECT_EQ(choice_of(problem, site).because, "invariant sums");
      }
    });
}

TEST(Invariant, OnlyACodecOfAllPlacesIsTaken) {
  const Shape hosts = shape_of("twos", {0, 0, 1, 1});
  const auto codec = [&](const Compression& accepted, const Hierarchy* hierarchy) {
    Problem problem =
        invariant(Collective::kAllreduce, DataType::kFloat32, ReduceOp::kSum, 5000, 4);
    problem.compression = accepted;
    const Parameters codecs = codecs_for(problem, 4, Medium::kMemory, hierarchy);
    EXPECT_EQ(codecs.intra_codec.codec, kNoCodec);
    return codecs.inter_codec.codec;
  };
  for (const Hierarchy* hierarchy : {&hosts.hierarchy, static_cast<const Hierarchy*>(nullptr)}) {
    EXPECT_EQ(codec({.inter = {kToy}, .alone = {kToy}}, hierarchy), kToy);
    EXPECT_EQ(codec({.intra = {kToy}, .inter = {kToy}, .alone = {kToy}}, hierarchy), kToy);
    EXPECT_EQ(codec({.inter = {kToy}}, hierarchy), kNoCodec) << "on one host that is exact";
    EXPECT_EQ(codec({.intra = {kToy}, .alone = {kToy}}, hierarchy), kNoCodec)
        << "between two it is";
  }
}

TEST(Invariant, AllElseGoesOnAsBefore) {
  const auto same = [](Problem problem) {
    const Rules rules = *parse_rules("ring");
    const Choice one = choose(problem, 4, Medium::kMemory, rules);
    problem.invariant = false;
    const Choice other = choose(problem, 4, Medium::kMemory, rules);
    return one.algorithm == other.algorithm && one.because == other.because;
  };
  const auto sum = [](DataType type, ReduceOp op) {
    return invariant(Collective::kAllreduce, type, op, 5000, 4);
  };
  EXPECT_FALSE(same(sum(DataType::kFloat32, ReduceOp::kSum)));
  EXPECT_FALSE(same(sum(DataType::kFloat8E5m2, ReduceOp::kProd)));
  EXPECT_TRUE(same(sum(DataType::kInt64, ReduceOp::kSum)));
  EXPECT_TRUE(same(sum(DataType::kFloat32, ReduceOp::kMax)));
  for (const Collective collective : {Collective::kBroadcast, Collective::kAllgather,
                                      Collective::kAlltoall, Collective::kBarrier})
    EXPECT_TRUE(same(invariant(collective, DataType::kFloat32, ReduceOp::kSum, 5000, 4)))
        << name_of(collective);
}

TEST(Invariant, AnotherOrderIsFound) {
  for (const std::string_view name : {"ring", "recursive_doubling", "circulant", "pairwise"}) {
    VerifiedCase call{.algorithm = find_algorithm(name), .ranks = 4, .count = 4099};
    BuiltCase built = build_case(call);
    EXPECT_EQ(verify(built.schedules, built.problems, {}).reason, "");
    for (Problem& problem : built.problems) problem.invariant = true;
    EXPECT_THAT(verify(built.schedules, built.problems, {}).reason,
                HasSubstr("not summed in the order of ranks"))
        << name;
  }
}

// A sum of host sums, though these follow each other in the order of ranks; and sums that are
// rounded host by host.
TEST(Invariant, SumsOfHostsAreFound) {
  VerifiedCase call{.algorithm = find_algorithm("hierarchical"), .ranks = 4, .count = 4099};
  call.shape = std::make_shared<Shape>(shape_of("twos", {0, 0, 1, 1}));
  call.codecs = test::toy_codecs();
  for (const CodecId codec : {kNoCodec, kToy}) {
    call.parameters.inter_codec.codec = codec;
    BuiltCase built = build_case(call);
    for (Problem& problem : built.problems) problem.invariant = true;
    EXPECT_THAT(verify(built.schedules, built.problems, {}).reason,
                HasSubstr("not summed in the order of ranks"));
  }
}

TEST(Invariant, IsExplained) {
  const Problem problem =
      invariant(Collective::kAllreduce, DataType::kFloat32, ReduceOp::kSum, 1 << 20, 4);
  const Explanation explained =
      explain({.problem = problem, .ranks = 4, .rules = *parse_rules("ring")});
  EXPECT_EQ(explained.chosen, find_algorithm("direct"));
  EXPECT_EQ(explained.algorithms.front().why, "what a call gets, by the invariant sums");
  for (const ExplainedAlgorithm& each : explained.algorithms)
    if (each.algorithm == find_algorithm("ring")) {
      EXPECT_EQ(each.why, "invariant sums are direct");
    }
  const auto lines =
      decision_lines(4, Medium::kMemory, *parse_rules("ring"), nullptr, nullptr, true);
  EXPECT_THAT(lines, Contains("allreduce: direct, by the invariant sums"));
  EXPECT_THAT(lines, Contains(AllOf(StartsWith("broadcast: ring"), HasSubstr("rule 1"))));
}

}  // namespace
}  // namespace banyan::invariant_test
