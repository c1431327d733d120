// Plans are built once, kept while they are used, and go least recently used first.
// SPDX-License-Identifier: Apache-2.0

#include "src/engine/plans.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "algorithms/algorithms.h"
#include "algorithms/choice/compression.h"
#include "algorithms/choice/measured_choice.h"
#include "compression/codecs.h"
#include "tests/support/toy_codec.h"

namespace banyan::plans_test {
namespace {

Problem sum_of(uint64_t count) {
  Problem problem;
  problem.count = count;
  return problem;
}

// Every way in which two problems may differ.
std::vector<Problem> different_problems() {
  std::vector<Problem> all;
  const auto add = [&](const std::function<void(Problem&)>& change) {
    all.push_back(sum_of(100));
    change(all.back());
  };
  add([](Problem&) {});
  add([](Problem& p) { p.collective = Collective::kReduce; });
  add([](Problem& p) {
    p.collective = Collective::kReduce;
    p.root = 2;
  });
  add([](Problem& p) { p.type = DataType::kBfloat16; });
  add([](Problem& p) { p.op = ReduceOp::kMax; });
  add([](Problem& p) { p.count = 101; });
  add([](Problem& p) { p.in_place = true; });
  add([](Problem& p) { p.invariant = true; });
  add([](Problem& p) { p.keeps_left = true; });
  add([](Problem& p) { p.memory = MemoryKind::kManaged; });
  add([](Problem& p) { p.memory = MemoryKind::kDevice; });
  for (const std::vector<uint64_t>& counts :
       {std::vector<uint64_t>{1, 2, 3}, std::vector<uint64_t>{1, 3, 2}}) {
    add([&](Problem& p) {
      p.collective = Collective::kAllgatherv;
      p.count = 0;
      p.recv_counts = counts;
      p.recv_displacements = {0, 10, 20};
    });
    add([&](Problem& p) {
      p.collective = Collective::kAllgatherv;
      p.count = 0;
      p.recv_counts = counts;
      p.recv_displacements = {0, 20, 10};
    });
  }
  return all;
}

TEST(PlanCache, SharesPlansOfEqualProblemsOnly) {
  PlanCache cache(1, 3, Medium::kMemory, {});
  const std::vector<Problem> problems = different_problems();
  std::vector<std::shared_ptr<Plan>> plans;
  for (const Problem& problem : problems) plans.push_back(cache.find_or_build(problem, -1));
  for (size_t i = 0; i < problems.size(); ++i) {
    EXPECT_EQ(cache.find_or_build(problems[i], -1), plans[i]) << i;
    EXPECT_EQ(plans[i]->problem, problems[i]) << i;
    for (size_t j = 0; j < i; ++j) EXPECT_NE(plans[i], plans[j]) << i << " and " << j;
  }
  const int ring = find_algorithm("ring");
  const auto wanted = cache.find_or_build(problems[0], ring);
  EXPECT_NE(wanted, plans[0]) << "a call that names its algorithm is another call";
  EXPECT_EQ(wanted->choice.algorithm, ring);
  EXPECT_EQ(cache.find_or_build(problems[0], ring), wanted);
}

// The choice by predicted times is part of what ranks compare, and they come to the same.
TEST(PlanCache, ChoosesOneCodecOnAllRanks) {
  const Hierarchy hosts = Hierarchy::of_labels("host", std::vector<int>{0, 1, 2});
  const MeasuredLink slow{
      .latency_us = 10, .busy_latency_us = 10, .GBps = 0.01, .busy_GBps = 0.01, .pairs = 1};
  const auto network = measured_network({.between = slow, .codecs = {{{kInt4}, 3, 4}}}, 1, hosts);
  Problem problem = sum_of(1 << 16);
  problem.compression = *parse_compression("auto");
  for (int rank = 0; rank < 3; ++rank) {
    PlanCache cache(rank, 3, Medium::kNetwork, {}, {}, PlanCache::kMostPlans, PlanCache::kMostBytes,
                    nullptr, &*network);
    cache.use_codecs(codecs());
    problem.in_place = rank == 1;
    const std::shared_ptr<Plan> plan = cache.find_or_build(problem, -1);
    EXPECT_EQ(plan->signature.codec, kInt4) << rank;
    EXPECT_EQ(plan->choice.parameters.inter_codec.codec, kInt4) << rank;
  }
}

// Ranks that ask for other codecs make another call.
TEST(PlanCache, KnowsCodecsByTheirNumbers) {
  PlanCache cache(0, 3, Medium::kMemory, {});
  cache.use_codecs(test::toy_codecs());
  const int direct = find_algorithm("direct");
  Parameters toy, whole;
  toy.inter_codec.codec = test::kToy;
  whole.inter_codec.codec = test::kToyWhole;
  const auto exact = cache.find_or_build(sum_of(100), direct);
  const auto one = cache.find_or_build(sum_of(100), direct, toy);
  const auto other = cache.find_or_build(sum_of(100), direct, whole);
  EXPECT_EQ(exact->schedule.slots, 0U);
  EXPECT_GT(one->schedule.slots, 0U);
  EXPECT_EQ(exact->signature.codec, kNoCodec);
  EXPECT_EQ(one->signature.codec, test::kToy);
  EXPECT_EQ(other->signature.codec, test::kToyWhole);
  EXPECT_EQ(cache.find_or_build(sum_of(100), direct, toy), one);
  Problem device = sum_of(100);
  device.memory = MemoryKind::kDevice;
  EXPECT_EQ(cache.find_or_build(device, direct)->signature.memory, MemoryKind::kDevice);
  device.memory = MemoryKind::kPinned;
  EXPECT_EQ(cache.find_or_build(device, direct)->signature, exact->signature)
      << "a peer need not know";
}

TEST(PlanCache, ForgetsTheLeastRecentlyUsed) {
  PlanCache cache(0, 4, Medium::kMemory, {}, {}, 3);
  const auto first = cache.find_or_build(sum_of(1), -1);
  const auto second = cache.find_or_build(sum_of(2), -1);
  const auto third = cache.find_or_build(sum_of(3), -1);
  EXPECT_EQ(cache.find_or_build(sum_of(1), -1), first);  // now the second is the oldest
  const auto fourth = cache.find_or_build(sum_of(4), -1);
  EXPECT_EQ(second.use_count(), 1) << "the cache keeps what it should have dropped";
  EXPECT_EQ(cache.find_or_build(sum_of(1), -1), first);
  EXPECT_EQ(cache.find_or_build(sum_of(3), -1), third);
  EXPECT_EQ(cache.find_or_build(sum_of(4), -1), fourth);
  EXPECT_NE(cache.find_or_build(sum_of(2), -1), second) << "a dropped plan came back";
}

TEST(PlanCache, DropsByBytesButNeverTheNewest) {
  PlanCache cache(0, 8, Medium::kMemory, {}, {}, 1000, 1);
  const auto first = cache.find_or_build(sum_of(1000), -1);
  EXPECT_EQ(cache.find_or_build(sum_of(1000), -1), first);
  const auto second = cache.find_or_build(sum_of(2000), -1);
  EXPECT_EQ(first.use_count(), 1);
  EXPECT_EQ(cache.find_or_build(sum_of(2000), -1), second);
}

// The books are right after thousands of plans: as many are kept as were promised.
TEST(PlanCache, StaysWithinItsLimitsForEver) {
  PlanCache cache(0, 5, Medium::kMemory, {}, {}, 16);
  std::vector<std::weak_ptr<Plan>> all;
  for (uint64_t i = 0; i < 2000; ++i) {
    all.push_back(cache.find_or_build(sum_of(i * 7919 % 300), i % 3 == 0 ? 2 : -1));
  }
  std::set<Plan*> alive;
  for (const auto& plan : all)
    if (const auto kept = plan.lock()) alive.insert(kept.get());
  EXPECT_EQ(alive.size(), 16u);
}

TEST(PlanCache, PlanOutlivesTheCacheWhileUsed) {
  std::shared_ptr<Plan> plan;
  {
    PlanCache cache(0, 2, Medium::kMemory, {});
    plan = cache.find_or_build(sum_of(10), -1);
  }
  EXPECT_FALSE(plan->schedule.steps.empty());
}

TEST(PlanCache, FollowsTheRules) {
  const Result<Rules> rules = parse_rules("allreduce size=0-1K : ring ; circulant");
  ASSERT_TRUE(rules.ok()) << rules.status().message();
  PlanCache cache(0, 4, Medium::kMemory, *rules);
  EXPECT_EQ(cache.find_or_build(sum_of(10), -1)->choice.algorithm, find_algorithm("ring"));
  EXPECT_EQ(cache.find_or_build(sum_of(10000), -1)->choice.algorithm, find_algorithm("circulant"));
}

TEST(PlanCache, KeepsCallsWithOtherParametersApart) {
  const int ring = find_algorithm("ring");
  const Parameters small{.segment = 1024}, large{.segment = 4096};
  PlanCache cache(0, 4, Medium::kMemory, {});
  const auto plain = cache.find_or_build(sum_of(10000), ring);
  const auto first = cache.find_or_build(sum_of(10000), ring, small);
  const auto second = cache.find_or_build(sum_of(10000), ring, large);
  EXPECT_EQ(first->choice.parameters, small);
  EXPECT_GT(first->schedule.steps.size(), second->schedule.steps.size());
  EXPECT_GT(second->schedule.steps.size(), plain->schedule.steps.size());
  EXPECT_EQ(cache.find_or_build(sum_of(10000), ring, small), first);
  EXPECT_EQ(cache.find_or_build(sum_of(10000), ring), plain);
  EXPECT_EQ(cache.find_or_build(sum_of(10000), ring, large), second);
}

TEST(PlanCache, BuildsWithTheParametersOfTheRules) {
  PlanCache cache(0, 4, Medium::kMemory, *parse_rules("ring(seg=1K)"));
  const auto plan = cache.find_or_build(sum_of(10000), -1);
  EXPECT_EQ(plan->choice.parameters.segment, 1024U);
  PlanCache named(0, 4, Medium::kMemory, {});
  const auto same = named.find_or_build(sum_of(10000), find_algorithm("ring"), {.segment = 1024});
  EXPECT_EQ(plan->schedule.steps, same->schedule.steps);
}

TEST(PlanCache, BuildsMessagesAndGroupsOfOne) {
  PlanCache cache(0, 2, Medium::kMemory, {});
  Problem send = sum_of(5);
  send.collective = Collective::kSend;
  send.root = 1;
  EXPECT_EQ(cache.find_or_build(send, -1)->schedule.steps.size(), 1u);
  Problem receive = send;
  receive.collective = Collective::kRecv;
  const auto received = cache.find_or_build(receive, -1);
  EXPECT_EQ(received->signature, cache.find_or_build(send, -1)->signature)
      << "a send and its receive agree";
  PlanCache alone(0, 1, Medium::kMemory, {});
  EXPECT_TRUE(alone.find_or_build(sum_of(5), -1)->schedule.ports.empty());
}

TEST(Signature, DiffersWhereRanksMustAgree) {
  const std::vector<Problem> problems = different_problems();
  for (size_t i = 0; i < problems.size(); ++i)
    for (size_t j = 0; j < i; ++j) {
      Problem a = problems[i], b = problems[j];
      const bool same = signature_of(a, -1) == signature_of(b, -1);
      // Where a buffer lies and where blocks lie in it is each rank's own.
      a.in_place = b.in_place = false;
      a.invariant = b.invariant = false;    // ranks have agreed on it before any call
      a.keeps_left = b.keeps_left = false;  // it changes no message
      for (Problem* each : {&a, &b})        // the host's, for who sends to it
        if (each->memory == MemoryKind::kManaged) each->memory = MemoryKind::kHost;
      a.recv_displacements = b.recv_displacements = {};
      EXPECT_EQ(same, a == b) << i << " and " << j;
    }
  EXPECT_FALSE(signature_of(problems[0], 1) == signature_of(problems[0], 2));
  EXPECT_FALSE(signature_of(problems[0], 0) == signature_of(problems[0], -1));
  EXPECT_LT(algorithms().size(), size_t{kWithParameters});
  for (const Problem& problem : problems) {
    std::vector<CallSignature> all;
    for (const Parameters& parameters :
         {Parameters{}, Parameters{.segment = 1024}, Parameters{.segment = 2048},
          Parameters{.intra = Phase::kRing}, Parameters{.inter = Phase::kRing},
          Parameters{.dimensions = {2, 3}}, Parameters{.dimensions = {3, 2}}})
      all.push_back(signature_of(problem, 1, parameters));
    for (size_t i = 0; i < all.size(); ++i)
      for (size_t j = 0; j < i; ++j) EXPECT_FALSE(all[i] == all[j]) << i << " and " << j;
    EXPECT_EQ(all[1], signature_of(problem, 1, {.segment = 1024}));
  }
}

TEST(Signature, ParametersAreInTheCount) {
  const std::vector<std::string_view> names = {"tree", "ring"};
  const CallSignature mine{.count = 77, .algorithm = kWithParameters | 2};
  const auto against = [&](const CallSignature& theirs) {
    return describe_difference(mine, 0, theirs, 1, 3, names);
  };
  EXPECT_EQ(
      against({.count = 78, .algorithm = kWithParameters | 2}),
      "count or parameters differ: rank 0 and rank 1 ask for ring with parameters, not the same "
      "or not for the same count (barrier, call 3)");
  EXPECT_EQ(against({.count = 5, .algorithm = 2}),
            "algorithm differs: rank 0 has ring with parameters, rank 1 has ring (barrier, call "
            "3)");
}

}  // namespace
}  // namespace banyan::plans_test
