// What crosses between hosts, and who carries it: the least that can, by all ranks, each byte once.
// SPDX-License-Identifier: Apache-2.0

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "algorithms/lengths.h"
#include "tests/algorithms/verified_case.h"

namespace banyan::hierarchical_test {
namespace {

constexpr uint64_t kMiB = 1 << 20;

int algorithm_of(std::string_view name) {
  return find_algorithm(name);
}

// Counts for each rank bytes and messages that leave its part of a level.
struct Crossing {
  uint64_t bytes = 0;
  int messages = 0;
};

std::vector<Crossing> crossings(const BuiltCase& built, const Hierarchy& hierarchy, int level = 0) {
  std::vector<Crossing> all;
  for (size_t rank = 0; rank < built.schedules.size(); ++rank) {
    Crossing& crossing = all.emplace_back();
    for (const Step& step : built.schedules[rank].steps) {
      if (step.op != Op::kSend ||
          hierarchy.part_of(level, step.peer) == hierarchy.part_of(level, static_cast<int>(rank)))
        continue;
      crossing.bytes += step.src.size;
      ++crossing.messages;
    }
  }
  return all;
}

uint64_t bytes_of_part(const std::vector<Crossing>& all, const Hierarchy& hierarchy, int part,
                       int level = 0) {
  uint64_t sum = 0;
  for (const int place : hierarchy.members(level, part))
    sum += all[static_cast<size_t>(place)].bytes;
  return sum;
}

VerifiedCase call_on(const Shape& shape, std::string_view algorithm, uint64_t bytes,
                     DataType type = DataType::kFloat32) {
  VerifiedCase call{.collective = Collective::kAllreduce,
                    .algorithm = algorithm_of(algorithm),
                    .ranks = shape.hierarchy.places(),
                    .count = bytes / size_of(type)};
  call.type = type;
  call.shape = std::make_shared<Shape>(shape);
  return call;
}

Shape hosts_of(const std::vector<int>& sizes) {
  std::vector<int> labels;
  for (size_t host = 0; host < sizes.size(); ++host)
    labels.insert(labels.end(), static_cast<size_t>(sizes[host]), static_cast<int>(host));
  return shape_of("hosts", labels);
}

// 2(N - 1)/N of the vector leaves every host, whatever its number of ranks.
TEST(Hierarchical, AllreduceMovesTheLeastBetweenHosts) {
  for (const std::vector<int>& sizes :
       {std::vector<int>{2, 2, 2, 2}, {8, 4, 2}, {3, 5, 1, 2}, {1, 1, 1, 7}, {1, 3}}) {
    const Shape shape = hosts_of(sizes);
    const uint64_t hosts = sizes.size();
    uint64_t parts = hosts;  // so that every cut is even
    for (const int size : sizes) parts = std::lcm(parts, static_cast<uint64_t>(size) * hosts);
    const uint64_t bytes = parts * 4 * 7;
    const auto all = crossings(build_case(call_on(shape, "hierarchical", bytes)), shape.hierarchy);
    for (int host = 0; host < static_cast<int>(hosts); ++host)
      EXPECT_EQ(bytes_of_part(all, shape.hierarchy, host), 2 * (hosts - 1) * bytes / hosts)
          << "host " << host << " of " << hosts << ", " << sizes[static_cast<size_t>(host)];
  }
}

// Shards of one owner are neighbours: beside a host of eight, two exchange four at once.
TEST(Hierarchical, AllreduceHasOneMessageForTheShardsOfAMember) {
  const Shape shape = hosts_of({8, 4, 2});
  const BuiltCase built = build_case(call_on(shape, "hierarchical", 3 * 8 * 64));
  for (const size_t rank : {12, 13}) {
    const std::vector<Step>& steps = built.schedules[rank].steps;
    EXPECT_EQ(
        std::count_if(steps.begin(), steps.end(),
                      [](const Step& step) { return step.op == Op::kSend && step.peer >= 12; }),
        2);
  }
}

TEST(Hierarchical, AllreduceTakesEveryRankToTheNetwork) {
  const Shape shape = hosts_of({4, 4, 4});
  const auto all =
      crossings(build_case(call_on(shape, "hierarchical", 48 * kMiB)), shape.hierarchy);
  for (const Crossing& each : all)
    EXPECT_NEAR(static_cast<double>(each.bytes), 2.0 * 2 * 48 * kMiB / 3 / 4, 64);
}

TEST(Hierarchical, AllreduceOfThreeLevelsCrossesEachOnce) {
  const Shape shape = shape_of("racks", {0, 0, 1, 1, 2, 2, 3, 3}, {0, 0, 0, 0, 1, 1, 1, 1});
  const BuiltCase built = build_case(call_on(shape, "hierarchical", 8 * kMiB));
  const auto racks = crossings(built, shape.hierarchy, 1);
  EXPECT_EQ(bytes_of_part(racks, shape.hierarchy, 0, 1), 8 * kMiB);
  const auto hosts = crossings(built, shape.hierarchy);
  // Within the rack half of the vector there and back, and half of that half between the racks.
  EXPECT_EQ(bytes_of_part(hosts, shape.hierarchy, 0), 8 * kMiB + 4 * kMiB);
}

// A chain of hosts passes the vector on: it leaves each of them once, but for the last. Blocks
// would make that 2(N - 1)/N vectors of the root's.
TEST(Hierarchical, BroadcastAndReducePassTheVectorOn) {
  for (const std::vector<int>& sizes : {std::vector<int>{2, 2, 2, 2}, {1, 2, 3}, {4, 4}, {1, 3}})
    for (const Collective collective : {Collective::kBroadcast, Collective::kReduce})
      for (const int root : {0, static_cast<int>(sizes.size()) - 1}) {
        const Shape shape = hosts_of(sizes);
        const uint64_t bytes = 3 * kMiB;
        VerifiedCase call = call_on(shape, "hierarchical", bytes);
        call.collective = collective;
        call.root = root;
        const auto all = crossings(build_case(call), shape.hierarchy);
        uint64_t sum = 0;
        for (int host = 0; host < static_cast<int>(sizes.size()); ++host) {
          EXPECT_LE(bytes_of_part(all, shape.hierarchy, host), bytes) << sizes.size() << " hosts";
          sum += bytes_of_part(all, shape.hierarchy, host);
        }
        EXPECT_EQ(sum, (sizes.size() - 1) * bytes);
      }
}

TEST(Hierarchical, ChainsHaveSegmentsThatFillThem) {
  EXPECT_TRUE(rooted_segments(4, 1, 2, false).chained);  // nothing to fill
  EXPECT_EQ(rooted_segments(4, 1, 2, false).count, 1U);
  EXPECT_FALSE(rooted_segments(128 * 1024 - 1, 2, 4, false).chained);
  EXPECT_TRUE(rooted_segments(128 * 1024, 2, 4, false).chained);
  EXPECT_EQ(rooted_segments(128 * 1024, 2, 4, false).count, 4U);
  EXPECT_FALSE(rooted_segments(512 * 1024 - 1, 2, 4, true).chained);
  EXPECT_TRUE(rooted_segments(512 * 1024, 2, 4, true).chained);
  EXPECT_EQ(rooted_segments(uint64_t{1} << 30, 8, 4, false).count, 64U);
  EXPECT_FALSE(rooted_segments(uint64_t{1} << 30, 8, 65, false).chained);
}

// While one segment is between the hosts, the next ones are summed inside.
TEST(Hierarchical, AllreduceLetsSegmentsFollowEachOther) {
  const Shape shape = hosts_of({2, 2});
  const BuiltCase built = build_case(call_on(shape, "hierarchical", 64 * kMiB));
  const std::vector<Step>& steps = built.schedules.front().steps;
  std::vector<size_t> inside;
  std::vector<size_t> across;
  for (size_t step = 0; step < steps.size(); ++step)
    if (steps[step].op == Op::kSend) (steps[step].peer == 1 ? inside : across).push_back(step);
  ASSERT_GE(across.size(), 32U);
  EXPECT_EQ(inside.size(), across.size());  // a shard and a result, of each segment
  EXPECT_LT(across.front(), inside[2]);
  EXPECT_LT(inside[inside.size() - 8], across.back());
  const Schedule& schedule = built.schedules.front();
  // Nothing that the last segment needs inside has to wait for the network.
  std::vector<bool> waits(steps.size(), false);
  for (uint32_t step = 0; step < steps.size(); ++step) {
    const bool remote = steps[step].peer > 1 && steps[step].op != Op::kSend;
    if (!waits[step] && !remote) continue;
    for (const uint32_t next : schedule.successors_of(step)) waits[next] = true;
  }
  const auto free =
      std::count_if(inside.begin(), inside.end(), [&](size_t step) { return !waits[step]; });
  EXPECT_EQ(static_cast<size_t>(free) * 2, inside.size());
}

TEST(Hierarchical, AllreduceSends16BitResultsAsTheyAre) {
  const Shape shape = hosts_of({2, 2});
  const auto all = crossings(
      build_case(call_on(shape, "hierarchical", 8 * kMiB, DataType::kBfloat16)), shape.hierarchy);
  // Half of each rank's half is summed on the other host, as accumulators, and comes back rounded.
  for (const Crossing& each : all) EXPECT_EQ(each.bytes, 4 * kMiB + 2 * kMiB);
}

// One message goes to each rank of the own place on the other hosts, of everybody's blocks
// together. Where hosts have different sizes the smaller ones' ranks take several.
TEST(Hierarchical, AlltoallSendsToEachHostOnce) {
  const Shape equal = hosts_of({4, 4, 4});
  VerifiedCase call = call_on(equal, "hierarchical", 64);
  call.collective = Collective::kAlltoall;
  call.check = false;
  for (const Crossing& each : crossings(build_case(call), equal.hierarchy)) {
    EXPECT_EQ(each.messages, 2);
    EXPECT_EQ(each.bytes, 2U * 4 * 64);
  }
  const Shape unequal = hosts_of({3, 5, 1});
  call = call_on(unequal, "hierarchical", 64);
  call.collective = Collective::kAlltoall;
  call.check = false;
  const auto all = crossings(build_case(call), unequal.hierarchy);
  for (int host = 0; host < 3; ++host) {
    const auto ranks = static_cast<uint64_t>(unequal.hierarchy.members(0, host).size());
    EXPECT_EQ(bytes_of_part(all, unequal.hierarchy, host), ranks * (9 - ranks) * 64);
  }
  EXPECT_EQ(all.back().messages, 3 + 5);
}

// And one to each other rack, of all that its own has for the rank that gets it.
TEST(Hierarchical, AlltoallSendsToEachRackOnce) {
  const Shape racks = shape_of("racks", {0, 0, 1, 1, 2, 2, 3, 3}, {0, 0, 0, 0, 1, 1, 1, 1});
  VerifiedCase call = call_on(racks, "hierarchical", 64);
  call.collective = Collective::kAlltoall;
  call.check = false;
  for (const Crossing& each : crossings(build_case(call), racks.hierarchy, 1)) {
    EXPECT_EQ(each.messages, 1);
    EXPECT_EQ(each.bytes, 4U * 64);
  }
  const Shape unequal =
      shape_of("racks of one and three hosts", {0, 0, 1, 2, 2, 2, 3}, {0, 0, 1, 1, 1, 1, 1});
  call = call_on(unequal, "hierarchical", 64);
  call.collective = Collective::kAlltoall;
  call.check = false;
  const auto all = crossings(build_case(call), unequal.hierarchy, 1);
  for (int rack = 0; rack < 2; ++rack)
    EXPECT_EQ(bytes_of_part(all, unequal.hierarchy, rack, 1), 2U * 5 * 64);
}

TEST(Leaders, AreAloneBetweenHosts) {
  const Shape shape = hosts_of({3, 1, 2, 4});
  const auto all = crossings(build_case(call_on(shape, "leaders", 4096)), shape.hierarchy);
  for (int place = 0; place < shape.hierarchy.places(); ++place) {
    const bool leads =
        shape.hierarchy.members(0, shape.hierarchy.part_of(0, place)).front() == place;
    EXPECT_EQ(all[static_cast<size_t>(place)].messages, leads ? 2 : 0) << place;
  }
}

// In one message, with the blocks of its host.
TEST(Leaders, BringTheRootWhatTheirHostsHave) {
  const Shape shape = hosts_of({3, 1, 2, 4});
  for (const Collective collective : {Collective::kGather, Collective::kScatter}) {
    VerifiedCase call = call_on(shape, "leaders", 64);
    call.collective = collective;
    call.root = 1;  // not the first of its host
    call.check = false;
    const auto all = crossings(build_case(call), shape.hierarchy);
    const bool up = collective == Collective::kGather;
    EXPECT_EQ(all[1].messages, up ? 0 : 3);
    EXPECT_EQ(all[1].bytes, up ? 0U : 7 * 64U);
    EXPECT_EQ(all[6].bytes, up ? 4 * 64U : 0U);
    EXPECT_EQ(all[7].messages, 0);
  }
}

// One rank of 65,536 on 8,192 hosts: its steps grow with the logarithm of the hosts only.
TEST(Hierarchical, SchedulesOfManyRanksAreShort) {
  constexpr int kRanks = 65536;
  std::vector<int> labels(kRanks);
  for (int place = 0; place < kRanks; ++place) labels[static_cast<size_t>(place)] = place / 8;
  const Hierarchy hierarchy = Hierarchy::of_labels("host", labels);
  Problem problem;
  problem.count = 16 * kMiB;
  const Schedule schedule =
      build_schedule(problem, Group::everyone(kRanks, 4711, &hierarchy),
                     algorithms()[static_cast<size_t>(algorithm_of("hierarchical"))]);
  // 8 segments: 3 + 13 rounds up and down of two messages at most, each a send and a receive.
  EXPECT_LE(schedule.steps.size(), 8U * 16 * 2 * 5);
  EXPECT_GE(schedule.steps.size(), 8U * 16 * 2 * 2);
}

}  // namespace
}  // namespace banyan::hierarchical_test
