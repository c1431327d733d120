// Sums over several hosts whose ranks read each other's memory of GPUs inside: every host may or
// may not do so, and all is right.
// SPDX-License-Identifier: Apache-2.0

#include "algorithms/host_windows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "algorithms/choice/explain.h"
#include "tests/algorithms/mutated.h"
#include "tests/algorithms/window_cases.h"
#include "tests/support/toy_codec.h"

namespace banyan::host_windows_test {
namespace {

constexpr uint64_t kFew = kPeersInsideLeast / 4;

constexpr Collective kCollectives[] = {Collective::kAllreduce,      Collective::kReduce,
                                       Collective::kBroadcast,      Collective::kAllgather,
                                       Collective::kAllgatherv,     Collective::kReduceScatter,
                                       Collective::kReduceScatterv, Collective::kAlltoall};

bool has_peers(const BuiltCase& made) {
  return std::any_of(made.schedules.begin(), made.schedules.end(), [](const Schedule& schedule) {
    return std::any_of(schedule.steps.begin(), schedule.steps.end(), [](const Step& step) {
      return step.branch == Branch::kPeers && step.dst.space == Space::kWindow;
    });
  });
}

class HostedCollectives : public testing::TestWithParam<Collective> {};

TEST_P(HostedCollectives, AreRightWhateverHostsHave) {
  int draw = 0;
  for (int ranks = 4; ranks <= 9; ++ranks)
    for (const Shape& shape : shapes_of(ranks)) {
      if (shape.hierarchy.simplified().depth() == 0) continue;
      for (const uint64_t count : {kFew, kFew + 17, 5 * kFew + 1}) {
        VerifiedCase call = hosted_case(ranks, count, ++draw);
        call.collective = GetParam();
        call.root = has_root(GetParam()) ? draw % ranks : 0;
        call.shape = std::make_shared<Shape>(shape);
        const Hierarchy levels = shape.hierarchy.simplified();
        std::vector<Branch> all, some, none(static_cast<size_t>(ranks), Branch::kOtherwise);
        for (int rank = 0; rank < ranks; ++rank) {
          const int part = levels.part_of(0, rank);
          all.push_back(Branch::kPeers);
          some.push_back((part + draw) % 2 == 0 ? Branch::kPeers : Branch::kOtherwise);
        }
        const auto seed = static_cast<uint32_t>(draw);
        const BuiltCase on_gpus = built_on_hosts(call, [](int) { return true; });
        for (const std::vector<Branch>& branches : {all, some, none})
          ASSERT_EQ(fault_of(on_gpus, branches, draw % 3, seed), "") << call;
        const BuiltCase mixed =
            built_on_hosts(call, [&](int rank) { return (rank + draw) % 3 != 0; });
        ASSERT_EQ(fault_of(mixed, none, draw % 3, seed), "") << call;
      }
    }
}

// A window has room for a few of the segments that these have.
TEST_P(HostedCollectives, UseAWindowAgain) {
  const auto shape = std::make_shared<Shape>(shape_of("twos and one", {0, 0, 1, 1, 2}));
  for (const DataType type : {DataType::kFloat32, DataType::kBfloat16}) {
    VerifiedCase call = hosted_case(5, 20'000'000, 0);
    call.collective = GetParam();
    call.type = type;
    call.shape = shape;
    const BuiltCase made = built_on_hosts(call, [](int) { return true; });
    ASSERT_TRUE(has_peers(made));
    for (const int slots : {0, 1, 4})
      ASSERT_EQ(fault_of(made, std::vector(5, Branch::kPeers), slots, 3), "") << call;
  }
}

INSTANTIATE_TEST_SUITE_P(All, HostedCollectives, testing::ValuesIn(kCollectives),
                         [](const testing::TestParamInfo<Collective>& each) {
                           return std::string(name_of(each.param));
                         });

// Looks at mutants of rank 1, of two on its host, whose window is used again.
class HostWindowMutants : public testing::TestWithParam<Collective> {
 protected:
  void SetUp() override {
    VerifiedCase call = hosted_case(4, 10'500'000, 0);
    call.collective = GetParam();
    call.shape = std::make_shared<Shape>(shape_of("twos", {0, 0, 1, 1}));
    built_ = built_on_hosts(call, [](int) { return true; });
    whole_ = built_.schedules[1];
    ASSERT_EQ(fault(), "");
  }
  std::string fault() const {
    std::string found;
    for (uint32_t seed = 0; seed < 2 && found.empty(); ++seed)
      found = fault_of(built_, std::vector(4, Branch::kPeers), 1, seed);
    return found;
  }
  void expect_fault(Schedule mutant, uint32_t step) {
    built_.schedules[1] = std::move(mutant);
    EXPECT_NE(fault(), "") << "step " << step << ", " << name_of(whole_.steps[step].op);
    ++looked_at_;
  }
  bool is_folded(const Slice& slice) const {
    return std::any_of(whole_.steps.begin(), whole_.steps.end(),
                       [&](const Step& step) { return step.op == Op::kFold && step.src == slice; });
  }

  BuiltCase built_;
  Schedule whole_;
  int looked_at_ = 0;
};

TEST_P(HostWindowMutants, WithoutAStepOrWithItElsewhereAreFound) {
  for (uint32_t at = 0; at < whole_.steps.size(); ++at) {
    const Step& step = whole_.steps[at];
    if (step.branch != Branch::kPeers || step.op == Op::kWithdraw) continue;
    expect_fault(without_step(whole_, at), at);
    if (!uses_window(step)) continue;
    Step moved = step;
    (moved.src.space == Space::kWindow ? moved.src : moved.dst).offset += 64;
    expect_fault(with_step(whole_, at, moved), at);
  }
  EXPECT_GT(looked_at_, 50);
}

// It tells before it is done, or does not wait for what it is told.
TEST_P(HostWindowMutants, WithoutAnOrderBetweenStepsAndMessagesAreFound) {
  for (uint32_t at = 0; at < whole_.steps.size(); ++at) {
    const bool tells = whole_.steps[at].op == Op::kSend;
    if (whole_.steps[at].branch != Branch::kPeers || !(tells || uses_window(whole_.steps[at])))
      continue;
    const Edges edges = edges_of(whole_);
    Schedule mutant = whole_;
    for (const uint32_t before : edges[at]) {
      const Step& step = whole_.steps[before];
      const bool drops = tells ? uses_window(step) : step.op == Op::kRecv;
      if (drops && step.branch == Branch::kPeers) mutant = without_edge(mutant, before, at);
    }
    // The block that it sums itself no other rank reads.
    if (edges_of(mutant) == edges || is_folded(whole_.steps[at].dst)) continue;
    expect_fault(std::move(mutant), at);
  }
  EXPECT_GT(looked_at_, 30);
}

INSTANTIATE_TEST_SUITE_P(All, HostWindowMutants,
                         testing::Values(Collective::kAllreduce, Collective::kAllgather,
                                         Collective::kReduceScatter, Collective::kAlltoall),
                         [](const testing::TestParamInfo<Collective>& each) {
                           return std::string(name_of(each.param));
                         });

// What a rank gives is scaled as it goes to its window.
TEST(HostWindows, HaveScaledContributions) {
  VerifiedCase call = hosted_case(4, kFew, 0);
  call.op = ReduceOp::kPreMulSum;
  call.shape = std::make_shared<Shape>(shape_of("twos", {0, 0, 1, 1}));
  BuiltCase built = built_on_hosts(call, [](int) { return true; });
  const std::vector<Branch> branches(4, Branch::kPeers);
  ASSERT_EQ(fault_of(built, branches, 1, 5), "");
  const Schedule whole = built.schedules[1];
  int looked_at = 0;
  for (uint32_t at = 0; at < whole.steps.size(); ++at) {
    Step step = whole.steps[at];
    if (step.op != Op::kDecode || step.dst.space != Space::kWindow) continue;
    step.op = Op::kCopy;
    built.schedules[1] = with_step(whole, at, step);
    EXPECT_NE(fault_of(built, branches, 1, 5), "") << "as it is, s" << at;
    ++looked_at;
  }
  EXPECT_GT(looked_at, 0);
}

TEST(HostWindows, AreForSumsThatGain) {
  const auto shape = std::make_shared<Shape>(shape_of("twos", {0, 0, 1, 1}));
  VerifiedCase call = hosted_case(4, kFew, 0);
  call.shape = shape;
  const auto may = [&] { return has_peers(built_on_hosts(call, [](int) { return true; })); };
  EXPECT_TRUE(may());
  call.count = kFew - 1;
  EXPECT_FALSE(may()) << "short";
  call.count = kFew;
  call.op = ReduceOp::kPreMulSum;
  EXPECT_TRUE(may());
  call.op = ReduceOp::kSum;
  call.parameters.intra = Phase::kRing;
  EXPECT_FALSE(may()) << "its order of sums is another";
  call.parameters.intra = Phase::kDirect;
  EXPECT_TRUE(may());
}

// Between hosts a codec sends the sums, and each rank keeps what its messages leave of its shards.
TEST(HostWindows, KeepWhatIsLeftBetweenHosts) {
  int draw = 0;
  for (const Shape& shape : shapes_of(6)) {
    if (shape.hierarchy.simplified().depth() == 0) continue;
    VerifiedCase call = hosted_case(6, kFew + 17, ++draw);
    call.shape = std::make_shared<Shape>(shape);
    call.type = DataType::kFloat32;
    call.op = ReduceOp::kSum;
    call.codecs = test::toy_codecs();
    call.parameters.inter_codec = {.codec = test::kToy};
    call.keeps_left = true;
    for (const bool all : {true, false}) {
      const BuiltCase made = built_on_hosts(call, [&](int rank) { return all || rank % 2 == 0; });
      EXPECT_TRUE(!all || has_peers(made)) << call;
      const Branch branch = all ? Branch::kPeers : Branch::kOtherwise;
      EXPECT_EQ(fault_of(made, std::vector(6, branch), draw % 3, 1), "") << call;
      EXPECT_EQ(fault_of(made, std::vector(6, Branch::kOtherwise), 1, 2), "") << call;
    }
  }
}

// Who asks what a call gets hears of it.
TEST(HostWindows, AreForHostsThatSumInOrder) {
  CallSite site{.problem = {.count = 1 << 20,
                            .send_counts = {},
                            .send_displacements = {},
                            .recv_counts = {},
                            .recv_displacements = {}},
                .ranks = 4,
                .medium = Medium::kNetwork,
                .hierarchy = Hierarchy::of_labels("host", std::vector<int>{0, 0, 1, 1})};
  for (const bool by_peers : {false, true}) {
    site.by_peers_inside = by_peers;
    const ExplainedAlgorithm chosen = explain(site).algorithms.front();
    ASSERT_EQ(chosen.algorithm, find_algorithm("hierarchical"));
    EXPECT_EQ(chosen.parameters.intra, by_peers ? Phase::kDirect : Phase::kOwn);
  }
}

}  // namespace
}  // namespace banyan::host_windows_test
