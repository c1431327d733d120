// Schedules that send by a codec run on the engine: whatever order things happen in, the results
// are those of the steps in program order, alike on all ranks, and near the sums.
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>

#include "algorithms/algorithms.h"
#include "tests/algorithms/verified_case.h"
#include "tests/engine/engine_parts.h"
#include "tests/support/kernels_reference.h"
#include "tests/support/toy_codec.h"

namespace banyan::test::coded_steps_test {
namespace {

struct Coded {
  Collective collective;
  DataType type;
  ReduceOp op;
};
constexpr Coded kCalls[] = {{Collective::kAllreduce, DataType::kFloat32, ReduceOp::kSum},
                            {Collective::kAllreduce, DataType::kBfloat16, ReduceOp::kAvg},
                            {Collective::kReduceScatter, DataType::kFloat32, ReduceOp::kAvg},
                            {Collective::kAllreduce, DataType::kFloat32, ReduceOp::kPreMulSum},
                            {Collective::kReduceScatterv, DataType::kFloat16, ReduceOp::kSum},
                            {Collective::kAllreduce, DataType::kFloat16, ReduceOp::kPreMulSum}};

struct Way {
  const char* algorithm;
  Parameters parameters;
};
std::vector<Way> ways() {
  Parameters top, both, segments;
  top.inter_codec.codec = kToy;
  both.inter_codec.codec = kToyWhole;
  both.intra_codec.codec = kToy;
  segments.inter_codec.codec = kToy;
  segments.segment = 64;
  return {
      {"direct", top}, {"hierarchical", top}, {"hierarchical", both}, {"hierarchical", segments}};
}

// Runs a call on all ranks and compares it with its steps in program order.
void run(Calls& calls, const Moods& moods) {
  const auto ranks = static_cast<int>(calls.schedules.size());
  Calls expected = calls;
  ASSERT_TRUE(interpret(expected, best_kernels()));
  Engines engines(ranks, moods);
  auto executions = executions_of(calls);
  for (int rank = 0; rank < ranks; ++rank)
    engines.start(rank, calls, *executions[static_cast<size_t>(rank)], 1);
  ASSERT_TRUE(engines.run());
  ASSERT_EQ(calls.outputs, expected.outputs);
  ASSERT_EQ(calls.inputs, expected.inputs) << "an input was written";
}

// The first `bytes` of all outputs are alike.
void expect_alike(const Calls& calls, size_t bytes) {
  for (const Bytes& output : calls.outputs)
    ASSERT_TRUE(std::equal(output.begin(), output.begin() + static_cast<ptrdiff_t>(bytes),
                           calls.outputs.front().begin()));
}

bool sends_slots(const Calls& calls) {
  bool found = false;
  for (const Step& step : calls.schedules.front().steps)
    found = found || (step.op == Op::kSend && step.src.is_slot());
  return found;
}

TEST(Coded, CallsDoWhatTheirStepsSay) {
  unsigned round = 0;
  for (const Way& way : ways())
    for (const auto& [collective, type, op] : kCalls)
      for (const int ranks : {1, 2, 3, 5, 8, 9})
        for (const uint64_t count : {uint64_t{0}, uint64_t{1}, uint64_t{7}, uint64_t{500}}) {
          ++round;
          const Shape shape = shapes_of(ranks)[round % shapes_of(ranks).size()];
          const bool levels = std::string_view(way.algorithm) == "hierarchical";
          Calls calls = make_calls(collective, type, op, ranks, count, round % 3 == 0,
                                   find_algorithm(way.algorithm), round, way.parameters,
                                   levels ? &shape.hierarchy : nullptr);
          SCOPED_TRACE(std::string(way.algorithm) + " " + std::string(name_of(collective)) +
                       " of " + std::to_string(count) + ", ranks " + std::to_string(ranks) + ", " +
                       shape.name);
          Moods moods = all_moods()[round % all_moods().size()];
          moods.seed += round;
          ASSERT_NO_FATAL_FAILURE(run(calls, moods));
          const bool all = collective == Collective::kAllreduce;
          ASSERT_NO_FATAL_FAILURE(expect_alike(calls, all ? count * size_of(type) : 0));
          ASSERT_TRUE(sends_slots(calls) || ranks == 1 || count < 500 || levels);
        }
}

// The codec that keeps all values keeps the upper half of each, so each of its two encodings is
// off by less than 2^-7 of a magnitude that the sum of all magnitudes bounds.
TEST(Coded, SumsAreNearTheSums) {
  constexpr uint64_t kCount = 1003;
  for (const int ranks : {2, 3, 7}) {
    Parameters parameters;
    parameters.inter_codec.codec = kToyWhole;
    Calls calls = make_calls(Collective::kAllreduce, DataType::kFloat32, ReduceOp::kSum, ranks,
                             kCount, false, find_algorithm("direct"), 3, parameters);
    for (Bytes& input : calls.inputs)
      for (uint64_t i = 0; i < kCount; ++i) {
        const auto value = std::sin(static_cast<float>(i + input.size()) *
                                    static_cast<float>(&input - calls.inputs.data() + 1));
        std::memcpy(input.data() + i * sizeof value, &value, sizeof value);
      }
    ASSERT_NO_FATAL_FAILURE(run(calls, {}));
    for (uint64_t i = 0; i < kCount; ++i) {
      double sum = 0, magnitude = 0;
      float value = 0;
      for (const Bytes& input : calls.inputs) {
        std::memcpy(&value, input.data() + i * sizeof value, sizeof value);
        sum += static_cast<double>(value);
        magnitude += std::abs(static_cast<double>(value));
      }
      std::memcpy(&value, calls.outputs.front().data() + i * sizeof value, sizeof value);
      ASSERT_NEAR(static_cast<double>(value), sum, magnitude / 64 + 1e-6) << i;
    }
  }
}

// Several calls in flight, started again and again, coded and exact.
TEST(Coded, CallsInFlightKeepApart) {
  constexpr int kRanks = 4, kRounds = 5;
  for (const Moods& moods : all_moods()) {
    std::vector<Calls> calls;
    for (const Way& way : ways()) {
      calls.push_back(make_calls(Collective::kAllreduce, DataType::kFloat32, ReduceOp::kSum, kRanks,
                                 301 + calls.size(), false, find_algorithm(way.algorithm),
                                 calls.size(), way.parameters));
      calls.push_back(make_calls(Collective::kAllreduce, DataType::kFloat32, ReduceOp::kSum, kRanks,
                                 99, true, find_algorithm("ring"), calls.size()));
    }
    Engines engines(kRanks, moods);
    std::vector<std::vector<std::unique_ptr<Execution>>> executions;
    for (const Calls& call : calls) executions.push_back(executions_of(call));
    uint32_t number = 0;
    for (int round = 0; round < kRounds; ++round) {
      std::vector<Calls> expected = calls;
      for (Calls& call : expected) ASSERT_TRUE(interpret(call, best_kernels()));
      for (int rank = 0; rank < kRanks; ++rank)
        for (size_t i = 0; i < calls.size(); ++i)
          engines.start(rank, calls[i], *executions[i][static_cast<size_t>(rank)],
                        number + static_cast<uint32_t>(i));
      number += static_cast<uint32_t>(calls.size());
      ASSERT_TRUE(engines.run());
      for (size_t i = 0; i < calls.size(); ++i)
        ASSERT_EQ(calls[i].outputs, expected[i].outputs) << "call " << i << ", round " << round;
    }
  }
}

}  // namespace
}  // namespace banyan::test::coded_steps_test
