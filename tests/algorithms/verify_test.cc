// The verifier is put to the test: it must name what is wrong in hand-made schedules, and reject
// every mutant of correct ones unless the mutant can be shown to be correct too.
// SPDX-License-Identifier: Apache-2.0

#include "algorithms/verify/verify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "algorithms/builder.h"
#include "tests/algorithms/verified_case.h"

namespace banyan::verify_test {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kFloat = 4;

Slice input(uint64_t offset, uint64_t size) {
  return {Space::kInput, offset, size};
}

Slice output(uint64_t offset, uint64_t size) {
  return {Space::kOutput, offset, size};
}

// One element each, unchecked, unless a test says otherwise.
Problem simple(Collective collective, DataType type = DataType::kFloat32,
               ReduceOp op = ReduceOp::kSum) {
  Problem problem = problem_of({.collective = collective, .count = 1, .type = type, .op = op}, 0);
  problem.check = false;
  return problem;
}

// The ranks' programs are written side by side.
struct Programs {
  explicit Programs(size_t ranks) : builders(ranks) {}

  ScheduleBuilder& operator[](size_t rank) { return builders[rank]; }
  Verification verify(const Problem& problem, int slots = 1) {
    std::vector<Schedule> schedules;
    for (ScheduleBuilder& builder : builders) schedules.push_back(std::move(builder).finish());
    const std::vector<Problem> problems(schedules.size(), problem);
    return banyan::verify(schedules, problems, {.slots = slots, .seed = 1});
  }

  std::vector<ScheduleBuilder> builders;
};

// Two ranks exchange their float and add: input + landing -> output.
Programs exchange_and_add() {
  Programs programs(2);
  for (const int rank : {0, 1}) {
    ScheduleBuilder& builder = programs[static_cast<size_t>(rank)];
    const Slice landing = builder.scratch(kFloat);
    builder.send(input(0, kFloat), 1 - rank);
    builder.recv(landing, 1 - rank);
    builder.reduce(DataType::kFloat32, input(0, kFloat), landing, output(0, kFloat));
  }
  return programs;
}

TEST(Verify, AcceptsAnExchange) {
  for (int slots = 0; slots < 5; ++slots) {
    const Verification result = exchange_and_add().verify(simple(Collective::kAllreduce), slots);
    EXPECT_TRUE(result.ok) << result.reason;
  }
}

void expect_wrong(const Verification& result, const std::string& text) {
  EXPECT_FALSE(result.ok);
  EXPECT_THAT(result.reason, HasSubstr(text));
}

// Nobody at the other end needs to know of it.
TEST(Verify, AcceptsAPortWithoutMessages) {
  Programs programs(3);
  std::vector<Schedule> schedules;
  for (ScheduleBuilder& builder : programs.builders)
    schedules.push_back(std::move(builder).finish());
  schedules[0].ports.push_back({.peer = 1, .sending = false});
  schedules[0].ports.push_back({.peer = 2, .sending = true});
  Problem problem = simple(Collective::kAllgather);
  problem.count = 0;
  const Verification result = verify(schedules, std::vector<Problem>(3, problem), {});
  EXPECT_TRUE(result.ok) << result.reason;
}

TEST(Verify, FindsAMissingContribution) {
  Programs programs(2);
  for (const size_t rank : {0, 1}) programs[rank].copy(input(0, kFloat), output(0, kFloat));
  expect_wrong(programs.verify(simple(Collective::kAllreduce)),
               "the contribution of rank 1 is missing");
}

TEST(Verify, FindsAContributionCountedTwice) {
  Programs programs = exchange_and_add();
  programs[1].reduce(DataType::kFloat32, output(0, kFloat), input(0, kFloat), output(0, kFloat));
  expect_wrong(programs.verify(simple(Collective::kAllreduce)),
               "the contribution of rank 1 is in it more than once");
}

TEST(Verify, FindsMixedElements) {
  Programs programs(1);
  programs[0].reduce(DataType::kFloat32, input(0, kFloat), input(kFloat, kFloat),
                     output(0, kFloat));
  Problem problem = simple(Collective::kAllreduce);
  problem.count = 2;
  expect_wrong(programs.verify(problem), "combines element 0 with element 1");
}

TEST(Verify, FindsAnUnmatchedMessage) {
  Programs programs = exchange_and_add();
  programs[0].send({}, 1);
  expect_wrong(programs.verify(simple(Collective::kAllreduce)),
               "rank 0 s3 (send): nothing at rank 1 matches this message");
}

TEST(Verify, FindsAMessageOfAnotherSize) {
  Programs programs(2);
  programs[0].send(input(0, 2), 1);
  programs[1].recv(output(0, kFloat), 0);
  expect_wrong(programs.verify(simple(Collective::kBroadcast)), "2 bytes, but rank 1");
}

TEST(Verify, FindsADeadlock) {
  Programs programs(2);
  for (const int rank : {0, 1}) {
    programs[static_cast<size_t>(rank)].recv({}, 1 - rank);
    programs[static_cast<size_t>(rank)].fence();
    programs[static_cast<size_t>(rank)].send({}, 1 - rank);
  }
  expect_wrong(programs.verify(simple(Collective::kBarrier)), "nothing can run any more");
}

// Both send before they receive: fine as long as a message can wait between them.
TEST(Verify, FindsADeadlockThatNeedsASlot) {
  for (const int slots : {0, 1}) {
    Programs programs(2);
    for (const int rank : {0, 1}) {
      programs[static_cast<size_t>(rank)].send({}, 1 - rank);
      programs[static_cast<size_t>(rank)].fence();
      programs[static_cast<size_t>(rank)].recv({}, 1 - rank);
    }
    EXPECT_EQ(programs.verify(simple(Collective::kBarrier), slots).ok, slots == 1);
  }
}

// Two messages to rank 1 before it may send: with one place only the second is stuck.
TEST(Verify, FindsADeadlockThatNeedsTwoSlots) {
  for (const int slots : {1, 2}) {
    Programs programs(2);
    for (const int rank : {0, 1}) {
      ScheduleBuilder& builder = programs[static_cast<size_t>(rank)];
      for (int turn = 0; turn < 2; ++turn) builder.send({}, 1 - rank);
      builder.fence();
      for (int turn = 0; turn < 2; ++turn) builder.recv({}, 1 - rank);
    }
    EXPECT_EQ(programs.verify(simple(Collective::kBarrier), slots).ok, slots == 2);
  }
}

TEST(Verify, FindsAReadOfMemoryThatNobodyWrote) {
  Programs programs(1);
  programs[0].copy(programs[0].scratch(kFloat), output(0, kFloat));
  expect_wrong(programs.verify(simple(Collective::kAllreduce)), "reads memory that nobody wrote");
  Programs others(1);
  others[0].copy(output(0, kFloat), others[0].scratch(kFloat));
  expect_wrong(others.verify(simple(Collective::kAllreduce)), "reads output that nobody wrote");
}

TEST(Verify, FindsAWriteToTheSendBuffer) {
  Programs programs(2);
  programs[0].send(input(0, kFloat), 1);
  programs[1].recv(input(0, kFloat), 0);
  expect_wrong(programs.verify(simple(Collective::kAllreduce)), "writes the send buffer");
}

TEST(Verify, FindsWhatIsOutOfBounds) {
  Programs programs(1);
  programs[0].copy(input(0, kFloat), output(1, kFloat));
  expect_wrong(programs.verify(simple(Collective::kAllreduce)), "output[1..5) ends behind 4");
  Programs far(1);
  far[0].copy(input(0, kFloat), {Space::kScratch, UINT64_MAX - 1, kFloat});
  expect_wrong(far.verify(simple(Collective::kAllreduce)), "ends behind 0");
}

TEST(Verify, FindsAnotherOrderOfReduction) {
  Programs programs(3);
  for (const int rank : {0, 1, 2}) {
    ScheduleBuilder& builder = programs[static_cast<size_t>(rank)];
    Slice parts[3];
    for (const int peer : {0, 1, 2}) {
      if (peer == rank) {
        parts[peer] = input(0, kFloat);
        continue;
      }
      parts[peer] = builder.scratch(kFloat);
      builder.send(input(0, kFloat), peer);
      builder.recv(parts[peer], peer);
    }
    const int first = rank == 2 ? 1 : 0;  // (0 + 1) + 2, but (1 + 2) + 0 on rank 2
    const Slice sum = builder.scratch(kFloat);
    builder.reduce(DataType::kFloat32, parts[first + 1], parts[first], sum);
    builder.reduce(DataType::kFloat32, sum, parts[(first + 2) % 3], output(0, kFloat));
  }
  expect_wrong(programs.verify(simple(Collective::kAllreduce)),
               "ranks 0 and 2: bytes [0..4) of the output were combined in another order");
}

// By content two orders are one sum, but ranks that take it each by itself may differ in its bits.
TEST(Verify, ByContentFindsASumFinishedTwice) {
  const auto reason = [](const char* algorithm, int ranks) {
    const BuiltCase built =
        build_case({.algorithm = find_algorithm(algorithm), .ranks = ranks, .count = 37});
    const VerifyOptions options{.slots = 2, .seed = 1, .by_content = true};
    return verify(built.schedules, built.problems, options).reason;
  };
  for (int ranks = 1; ranks <= 17; ++ranks) {
    EXPECT_EQ(reason("circulant", ranks), "");
    EXPECT_EQ(reason("ring", ranks), "");
  }
  EXPECT_EQ(reason("recursive_doubling", 4),
            "592 bytes of sums are finished instead of 148: some by more than one rank");
}

TEST(Verify, FindsAWriteBeforeAgreement) {
  Programs programs(3);
  programs[0].copy(input(0, kFloat), output(0, kFloat));
  programs[0].send(input(0, kFloat), 1);
  programs[1].recv(output(0, kFloat), 0);
  programs[1].send(output(0, kFloat), 2);
  programs[2].recv(output(0, kFloat), 1);
  Problem problem = simple(Collective::kBroadcast);
  EXPECT_TRUE(programs.verify(problem).ok);
  problem.check = true;
  Programs chain(2);
  chain[0].send(input(0, kFloat), 1);
  chain[0].copy(input(0, kFloat), output(0, kFloat));
  chain[0].recv({}, 1);
  chain[1].recv(output(0, kFloat), 0);
  chain[1].send({}, 0);
  expect_wrong(chain.verify(problem),
               "rank 0 s1 (copy) writes the output without having heard from rank 1");
}

TEST(Verify, FindsABarrierThatDoesNotHoldBack) {
  Programs programs(2);
  programs[0].send({}, 1);
  programs[1].recv({}, 0);
  expect_wrong(programs.verify(simple(Collective::kBarrier)),
               "rank 0 ends without having heard from rank 1");
}

TEST(Verify, FindsAnAverageThatIsNotDivided) {
  expect_wrong(
      exchange_and_add().verify(simple(Collective::kAllreduce, DataType::kFloat32, ReduceOp::kAvg)),
      "no result");
}

TEST(Verify, FindsAContributionThatIsNotScaled) {
  expect_wrong(exchange_and_add().verify(
                   simple(Collective::kAllreduce, DataType::kFloat32, ReduceOp::kPreMulSum)),
               "not decoded");
}

TEST(Verify, FindsAContributionScaledByAnotherRank) {
  Programs programs(2);
  programs[0].send(input(0, kFloat), 1);
  programs[1].recv(programs[1].scratch(kFloat), 0);
  programs[1].decode(DataType::kFloat32, {Space::kScratch, 0, kFloat}, programs[1].scratch(kFloat));
  expect_wrong(
      programs.verify(simple(Collective::kReduce, DataType::kFloat32, ReduceOp::kPreMulSum)),
      "scales a contribution of another rank");
}

TEST(Verify, FindsASumOfNarrowNumbers) {
  Programs programs(1);
  programs[0].reduce(DataType::kBfloat16, input(0, 2), input(0, 2), output(0, 2));
  expect_wrong(programs.verify(simple(Collective::kAllreduce, DataType::kBfloat16)),
               "has type bfloat16 instead of float32");
}

TEST(Verify, FindsWhatIsRoundedTwice) {
  Programs programs(1);
  const Slice wide = programs[0].scratch(4);
  const Slice narrow = programs[0].scratch(2);
  programs[0].decode(DataType::kBfloat16, input(0, 2), wide);
  programs[0].encode(DataType::kBfloat16, wide, narrow);
  programs[0].decode(DataType::kBfloat16, narrow, wide);
  expect_wrong(programs.verify(simple(Collective::kAllreduce, DataType::kBfloat16)),
               "decodes what is no contribution");
}

TEST(Verify, FindsABlockThatShouldHaveBeenKept) {
  Problem problem = simple(Collective::kAllgatherv);
  problem.recv_counts = {1};
  problem.recv_displacements = {1};
  Programs programs(1);
  programs[0].copy(input(0, kFloat), output(kFloat, kFloat));
  EXPECT_TRUE(programs.verify(problem).ok);
  Programs other(1);
  other[0].copy(input(0, kFloat), output(kFloat, kFloat));
  other[0].copy(input(0, kFloat), output(0, kFloat));
  expect_wrong(other.verify(problem), "bytes [0..4) of the output were written");
}

TEST(Verify, FindsBrokenLists) {
  std::vector<Schedule> schedules(1);
  const std::vector<Problem> problems{simple(Collective::kBarrier)};
  expect_wrong(verify(schedules, problems, {}), "its lists do not have the length");
  expect_wrong(verify({}, {}, {}), "one schedule and one problem");
  const std::vector<Problem> without{simple(Collective::kAlltoallv)};
  std::vector<Problem> emptied = without;
  emptied[0].recv_counts.clear();
  expect_wrong(verify(schedules, emptied, {}), "a list has no entry");
}

}  // namespace
}  // namespace banyan::verify_test
