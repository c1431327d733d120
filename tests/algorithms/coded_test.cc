// Sums by codecs are right in every way in which they can be called: each schedule is verified
// symbolically. And the verifier finds ranks that end with what different encodings say.
// SPDX-License-Identifier: Apache-2.0

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "algorithms/verify/verify.h"
#include "tests/algorithms/mutated.h"
#include "tests/algorithms/verified_case.h"
#include "tests/support/toy_codec.h"

namespace banyan::coded_test {
namespace {

using test::kToy;
using test::kToyWhole;
using ::testing::HasSubstr;

constexpr Collective kCollectives[] = {Collective::kAllreduce, Collective::kReduceScatter,
                                       Collective::kReduceScatterv};
constexpr DataType kTypes[] = {DataType::kFloat32, DataType::kBfloat16, DataType::kFloat16};
constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kAvg, ReduceOp::kPreMulSum};

struct Codecs {
  CodecId intra = kNoCodec;
  CodecId inter = kNoCodec;
};
constexpr Codecs kPairs[] = {{kNoCodec, kToy}, {kToyWhole, kToy}, {kToy, kNoCodec}, {kToy, kToy}};

VerifiedCase case_of(const char* algorithm, Collective collective, int ranks, uint64_t count) {
  return {.collective = collective,
          .algorithm = find_algorithm(algorithm),
          .ranks = ranks,
          .count = count,
          .codecs = test::toy_codecs()};
}

bool has_slots(const BuiltCase& built) {
  return std::any_of(built.schedules.begin(), built.schedules.end(),
                     [](const Schedule& schedule) { return schedule.slots != 0; });
}

// Something must go by a codec.
bool must_encode(const VerifiedCase& call) {
  const bool has_levels = call.shape != nullptr && call.shape->hierarchy.simplified().depth() != 0;
  return call.ranks > 1 && call.count >= 2 &&
         (has_levels || !call.parameters.inter_codec.is_exact());
}

// With each number of messages between two ranks in turn, and as at scale.
void expect_right(const VerifiedCase& call, uint32_t turn) {
  const BuiltCase built = build_case(call);
  EXPECT_TRUE(has_slots(built) || !must_encode(call)) << call;
  constexpr int kSlots[] = {0, 1, 4};
  const VerifyOptions options{.slots = kSlots[turn % 3], .seed = turn};
  const Verification exact = verify(built.schedules, built.problems, options);
  EXPECT_TRUE(exact.ok) << call << ", " << options.slots << " slots: " << exact.reason;
  const VerifyOptions by_content{.slots = options.slots, .seed = turn, .by_content = true};
  const Verification content = verify(built.schedules, built.problems, by_content);
  EXPECT_TRUE(content.ok) << call << " by content: " << content.reason;
}

// Calls try_it with every type, operation and placement of a call that has the rest.
template <typename TryIt>
void for_each_way(VerifiedCase call, TryIt try_it) {
  for (const DataType type : kTypes)
    for (const ReduceOp op : kOps)
      for (const bool in_place : {false, true}) {
        call.type = type;
        call.op = op;
        call.in_place = in_place;
        try_it(call);
        call.keeps_left = may_keep_left(problem_of(call, 0));
        if (call.keeps_left) try_it(call);
        call.keeps_left = false;
      }
}

std::vector<uint64_t> counts_of(int ranks) {
  const auto size = static_cast<uint64_t>(ranks);
  return {0, 1, size - 1, size, size + 1, 37, 127};
}

TEST(Coded, DirectIsRightInEveryWay) {
  uint32_t turn = 0;
  for (const Collective collective : kCollectives)
    for (int ranks = 1; ranks <= 9; ++ranks)
      for (const uint64_t count : counts_of(ranks)) {
        VerifiedCase each = case_of("direct", collective, ranks, count);
        each.parameters.inter_codec.codec = kToy;
        for_each_way(each, [&](VerifiedCase call) {
          call.check = ++turn % 5 != 4;
          expect_right(call, turn);
        });
      }
}

// Ranks and shapes are tried with all ways, counts and pairs of codecs in turn.
TEST(Coded, HierarchicalIsRightOnEveryHierarchy) {
  uint32_t turn = 0;
  for (const Collective collective : kCollectives)
    for (int ranks = 1; ranks <= 9; ++ranks)
      for (const Shape& shape : shapes_of(ranks)) {
        VerifiedCase each = case_of("hierarchical", collective, ranks, 0);
        each.shape = std::make_shared<Shape>(shape);
        for_each_way(each, [&](VerifiedCase call) {
          const std::vector<uint64_t> counts = counts_of(ranks);
          ++turn;
          call.count = counts[turn % counts.size()];
          call.check = turn % 5 != 4;
          const auto [intra, inter] = kPairs[turn / 3 % std::size(kPairs)];
          call.parameters.inter_codec.codec = inter;
          call.parameters.intra_codec.codec = intra;
          expect_right(call, turn);
        });
      }
}

// Segments follow each other; phases gather by neighbours, all at once, and in doubling distances;
// few ranks of a host exchange with other hosts, so members have shards of their own or none.
TEST(Coded, HierarchicalIsRightWithItsParameters) {
  uint32_t turn = 0;
  for (const Shape& shape : shapes_of(9))
    for (const Phase phase : {Phase::kCirculant, Phase::kRing, Phase::kPairwise, Phase::kDirect})
      for (const int rails : {0, 1, 2})
        for (const auto [intra, inter] : kPairs) {
          VerifiedCase call = case_of("hierarchical", Collective::kAllreduce, 9, 127);
          call.shape = std::make_shared<Shape>(shape);
          call.type = kTypes[++turn % 3];
          call.op = kOps[turn / 3 % 3];
          call.keeps_left = may_keep_left(problem_of(call, 0));
          call.parameters = {.segment = 64,
                             .intra = phase,
                             .inter = phase,
                             .rails = static_cast<uint16_t>(rails),
                             .intra_codec = {intra},
                             .inter_codec = {inter}};
          expect_right(call, turn);
        }
}

TEST(Coded, HierarchicalIsRightOnManyRanks) {
  std::vector<int> hosts;
  for (int rank = 0; rank < 90; ++rank) hosts.push_back(rank < 84 ? rank / 8 : 11);  // 8, 4, 6
  VerifiedCase call = case_of("hierarchical", Collective::kAllreduce, 90, 4711);
  call.shape = std::make_shared<Shape>(shape_of("eights, a four and a six", hosts));
  call.parameters = {.segment = 1000, .intra_codec = {kToyWhole}, .inter_codec = {kToy}};
  expect_right(call, 1);
}

// What a contribution loses lies where that is, and what the own share of the sum loses behind it.
TEST(Coded, LeftsOfAFlatSumAreOfTheVectorAndOfTheOwnShare) {
  constexpr uint64_t kCount = 37;
  VerifiedCase call = case_of("direct", Collective::kAllreduce, 4, kCount);
  call.parameters.inter_codec.codec = kToy;
  call.keeps_left = true;
  const BuiltCase built = build_case(call);
  for (int rank = 0; rank < 4; ++rank) {
    const Schedule& schedule = built.schedules[static_cast<size_t>(rank)];
    const Part own = part_of(kCount, 4, rank);
    uint64_t contributed = 0;
    for (const Left& left : schedule.lefts) {
      const bool behind = left.place >= kCount;
      EXPECT_EQ(left.place, behind ? kCount : left.elements.begin);
      if (behind) {
        EXPECT_EQ(left.elements.begin, own.begin);
        EXPECT_EQ(left.elements.count, own.count);
      }
      contributed += behind ? 0 : left.elements.count;
    }
    EXPECT_EQ(contributed, kCount);
    EXPECT_EQ(schedule.lefts.size(), 5U);
    EXPECT_EQ(schedule.left_count, kCount + own.count);
  }
}

// All hosts encode the same sums for their ranks, and one of them keeps what is left of these.
TEST(Coded, LeftsOfAHierarchyAreKeptOnce) {
  for (const Codecs& codecs : kPairs) {
    VerifiedCase call = case_of("hierarchical", Collective::kAllreduce, 4, 40);
    call.shape = std::make_shared<Shape>(shape_of("twos", {0, 0, 1, 1}));
    call.parameters = {.intra_codec = {codecs.intra}, .inter_codec = {codecs.inter}};
    call.keeps_left = true;
    const BuiltCase built = build_case(call);
    uint64_t contributed = 0, behind = 0;
    for (const Schedule& schedule : built.schedules) {
      for (const Left& left : schedule.lefts)
        (left.place < 40 ? contributed : behind) += left.elements.count;
    }
    const bool inside = codecs.intra != kNoCodec, between = codecs.inter != kNoCodec;
    EXPECT_EQ(contributed, inside ? 4 * 40U : 0U);  // elsewhere, contributions are those of hosts
    EXPECT_EQ(behind, (between ? 2 * 40U + 40U : 0U) + (inside ? 40U : 0U));
  }
}

TEST(Coded, EverybodyEncodesItsOwnShareToo) {
  VerifiedCase call = case_of("direct", Collective::kAllreduce, 4, 37);
  call.parameters.inter_codec.codec = kToy;
  for (const Schedule& schedule : build_case(call).schedules) {
    const auto count = [&](Op op) {
      return std::count_if(schedule.steps.begin(), schedule.steps.end(),
                           [&](const Step& step) { return step.op == op; });
    };
    EXPECT_EQ(count(Op::kEncode), 5);     // four shares, and the sum
    EXPECT_EQ(count(Op::kDecodeAdd), 3);  // of four, the first is decoded
    EXPECT_EQ(count(Op::kDecode), 5);
    EXPECT_EQ(count(Op::kReduce) + count(Op::kRecvReduce), 0);
  }
  call.collective = Collective::kReduceScatter;
  for (const Schedule& schedule : build_case(call).schedules)
    for (const Step& step : schedule.steps) {
      const bool writes_output = step.dst.space == Space::kOutput;
      EXPECT_TRUE(!writes_output || step.op == Op::kDecodeAdd);
    }
}

TEST(Coded, ProblemsThatMayBeEncoded) {
  using enum DataType;
  for (int collective = 0; collective < kCollectiveCount; ++collective)
    for (int type = 0; type < kDataTypeCount; ++type)
      for (int op = 0; op < kReduceOpCount; ++op) {
        Problem problem;
        problem.collective = static_cast<Collective>(collective);
        problem.type = static_cast<DataType>(type);
        problem.op = static_cast<ReduceOp>(op);
        const bool sums = reduces(problem.collective) && op != static_cast<int>(ReduceOp::kProd) &&
                          op != static_cast<int>(ReduceOp::kMin) &&
                          op != static_cast<int>(ReduceOp::kMax);
        const bool floats =
            problem.type == kFloat32 || problem.type == kFloat16 || problem.type == kBfloat16;
        EXPECT_EQ(may_encode(problem), sums && floats)
            << name_of(problem.collective) << ' ' << name_of(problem.type) << ' '
            << name_of(problem.op);
      }
}

// Codecs are dropped where nothing is encoded.
TEST(Coded, ParametersKeepTheCodecsThatCount) {
  const Parameters given{.intra_codec = {kToyWhole}, .inter_codec = {kToy}};
  const Hierarchy hosts = shapes_of(6).front().hierarchy;
  const auto expect = [&](const char* algorithm, Collective collective, const Hierarchy* levels,
                          Codecs codecs) {
    const Parameters kept = effective(given, find_algorithm(algorithm), collective, levels);
    EXPECT_EQ(kept, (Parameters{.intra_codec = {codecs.intra}, .inter_codec = {codecs.inter}}))
        << algorithm << ' ' << name_of(collective);
  };
  for (const Collective collective : kCollectives) {
    expect("hierarchical", collective, &hosts, {kToyWhole, kToy});
    expect("hierarchical", collective, nullptr, {kNoCodec, kToy});
    expect("direct", collective, &hosts, {kNoCodec, kToy});
    expect("ring", collective, &hosts, {});
  }
  for (const Collective collective :
       {Collective::kReduce, Collective::kBroadcast, Collective::kAllgather}) {
    expect("hierarchical", collective, &hosts, {});
    expect("direct", collective, nullptr, {});
  }
}

std::string fault_of(const std::vector<Schedule>& schedules, const std::vector<Problem>& problems,
                     bool by_content) {
  return verify(schedules, problems, {.slots = 1, .seed = 1, .by_content = by_content}).reason;
}

// The owner of a share keeps its exact sum, where all others have what its message says.
TEST(Coded, AnOwnerThatKeepsItsExactSumIsFound) {
  for (const char* algorithm : {"direct", "hierarchical"}) {
    VerifiedCase call = case_of(algorithm, Collective::kAllreduce, 4, 37);
    call.parameters.inter_codec.codec = kToy;
    call.shape = std::make_shared<Shape>(shapes_of(4)[2]);  // two hosts of two
    BuiltCase built = build_case(call);
    Schedule& schedule = built.schedules[1];
    const auto is_own = [&](const Step& decode) {
      return decode.op == Op::kDecode &&
             std::any_of(schedule.steps.begin(), schedule.steps.end(), [&](const Step& encode) {
               return encode.op == Op::kEncode && encode.dst == decode.src &&
                      encode.src == decode.dst;
             });
    };
    const auto found = std::find_if(schedule.steps.begin(), schedule.steps.end(), is_own);
    ASSERT_NE(found, schedule.steps.end());
    schedule = without_step(schedule, static_cast<uint32_t>(found - schedule.steps.begin()));
    for (const bool by_content : {false, true})
      EXPECT_THAT(fault_of(built.schedules, built.problems, by_content),
                  HasSubstr("or encoded otherwise"))
          << algorithm;
  }
}

// Rank 0 has the sum, and its message goes to rank 1 and on to rank 2.
std::vector<Schedule> passed_on(bool encoded_again) {
  constexpr DataType kFloat = DataType::kFloat32;
  const Slice input{Space::kInput, 0, 8};
  const Slice output{Space::kOutput, 0, 8};
  ScheduleBuilder ranks[3];
  const Slice both = ranks[0].scratch(8);
  for (const int rank : {1, 2}) {
    ranks[rank].send(input, 0);
    const Slice landing = ranks[0].scratch(8);
    ranks[0].recv(landing, rank);
    ranks[0].reduce(kFloat, rank == 1 ? input : both, landing, rank == 1 ? both : output);
  }
  Slice slots[3];
  for (const int rank : {0, 1, 2}) slots[rank] = ranks[rank].wire_slot(4);
  ranks[0].encode_by(kToy, kFloat, output, slots[0]);
  ranks[0].send(slots[0], 1);
  ranks[0].decode_by(kToy, kFloat, slots[0], output);
  ranks[1].recv(slots[1], 0);
  ranks[1].decode_by(kToy, kFloat, slots[1], output);
  if (encoded_again) {
    slots[1] = ranks[1].wire_slot(4);
    ranks[1].encode_by(kToy, kFloat, output, slots[1]);
  }
  ranks[1].send(slots[1], 2);
  ranks[2].recv(slots[2], 1);
  ranks[2].decode_by(kToy, kFloat, slots[2], output);
  std::vector<Schedule> schedules;
  for (ScheduleBuilder& rank : ranks) schedules.push_back(std::move(rank).finish());
  return schedules;
}

TEST(Coded, ARankThatEncodesAgainIsFound) {
  const std::vector<Problem> problems(
      3, problem_of(case_of("direct", Collective::kAllreduce, 3, 2), 0));
  for (const bool by_content : {false, true}) {
    EXPECT_EQ(fault_of(passed_on(false), problems, by_content), "");
    EXPECT_EQ(fault_of(passed_on(true), problems, by_content),
              "ranks 0 and 2: bytes [0..8) of the output were combined in another order, or "
              "encoded otherwise");
  }
}

}  // namespace
}  // namespace banyan::coded_test
