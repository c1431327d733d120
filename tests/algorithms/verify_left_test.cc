// The verifier names what is wrong with what is kept of encodings, in schedules that differ from
// right ones in a step or in a line of their tables.
// SPDX-License-Identifier: Apache-2.0

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>

#include "algorithms/staging.h"
#include "algorithms/verify/verify.h"
#include "tests/algorithms/verified_case.h"
#include "tests/support/toy_codec.h"

namespace banyan::verify_left_test {
namespace {

using ::testing::HasSubstr;

// Two hosts of two sum 40 elements by a codec inside hosts, and by another one between them.
const BuiltCase& built() {
  static const BuiltCase made =
      build_case({.algorithm = find_algorithm("hierarchical"),
                  .ranks = 4,
                  .count = 40,
                  .shape = std::make_shared<Shape>(shape_of("twos", {0, 0, 1, 1})),
                  .parameters = {.intra_codec = {test::kToyWhole}, .inter_codec = {test::kToy}},
                  .codecs = test::toy_codecs(),
                  .keeps_left = true});
  return made;
}

// With the schedule of rank 1 changed.
std::string fault_with(const std::function<void(Schedule&)>& change) {
  BuiltCase changed = built();
  change(changed.schedules[1]);
  return verify(changed.schedules, changed.problems, {.slots = 1, .seed = 1}).reason;
}

Step& encoding(Schedule& schedule, size_t which = 0) {
  for (Step& step : schedule.steps)
    if (step.dst2.size != 0 && which-- == 0) return step;
  return schedule.steps.front();
}

TEST(VerifyLeft, AcceptsWhatIsBuilt) {
  EXPECT_EQ(fault_with([](Schedule&) {}), "");
}

TEST(VerifyLeft, FindsAnEncodingThatKeepsNothing) {
  EXPECT_EQ(fault_with([](Schedule& schedule) { encoding(schedule).dst2 = {}; }),
            "rank 1: its table of what is left has not what is written");
  // The table knows that nothing is kept.
  EXPECT_THAT(fault_with([](Schedule& schedule) {
                const uint64_t place = encoding(schedule).dst2.offset / sizeof(float);
                encoding(schedule).dst2 = {};
                std::erase_if(schedule.lefts,
                              [&](const Left& left) { return left.place == place; });
              }),
              HasSubstr("of rank 1 is kept 0 times"));
}

// On the other host, another rank keeps what is left of the same sum.
TEST(VerifyLeft, FindsWhatIsKeptTwice) {
  BuiltCase changed = built();
  Schedule& schedule = changed.schedules[3];
  for (Step& step : schedule.steps) {
    if (step.op != Op::kEncode || step.dst2.size != 0) continue;
    const uint64_t count = step.src.size / sizeof(float);
    const uint64_t first = step.src.offset / sizeof(float);  // it is encoded where the result is
    schedule.lefts.push_back({schedule.left_count, {first, count}});
    step.dst2 = {Space::kLeft, schedule.left_count * sizeof(float), step.src.size};
    schedule.left_count += count;
  }
  EXPECT_THAT(verify(changed.schedules, changed.problems, {.slots = 1, .seed = 1}).reason,
              HasSubstr("is kept 2 times"));
}

TEST(VerifyLeft, FindsATableThatSaysOtherwise) {
  EXPECT_EQ(fault_with([](Schedule& schedule) { schedule.lefts.pop_back(); }),
            "rank 1: its table of what is left has not what is written");
  EXPECT_EQ(fault_with([](Schedule& schedule) { ++schedule.lefts.back().place; }),
            "rank 1: its table of what is left has not what is written");
  EXPECT_EQ(fault_with([](Schedule& schedule) { --schedule.lefts.back().elements.count; }),
            "rank 1: its table of what is left has not what is written");
  EXPECT_THAT(fault_with([](Schedule& schedule) { --schedule.lefts.back().elements.begin; }),
              HasSubstr("(encode) leaves over what is of other elements than the table says"));
  EXPECT_EQ(fault_with([](Schedule& schedule) { schedule.lefts.back().elements.begin = 39; }),
            "rank 1: its table of what is left has elements from 39 on, which end behind the "
            "vector");
}

TEST(VerifyLeft, FindsWhatIsWrittenElsewhere) {
  EXPECT_THAT(fault_with([](Schedule& schedule) { encoding(schedule).dst2.offset += 4; }),
              HasSubstr("its table of what is left has not what is written"));
  EXPECT_THAT(fault_with([](Schedule& schedule) { --schedule.left_count; }),
              HasSubstr("(encode): left["));
  EXPECT_THAT(
      fault_with([](Schedule& schedule) { encoding(schedule).dst2.space = Space::kScratch; }),
      testing::AnyOf(HasSubstr("does not keep what is left where the call wants it"),
                     HasSubstr("touches bytes of wire slot")));
  EXPECT_EQ(fault_with([](Schedule& schedule) {
              Left& one = schedule.lefts[0];
              Left& other = schedule.lefts[1];
              encoding(schedule, 0).dst2.offset = encoding(schedule, 1).dst2.offset = 0;
              one.place = other.place = 0;
            }),
            "rank 1: byte 0 of what is left is written twice");
}

// The host of rank 1 cannot touch kLeft, and has none of the codecs there.
std::string fault_of_staged(const std::function<void(Schedule&)>& change) {
  BuiltCase changed = built();
  const Staging staging{.output = true, .left = true};
  changed.schedules[1] = stage(changed.schedules[1], staging);
  changed.problems[1].staging = staging;
  change(changed.schedules[1]);
  return verify(changed.schedules, changed.problems, {.slots = 1, .seed = 1}).reason;
}

Step& taking(Schedule& schedule) {
  for (Step& step : schedule.steps)
    if (step.dst.space == Space::kLeft) return step;
  return schedule.steps.front();
}

TEST(VerifyLeft, KnowsWhatIsTakenOut) {
  EXPECT_EQ(fault_of_staged([](Schedule&) {}), "");
  EXPECT_EQ(fault_of_staged([](Schedule& schedule) {
              Step& step = taking(schedule);
              step.dst = step.src;
              step.memory = MemoryKind::kHost;
            }),
            "rank 1: what is left in scratch is not taken out just once");
  EXPECT_THAT(fault_of_staged([](Schedule& schedule) { taking(schedule).src.offset += 4; }),
              HasSubstr("what is left in scratch is not taken out just once"));
  EXPECT_THAT(fault_of_staged([](Schedule& schedule) { taking(schedule).dst.offset += 4; }),
              HasSubstr("its table of what is left has not what is written"));
  EXPECT_THAT(
      fault_of_staged([](Schedule& schedule) { taking(schedule).memory = MemoryKind::kHost; }),
      HasSubstr("touches what is staged"));
  EXPECT_THAT(
      fault_of_staged([](Schedule& schedule) { encoding(schedule).dst2 = taking(schedule).dst; }),
      HasSubstr("rank 1"));
}

TEST(VerifyLeft, FindsAnotherUseOfIt) {
  EXPECT_THAT(fault_with([](Schedule& schedule) { encoding(schedule).src.space = Space::kLeft; }),
              HasSubstr("(encode): takes what is left over for other memory"));
  BuiltCase changed = built();
  for (Problem& problem : changed.problems) problem.keeps_left = false;
  EXPECT_THAT(verify(changed.schedules, changed.problems, {.slots = 1, .seed = 1}).reason,
              HasSubstr("(encode): keeps what is left, but the call does not"));
  for (Problem& problem : changed.problems) {
    problem.keeps_left = true;
    problem.op = ReduceOp::kAvg;
  }
  EXPECT_EQ(verify(changed.schedules, changed.problems, {.slots = 1, .seed = 1}).reason,
            "it keeps what it cannot leave");
}

}  // namespace
}  // namespace banyan::verify_left_test
