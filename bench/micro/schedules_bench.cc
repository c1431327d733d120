// Times what it costs to build the schedule of one rank, for every algorithm that fits; and those
// of all of 65,536 ranks, and to verify them.
// SPDX-License-Identifier: Apache-2.0

#include <benchmark/benchmark.h>
#include <fmt/core.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "algorithms/algorithms.h"
#include "algorithms/problem.h"
#include "algorithms/verify/verify.h"

namespace banyan {
namespace {

void build(benchmark::State& state, const Algorithm& algorithm, Collective collective, int ranks) {
  Problem problem;
  problem.collective = collective;
  problem.count = 1 << 20;
  const Group group = Group::everyone(ranks, ranks - 1);
  size_t steps = 0;
  for ([[maybe_unused]] const auto& iteration : state) {
    const Schedule schedule = build_schedule(problem, group, algorithm);
    steps = schedule.steps.size();
    benchmark::DoNotOptimize(steps);
  }
  state.counters["steps"] = static_cast<double>(steps);
}

constexpr int kMany = 65536;

Hierarchy hosts_of_eight() {
  std::vector<int> hosts;
  for (int rank = 0; rank < kMany; ++rank) hosts.push_back(rank / 8);
  return Hierarchy::of_labels("host", hosts);
}

// As tests/algorithms/scale_test.cc does: built on two threads, run on one.
void verify_many(benchmark::State& state) {
  const Hierarchy hierarchy = hosts_of_eight();
  Problem problem;
  problem.count = uint64_t{4} * kMany + 4711;
  const Algorithm& algorithm = algorithms()[static_cast<size_t>(find_algorithm("hierarchical"))];
  for ([[maybe_unused]] const auto& iteration : state) {
    const auto begin = std::chrono::steady_clock::now();
    std::vector<Schedule> schedules(kMany);
    const auto build = [&](int first, int end) {
      Group group = Group::everyone(kMany, 0, &hierarchy);
      for (group.me = first; group.me < end; ++group.me)
        schedules[static_cast<size_t>(group.me)] = build_schedule(problem, group, algorithm);
    };
    std::thread half(build, 0, kMany / 2);
    build(kMany / 2, kMany);
    half.join();
    const std::chrono::duration<double> building = std::chrono::steady_clock::now() - begin;
    state.counters["building_s"] = building.count();
    const Verification result = verify(schedules, std::vector<Problem>(kMany, problem),
                                       {.slots = 1, .seed = 4711, .by_content = true});
    if (!result.ok) state.SkipWithError(result.reason.c_str());
  }
}

// Times the whole of a first call of rank 4,711 of 65,536, on 8,192 hosts; the hierarchy is the
// communicator's.
void build_for_many(benchmark::State& state, const Algorithm& algorithm, uint64_t bytes) {
  const Hierarchy hierarchy = hosts_of_eight();
  Problem problem;
  problem.count = bytes / problem.element();
  size_t steps = 0;
  for ([[maybe_unused]] const auto& iteration : state) {
    const Schedule schedule =
        build_schedule(problem, Group::everyone(kMany, 4711, &hierarchy), algorithm);
    steps = schedule.steps.size();
    benchmark::DoNotOptimize(steps);
  }
  state.counters["steps"] = static_cast<double>(steps);
}

void register_all() {
  constexpr Collective kCollectives[] = {Collective::kAllreduce, Collective::kAllgather,
                                         Collective::kReduceScatter, Collective::kBroadcast,
                                         Collective::kAlltoall};
  constexpr int kRanks[] = {2, 8, 64};
  for (const Algorithm& algorithm : algorithms()) {
    for (const Collective collective : kCollectives) {
      if (!algorithm.fits(collective)) continue;
      for (const int ranks : kRanks)
        benchmark::RegisterBenchmark(
            fmt::format("build/{}/{}/{}", name_of(collective), algorithm.name, ranks).c_str(),
            [&algorithm, collective, ranks](benchmark::State& state) {
              build(state, algorithm, collective, ranks);
            });
    }
    for (const uint64_t bytes : {uint64_t{4} << 10, uint64_t{64} << 20, uint64_t{1} << 30})
      if (algorithm.by_levels)
        benchmark::RegisterBenchmark(
            fmt::format("build/allreduce/{}/8192x8/{}", algorithm.name, bytes).c_str(),
            [&algorithm, bytes](benchmark::State& state) {
              build_for_many(state, algorithm, bytes);
            })
            ->Unit(benchmark::kMicrosecond);
  }
  benchmark::RegisterBenchmark("verify/allreduce/hierarchical/8192x8", verify_many)
      ->Unit(benchmark::kSecond)
      ->UseRealTime()
      ->MeasureProcessCPUTime();
}

}  // namespace
}  // namespace banyan

int main(int argc, char** argv) {
  banyan::register_all();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
