// Schedules that work on memory of the host in place of the caller's do what they did, and touch
// the caller's by copies alone.
// SPDX-License-Identifier: Apache-2.0

#include "algorithms/staging.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "algorithms/print.h"
#include "algorithms/verify/verify.h"
#include "tests/algorithms/verified_case.h"
#include "tests/support/toy_codec.h"

namespace banyan::staging_test {
namespace {

constexpr uint64_t kPieces[] = {1, 24, uint64_t{1} << 20};

bool is_staged(const Slice& slice, Staging staging) {
  return slice.size != 0 && ((slice.space == Space::kInput && staging.input) ||
                             (slice.space == Space::kOutput && staging.output));
}

std::vector<Slice> slices_of(const Step& step) {
  return {step.src, step.src2, step.dst, step.dst2};
}

// Empty: only copies of at most so many bytes touch what is staged, and they do so on one side.
std::string only_copies_touch(const Schedule& schedule, Staging staging, uint64_t piece) {
  for (const Step& step : schedule.steps) {
    size_t touched = 0;
    for (const Slice& slice : slices_of(step)) touched += is_staged(slice, staging) ? 1 : 0;
    if (step.memory == MemoryKind::kDevice) {
      const bool one_side = touched == 1 && (step.src.space == Space::kScratch) !=
                                                (step.dst.space == Space::kScratch);
      if (step.op != Op::kCopy || !one_side) return "no copy between the two";
      if (step.dst.size > piece) return "a piece is too long";
    } else if (touched != 0) {
      return "a step of the host touches it";
    }
  }
  return "";
}

// How often each byte of a space is read or written by copies.
std::vector<int> copies_of(const Schedule& schedule, Space space, bool out) {
  std::vector<int> times;
  for (const Step& step : schedule.steps) {
    const Slice& there = out ? step.dst : step.src;
    if (step.memory != MemoryKind::kDevice || there.space != space) continue;
    if (times.size() < there.end()) times.resize(there.end());
    for (uint64_t at = there.offset; at < there.end(); ++at) ++times[at];
  }
  return times;
}

// What is written is taken out once; and in once, if any step reads it before.
std::string copied_once(const Schedule& before, const Schedule& staged, Space space) {
  std::vector<int> in, out;
  const auto mark = [](std::vector<int>& bytes, const Slice& slice,
                       const std::vector<int>& not_in) {
    if (bytes.size() < slice.end()) bytes.resize(slice.end());
    for (uint64_t at = slice.offset; at < slice.end(); ++at)
      if (at >= not_in.size() || not_in[at] == 0) bytes[at] = 1;
  };
  for (const Step& step : before.steps) {
    for (const Slice& read : {step.src, step.src2})
      if (read.size != 0 && read.space == space) mark(in, read, out);
    for (const Slice& written : {step.dst, step.dst2})
      if (written.size != 0 && written.space == space) mark(out, written, {});
  }
  const auto same = [](std::vector<int> left, std::vector<int> right) {
    left.resize(std::max(left.size(), right.size()));
    right.resize(left.size());
    return left == right;
  };
  if (!same(in, copies_of(staged, space, false))) return "what is read is not brought in once";
  if (!same(out, copies_of(staged, space, true))) return "what is written is not taken out once";
  return "";
}

std::string wrong_with(const Schedule& before, const Schedule& staged, Staging staging,
                       uint64_t piece) {
  std::string wrong = only_copies_touch(staged, staging, piece);
  if (wrong.empty() && staging.input) wrong = copied_once(before, staged, Space::kInput);
  if (wrong.empty() && staging.output) wrong = copied_once(before, staged, Space::kOutput);
  return wrong;
}

// Ranks stage what they please.
Staging staging_of(int rank, int draw) {
  const int drawn = (rank + draw) % 4;
  return {.input = (drawn & 1) != 0, .output = (drawn & 2) != 0};
}

void check_case(const VerifiedCase& call, int draw) {
  BuiltCase built = build_case(call);
  const uint64_t piece = kPieces[draw % 3];
  for (int rank = 0; rank < call.ranks; ++rank) {
    Schedule& schedule = built.schedules[static_cast<size_t>(rank)];
    const Staging staging = staging_of(rank, draw);
    Schedule staged = stage(schedule, staging, piece);
    ASSERT_EQ(wrong_with(schedule, staged, staging, piece), "") << call << ", rank " << rank;
    schedule = std::move(staged);
    built.problems[static_cast<size_t>(rank)].staging = staging;
  }
  for (const int slots : {0, 1, 4}) {
    const Verification found = verify(built.schedules, built.problems,
                                      {.slots = slots, .seed = static_cast<uint32_t>(draw)});
    ASSERT_TRUE(found.ok) << call << ", " << slots << " slots: " << found.reason;
  }
}

class StagedCollectives : public testing::TestWithParam<int> {};

TEST_P(StagedCollectives, AreWhatTheyWere) {
  const int algorithm = GetParam();
  int draw = 0;
  for (int number = 0; number < kCollectiveCount; ++number) {
    const auto collective = static_cast<Collective>(number);
    if (is_message(collective) || !fits(algorithm, collective)) continue;
    for (const int ranks : {1, 2, 3, 5, 8})
      for (const uint64_t count : {0, 1, 7, 40})
        for (const bool in_place : {false, true}) {
          VerifiedCase call{.collective = collective, .algorithm = algorithm, .ranks = ranks};
          call.count = count;
          call.in_place =
              in_place && !is_synchronisation(collective) && collective != Collective::kAlltoallv;
          call.type = ++draw % 2 == 0 ? DataType::kFloat32 : DataType::kBfloat16;
          call.root = has_root(collective) ? draw % ranks : 0;
          check_case(call, draw);
          if (HasFatalFailure()) return;
        }
  }
}

INSTANTIATE_TEST_SUITE_P(Algorithms, StagedCollectives,
                         testing::Range(0, static_cast<int>(algorithms().size())),
                         [](const testing::TestParamInfo<int>& row) {
                           return std::string(algorithms()[static_cast<size_t>(row.param)].name);
                         });

size_t copies_in(const Schedule& schedule) {
  return static_cast<size_t>(std::count_if(
      schedule.steps.begin(), schedule.steps.end(),
      [](const Step& step) { return step.op == Op::kCopy && step.memory == MemoryKind::kDevice; }));
}

// Ranks stage what they please, and some of them have the codec there. The result is how many
// copies there are on those that have it for all that they stage.
size_t check_coded(const VerifiedCase& call, int draw) {
  BuiltCase built = build_case(call);
  size_t copies = 0;
  for (int rank = 0; rank < call.ranks; ++rank) {
    Schedule& schedule = built.schedules[static_cast<size_t>(rank)];
    Staging staging = staging_of(rank, draw);
    staging.left = call.keeps_left && (staging.output || draw % 5 == 0);
    if ((rank + draw) % 3 != 0) staging.codecs = 1 | uint32_t{1} << test::kToy;
    schedule = stage(schedule, staging, 24);
    if (staging.codecs != 0) copies += copies_in(schedule);
    built.problems[static_cast<size_t>(rank)].staging = staging;
  }
  const Verification found =
      verify(built.schedules, built.problems, {.seed = static_cast<uint32_t>(draw)});
  EXPECT_TRUE(found.ok) << call << ": " << found.reason;
  return copies;
}

TEST(Staging, LeavesWhatGoesByACodecToWhoeverHasIt) {
  int draw = 0;
  for (const Collective collective : {Collective::kAllreduce, Collective::kReduceScatter})
    for (const char* algorithm : {"direct", "ring", "circulant"})
      for (const int ranks : {2, 3, 5})
        for (const uint64_t count : {1, 37, 200})
          for (const bool in_place : {false, true}) {
            VerifiedCase call{.collective = collective,
                              .algorithm = find_algorithm(algorithm),
                              .ranks = ranks,
                              .count = count,
                              .codecs = test::toy_codecs()};
            const Algorithm& own = algorithms()[static_cast<size_t>(call.algorithm)];
            if (!own.encodes(collective)) continue;
            call.parameters.inter_codec = {.codec = test::kToy};
            call.in_place = in_place;
            call.type = ++draw % 2 == 0 ? DataType::kFloat32 : DataType::kBfloat16;
            call.op = draw % 4 < 2 ? ReduceOp::kSum : ReduceOp::kAvg;
            const size_t copies = check_coded(call, draw);
            if (collective == Collective::kAllreduce && call.type == DataType::kFloat32 &&
                count >= 37) {
              EXPECT_EQ(copies, 0u) << call;
            }
            call.keeps_left = may_keep_left(problem_of(call, 0));
            if (call.keeps_left) check_coded(call, draw);
          }
}

// What is exact inside hosts is staged, and the codec between them works there.
TEST(Staging, BringsInWhatIsNotByACodec) {
  for (const Shape& shape : shapes_of(6)) {
    VerifiedCase call{.algorithm = find_algorithm("hierarchical"),
                      .ranks = 6,
                      .count = 100,
                      .shape = std::make_shared<const Shape>(shape),
                      .codecs = test::toy_codecs()};
    call.parameters.inter_codec = {.codec = test::kToy};
    for (const bool keeps_left : {false, true}) {
      call.keeps_left = keeps_left;
      for (int draw = 0; draw < 5; ++draw) check_coded(call, draw);
    }
  }
}

TEST(Staging, OfNothingChangesNothing) {
  const VerifiedCase call{.algorithm = find_algorithm("ring"), .ranks = 4, .count = 100};
  const Schedule schedule = build_case(call).schedules[1];
  const Schedule staged = stage(schedule, {});
  EXPECT_EQ(staged.steps, schedule.steps);
  EXPECT_EQ(staged.dependency_count, schedule.dependency_count);
  EXPECT_EQ(staged.scratch_size, schedule.scratch_size);
}

// A message may leave when its own bytes are there, and not the whole vector.
TEST(Staging, StepsWaitForWhatTheyReadAlone) {
  const VerifiedCase call{.algorithm = find_algorithm("ring"), .ranks = 4, .count = 4096};
  const Schedule staged =
      stage(build_case(call).schedules[1], {.input = true, .output = true}, 1024);
  size_t sends_with_little = 0;
  for (size_t step = 0; step < staged.steps.size(); ++step)
    if (staged.steps[step].op == Op::kSend && staged.dependency_count[step] <= 4)
      ++sends_with_little;
  EXPECT_GT(sends_with_little, 0u);
}

TEST(Staging, CutsAtMultiplesOfAPiece) {
  Problem problem{.collective = Collective::kSend, .type = DataType::kInt8, .count = 100};
  problem.root = 1;
  const Schedule staged = stage(build_message(problem), {.input = true}, 32);
  ASSERT_EQ(staged.steps.size(), 5u);
  for (size_t piece = 0; piece < 4; ++piece) {
    EXPECT_EQ(staged.steps[piece].src.offset, 32 * piece);
    EXPECT_EQ(staged.steps[piece].src.size, piece < 3 ? 32u : 4u);
  }
  EXPECT_EQ(staged.dependency_count[4], 4u);
}

// So a piece of a long message is on its way while the next one is copied.
TEST(Staging, PiecesOfAMessageWaitForTheirOwnCopies) {
  Problem problem{.collective = Collective::kSend, .type = DataType::kInt8, .count = 128};
  problem.root = 1;
  const Schedule sent = stage(build_message(problem, 64), {.input = true}, 32);
  problem.collective = Collective::kRecv;
  const Schedule received = stage(build_message(problem, 64), {.output = true}, 32);
  std::vector<uint32_t> waits_for;
  for (size_t step = 0; step < sent.steps.size(); ++step)
    if (sent.steps[step].op == Op::kSend) waits_for.push_back(sent.dependency_count[step]);
  EXPECT_EQ(waits_for, (std::vector<uint32_t>{2, 2, 0}));
  for (size_t step = 0; step < received.steps.size(); ++step)
    EXPECT_EQ(received.dependency_count[step], received.steps[step].op == Op::kRecv ? 0u : 1u);
}

// The transport to every third peer takes no such messages, and the others take those that are not
// short.
std::vector<uint64_t> direct_from(int rank, int ranks, int draw) {
  std::vector<uint64_t> from;
  for (int peer = 0; peer < ranks; ++peer)
    from.push_back((rank + peer + draw) % 3 == 0 ? kNeverDirect : uint64_t{1} << (draw % 5));
  return from;
}

// Steps that others than the host do in the buffers, without copies into working memory and from
// there.
size_t straight_in(const Schedule& schedule) {
  return static_cast<size_t>(
      std::count_if(schedule.steps.begin(), schedule.steps.end(), [](const Step& step) {
        return step.memory == MemoryKind::kDevice && (step.op == Op::kSend || step.op == Op::kRecv);
      }));
}

TEST(Staging, MessagesGoStraightWhereNoStepOfTheHostIsInTheWay) {
  int draw = 0;
  size_t straight = 0;
  for (int algorithm = 0; algorithm < static_cast<int>(algorithms().size()); ++algorithm)
    for (int number = 0; number < kCollectiveCount; ++number) {
      const auto collective = static_cast<Collective>(number);
      if (is_message(collective) || is_synchronisation(collective) || !fits(algorithm, collective))
        continue;
      for (const int ranks : {2, 3, 5, 8})
        for (const uint64_t count : {7, 40}) {
          VerifiedCase call{.collective = collective, .algorithm = algorithm, .ranks = ranks};
          call.count = count;
          call.in_place = ++draw % 3 == 0 && collective != Collective::kAlltoallv;
          call.type = draw % 2 == 0 ? DataType::kFloat32 : DataType::kBfloat16;
          call.root = has_root(collective) ? draw % ranks : 0;
          BuiltCase built = build_case(call);
          for (int rank = 0; rank < ranks; ++rank) {
            Schedule& schedule = built.schedules[static_cast<size_t>(rank)];
            const Staging staging = staging_of(rank, draw);
            schedule = stage(schedule, staging, kPieces[draw % 3], direct_from(rank, ranks, draw));
            straight += straight_in(schedule);
            built.problems[static_cast<size_t>(rank)].staging = staging;
          }
          for (const int slots : {0, 1, 4}) {
            const Verification found =
                verify(built.schedules, built.problems,
                       {.slots = slots, .seed = static_cast<uint32_t>(draw), .direct = true});
            ASSERT_TRUE(found.ok) << call << ", " << slots << " slots: " << found.reason;
          }
        }
    }
  EXPECT_GT(straight, 1000u);
}

Schedule straight(const VerifiedCase& call, Staging staging = {.input = true, .output = true}) {
  const std::vector<uint64_t> from(static_cast<size_t>(call.ranks), 1);
  return stage(build_case(call).schedules[1], staging, kStagedPiece, from);
}

bool touches_host(const Schedule& schedule) {
  return std::any_of(schedule.steps.begin(), schedule.steps.end(),
                     [](const Step& step) { return step.memory == MemoryKind::kHost; });
}

// Nothing but the agreement of the ranks, of which no byte is the caller's.
TEST(Staging, WhatOnlyMovesNeverMeetsTheHost) {
  struct Row {
    Collective collective;
    const char* algorithm;
    bool in_place;
  };
  for (const Row& row : {Row{Collective::kAllgather, "direct", false},
                         {Collective::kAllgather, "direct", true},
                         {Collective::kAllgather, "ring", false},
                         {Collective::kAllgather, "ring", true},
                         {Collective::kBroadcast, "direct", false},
                         {Collective::kBroadcast, "direct", true},
                         {Collective::kAlltoall, "pairwise", false}}) {
    VerifiedCase call{.collective = row.collective,
                      .algorithm = find_algorithm(row.algorithm),
                      .ranks = 4,
                      .count = 10'000};
    call.in_place = row.in_place;
    const Schedule schedule = straight(call);
    for (const Step& step : schedule.steps)
      for (const Slice& slice : slices_of(step)) {
        if (slice.size == 0) continue;
        EXPECT_NE(slice.space, Space::kScratch) << call;
        EXPECT_EQ(step.memory, MemoryKind::kDevice) << call;
      }
    EXPECT_GT(straight_in(schedule), 0u) << call;
  }
}

// What is given leaves as it is; what is summed is the host's.
TEST(Staging, WhatIsGivenLeavesStraightAndSumsDoNot) {
  VerifiedCase call{.algorithm = find_algorithm("direct"), .ranks = 3, .count = 999};
  const Schedule sums = straight(call);
  EXPECT_TRUE(touches_host(sums));
  for (const Step& step : sums.steps) {
    if (step.op != Op::kSend || step.src.size == 0) continue;
    EXPECT_EQ(step.memory == MemoryKind::kDevice, step.src.space == Space::kInput);
  }
  EXPECT_GT(straight_in(sums), 0u);
}

TEST(Staging, ShortMessagesGoByTheHost) {
  Problem problem{.collective = Collective::kSend, .type = DataType::kInt8, .count = 100};
  problem.root = 1;
  const uint64_t longer[] = {kNeverDirect, 101}, as_long[] = {kNeverDirect, 100};
  const Staging staging{.input = true};
  EXPECT_EQ(straight_in(stage(build_message(problem), staging, kStagedPiece, longer)), 0u);
  const Schedule schedule = stage(build_message(problem), staging, kStagedPiece, as_long);
  EXPECT_EQ(straight_in(schedule), 1u);
  EXPECT_EQ(schedule.steps.size(), 1u);
  EXPECT_EQ(schedule.scratch_size, 0u);
}

TEST(Staging, OnlyWhoSaysSoMayGoStraight) {
  const VerifiedCase call{.collective = Collective::kAllgather,
                          .algorithm = find_algorithm("ring"),
                          .ranks = 2,
                          .count = 100};
  BuiltCase built = build_case(call);
  const uint64_t from[] = {1, 1};
  for (size_t rank = 0; rank < 2; ++rank) {
    const Staging staging{.input = true, .output = true};
    built.schedules[rank] = stage(built.schedules[rank], staging, kStagedPiece, from);
    built.problems[rank].staging = staging;
  }
  EXPECT_TRUE(verify(built.schedules, built.problems, {.direct = true}).ok);
  const Verification found = verify(built.schedules, built.problems, {});
  EXPECT_FALSE(found.ok);
  EXPECT_NE(found.reason.find("touches what is staged"), std::string::npos) << found.reason;
}

}  // namespace
}  // namespace banyan::staging_test
