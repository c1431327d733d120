// What it costs to build the schedule of one rank, for every algorithm that fits.
// SPDX-License-Identifier: Apache-2.0

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <string>

#include "algorithms/algorithms.h"
#include "algorithms/problem.h"

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
  }
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
