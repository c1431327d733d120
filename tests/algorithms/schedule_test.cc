// Schedules: what the builder derives and what fusion keeps.
// SPDX-License-Identifier: Apache-2.0

#include "algorithms/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "algorithms/algorithms.h"
#include "algorithms/builder.h"

namespace banyan::schedule_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

Slice scratch(uint64_t offset, uint64_t size) {
  return {Space::kScratch, offset, size};
}

Slice input(uint64_t offset, uint64_t size) {
  return {Space::kInput, offset, size};
}

Slice output(uint64_t offset, uint64_t size) {
  return {Space::kOutput, offset, size};
}

std::vector<uint32_t> waits_for(const Schedule& schedule, uint32_t step) {
  std::vector<uint32_t> found;
  for (uint32_t before = 0; before < schedule.steps.size(); ++before)
    for (const uint32_t next : schedule.successors_of(before))
      if (next == step) found.push_back(before);
  EXPECT_EQ(found.size(), schedule.dependency_count[step]);
  return found;
}

// reach[a][b]: b waits for a, directly or not.
std::vector<std::vector<bool>> reach_of(const Schedule& schedule) {
  const size_t count = schedule.steps.size();
  std::vector<std::vector<bool>> reach(count, std::vector<bool>(count, false));
  for (size_t from = count; from-- > 0;)
    for (const uint32_t next : schedule.successors_of(static_cast<uint32_t>(from))) {
      reach[from][next] = true;
      for (size_t to = 0; to < count; ++to)
        if (reach[next][to]) reach[from][to] = true;
    }
  return reach;
}

bool touches(Slice left, Slice right) {
  return left.space == right.space && left.size != 0 && right.size != 0 &&
         left.offset < right.end() && right.offset < left.end();
}

bool in_conflict(const Step& left, const Step& right) {
  return touches(left.dst, right.dst) || touches(left.dst, right.src) ||
         touches(left.dst, right.src2) || touches(left.src, right.dst) ||
         touches(left.src2, right.dst);
}

TEST(Builder, ReaderWaitsForWriter) {
  ScheduleBuilder builder;
  builder.recv(scratch(0, 8), 1);
  builder.copy(scratch(4, 2), output(0, 2));
  builder.copy(scratch(8, 2), output(2, 2));
  const Schedule schedule = std::move(builder).finish();
  EXPECT_THAT(waits_for(schedule, 1), ElementsAre(0));
  EXPECT_THAT(waits_for(schedule, 2), IsEmpty());
}

TEST(Builder, WriterWaitsForReadersAndThroughThemForTheWriter) {
  ScheduleBuilder builder;
  builder.recv(scratch(0, 8), 1);
  builder.send(scratch(0, 4), 2);
  builder.send(scratch(2, 6), 3);
  builder.recv(scratch(0, 8), 1);
  const Schedule schedule = std::move(builder).finish();
  EXPECT_THAT(waits_for(schedule, 3), ElementsAre(1, 2));
}

TEST(Builder, WriterWaitsForWriterThatNobodyRead) {
  ScheduleBuilder builder;
  builder.recv(scratch(0, 8), 1);
  builder.send(scratch(0, 4), 2);
  builder.recv(scratch(2, 4), 3);
  const Schedule schedule = std::move(builder).finish();
  EXPECT_THAT(waits_for(schedule, 2), ElementsAre(0, 1));
}

TEST(Builder, ReadersDoNotWaitForEachOther) {
  ScheduleBuilder builder;
  builder.send(input(0, 8), 1);
  builder.send(input(0, 8), 2);
  builder.copy(input(0, 8), output(0, 8));
  const Schedule schedule = std::move(builder).finish();
  EXPECT_THAT(schedule.successors, IsEmpty());
}

TEST(Builder, EmptyMessagesAreStepsEmptyCopiesAreNot) {
  ScheduleBuilder builder;
  builder.send({}, 1);
  builder.copy(input(0, 0), output(0, 0));
  builder.reduce(DataType::kFloat32, input(0, 0), input(0, 0), output(0, 0));
  builder.recv({}, 1);
  const Schedule schedule = std::move(builder).finish();
  ASSERT_EQ(schedule.steps.size(), 2U);
  EXPECT_EQ(schedule.steps[1].op, Op::kRecv);
}

TEST(Builder, StepAfterTheFenceWaitsForAllBefore) {
  ScheduleBuilder builder;
  builder.send({}, 1);
  builder.recv(scratch(0, 4), 1);
  builder.send(scratch(0, 4), 2);
  builder.fence();
  builder.recv(output(0, 4), 2);
  builder.send(output(0, 4), 3);
  builder.fence();
  builder.fence();
  builder.send({}, 4);
  const Schedule schedule = std::move(builder).finish();
  const auto reach = reach_of(schedule);
  for (size_t before = 0; before < 3; ++before)
    for (size_t after = 3; after < 6; ++after) EXPECT_TRUE(reach[before][after]);
  EXPECT_TRUE(reach[3][5] && reach[4][5]);
  EXPECT_FALSE(reach[0][1] || reach[0][2]);
}

TEST(Builder, PortsKeepProgramOrder) {
  ScheduleBuilder builder;
  builder.send(input(0, 1), 7);
  builder.recv(scratch(0, 1), 7);
  builder.send(input(1, 1), 3);
  builder.send(input(2, 1), 7);
  const Schedule schedule = std::move(builder).finish();
  ASSERT_EQ(schedule.ports.size(), 3U);
  for (uint32_t step = 0; step < 4; ++step) {
    const Port& port = schedule.ports[static_cast<size_t>(schedule.port_of[step])];
    EXPECT_EQ(port.peer, schedule.steps[step].peer);
    EXPECT_EQ(port.sending, schedule.steps[step].op == Op::kSend);
  }
  const Port& port = schedule.ports[static_cast<size_t>(schedule.port_of[0])];
  ASSERT_EQ(port.end - port.begin, 2U);
  EXPECT_EQ(schedule.port_steps[port.begin], 0U);
  EXPECT_EQ(schedule.port_steps[port.begin + 1], 3U);
}

TEST(Builder, ScratchIsAlignedAndDisjoint) {
  ScheduleBuilder builder;
  uint64_t end = 0;
  for (const uint64_t size : {1, 64, 0, 65, 7}) {
    const Slice slice = builder.scratch(size);
    EXPECT_EQ(slice.offset % 64, 0U);
    EXPECT_GE(slice.offset, end);
    EXPECT_EQ(slice.size, size);
    end = slice.end();
  }
  EXPECT_GE(std::move(builder).finish().scratch_size, end);
}

Slice random_slice(std::mt19937& random) {
  const auto space = random() % 2 == 0 ? Space::kOutput : Space::kScratch;
  return {space, random() % 24, random() % 9};
}

// Random programs: conflicting steps are ordered, and every edge stands for a conflict or a fence.
TEST(Builder, OrdersExactlyWhatConflicts) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    ScheduleBuilder builder;
    std::vector<uint32_t> fences;
    uint32_t steps = 0;
    for (int turn = 0; turn < 20; ++turn) {
      const Slice slice = random_slice(random);
      switch (random() % 8) {
        case 0:
          builder.fence();
          fences.push_back(steps);
          continue;
        case 1:
        case 2: builder.recv(slice, 1); break;
        case 3:
        case 4: builder.send(slice, 1); break;
        case 5:
        case 6: {
          const Slice dst = random_slice(random);
          const uint64_t size = std::min(slice.size, dst.size);
          if (size == 0 || slice.sub(0, size) == dst.sub(0, size)) continue;
          builder.copy(slice.sub(0, size), dst.sub(0, size));
          break;
        }
        case 7:
          if (slice.size == 0) continue;
          builder.reduce(DataType::kInt8, slice, input(0, slice.size), slice);
          break;
      }
      ++steps;
    }
    const Schedule schedule = std::move(builder).finish();
    ASSERT_EQ(schedule.steps.size(), steps);
    const auto reach = reach_of(schedule);
    const auto apart = [&](uint32_t before, uint32_t after) {
      return std::any_of(fences.begin(), fences.end(),
                         [&](uint32_t at) { return before < at && at <= after; });
    };
    for (uint32_t after = 0; after < steps; ++after)
      for (uint32_t before = 0; before < after; ++before)
        if (in_conflict(schedule.steps[before], schedule.steps[after]) || apart(before, after)) {
          EXPECT_TRUE(reach[before][after]) << round << ": " << before << ", " << after;
        }
    for (uint32_t after = 0; after < steps; ++after)
      for (const uint32_t before : waits_for(schedule, after))
        EXPECT_TRUE(in_conflict(schedule.steps[before], schedule.steps[after]) ||
                    apart(before, after))
            << round << ": " << before << ", " << after;
  }
}

std::vector<Op> ops_of(const Schedule& schedule) {
  std::vector<Op> ops;
  for (const Step& step : schedule.steps) ops.push_back(step.op);
  return ops;
}

TEST(Fuse, ReceiveIntoScratchThatOnlyAReductionReads) {
  ScheduleBuilder builder;
  builder.recv(scratch(0, 8), 1);
  builder.reduce(DataType::kFloat32, input(0, 8), scratch(0, 8), output(0, 8));
  builder.send(output(0, 8), 2);
  const Schedule fused = fuse(std::move(builder).finish());
  ASSERT_THAT(ops_of(fused), ElementsAre(Op::kRecvReduce, Op::kSend));
  EXPECT_EQ(fused.steps[0].peer, 1);
  EXPECT_EQ(fused.steps[0].src, input(0, 8));
  EXPECT_EQ(fused.steps[0].dst, output(0, 8));
  EXPECT_EQ(fused.steps[0].type, DataType::kFloat32);
  EXPECT_THAT(waits_for(fused, 1), ElementsAre(0));
}

TEST(Fuse, ReceiveThatIsDecodedAndAdded) {
  ScheduleBuilder builder;
  builder.decode(DataType::kBfloat16, input(0, 4), scratch(0, 8));
  builder.recv(scratch(64, 4), 1);
  builder.decode_add(DataType::kBfloat16, scratch(0, 8), scratch(64, 4), scratch(0, 8));
  const Schedule fused = fuse(std::move(builder).finish());
  ASSERT_THAT(ops_of(fused), ElementsAre(Op::kDecode, Op::kRecvDecodeAdd));
  EXPECT_THAT(waits_for(fused, 1), ElementsAre(0));
}

TEST(Fuse, LeavesMessagesOfCodecsAlone) {
  ScheduleBuilder builder;
  const Slice slot = builder.wire_slot(4);
  builder.recv(slot, 1);
  builder.decode_add_by(1, DataType::kFloat32, input(0, 8), slot, output(0, 8));
  const Schedule schedule = std::move(builder).finish();
  EXPECT_EQ(schedule.slots, 1U);
  EXPECT_FALSE(may_fuse(schedule.steps[0], schedule.steps[1]));
  EXPECT_EQ(fuse(schedule).steps, schedule.steps);
}

TEST(Fuse, OnlyInMemoryThatTheHostTouches) {
  for (int kind = 0; kind < kMemoryKindCount; ++kind) {
    ScheduleBuilder builder;
    builder.recv(scratch(0, 8), 1);
    builder.reduce(DataType::kFloat32, input(0, 8), scratch(0, 8), output(0, 8));
    Schedule schedule = std::move(builder).finish();
    const auto memory = static_cast<MemoryKind>(kind);
    for (Step& step : schedule.steps) step.memory = memory;
    const Schedule fused = fuse(std::move(schedule));
    EXPECT_EQ(fused.steps.size(), memory == MemoryKind::kDevice ? 2U : 1U) << name_of(memory);
    EXPECT_EQ(fused.steps[0].memory, memory);
  }
}

TEST(BuildSchedule, StampsTheMemoryOfTheCall) {
  Problem problem;
  problem.count = 37;
  problem.memory = MemoryKind::kManaged;
  const Algorithm& ring = algorithms()[static_cast<size_t>(find_algorithm("ring"))];
  const Schedule schedule = build_schedule(problem, Group::everyone(3, 1), ring);
  for (const Step& step : schedule.steps) EXPECT_EQ(step.memory, MemoryKind::kManaged);
  problem.collective = Collective::kSend;
  EXPECT_EQ(build_message(problem).steps[0].memory, MemoryKind::kManaged);
}

TEST(BuildMessage, CutsSoThatOnlyTheLastPieceIsShorter) {
  for (const size_t count : {0, 1, 31, 32, 33, 64, 100}) {
    for (const Collective collective : {Collective::kSend, Collective::kRecv}) {
      Problem problem{.collective = collective, .type = DataType::kInt8, .count = count};
      problem.root = 1;
      const Schedule schedule = build_message(problem, 32);
      ASSERT_EQ(schedule.steps.size(), count / 32 + 1);
      for (size_t index = 0; index < schedule.steps.size(); ++index) {
        const Step& step = schedule.steps[index];
        const Slice part = collective == Collective::kSend ? step.src : step.dst;
        EXPECT_EQ(step.op, collective == Collective::kSend ? Op::kSend : Op::kRecv);
        EXPECT_EQ(part.offset, 32 * index);
        EXPECT_EQ(part.size, index < count / 32 ? 32 : count % 32);
        EXPECT_EQ(schedule.dependency_count[index], 0u);
      }
    }
  }
}

TEST(Fuse, LeavesAReceiveAloneThatIsReadTwice) {
  ScheduleBuilder builder;
  builder.recv(scratch(0, 8), 1);
  builder.reduce(DataType::kFloat32, input(0, 8), scratch(0, 8), output(0, 8));
  builder.send(scratch(0, 8), 2);
  const Schedule schedule = std::move(builder).finish();
  EXPECT_EQ(fuse(schedule).steps, schedule.steps);
}

TEST(Fuse, LeavesAReceiveAloneThatIsReadInParts) {
  ScheduleBuilder builder;
  builder.recv(scratch(0, 8), 1);
  builder.reduce(DataType::kFloat32, input(0, 4), scratch(0, 4), output(0, 4));
  const Schedule schedule = std::move(builder).finish();
  EXPECT_EQ(fuse(schedule).steps, schedule.steps);
}

TEST(Fuse, LeavesAReceiveIntoTheOutputAlone) {
  ScheduleBuilder builder;
  builder.recv(output(0, 8), 1);
  builder.reduce(DataType::kFloat32, input(0, 8), output(0, 8), output(0, 8));
  const Schedule schedule = std::move(builder).finish();
  EXPECT_EQ(fuse(schedule).steps, schedule.steps);
}

TEST(Fuse, DoesNotMoveAReductionBeforeWhatItWaitsFor) {
  ScheduleBuilder builder;
  builder.recv(scratch(0, 8), 1);
  builder.recv(scratch(64, 8), 1);
  builder.reduce(DataType::kFloat32, scratch(64, 8), scratch(0, 8), output(0, 8));
  const Schedule schedule = std::move(builder).finish();
  const Schedule fused = fuse(schedule);
  EXPECT_THAT(ops_of(fused), ElementsAre(Op::kRecv, Op::kRecv, Op::kReduce));
}

}  // namespace
}  // namespace banyan::schedule_test
