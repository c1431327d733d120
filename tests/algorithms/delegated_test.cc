// Calls whose bytes something else moves inside hosts (intra=nccl): right on one host and on
// several, in the order of ranks, and never two delegates of a rank at a time.
// SPDX-License-Identifier: Apache-2.0

#include "algorithms/delegated.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "algorithms/choice/peer_choice.h"
#include "tests/algorithms/mutated.h"
#include "tests/algorithms/window_cases.h"

namespace banyan::delegated_test {
namespace {

constexpr Collective kCollectives[] = {Collective::kAllreduce,      Collective::kReduce,
                                       Collective::kBroadcast,      Collective::kAllgather,
                                       Collective::kAllgatherv,     Collective::kReduceScatter,
                                       Collective::kReduceScatterv, Collective::kAlltoall,
                                       Collective::kGather,         Collective::kScatter};

bool has_delegates(const BuiltCase& made) {
  const auto& steps = made.schedules.front().steps;
  return std::any_of(steps.begin(), steps.end(),
                     [](const Step& step) { return step.op == Op::kDelegate; });
}

bool reads_others(const BuiltCase& made) {
  return std::any_of(made.schedules.begin(), made.schedules.end(), [](const Schedule& schedule) {
    return std::any_of(schedule.steps.begin(), schedule.steps.end(), [](const Step& step) {
      return step.branch == Branch::kPeers && (is_transfer(step.op) || step.peer >= 0);
    });
  });
}

class DelegatedCollectives : public testing::TestWithParam<Collective> {};

TEST_P(DelegatedCollectives, AreRightByEitherBranch) {
  int draw = 0;
  for (int ranks = 2; ranks <= 9; ++ranks)
    for (const uint64_t count : {1, 15, 16, 17, 101, 1000, 4099})
      for (const uint64_t window : {kSmallWindow, kWindowBytes}) {
        VerifiedCase call = window_case(GetParam(), ranks, count, ++draw);
        call.parameters.intra = Phase::kNccl;
        const auto seed = static_cast<uint32_t>(draw);
        const BuiltCase built =
            built_with_peers(call, window, [&](int rank) { return (rank + draw) % 3 != 0; });
        ASSERT_EQ(fault_of(built, Branch::kOtherwise, draw % 3, seed), "") << call;
        const BuiltCase all = all_with_peers(call, window);
        ASSERT_TRUE(has_delegates(all)) << call;
        ASSERT_FALSE(reads_others(all)) << call;
        ASSERT_EQ(fault_of(all, Branch::kPeers, draw % 3, seed), "")
            << call << ", window " << window;
      }
}

// Large enough for sums to be made share by share.
TEST_P(DelegatedCollectives, OfManyPortionsAreRight) {
  for (const int ranks : {2, 3, 8})
    for (const bool in_place : {false, true}) {
      VerifiedCase call = window_case(GetParam(), ranks, 300'000, ranks);
      call.in_place = in_place;
      call.type = DataType::kFloat32;
      call.op = ReduceOp::kSum;
      call.parameters.intra = Phase::kNccl;
      const BuiltCase all = all_with_peers(call, uint64_t{1} << 18);
      ASSERT_EQ(fault_of(all, Branch::kPeers, 1, 7), "") << call;
    }
}

INSTANTIATE_TEST_SUITE_P(All, DelegatedCollectives, testing::ValuesIn(kCollectives),
                         [](const testing::TestParamInfo<Collective>& each) {
                           return std::string(name_of(each.param));
                         });

// Looks at mutants of what a rank gives, takes, folds and waits for.
class DelegatedMutants : public testing::TestWithParam<Collective> {
 protected:
  void SetUp() override {
    VerifiedCase call = window_case(GetParam(), 3, 4000, 1);
    call.root = 1;
    call.in_place = false;
    call.type = DataType::kFloat32;
    call.op = ReduceOp::kSum;
    call.parameters.intra = Phase::kNccl;
    built_ = all_with_peers(call, kSmallWindow);
    whole_ = built_.schedules[1];
    ASSERT_EQ(fault(), "");
  }
  std::string fault() const {
    std::string found;
    for (uint32_t seed = 0; seed < 4 && found.empty(); ++seed)
      found = fault_of(built_, Branch::kPeers, 1, seed);
    return found;
  }
  void expect_fault(Schedule mutant, const std::string& what) {
    built_.schedules[1] = std::move(mutant);
    EXPECT_NE(fault(), "") << what;
    ++looked_at_;
  }

  BuiltCase built_;
  Schedule whole_;
  int looked_at_ = 0;
};

TEST_P(DelegatedMutants, WithoutAStepAreFound) {
  for (uint32_t at = 0; at < whole_.steps.size(); ++at) {
    const Step& step = whole_.steps[at];
    if (step.branch != Branch::kPeers || step.op == Op::kWithdraw) continue;
    expect_fault(without_step(whole_, at), std::string(name_of(step.op)) + std::to_string(at));
  }
  EXPECT_GE(looked_at_, 2);
}

TEST_P(DelegatedMutants, ThatGiveOrTakeElsewhereAreFound) {
  for (size_t index = 0; index < whole_.delegations.size(); ++index)
    for (size_t place = 0; place < 3; ++place)
      for (auto lists : {&Delegation::to, &Delegation::from}) {
        const Slice slice = (whole_.delegations[index].*lists)[place];
        if (slice.size == 0) continue;
        Schedule mutant = whole_;
        (mutant.delegations[index].*lists)[place].offset += 64;
        expect_fault(std::move(mutant), "moved " + std::to_string(index));
        mutant = whole_;
        (mutant.delegations[index].*lists)[place].size -= 4;
        expect_fault(std::move(mutant), "shorter " + std::to_string(index));
        mutant = whole_;
        (mutant.delegations[index].*lists)[place] = {};
        expect_fault(std::move(mutant), "dropped " + std::to_string(index));
      }
  EXPECT_GE(looked_at_, 6);
}

// Whether it waits for that, also through others.
bool waits(const Schedule& schedule, uint32_t at, uint32_t before) {
  std::vector<bool> behind(schedule.steps.size());
  behind[before] = true;
  for (uint32_t step = before; step < at; ++step)
    for (const uint32_t next : schedule.successors_of(step))
      if (behind[step]) behind[next] = true;
  return behind[at];
}

TEST_P(DelegatedMutants, ThatDoNotWaitAreFound) {
  const Edges edges = edges_of(whole_);
  for (uint32_t at = 0; at < whole_.steps.size(); ++at)
    for (const uint32_t before : edges[at]) {
      const Step& earlier = whole_.steps[before];
      if (whole_.steps[at].op != Op::kDelegate || earlier.op != Op::kDelegate) continue;
      const Schedule mutant = without_edge(whole_, before, at);
      if (!waits(mutant, at, before)) expect_fault(mutant, "in no order " + std::to_string(at));
    }
  // Where nothing is summed, a rank's own block goes to its output between two of them.
  EXPECT_GE(looked_at_, reduces(GetParam()) ? 1 : 0);
}

TEST_P(DelegatedMutants, ThatFoldOthersAreFound) {
  for (uint32_t at = 0; at < whole_.steps.size(); ++at) {
    Step step = whole_.steps[at];
    if (step.op != Op::kFold) continue;
    step.src2.offset += 64;
    expect_fault(with_step(whole_, at, step), "parts elsewhere");
    step = whole_.steps[at];
    step.src2 = {};
    expect_fault(with_step(whole_, at, step), "windows of others");
  }
  const bool sums = reduces(GetParam());
  EXPECT_EQ(looked_at_ != 0, sums);
}

INSTANTIATE_TEST_SUITE_P(All, DelegatedMutants,
                         testing::Values(Collective::kAllreduce, Collective::kReduce,
                                         Collective::kReduceScatter, Collective::kAllgather,
                                         Collective::kAlltoall),
                         [](const testing::TestParamInfo<Collective>& each) {
                           return std::string(name_of(each.param));
                         });

constexpr uint64_t kFew = kPeersInsideLeast / 4;

TEST(DelegatedInHosts, AreRightWhateverHostsHave) {
  int draw = 0;
  for (int ranks = 4; ranks <= 9; ++ranks)
    for (const Shape& shape : shapes_of(ranks)) {
      const Hierarchy levels = shape.hierarchy.simplified();
      if (levels.depth() == 0) continue;
      for (const Collective collective : kCollectives) {
        VerifiedCase call = hosted_case(ranks, kFew + 17, ++draw);
        call.collective = collective;
        call.root = has_root(collective) ? draw % ranks : 0;
        call.shape = std::make_shared<Shape>(shape);
        call.parameters.intra = Phase::kNccl;
        const Problem problem = problem_of(call, 0);
        if (!may_go_by_peers_inside(problem, ranks, levels, call.parameters)) continue;
        std::vector<Branch> all(static_cast<size_t>(ranks), Branch::kPeers), some, none;
        for (int rank = 0; rank < ranks; ++rank) {
          const bool odd = (levels.part_of(0, rank) + draw) % 2 != 0;
          some.push_back(odd ? Branch::kOtherwise : Branch::kPeers);
          none.push_back(Branch::kOtherwise);
        }
        const auto seed = static_cast<uint32_t>(draw);
        const BuiltCase made = built_on_hosts(call, [](int) { return true; });
        for (const std::vector<Branch>& branches : {all, some, none})
          ASSERT_EQ(fault_of(made, branches, draw % 3, seed), "") << call;
      }
    }
  EXPECT_GT(draw, 100);
}

TEST(DelegatedInHosts, UseAWindowAgain) {
  const auto shape = std::make_shared<Shape>(shape_of("twos and one", {0, 0, 1, 1, 2}));
  for (const Collective collective :
       {Collective::kAllreduce, Collective::kReduceScatter, Collective::kAllgatherv})
    for (const DataType type : {DataType::kFloat32, DataType::kBfloat16}) {
      VerifiedCase call = hosted_case(5, 20'000'000, 0);
      call.collective = collective;
      call.type = type;
      call.shape = shape;
      call.parameters.intra = Phase::kNccl;
      const BuiltCase made = built_on_hosts(call, [](int) { return true; });
      ASSERT_TRUE(has_delegates(made));
      ASSERT_EQ(fault_of(made, std::vector(5, Branch::kPeers), 1, 3), "") << call;
    }
}

// One host is what hierarchical finds inside hosts; by direct sums are in the same order.
TEST(DelegatedInHosts, AreAskedForByHierarchicalAlone) {
  const Problem problem{.count = 1 << 20,
                        .send_counts = {},
                        .send_displacements = {},
                        .recv_counts = {},
                        .recv_displacements = {}};
  Choice asked{find_algorithm("hierarchical"), "named by the call", -1, {.intra = Phase::kNccl}};
  const Choice got = for_peers(problem, 4, {}, asked.algorithm, asked);
  EXPECT_EQ(got.algorithm, find_algorithm("direct"));
  EXPECT_EQ(got.parameters.intra, Phase::kNccl);
  EXPECT_TRUE(goes_by_peers(problem, 4, {}, asked.algorithm, got));
  asked.parameters.intra = Phase::kDirect;
  EXPECT_EQ(for_peers(problem, 4, {}, asked.algorithm, asked).algorithm, asked.algorithm);
}

}  // namespace
}  // namespace banyan::delegated_test
