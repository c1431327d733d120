// Nothing is lost in sums by codecs that keep what is left: over all ranks, the result and what is
// left are the sum of the inputs.
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "algorithms/algorithms.h"
#include "compression/codecs.h"
#include "compression/grammar.h"
#include "compression/kernels.h"
#include "tests/algorithms/verified_case.h"
#include "tests/engine/engine_parts.h"
#include "tests/support/sanitizers.h"
#include "tests/support/toy_codec.h"

namespace banyan::test::left_test {
namespace {

// Each of them keeps or leaves multiples of 1/256 where it is given such.
constexpr const char* kSparse[] = {
    "threshold:0.75", "threshold:0.75:fp16", "topk:0.1",       "topk:0.1:fp16",
    "topk:0.1:resel", "randk:0.1",           "randk:0.1:fp16", "sign:0.5"};
constexpr const char* kRounded[] = {"int8",   "int8+sr", "int4",    "int4+sr", "dyn8", "fp8",
                                    "fp8+sr", "e5m2",    "e5m2+sr", "onebit",  "fp16", "bf16"};
constexpr uint64_t kCounts[] = {1, 251, 9'001};
constexpr double kLargest = 8;

float number(int rank, uint64_t i) {
  const auto mixed =
      static_cast<uint32_t>((i + 1) * 2654435761U) ^ static_cast<uint32_t>(rank + 1) * 40503U;
  const auto steps = static_cast<int>(mixed * 2246822519U >> 20) - 2048;  // of 1/256
  return static_cast<float>(steps) / 256;
}

Bytes numbers(int rank, uint64_t count) {
  std::vector<float> values(count);
  for (uint64_t i = 0; i < count; ++i) values[i] = number(rank, i);
  Bytes bytes(count * sizeof(float));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

float element(const Bytes& memory, uint64_t index) {
  float value = 0;
  std::memcpy(&value, memory.data() + index * sizeof value, sizeof value);
  return value;
}

// A call on all ranks, by the codecs that the parameters number.
struct Kept {
  const char* algorithm;
  int ranks;
  uint64_t count;
  bool in_place;
  Parameters parameters;
  const Shape* shape = nullptr;
};

Calls calls_of(const Kept& call, std::span<const Codec> codecs) {
  Calls calls;
  calls.codecs = codecs;
  calls.arithmetic = {DataType::kFloat32, ReduceOp::kSum, 1, {}};
  for (int rank = 0; rank < call.ranks; ++rank) {
    Problem problem;
    problem.count = call.count;
    problem.in_place = call.in_place;
    problem.keeps_left = true;
    Group group =
        Group::everyone(call.ranks, rank, call.shape == nullptr ? nullptr : &call.shape->hierarchy,
                        call.parameters);
    group.codecs = codecs;
    const auto algorithm = static_cast<size_t>(find_algorithm(call.algorithm));
    calls.schedules.push_back(build_schedule(problem, group, algorithms()[algorithm]));
    calls.problems.push_back(problem);
    calls.inputs.push_back(numbers(rank, call.count));
    calls.outputs.push_back(call.in_place ? calls.inputs.back() : Bytes(call.count * 4));
    calls.scratches.emplace_back(calls.schedules.back().scratch_size);
    calls.lefts.emplace_back(calls.schedules.back().left_count * sizeof(float), std::byte{0xff});
  }
  return calls;
}

// The sum of the results and of all that is left, and how much was left.
struct Found {
  std::vector<double> sums;
  double left = 0;
};
Found found_in(const Calls& calls) {
  Found found;
  const uint64_t count = calls.problems.front().count;
  for (uint64_t i = 0; i < count; ++i)
    found.sums.push_back(static_cast<double>(element(calls.outputs.front(), i)));
  for (size_t rank = 0; rank < calls.schedules.size(); ++rank)
    for (const Left& left : calls.schedules[rank].lefts)
      for (uint64_t i = 0; i < left.elements.count; ++i) {
        const auto value = static_cast<double>(element(calls.lefts[rank], left.place + i));
        found.sums[left.elements.begin + i] += value;
        found.left += std::abs(value);
      }
  return found;
}

// By at most `tolerance` of the largest magnitude that the sum may have. Gives what was left.
double expect_kept(const Calls& calls, double tolerance) {
  const auto ranks = static_cast<int>(calls.schedules.size());
  for (const Bytes& output : calls.outputs) EXPECT_EQ(output, calls.outputs.front());
  const Found found = found_in(calls);
  for (uint64_t i = 0; i < found.sums.size(); ++i) {
    double sum = 0;
    for (int rank = 0; rank < ranks; ++rank) sum += static_cast<double>(number(rank, i));
    const double error = std::abs(found.sums[i] - sum);
    if (error <= tolerance * kLargest * ranks) continue;
    ADD_FAILURE() << "element " << i << " of " << found.sums.size() << ": " << found.sums[i]
                  << " instead of " << sum;
    break;
  }
  return found.left;
}

// The roundings of sums, of which there are as many as ranks, are nobody's loss by codecs.
double tolerance_of(const std::string& codec, int ranks) {
  const bool is_sparse =
      std::find(std::begin(kSparse), std::end(kSparse), codec) != std::end(kSparse);
  return is_sparse ? 0 : 2 * ranks * static_cast<double>(std::numeric_limits<float>::epsilon());
}

void expect_conserved(const Kept& call, const std::string& codec) {
  Calls calls = calls_of(call, codecs());
  SCOPED_TRACE(codec + " by " + call.algorithm + ", ranks " + std::to_string(call.ranks) + ", " +
               std::to_string(call.count) + " elements" +
               (call.shape == nullptr ? "" : ", " + call.shape->name));
  ASSERT_TRUE(interpret(calls, best_kernels()));
  const double left = expect_kept(calls, tolerance_of(codec, call.ranks));
  const bool encodes = std::any_of(calls.schedules.begin(), calls.schedules.end(),
                                   [](const Schedule& schedule) { return schedule.slots != 0; });
  EXPECT_TRUE(left > 0 || !encodes || call.count == 1 || codec == "fp16") << "nothing was left";
}

std::vector<std::string> all_codecs() {
  std::vector<std::string> all(std::begin(kSparse), std::end(kSparse));
  all.insert(all.end(), std::begin(kRounded), std::end(kRounded));
  return all;
}

constexpr int kMostRanks = kThreadSanitizer ? 3 : 9;  // one thread does it all

TEST(Left, IsWhatFlatSumsLose) {
  for (const std::string& codec : all_codecs())
    for (int ranks = 2; ranks <= kMostRanks; ++ranks)
      for (const uint64_t count : kCounts)
        expect_conserved({.algorithm = "direct",
                          .ranks = ranks,
                          .count = count,
                          .in_place = ranks % 2 == 0,
                          .parameters = {.inter_codec = *parse_codec(codec)}},
                         codec);
}

// With a codec between hosts, inside them, or both; also in several segments. These and the counts
// are drawn for each codec on each shape.
TEST(Left, IsWhatSumsInHierarchiesLose) {
  std::mt19937 random(11);
  for (const std::string& codec : all_codecs())
    for (int ranks = 2; ranks <= kMostRanks; ++ranks)
      for (const Shape& shape : shapes_of(ranks)) {
        const auto levels = 1 + random() % 3;
        Parameters parameters{.segment = random() % 4 == 0 ? 20'000U : 0U};
        if ((levels & 1) != 0) parameters.inter_codec = *parse_codec(codec);
        if ((levels & 2) != 0) parameters.intra_codec = *parse_codec(codec);
        if (shape.hierarchy.simplified().depth() == 0) parameters.intra_codec = {};
        expect_conserved({.algorithm = "hierarchical",
                          .ranks = ranks,
                          .count = kCounts[random() % 3],
                          .in_place = random() % 2 == 0,
                          .parameters = parameters,
                          .shape = &shape},
                         codec);
      }
}

// The engine writes to the caller's memory what steps in program order do.
TEST(Left, ComesToTheCallersMemory) {
  const Shape shape = shape_of("threes", {0, 0, 0, 1, 1, 1});
  for (const Moods& moods : all_moods()) {
    const Kept call{.algorithm = "hierarchical",
                    .ranks = 6,
                    .count = 4711,
                    .in_place = moods.seed % 2 == 0,
                    .parameters = {.intra_codec = {kToyWhole}, .inter_codec = {kToy}},
                    .shape = &shape};
    Calls calls = calls_of(call, toy_codecs());
    Calls expected = calls;
    ASSERT_TRUE(interpret(expected, best_kernels()));
    Engines engines(call.ranks, moods);
    auto executions = executions_of(calls);
    for (int rank = 0; rank < call.ranks; ++rank)
      engines.start(rank, calls, *executions[static_cast<size_t>(rank)], 1);
    ASSERT_TRUE(engines.run());
    EXPECT_EQ(calls.lefts, expected.lefts);
    EXPECT_GT(expect_kept(calls, 1e-6), 0);
  }
}

}  // namespace
}  // namespace banyan::test::left_test
