// The verifier names what is wrong with codecs and wire slots in hand-made schedules.
// SPDX-License-Identifier: Apache-2.0

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "algorithms/builder.h"
#include "algorithms/verify/verify.h"
#include "tests/algorithms/mutated.h"

namespace banyan::verify_slots_test {
namespace {

using ::testing::HasSubstr;

constexpr DataType kFloat = DataType::kFloat32;
constexpr CodecId kCodec = 1;
constexpr Slice kInput{Space::kInput, 0, 8};
constexpr Slice kOutput{Space::kOutput, 0, 8};

Problem unchecked(ReduceOp op = ReduceOp::kSum, DataType type = kFloat) {
  Problem problem;
  problem.type = type;
  problem.op = op;
  problem.count = 8 / size_of(type);
  problem.check = false;
  return problem;
}

// The steps of a rank below.
enum StepOf : uint32_t { kEncoding, kSending, kReceiving, kDecoding, kAdding };

// Two ranks exchange their two floats in wire slots 1, the own one, and 2. What is left over goes
// to scratch[192..200).
Schedule coded_exchange(int rank) {
  ScheduleBuilder builder;
  const Slice own = builder.wire_slot(4);
  const Slice theirs = builder.wire_slot(4);
  const Slice partial = builder.scratch(8);
  builder.encode_by(kCodec, kFloat, kInput, own, builder.scratch(8));
  builder.send(own, 1 - rank);
  builder.recv(theirs, 1 - rank);
  builder.decode_by(kCodec, kFloat, rank == 0 ? own : theirs, partial);
  builder.decode_add_by(kCodec, kFloat, partial, rank == 0 ? theirs : own, kOutput);
  return std::move(builder).finish();
}

std::string fault_of(std::vector<Schedule> schedules, const Problem& problem = unchecked()) {
  const std::vector<Problem> problems(schedules.size(), problem);
  return verify(schedules, problems, {.slots = 1, .seed = 1}).reason;
}

// With a step of rank 0 changed.
std::string fault_with(StepOf at, const std::function<void(Step&)>& change,
                       const Problem& problem = unchecked()) {
  Schedule changed = coded_exchange(0);
  change(changed.steps[at]);
  return fault_of({std::move(changed), coded_exchange(1)}, problem);
}

TEST(VerifySlots, AcceptsAnExchangeOfMessages) {
  EXPECT_EQ(fault_of({coded_exchange(0), coded_exchange(1)}), "");
}

TEST(VerifySlots, FindsAnotherCodec) {
  EXPECT_EQ(fault_with(kDecoding, [](Step& step) { step.codec = 2; }),
            "rank 0 s3 (decode) decodes by codec 2 what codec 1 has encoded");
  EXPECT_EQ(fault_with(kAdding, [](Step& step) { step.codec = 3; }),
            "rank 0 s4 (decode_add) decodes by codec 3 what codec 1 has encoded");
}

TEST(VerifySlots, FindsACodecWhereNoneCanBe) {
  const auto set = [](Step& step) { step.codec = kCodec; };
  EXPECT_EQ(fault_with(kSending, set),
            "rank 0 s1 (send): has a codec, but neither encodes nor decodes");
  EXPECT_EQ(fault_with(kEncoding, set, unchecked(ReduceOp::kMax)),
            "rank 0 s0 (encode): goes by a codec, but the call's values must be exact");
  EXPECT_EQ(fault_with(kDecoding, [](Step& step) { step.src = kInput; }),
            "rank 0 s3 (decode): goes by a codec from or to what is no wire slot");
  EXPECT_EQ(fault_with(kEncoding, [](Step& step) { step.src = step.dst2 = {}; }),
            "rank 0 s0 (encode): goes by a codec, but has no values");
  EXPECT_EQ(fault_with(kEncoding, [](Step& step) { step.type = DataType::kBfloat16; }),
            "rank 0 s0 (encode): has type bfloat16 instead of float32");
}

TEST(VerifySlots, FindsAPlainStepOnAWireSlot) {
  EXPECT_EQ(fault_with(kDecoding, [](Step& step) { step.codec = kNoCodec; }),
            "rank 0 s3 (decode): takes wire slot 1 for plain bytes");
  EXPECT_EQ(fault_with(kSending, [](Step& step) { step.src.slot = 0; }),
            "rank 0 s1 (send) touches bytes of wire slot 1");
  EXPECT_EQ(fault_with(kEncoding, [](Step& step) { step.dst2.offset = 64; }),
            "rank 0 s0 (encode) touches bytes of wire slot 2");
}

TEST(VerifySlots, FindsSlotsThatAreNotWhole) {
  EXPECT_EQ(fault_with(kSending, [](Step& step) { step.src.size = 2; }),
            "rank 0 s1 (send): wire slot 1 is another range elsewhere");
  EXPECT_EQ(fault_with(kEncoding, [](Step& step) { step.dst.space = Space::kOutput; }),
            "rank 0 s0 (encode): wire slot 1 is empty, or not in scratch");
  EXPECT_EQ(fault_with(kEncoding, [](Step& step) { step.dst.slot = 3; }),
            "rank 0 s0 (encode): wire slot 3 is none of the schedule's");
  Schedule overlapping = coded_exchange(0);
  overlapping.steps[kReceiving].dst.offset = overlapping.steps[kAdding].src2.offset = 2;
  EXPECT_EQ(fault_of({std::move(overlapping), coded_exchange(1)}),
            "rank 0: wire slot 1 and wire slot 2 overlap");
}

TEST(VerifySlots, FindsAnotherNumberOfElements) {
  EXPECT_EQ(fault_with(kDecoding, [](Step& step) { step.dst.size = 4; }),
            "rank 0 s3 (decode) takes a message of 8 bytes of values for one of 4");
}

TEST(VerifySlots, FindsASlotThatNobodyWrote) {
  EXPECT_EQ(fault_of({without_step(coded_exchange(0), kEncoding), coded_exchange(1)}),
            "rank 0 s2 (decode) reads wire slot 1, which nobody wrote");
}

TEST(VerifySlots, FindsMessagesThatDoNotMeet) {
  ScheduleBuilder sender, receiver, narrow;
  const Slice slot = sender.wire_slot(4);
  sender.encode_by(kCodec, kFloat, kInput, slot);
  sender.send(slot, 1);
  receiver.recv(receiver.scratch(4), 0);
  narrow.recv(narrow.wire_slot(8), 0);
  const Schedule sending = std::move(sender).finish();
  EXPECT_EQ(fault_of({sending, std::move(receiver).finish()}),
            "rank 0 s1 (send) and rank 1 s0 (recv): a wire slot meets plain bytes");
  EXPECT_EQ(fault_of({sending, std::move(narrow).finish()}),
            "rank 0 s1 (send): 4 bytes, but rank 1 s0 (recv): 8");
}

TEST(VerifySlots, FindsWhatIsNoAccumulator) {
  EXPECT_EQ(fault_of({coded_exchange(0), coded_exchange(1)}, unchecked(ReduceOp::kPreMulSum)),
            "rank 0 s0 (encode) encodes what is not decoded");
  EXPECT_THAT(fault_of({coded_exchange(0), coded_exchange(1)},
                       unchecked(ReduceOp::kSum, DataType::kBfloat16)),
              HasSubstr("(encode) encodes what is not decoded"));
  // An average that was divided is no sum any more.
  ScheduleBuilder builder;
  builder.encode(kFloat, kInput, kOutput);
  builder.encode_by(kCodec, kFloat, kOutput, builder.wire_slot(4));
  EXPECT_EQ(fault_of({std::move(builder).finish()}, unchecked(ReduceOp::kAvg)),
            "rank 0 s1 (encode) encodes what is not decoded");
}

TEST(VerifySlots, FindsWhatIsWrongWithSomethingLeftOver) {
  // Rank 1 does not wait for its own encoding before it decodes what has come.
  Schedule racing = coded_exchange(1);
  racing.steps[kDecoding].dst.offset = racing.steps[kAdding].src.offset = 192;
  EXPECT_EQ(fault_of({coded_exchange(0), std::move(racing)}),
            "rank 1 s3 (decode) touches bytes of rank 1 s0 (encode) without waiting for it");
  EXPECT_EQ(fault_with(kEncoding, [](Step& step) { step.dst2.size = 4; }),
            "rank 0 s0 (encode): what is left over is not as long as what a codec encodes");
  EXPECT_EQ(fault_with(kDecoding, [](Step& step) { step.dst2 = step.dst; }),
            "rank 0 s3 (decode): what is left over is not as long as what a codec encodes");
  EXPECT_EQ(fault_with(kEncoding, [](Step& step) { step.dst2 = kInput; }),
            "rank 0 s0 (encode): writes the send buffer");
  EXPECT_EQ(fault_with(kEncoding, [](Step& step) { step.dst2.offset = 250; }),
            "rank 0 s0 (encode): scratch[250..258) ends behind 256");
}

// Encodes a copy of the input, and lets something be done with what is left over.
template <typename Use>
std::string fault_after_copy(Slice left, Use use) {
  ScheduleBuilder builder;
  const Slice copied = builder.scratch(16);
  builder.copy(kInput, copied.sub(0, 8));
  const Slice slot = builder.wire_slot(4);
  builder.encode_by(kCodec, kFloat, copied.sub(0, 8), slot, left);
  use(builder, slot);
  return fault_of({std::move(builder).finish()});
}

// Two ranks have the same sum, and then what a codec says of it, in so many messages.
Schedule coded_sum(int rank, CodecId codec, uint64_t messages) {
  ScheduleBuilder builder;
  const Slice landing = builder.scratch(8);
  builder.send(kInput, 1 - rank);
  builder.recv(landing, 1 - rank);
  builder.reduce(kFloat, kInput, landing, kOutput);
  for (uint64_t message = 0; message < messages; ++message) {
    const Slice values = kOutput.sub(8 / messages * message, 8 / messages);
    const Slice slot = builder.wire_slot(4);
    builder.encode_by(codec, kFloat, values, slot);
    builder.decode_by(codec, kFloat, slot, values);
  }
  return std::move(builder).finish();
}

TEST(VerifySlots, TheSameValuesAreEncodedAlikeOnlyByOneCodecAndTogether) {
  const auto otherwise = [](uint64_t end) {
    return "ranks 0 and 1: bytes [0.." + std::to_string(end) +
           ") of the output were combined in another order, or encoded otherwise";
  };
  EXPECT_EQ(fault_of({coded_sum(0, 1, 1), coded_sum(1, 1, 1)}), "");
  EXPECT_EQ(fault_of({coded_sum(0, 1, 2), coded_sum(1, 1, 2)}), "");
  EXPECT_EQ(fault_of({coded_sum(0, 1, 1), coded_sum(1, 2, 1)}), otherwise(8));
  EXPECT_EQ(fault_of({coded_sum(0, 1, 1), coded_sum(1, 1, 2)}), otherwise(4));
}

TEST(VerifySlots, WhatIsLeftOverIsNobodysContribution) {
  const Slice place{Space::kScratch, 0, 8};
  const auto decode = [](ScheduleBuilder& builder, Slice slot) {
    builder.decode_by(kCodec, kFloat, slot, kOutput);
  };
  EXPECT_EQ(fault_after_copy(place, decode), "");  // where the values were
  EXPECT_EQ(fault_after_copy({Space::kScratch, 4, 8}, decode),
            "rank 0 s1 (encode): writes over a part of what it reads");
  EXPECT_EQ(fault_after_copy(
                place, [&](ScheduleBuilder& builder, Slice) { builder.copy(place, kOutput); }),
            "rank 0 s2 (copy) reads what a message has left over");
  EXPECT_EQ(fault_after_copy(kOutput, [](ScheduleBuilder&, Slice) {}),
            "rank 0: bytes [0..8) of the output are no result");
}

TEST(VerifySlots, FindsAnotherKindOfMemory) {
  EXPECT_EQ(fault_with(kReceiving, [](Step& step) { step.memory = MemoryKind::kDevice; }),
            "rank 0 s2 (recv): is for device memory, but the call's is host");
  const auto sum = [](int rank, bool fused) {
    ScheduleBuilder builder;
    const Slice landing = builder.scratch(8);
    builder.send(kInput, 1 - rank);
    builder.recv(landing, 1 - rank);
    builder.reduce(kFloat, kInput, landing, kOutput);
    Schedule schedule = std::move(builder).finish();
    if (fused) schedule = fuse(std::move(schedule));
    for (Step& step : schedule.steps) step.memory = MemoryKind::kDevice;
    return schedule;
  };
  Problem problem = unchecked();
  problem.memory = MemoryKind::kDevice;
  EXPECT_EQ(fault_of({sum(0, false), sum(1, false)}, problem), "");
  EXPECT_EQ(fault_of({sum(0, false), sum(1, true)}, problem),
            "rank 1 s1 (recv_reduce): adds a message to what the host cannot touch");
}

}  // namespace
}  // namespace banyan::verify_slots_test
