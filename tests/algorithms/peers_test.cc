// Calls that may go by the memory of peers: both ways to go on are right, and no rank reads a
// window that may not be written yet, or may be written again.
// SPDX-License-Identifier: Apache-2.0

#include "algorithms/peers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "algorithms/choice/peer_choice.h"
#include "compression/codecs.h"
#include "tests/algorithms/mutated.h"
#include "tests/algorithms/window_cases.h"

namespace banyan::peers_test {
namespace {

constexpr Collective kCollectives[] = {
    Collective::kAllreduce,      Collective::kReduce,     Collective::kBroadcast,
    Collective::kAllgather,      Collective::kAllgatherv, Collective::kReduceScatter,
    Collective::kReduceScatterv, Collective::kAlltoall,   Collective::kAlltoallv,
    Collective::kGather,         Collective::kScatter};

class PeerCollectives : public testing::TestWithParam<Collective> {};

TEST_P(PeerCollectives, AreRightByEitherBranch) {
  int draw = 0;
  for (int ranks = 2; ranks <= 9; ++ranks)
    for (const uint64_t count : {1, 15, 16, 17, 101, 1000, 4099})
      for (const int slots : {0, 1, 4}) {
        const VerifiedCase call = window_case(GetParam(), ranks, count, ++draw);
        for (const uint64_t window : {kSmallWindow, kWindowBytes}) {
          const BuiltCase built =
              built_with_peers(call, window, [&](int rank) { return (rank + draw) % 3 != 0; });
          ASSERT_EQ(fault_of(built, Branch::kOtherwise, slots, static_cast<uint32_t>(draw)), "")
              << call;
          const BuiltCase all = all_with_peers(call, window);
          ASSERT_EQ(fault_of(all, Branch::kPeers, slots, static_cast<uint32_t>(draw)), "")
              << call << ", window " << window;
        }
      }
}

// Large enough for others to read sums.
TEST(PeerAllreduce, InTwoShotsIsRight) {
  for (const int ranks : {2, 3, 5, 8})
    for (const DataType type : {DataType::kFloat32, DataType::kFloat16}) {
      VerifiedCase call = window_case(Collective::kAllreduce, ranks, kOneShotMost / 4 + 33, ranks);
      call.type = type;
      const BuiltCase all = all_with_peers(call, kOneShotMost);
      const auto shared = [](const Step& step) {
        return step.op == Op::kFold && step.dst.space == Space::kWindow;
      };
      const auto& steps = all.schedules.front().steps;
      ASSERT_EQ(std::any_of(steps.begin(), steps.end(), shared), type == DataType::kFloat32);
      ASSERT_EQ(fault_of(all, Branch::kPeers, 1, 7), "") << call;
    }
}

VerifiedCase coded_case(CodecId codec, int ranks, uint64_t count, bool mean) {
  VerifiedCase call{.collective = Collective::kAllreduce, .ranks = ranks, .count = count};
  call.op = mean ? ReduceOp::kAvg : ReduceOp::kSum;
  call.parameters.inter_codec.codec = codec;
  call.codecs = codecs();
  return call;
}

TEST(PeerAllreduce, ByACodecIsRightByEitherBranch) {
  int draw = 0;
  for (int ranks = 2; ranks <= 9; ++ranks)
    for (const uint64_t count : {1, 4095, 4096, 4097, 20000, 90000})
      for (const bool mean : {false, true}) {
        constexpr CodecId kTried[] = {kInt8, kFp16, kInt4, kE4m3, kBf16, kE5m2};
        VerifiedCase call = coded_case(kTried[++draw % 6], ranks, count, mean);
        const bool is_cast = call.parameters.inter_codec.codec == kFp16 ||
                             call.parameters.inter_codec.codec == kBf16;
        if (!mean && !is_cast && draw % 2 == 0) call.type = DataType::kBfloat16;
        const BuiltCase built =
            built_with_peers(call, 1 << 16, [&](int rank) { return (rank + draw) % 3 != 0; });
        ASSERT_EQ(fault_of(built, Branch::kOtherwise, 1, static_cast<uint32_t>(draw)), "") << call;
        for (const uint64_t window : {uint64_t{1} << 16, kWindowBytes}) {
          const BuiltCase all = all_with_peers(call, window);
          ASSERT_EQ(fault_of(all, Branch::kPeers, draw % 3, static_cast<uint32_t>(draw)), "")
              << call << ", window " << window;
        }
      }
}

INSTANTIATE_TEST_SUITE_P(All, PeerCollectives, testing::ValuesIn(kCollectives),
                         [](const testing::TestParamInfo<Collective>& each) {
                           return std::string(name_of(each.param));
                         });

// An alltoallv of float32 on GPUs. The last rank takes nothing, and the one before gives to one.
BuiltCase uneven_exchange(int ranks, uint64_t longest) {
  VerifiedCase call{.collective = Collective::kAlltoallv, .ranks = ranks};
  call.algorithm = find_algorithm("direct");
  BuiltCase built = build_case(call);
  const auto count = [&](int from, int to) {
    const bool none = to == ranks - 1 || (from == ranks - 2 && to != 0);
    return none ? uint64_t{0}
                : longest * static_cast<uint64_t>(1 + from) / static_cast<uint64_t>(1 + to);
  };
  for (int rank = 0; rank < ranks; ++rank) {
    const auto index = static_cast<size_t>(rank);
    Problem& problem = built.problems[index];
    for (int other = 0; other < ranks; ++other) {
      problem.send_counts[static_cast<size_t>(other)] = count(rank, other);
      problem.recv_counts[static_cast<size_t>(other)] = count(other, rank);
    }
    problem.send_displacements = gapped(problem.send_counts);
    problem.recv_displacements = packed(problem.recv_counts);
    problem.staging = {.input = true, .output = true};
    const Group group = Group::everyone(ranks, rank);
    const Schedule by_host =
        build_schedule(problem, group, algorithms()[static_cast<size_t>(call.algorithm)]);
    built.schedules[index] =
        with_peers(stage(by_host, problem.staging), problem, group, kSmallWindow);
  }
  return built;
}

// Whatever is left out of the way by windows, or put elsewhere there, is found.
class PeerMutants : public testing::TestWithParam<Collective> {
 protected:
  void SetUp() override {
    VerifiedCase call = window_case(GetParam(), 3, 4000, 1);
    const bool to_root = GetParam() == Collective::kReduce || GetParam() == Collective::kGather;
    call.root = to_root ? 2 : 1;
    call.in_place = false;
    call.type = DataType::kFloat32;
    call.op = ReduceOp::kSum;
    built_ = GetParam() == Collective::kAlltoallv ? uneven_exchange(3, 1000)
                                                  : all_with_peers(call, kSmallWindow);
    ASSERT_EQ(fault(), "");
  }
  std::string fault() const {
    std::string found;
    for (uint32_t seed = 0; seed < 3 && found.empty(); ++seed)
      found = fault_of(built_, Branch::kPeers, 1, seed);
    return found;
  }
  // Looks at mutants of each step of rank 1 that `which` names.
  template <typename Which, typename Mutate>
  void expect_found(Which which, Mutate mutate) {
    const Schedule whole = built_.schedules[1];
    int looked_at = 0;
    for (uint32_t step = 0; step < whole.steps.size(); ++step) {
      if (whole.steps[step].branch != Branch::kPeers || !which(whole.steps[step])) continue;
      built_.schedules[1] = mutate(whole, step);
      EXPECT_NE(fault(), "") << "step " << step << ", " << name_of(whole.steps[step].op);
      ++looked_at;
    }
    EXPECT_NE(looked_at, 0);
    built_.schedules[1] = whole;
  }

  BuiltCase built_;
};

TEST_P(PeerMutants, WithoutAStepAreFound) {
  expect_found([](const Step& step) { return step.op != Op::kWithdraw; },
               [](const Schedule& whole, uint32_t step) { return without_step(whole, step); });
}

TEST_P(PeerMutants, WithAStepElsewhereInTheWindowAreFound) {
  expect_found(uses_window, [](const Schedule& whole, uint32_t at) {
    Step moved = whole.steps[at];
    Slice& window = moved.src.space == Space::kWindow ? moved.src : moved.dst;
    window.offset += 64;
    return with_step(whole, at, moved);
  });
}

// A rank that tells before it is done, or does not wait for what it is told.
TEST_P(PeerMutants, WithoutAnOrderBetweenStepsAndMessagesAreFound) {
  if (GetParam() == Collective::kReduceScatterv)
    GTEST_SKIP() << "a rank without elements is told of windows that it does not read";
  const Schedule whole = built_.schedules[1];
  const auto is_folded = [&](const Slice& slice) {
    return std::any_of(whole.steps.begin(), whole.steps.end(),
                       [&](const Step& step) { return step.op == Op::kFold && step.src == slice; });
  };
  int looked_at = 0;
  for (uint32_t at = 0; at < whole.steps.size(); ++at) {
    const bool tells = whole.steps[at].op == Op::kSend;
    if (whole.steps[at].branch != Branch::kPeers || !(tells || uses_window(whole.steps[at])))
      continue;
    const Edges edges = edges_of(whole);
    Schedule mutant = whole;
    for (const uint32_t before : edges[at]) {
      const Step& step = whole.steps[before];
      const bool drops = tells ? uses_window(step) : step.op == Op::kRecv;
      if (drops && step.branch == Branch::kPeers) mutant = without_edge(mutant, before, at);
    }
    // The block that it combines itself no other rank reads.
    const bool only_own =
        GetParam() == Collective::kReduceScatter && is_folded(whole.steps[at].dst);
    if (edges_of(mutant) == edges || only_own) continue;
    built_.schedules[1] = mutant;
    EXPECT_NE(fault(), "") << "s" << at << ", " << name_of(whole.steps[at].op);
    ++looked_at;
  }
  EXPECT_GE(looked_at, 4);
}

INSTANTIATE_TEST_SUITE_P(All, PeerMutants, testing::ValuesIn(kCollectives),
                         [](const testing::TestParamInfo<Collective>& each) {
                           return std::string(name_of(each.param));
                         });

// A rank that says that it gives or takes more or less than it does is found.
TEST(PeerAlltoallv, SaysWhatEachGivesAndTakes) {
  BuiltCase built = uneven_exchange(3, 1000);
  ASSERT_EQ(fault_of(built, Branch::kPeers, 1, 5), "");
  Schedule& schedule = built.schedules[1];
  ASSERT_EQ(schedule.delegations.size(), 1U);
  for (auto lists : {&Delegation::to, &Delegation::from})
    for (size_t place = 0; place < 3; ++place) {
      const Delegation whole = schedule.delegations.front();
      (schedule.delegations.front().*lists)[place].size += 4;
      EXPECT_NE(fault_of(built, Branch::kPeers, 1, 5), "") << place;
      schedule.delegations.front() = whole;
    }
  schedule.delegations.front().from.pop_back();
  EXPECT_NE(fault_of(built, Branch::kPeers, 1, 5), "");
}

// Each pair of ranks has portions of its own number, also of none.
TEST(PeerAlltoallv, OfUnevenCountsIsRight) {
  for (const uint64_t longest : {1, 600, 5000}) {
    const BuiltCase built = uneven_exchange(4, longest);
    for (uint32_t seed = 0; seed < 8; ++seed)
      for (const int slots : {0, 1, 4})
        for (const Branch branch : {Branch::kPeers, Branch::kOtherwise})
          ASSERT_EQ(fault_of(built, branch, slots, seed), "") << longest;
  }
}

// Who folds scales, and nobody else.
TEST(PeerAllreduce, ScalesContributionsOnce) {
  VerifiedCase call = window_case(Collective::kAllreduce, 3, 4000, 1);
  call.type = DataType::kFloat32;
  call.op = ReduceOp::kPreMulSum;
  BuiltCase built = all_with_peers(call, kSmallWindow);
  ASSERT_EQ(fault_of(built, Branch::kPeers, 1, 5), "");
  const Schedule whole = built.schedules[1];
  int looked_at = 0;
  for (uint32_t at = 0; at < whole.steps.size(); ++at) {
    Step step = whole.steps[at];
    if (step.op != Op::kCopy || step.dst.space != Space::kWindow) continue;
    step.op = Op::kDecode;
    built.schedules[1] = with_step(whole, at, step);
    EXPECT_NE(fault_of(built, Branch::kPeers, 1, 5), "") << "scaled twice, s" << at;
    ++looked_at;
  }
  EXPECT_GT(looked_at, 2);
}

// The same of a codec's messages: each step is needed, and where it is.
TEST(PeerAllreduce, ByACodecNeedsEachStep) {
  BuiltCase built = all_with_peers(coded_case(kInt8, 3, 60000, true), 1 << 16);
  const Schedule whole = built.schedules[1];
  const auto is_found = [&](const Schedule& mutant) {
    built.schedules[1] = mutant;
    return !fault_of(built, Branch::kPeers, 1, 5).empty();
  };
  for (uint32_t at = 0; at < whole.steps.size(); ++at) {
    const Step& step = whole.steps[at];
    if (step.branch != Branch::kPeers || step.op == Op::kWithdraw) continue;
    EXPECT_TRUE(is_found(without_step(whole, at))) << at << ", " << name_of(step.op);
    if (!uses_window(step)) continue;
    Step moved = step;
    (moved.src.space == Space::kWindow ? moved.src : moved.dst).offset += 64;
    EXPECT_TRUE(is_found(with_step(whole, at, moved))) << at << ", " << name_of(step.op);
    if (step.op != Op::kEncode) continue;
    moved = step;
    moved.codec = kInt4;
    EXPECT_TRUE(is_found(with_step(whole, at, moved))) << at << ", by another codec";
  }
}

// Sums are direct's wherever they go; blocks go by what was chosen, where a rank is on the host.
TEST(Peers, KeepTheAlgorithmOfBlocksOfAnyLength) {
  const int pairwise = find_algorithm("pairwise");
  Problem problem{.collective = Collective::kAlltoall, .count = kPeersLeast};
  const Choice chosen{pairwise, "table"};
  EXPECT_EQ(for_peers(problem, 4, {}, -1, chosen).algorithm, find_algorithm("direct"));
  problem.collective = Collective::kAlltoallv;
  EXPECT_EQ(for_peers(problem, 4, {}, -1, chosen).algorithm, pairwise);
  EXPECT_TRUE(goes_by_peers(problem, 4, {}, -1, chosen));
  EXPECT_FALSE(goes_by_peers(problem, 4, {}, pairwise, chosen)) << "it is asked for";
}

TEST(Peers, AreForCallsThatGain) {
  Problem problem{.collective = Collective::kAllreduce, .count = kPeersLeast / 4};
  EXPECT_TRUE(may_go_by_peers(problem, 2));
  EXPECT_TRUE(may_go_by_peers(problem, kMostWindows));
  EXPECT_FALSE(may_go_by_peers(problem, 1));
  EXPECT_FALSE(may_go_by_peers(problem, kMostWindows + 1));
  problem.count -= 1;
  EXPECT_FALSE(may_go_by_peers(problem, 2));
  problem.collective = Collective::kAllgather;
  EXPECT_TRUE(may_go_by_peers(problem, 2));
  problem.collective = Collective::kAlltoallv;
  EXPECT_TRUE(may_go_by_peers(problem, 2)) << "no rank knows how much there is before the call";
  problem.collective = Collective::kAllreduce;
  problem.count *= 2;
  problem.op = ReduceOp::kPreMulSum;
  EXPECT_TRUE(may_go_by_peers(problem, 2));
  problem.op = ReduceOp::kSum;
  problem.keeps_left = true;
  EXPECT_FALSE(may_go_by_peers(problem, 2));
  problem.keeps_left = false;
  const auto by_codec = [&](CodecId codec) {
    Parameters parameters;
    parameters.inter_codec.codec = codec;
    return may_go_by_peers(problem, 2, parameters);
  };
  EXPECT_TRUE(by_codec(kInt8));
  EXPECT_TRUE(by_codec(kDyn8));
  EXPECT_FALSE(by_codec(kOnebit));
  EXPECT_FALSE(by_codec(kThreshold));
  problem.type = DataType::kBfloat16;
  problem.count *= 2;
  EXPECT_TRUE(by_codec(kInt8));
  EXPECT_FALSE(by_codec(kFp16));
  problem.op = ReduceOp::kAvg;
  EXPECT_FALSE(by_codec(kInt8));
}

}  // namespace
}  // namespace banyan::peers_test
