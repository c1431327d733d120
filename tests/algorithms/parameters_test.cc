// What parameters of algorithms are, what they change in schedules, and that these stay right.
// SPDX-License-Identifier: Apache-2.0

#include "algorithms/parameters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/choice/select.h"
#include "algorithms/lengths.h"
#include "algorithms/verify/verify.h"
#include "tests/algorithms/verified_case.h"
#include "tests/support/sanitizers.h"

namespace banyan::parameters_test {
namespace {

using ::testing::ElementsAre;

Rules rules(std::string_view text) {
  const Result<Rules> parsed = parse_rules(text);
  EXPECT_TRUE(parsed.ok()) << text << ": " << parsed.status().message();
  return parsed.ok() ? *parsed : Rules();
}

// "ring(seg=1M)" with its parameters.
struct Named {
  int algorithm = 0;
  Parameters parameters{};
};
Named named(std::string_view text) {
  const Rules parsed = rules(text);
  if (parsed.empty()) return {};
  return {parsed.front().algorithms.front(), parsed.front().parameters.front()};
}

VerifiedCase case_of(const std::string& text, Collective collective, int ranks, uint64_t count) {
  const auto [algorithm, parameters] = named(text);
  VerifiedCase call{
      .collective = collective, .algorithm = algorithm, .ranks = ranks, .count = count};
  call.parameters = parameters;
  return call;
}

TEST(Parameters, AreWrittenAsTheyAreRead) {
  for (const std::string& text : std::vector<std::string>{
           "ring(seg=1M)", "ring(seg=1)", "ring(seg=1G)", "hierarchical(intra=ring)",
           "hierarchical(seg=96K,intra=direct,inter=pairwise,rails=2)",
           "hierarchical(inter=circulant)", "torus(dims=7)", "torus(dims=2x65535)",
           "torus(dims=2x3x4)", "double_tree"}) {
    const auto [algorithm, parameters] = named(text);
    EXPECT_EQ(text_of(algorithm, parameters), text);
  }
  EXPECT_EQ(text_of(named("hierarchical(inter=ring,seg=1024K)").parameters), "seg=1M,inter=ring");
}

TEST(Parameters, HaveValuesOfTheirOwn) {
  const auto with = [](ParameterKey key, std::string_view value) {
    const Result<Parameters> parameters = with_parameter({}, key, value);
    return parameters.ok() ? text_of(*parameters) : std::string(parameters.status().message());
  };
  for (const char* wrong : {"", "0", "1073741825", "16E", "-1", "1.5M", "2G", "99999999999G", "x"})
    EXPECT_EQ(with(ParameterKey::kSegment, wrong), "seg=SIZE, bytes from 1 to 1G, with K, M or G")
        << wrong;
  for (const char* wrong : {"", "rign", "bruck", "ring "}) {
    EXPECT_EQ(with(ParameterKey::kIntra, wrong), "intra=circulant|ring|pairwise|direct|nccl");
    EXPECT_EQ(with(ParameterKey::kInter, wrong), "inter=circulant|ring|pairwise|direct");
  }
  for (const char* wrong : {"", "0", "65536", "-1", "all", "2x2"})
    EXPECT_EQ(with(ParameterKey::kRails, wrong),
              "rails=N, ranks of a host from 1 to 65535, or auto: all");
  for (const char* wrong : {"", "0x5", "1x8", "x", "2x", "x2", "2x2x2x2", "2x2x1", "65536",
                            "4294967298", "2y2", "99999999999"})
    EXPECT_EQ(with(ParameterKey::kDimensions, wrong),
              "dims=AxBxC, one to 3 numbers from 2 to 65535")
        << wrong;
}

TEST(Parameters, DimensionsAreForTheirNumberOfRanks) {
  EXPECT_TRUE(fit_ranks({}, 7));
  EXPECT_TRUE(fit_ranks(named("torus(dims=2x3)").parameters, 6));
  EXPECT_FALSE(fit_ranks(named("torus(dims=2x3)").parameters, 7));
  EXPECT_FALSE(fit_ranks(named("torus(dims=65535x65535x65535)").parameters, 131069));
  EXPECT_THAT(torus_shape(24, named("torus(dims=2x12)").parameters), ElementsAre(2, 12));
  EXPECT_THAT(torus_shape(24), ElementsAre(3, 4, 2));
}

TEST(Parameters, CountWhereAnAlgorithmGoesByThem) {
  const Shape hosts = shapes_of(6).front();
  const auto [hierarchical, given] = named("hierarchical(seg=8,intra=ring,inter=ring,rails=2)");
  const auto kept = [&, which = hierarchical, all = given](Collective collective,
                                                           const Hierarchy* levels) {
    return text_of(effective(all, which, collective, levels));
  };
  EXPECT_EQ(kept(Collective::kAllreduce, &hosts.hierarchy), "seg=8,intra=ring,inter=ring,rails=2");
  EXPECT_EQ(kept(Collective::kAllgather, &hosts.hierarchy), "seg=8,intra=ring,inter=ring");
  EXPECT_EQ(kept(Collective::kAlltoall, &hosts.hierarchy), "");
  EXPECT_EQ(kept(Collective::kAllreduce, nullptr), "");
  const Hierarchy flat;
  EXPECT_EQ(kept(Collective::kAllreduce, &flat), "");
  const auto [ring, length] = named("ring(seg=8)");
  EXPECT_EQ(text_of(effective(length, ring, Collective::kBroadcast, nullptr)), "seg=8");
  EXPECT_EQ(text_of(effective(length, ring, Collective::kAllgather, nullptr)), "");
}

constexpr uint64_t kKiB = 1024;
constexpr uint64_t kMiB = 1024 * kKiB;

Problem call(Collective collective, uint64_t bytes) {
  Problem problem;
  problem.collective = collective;
  problem.count = bytes / 4;
  return problem;
}

// "hierarchical(seg=1M)"
std::string chosen_with(const Problem& problem, int ranks, std::string_view text,
                        const Hierarchy* hierarchy = nullptr) {
  const Choice choice = choose(problem, ranks, Medium::kNetwork, rules(text), hierarchy);
  return text_of(choice.algorithm, choice.parameters);
}

TEST(Choose, ParametersComeWithTheirAlgorithm) {
  const Hierarchy hosts = Hierarchy::of_labels("host", std::vector<int>{0, 0, 1, 1, 2, 2});
  const Problem sum = call(Collective::kAllreduce, kMiB);
  const std::string_view text =
      "allreduce size=1M- nodes=2- : hierarchical(seg=64K,inter=ring); ring(seg=8K),circulant";
  EXPECT_EQ(chosen_with(sum, 6, text, &hosts), "hierarchical(seg=64K,inter=ring)");
  EXPECT_EQ(chosen_with(call(Collective::kAllreduce, kKiB), 6, text, &hosts), "ring(seg=8K)");
  EXPECT_EQ(chosen_with(call(Collective::kAllgather, kMiB), 6, text, &hosts), "ring");
  EXPECT_EQ(chosen_with(sum, 6, "double_tree(seg=8K)"), "double_tree(seg=8K)");
  EXPECT_EQ(chosen_with(sum, 6, "hierarchical(seg=8K)"), "hierarchical") << "without levels";
  const Choice choice = choose(sum, 6, Medium::kNetwork, rules(text), &hosts);
  EXPECT_EQ(reason_of(choice), "BANYAN_ALGO rule 1, with seg=64K,inter=ring");
  EXPECT_EQ(reason_of(choose(sum, 6, Medium::kNetwork, {}, &hosts)), "default table");
}

TEST(Choose, ParametersComeFromTheTuningFile) {
  const Problem sum = call(Collective::kAllreduce, kMiB);
  const Rules both = join_rules(rules("^direct"), rules("direct,ring(seg=64K)"));
  const Choice choice = choose(sum, 6, Medium::kMemory, both);
  EXPECT_EQ(text_of(choice.algorithm, choice.parameters), "ring(seg=64K)");
}

TEST(Choose, ATorusOfAnotherNumberOfRanksDoesNotFit) {
  const Problem sum = call(Collective::kAllreduce, kMiB);
  const std::string_view text = "torus(dims=2x2),torus(dims=2x3);torus";
  EXPECT_EQ(chosen_with(sum, 6, text), "torus(dims=2x3)");
  EXPECT_EQ(chosen_with(sum, 4, text), "torus(dims=2x2)");
  EXPECT_EQ(chosen_with(sum, 5, text), "torus");
  EXPECT_EQ(choose(sum, 5, Medium::kMemory, rules("torus(dims=2x2)")).rule, -1);
}

size_t sends_of(const Schedule& schedule) {
  return static_cast<size_t>(std::count_if(schedule.steps.begin(), schedule.steps.end(),
                                           [](const Step& step) { return step.op == Op::kSend; }));
}

size_t sends(VerifiedCase call) {
  call.check = false;
  return sends_of(build_case(call).schedules.front());
}

TEST(Parameters, SegmentsAreAsLongAsTheySay) {
  using enum Collective;
  // 4 blocks of 256 bytes, in 4 segments, in both halves.
  EXPECT_EQ(sends(case_of("ring(seg=64)", kAllreduce, 4, 256)), 4U * 2 * 3);
  EXPECT_EQ(sends(case_of("ring", kAllreduce, 4, 256)), 2U * 3);
  EXPECT_EQ(sends(case_of("circulant(seg=128)", kAllreduce, 2, 128)), 2U * 2);
  EXPECT_EQ(sends(case_of("pairwise(seg=128)", kAllreduce, 3, 192)), 2U * 2 * 2);
  EXPECT_EQ(sends(case_of("ring(seg=100)", kBroadcast, 3, 250)), 10U);
  EXPECT_EQ(sends(case_of("double_tree(seg=100)", kBroadcast, 2, 250)), 10U);
  VerifiedCase call = case_of("hierarchical(seg=64)", kAllreduce, 4, 256);
  call.shape = std::make_shared<Shape>(shape_of("twos", {0, 0, 1, 1}));
  const size_t cut = sends(call);
  call.parameters = {};
  EXPECT_EQ(cut, 8 * sends(call));
}

// However short they are to be: an element is the least, and there are not more than ever.
TEST(Parameters, SegmentsAreNeverWithoutEnd) {
  using enum Collective;
  constexpr uint64_t kLong = uint64_t{1} << 40;
  EXPECT_EQ(cache_segments(kLong, 2, 1), 1024U);
  EXPECT_EQ(level_segments(kLong, 2, 1), 64U);
  EXPECT_EQ(rooted_segments(kLong, 2, 4, true, 1).count, 64U);
  EXPECT_EQ(block_segments(kLong, 1), 16U);
  EXPECT_EQ(ring_chunks(kLong, 1), 64U);
  EXPECT_EQ(tree_chunks(kLong, 1), 32U);
  EXPECT_EQ(sends(case_of("ring(seg=1)", kAllreduce, 4, 12)), 3U * 2 * 3);
  EXPECT_EQ(sends(case_of("ring(seg=1)", kAllreduce, 4, 3)), 2U * 3);
  EXPECT_EQ(sends(case_of("ring(seg=1G)", kAllreduce, 4, 8 << 20)), 2U * 3);
}

// To whom a rank sends, and how often.
std::multiset<int> peers_of(const Schedule& schedule) {
  std::multiset<int> peers;
  for (const Step& step : schedule.steps)
    if (step.op == Op::kSend) peers.insert(step.peer);
  return peers;
}

TEST(Parameters, PhasesGoInsideAndBetweenTheHosts) {
  const auto peers = [](const std::string& text) {
    VerifiedCase call = case_of(text, Collective::kAllreduce, 16, 64);
    call.check = false;
    call.shape = std::make_shared<Shape>(
        shape_of("fours", {0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3}));
    return peers_of(build_case(call).schedules.front());
  };
  EXPECT_THAT(peers("hierarchical(intra=ring,inter=ring)"),
              ElementsAre(1, 1, 1, 1, 1, 1, 4, 4, 4, 4, 4, 4));
  EXPECT_THAT(peers("hierarchical(intra=direct,inter=ring)"),
              ElementsAre(1, 1, 2, 2, 3, 3, 4, 4, 4, 4, 4, 4));
  EXPECT_THAT(peers("hierarchical(intra=ring,inter=pairwise)"),
              ElementsAre(1, 1, 1, 1, 1, 1, 4, 4, 8, 8, 12, 12));
  EXPECT_EQ(peers("hierarchical(intra=circulant,inter=circulant)"), peers("hierarchical"));
  EXPECT_NE(peers("hierarchical(intra=ring)"), peers("hierarchical"));
  EXPECT_NE(peers("hierarchical(inter=ring)"), peers("hierarchical"));
}

// Those of the largest hosts send to other hosts that own a shard, everybody where there are fewer.
TEST(Parameters, RailsAreSoManyRanksOfAHost) {
  const auto senders = [](const std::string& text, Collective collective) {
    VerifiedCase call = case_of(text, collective, 9, 720);
    call.check = false;
    call.shape = std::make_shared<Shape>(shape_of("mixed", {0, 0, 0, 0, 1, 1, 1, 2, 2}));
    std::set<int> found;
    const BuiltCase built = build_case(call);
    for (int rank = 0; rank < 9; ++rank)
      for (const int peer : peers_of(built.schedules[static_cast<size_t>(rank)]))
        if (call.shape->hierarchy.part_of(0, peer) != call.shape->hierarchy.part_of(0, rank))
          found.insert(rank);
    return found;
  };
  using enum Collective;
  EXPECT_THAT(senders("hierarchical(rails=1)", kAllreduce), ElementsAre(0, 4, 7));
  EXPECT_THAT(senders("hierarchical(rails=2)", kAllreduce), ElementsAre(0, 2, 4, 5, 7, 8));
  EXPECT_THAT(senders("hierarchical(rails=3)", kAllreduce), ElementsAre(0, 1, 2, 4, 5, 6, 7, 8));
  EXPECT_THAT(senders("hierarchical", kAllreduce), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8));
  EXPECT_EQ(senders("hierarchical(rails=64)", kAllreduce), senders("hierarchical", kAllreduce));
  EXPECT_EQ(senders("hierarchical(rails=auto)", kReduce), senders("hierarchical", kReduce));
  EXPECT_THAT(senders("hierarchical(rails=1)", kBroadcast), ElementsAre(0, 4, 7));
}

TEST(Parameters, DimensionsAreThoseOfTheTorus) {
  const auto peers = [](const std::string& text) {
    VerifiedCase call = case_of(text, Collective::kAllreduce, 12, 144);
    call.check = false;
    const auto all = peers_of(build_case(call).schedules.front());
    return std::set<int>(all.begin(), all.end());
  };
  EXPECT_THAT(peers("torus(dims=12)"), ElementsAre(1, 11));
  EXPECT_THAT(peers("torus(dims=4x3)"), ElementsAre(1, 3, 4, 8));
  EXPECT_THAT(peers("torus(dims=3x4)"), ElementsAre(1, 2, 3, 9));
}

struct Codec {
  DataType type;
  ReduceOp op;
};
constexpr Codec kCodecs[] = {{DataType::kFloat32, ReduceOp::kSum},
                             {DataType::kBfloat16, ReduceOp::kSum},
                             {DataType::kFloat32, ReduceOp::kPreMulSum},
                             {DataType::kBfloat16, ReduceOp::kAvg},
                             {DataType::kBfloat16, ReduceOp::kPreMulSum}};

void verify_with(const std::string& text, Collective collective, int ranks, uint32_t draw,
                 std::shared_ptr<const Shape> shape) {
  const auto size = static_cast<uint64_t>(ranks);
  const uint64_t counts[] = {1, 2, size - 1, size, size + 1, 37, 5 * size + 3};
  VerifiedCase call = case_of(text, collective, ranks, counts[draw % std::size(counts)]);
  call.shape = std::move(shape);
  call.in_place = draw / 3 % 2 == 1;
  call.check = draw % 5 != 4;
  if (has_root(collective)) call.root = static_cast<int>(draw * 7 % static_cast<uint32_t>(ranks));
  if (reduces(collective)) {
    const Codec codec = kCodecs[(draw + draw / 7) % std::size(kCodecs)];
    call.type = codec.type;
    call.op = codec.op;
  } else {
    call.type = draw % 2 == 0 ? DataType::kInt8 : DataType::kFloat64;
  }
  const BuiltCase built = build_case(call);
  const Verification result =
      verify(built.schedules, built.problems, {.slots = static_cast<int>(draw % 5), .seed = draw});
  std::ostringstream shown;
  shown << call << ", draw " << draw;
  ASSERT_TRUE(result.ok) << shown.str() << ": " << result.reason;
}

constexpr int kEvery = test::kAddressSanitizer ? 5 : 1;  // of the numbers of ranks

TEST(Parameters, SegmentsOfAnyLengthAreRight) {
  for (const std::string& name :
       std::vector<std::string>{"ring", "circulant", "pairwise", "double_tree"}) {
    const Algorithm& algorithm = algorithms()[static_cast<size_t>(find_algorithm(name))];
    uint32_t draw = 0;
    for (int c = 0; c < kCollectiveCount; ++c) {
      const auto collective = static_cast<Collective>(c);
      if (!algorithm.takes(ParameterKey::kSegment, collective)) continue;
      for (int ranks = 1; ranks <= 16; ranks += kEvery)
        for (const char* length : {"1", "8", "13", "64"})
          for (int turn = 0; turn < 7; ++turn)
            ASSERT_NO_FATAL_FAILURE(
                verify_with(name + "(seg=" + length + ")", collective, ranks, draw++, nullptr));
    }
  }
}

// All phases inside meet all between, in turn with lengths and shapes.
TEST(Parameters, HierarchiesOfAnyPhasesAreRight) {
  const std::string phases[] = {"circulant", "ring", "pairwise", "direct"};
  const std::string lengths[] = {"1", "8", "13", "64"};
  const Algorithm& algorithm = algorithms()[static_cast<size_t>(find_algorithm("hierarchical"))];
  uint32_t draw = 0;
  for (int c = 0; c < kCollectiveCount; ++c) {
    const auto collective = static_cast<Collective>(c);
    if (!algorithm.takes(ParameterKey::kIntra, collective)) continue;
    for (int ranks = 2; ranks <= 16; ranks += kEvery)
      for (const Shape& shape : shapes_of(ranks))
        for (int turn = 0; turn < 16; ++turn, ++draw) {
          std::string text =
              "hierarchical(intra=" + phases[turn % 4] + ",inter=" + phases[turn / 4];
          if (draw % 3 != 0) text += ",seg=" + lengths[draw / 3 % 4];
          if (draw % 2 == 0 && algorithm.takes(ParameterKey::kRails, collective))
            text += ",rails=" + std::to_string(1 + draw / 2 % 5);
          ASSERT_NO_FATAL_FAILURE(
              verify_with(text + ")", collective, ranks, draw, std::make_shared<Shape>(shape)));
        }
  }
}

TEST(Parameters, ToriOfAnyDimensionsAreRight) {
  using enum Collective;
  uint32_t draw = 0;
  for (const Collective collective :
       {kAllreduce, kAllgather, kAllgatherv, kReduceScatter, kReduceScatterv})
    for (int a = 2; a <= 16; a += kEvery)
      for (int b = 1; a * b <= 16; ++b)
        for (int c = 1; a * b * c <= 16; ++c) {
          std::string text = "torus(dims=" + std::to_string(a);
          for (const int length : {b, c})
            if (length > 1) text += "x" + std::to_string(length);
          for (int turn = 0; turn < 7; ++turn)
            ASSERT_NO_FATAL_FAILURE(
                verify_with(text + ")", collective, a * b * c, draw++, nullptr));
        }
}

}  // namespace
}  // namespace banyan::parameters_test
