// The two-level allreduce of 65,536 ranks on 8,192 hosts is verified whole: the schedules of all
// ranks, all elements of all shards, by the verifier that all others meet (verify.h), which tells
// sums apart by their content here. And a step that is wrong, wherever it is, is found there, too.
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "algorithms/algorithms.h"
#include "algorithms/verify/verify.h"
#include "tests/algorithms/mutated.h"
#include "tests/support/sanitizers.h"

namespace banyan::scale_test {
namespace {

constexpr int kRanks = test::kAddressSanitizer ? 4096 : 65536;
constexpr int kLocal = 8;

class Scale : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    std::vector<int> labels;
    for (int rank = 0; rank < kRanks; ++rank) labels.push_back(rank / kLocal);
    const Hierarchy hierarchy = Hierarchy::of_labels("host", labels);
    Problem problem;
    problem.count = uint64_t{4} * kRanks + 4711;  // so that blocks differ in length
    problems.assign(kRanks, problem);
    schedules.resize(kRanks);
    const auto build = [&](int first, int end) {
      Group group = Group::everyone(kRanks, 0, &hierarchy);
      for (group.me = first; group.me < end; ++group.me)
        schedules[static_cast<size_t>(group.me)] = build_schedule(
            problem, group, algorithms()[static_cast<size_t>(find_algorithm("hierarchical"))]);
    };
    std::thread half(build, 0, kRanks / 2);
    build(kRanks / 2, kRanks);
    half.join();
  }
  static void TearDownTestSuite() {
    schedules = {};
    problems = {};
  }

  static std::string fault() {
    return verify(schedules, problems, {.slots = 1, .seed = 4711, .by_content = true}).reason;
  }

  // Changes a step of a rank, which are drawn until they fit.
  template <typename Fits, typename Mutant>
  void expect_caught(const char* name, Fits fits, Mutant mutant) {
    std::mt19937 random(4711);
    size_t rank = 0;
    uint32_t step = 0;
    do {
      rank = random() % kRanks;
      step = static_cast<uint32_t>(random() % schedules[rank].steps.size());
    } while (!fits(schedules[rank].steps[step]));
    Schedule other = mutant(schedules[rank], step);
    std::swap(schedules[rank], other);
    EXPECT_NE(fault(), "") << name << ": step " << step << " of rank " << rank;
    std::swap(schedules[rank], other);
  }

  static inline std::vector<Schedule> schedules;
  static inline std::vector<Problem> problems;
};

TEST_F(Scale, AllreduceOf65536RanksIsRight) {
  EXPECT_EQ(fault(), "");
}

TEST_F(Scale, MutantsWithAnotherMessageAreCaught) {
  const auto is_any = [](const Step& step) { return has_peer(step); };
  expect_caught("dropped", is_any, without_step);
  expect_caught("repeated", is_any, with_repeated);
  expect_caught("to the next host", is_any, [](const Schedule& schedule, uint32_t at) {
    Step step = schedule.steps[at];
    step.peer = (step.peer + kLocal) % kRanks;
    return with_step(schedule, at, step);
  });
}

// All messages still meet: only what is in them tells.
TEST_F(Scale, MutantsWithAnotherElementAreCaught) {
  expect_caught(
      "the elements before",
      [](const Step& step) { return step.op == Op::kSend && step.src.offset != 0; },
      [](const Schedule& schedule, uint32_t at) {
        Step step = schedule.steps[at];
        step.src.offset -= sizeof(float);
        return with_step(schedule, at, step);
      });
}

}  // namespace
}  // namespace banyan::scale_test
