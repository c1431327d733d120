// Times what a small call costs beside waiting: by its program, by the engine, through the door;
// and what it costs to find what is known of it, or its plan.
// SPDX-License-Identifier: Apache-2.0

#include <benchmark/benchmark.h>

#include <memory>
#include <vector>

#include "bench/micro/small_calls.h"
#include "src/c_api/known_calls.h"

namespace banyan {
namespace {

// Arguments: ranks, floats. Times are of all ranks together.
void count_steps(benchmark::State& state, const SmallCalls& calls) {
  const auto steps = static_cast<double>(calls.steps()) * static_cast<double>(state.range(0));
  state.counters["per_step"] = benchmark::Counter(
      steps, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

void programs(benchmark::State& state) {
  SmallCalls calls(static_cast<int>(state.range(0)), static_cast<size_t>(state.range(1)));
  for ([[maybe_unused]] const auto& iteration : state) calls.by_programs();
  count_steps(state, calls);
}
BENCHMARK(programs)->ArgsProduct({{2, 4, 8}, {1, 64, 1024}});

void engines(benchmark::State& state) {
  SmallCalls calls(static_cast<int>(state.range(0)), static_cast<size_t>(state.range(1)));
  for ([[maybe_unused]] const auto& iteration : state) calls.by_engines();
  count_steps(state, calls);
}
BENCHMARK(engines)->ArgsProduct({{2, 4, 8}, {1, 64, 1024}});

void door(benchmark::State& state) {
  SmallCalls calls(1, 1);
  for ([[maybe_unused]] const auto& iteration : state) calls.by_door();
}
BENCHMARK(door);

// Times what a blocking call looks up first. There are as many calls in turn as the argument says,
// a training step's: one after another of other lengths.
void known_call(benchmark::State& state) {
  KnownCalls known;
  float send = 0;
  float recv = 0;
  std::vector<PlainCall> calls;
  for (size_t count = 1; count <= static_cast<size_t>(state.range(0)); ++count) {
    calls.push_back({BANYAN_ALLREDUCE, BANYAN_FLOAT32, BANYAN_SUM, 0, count, &send, &recv});
    known.remember(calls.back(), {}, {std::make_shared<Plan>(), nullptr});
  }
  for (const PlainCall& call : calls) {
    if (known.find(call) == nullptr) state.SkipWithError("so many calls are not kept");
  }
  for (size_t i = 0; auto iteration : state) {
    benchmark::DoNotOptimize(known.find(calls[i]));
    if (++i == calls.size()) i = 0;
  }
}
BENCHMARK(known_call)->Arg(1)->Arg(8)->Arg(64);

// What a call looks up that is not known.
void cached_plan(benchmark::State& state) {
  PlanCache cache(0, 8, Medium::kMemory, {});
  Problem problem;
  // As many signatures in turn as the argument says.
  for (uint64_t i = 0; auto iteration : state) {
    problem.count = 1 + i++ % static_cast<uint64_t>(state.range(0));
    benchmark::DoNotOptimize(cache.find_or_build(problem, -1));
  }
}
BENCHMARK(cached_plan)->Arg(1)->Arg(8);

void new_plan(benchmark::State& state) {
  Problem problem;
  problem.count = static_cast<uint64_t>(state.range(1));
  for (auto iteration : state) {
    PlanCache cache(0, static_cast<int>(state.range(0)), Medium::kMemory, {});
    benchmark::DoNotOptimize(cache.find_or_build(problem, -1));
  }
}
BENCHMARK(new_plan)->ArgsProduct({{2, 8, 64}, {1, 1 << 20}});

}  // namespace
}  // namespace banyan

BENCHMARK_MAIN();
