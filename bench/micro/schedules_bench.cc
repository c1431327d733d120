// What it costs to build the schedule of one rank, for every algorithm that fits.
// SPDX-License-Identifier: Apache-2.0

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <string>
#include <vector>

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

// The whole of a first call of rank 4,711 of 65,536, on 8,192 hosts; the hierarchy is the
// communicator's.
void build_for_many(benchmark::State& state, const Algorithm& algorithm, uint64_t bytes) {
  constexpr int kRanks = 65536;
  std::vector<int> hosts;
  for (int rank = 0; rank < kRanks; ++rank) hosts.push_back(rank / 8);
  const Hierarchy hierarchy = Hierarchy::of_labels("host", hosts);
  Problem problem;
  problem.count = bytes / problem.element();
  size_t steps = 0;
  for ([[maybe_unused]] const auto& iteration : state) {
    const Schedule schedule =
        build_schedule(problem, Group::everyone(kRanks, 4711, &hierarchy), algorithm);
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
