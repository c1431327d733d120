// The sweep over sizes and rounds.
// SPDX-License-Identifier: Apache-2.0

#include "bench/perf/run.h"

#include <fmt/core.h>
#include <sched.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "bench/machine.h"
#include "bench/perf/data.h"
#include "bench/perf/job.h"
#include "bench/perf/measure.h"
#include "src/base/parse.h"
#include "src/base/processor.h"
#include "src/bootstrap/launcher.h"
#include "topology/cpu_set.h"

namespace banyan::perf {

namespace {

constexpr int kFailed = 1;
// At most so much of the memory that is available is taken; the rest is for the library and
// everybody else.
constexpr double kMostOfMemory = 0.6;

Status bind_to_core(int local_rank) {
  const auto cores = usable_cores();
  if (cores.empty()) return {Code::kSystem, "--bind: no core to pin to"};
  const int core = cores[static_cast<size_t>(local_rank) % cores.size()];
  if (core >= CPU_SETSIZE)
    return {Code::kSystem, fmt::format("--bind: core {} is beyond what can be named", core)};
  cpu_set_t set{};
  CPU_SET(static_cast<size_t>(core), &set);
  if (::sched_setaffinity(0, sizeof set, &set) != 0)
    return {Code::kSystem, fmt::format("--bind: cannot pin rank {} to core {}", local_rank, core)};
  return {};
}

// Collective, so that all ranks come to the same answer.
Status check_memory(Job& job, const Options& options, uint64_t count) {
  double needed = 0;
  for (int rank = 0; rank < job.size(); ++rank)
    needed += static_cast<double>(buffer_bytes(options, rank, job.size(), count));
  needed *= static_cast<double>(job.local_ranks()) / job.size();
  const auto available = static_cast<double>(this_machine().available_bytes);
  const bool enough = available <= 0 || needed <= kMostOfMemory * available;
  const auto everywhere = job.allreduce({enough ? 1.0 : 0.0}, BANYAN_MIN);
  if (!everywhere.ok()) return everywhere.status();
  if (everywhere->front() > 0) return {};
  return {Code::kSystem,
          fmt::format("buffers of {} ranks for messages of {} bytes take {:.1f} GiB of this host, "
                      "of which {:.1f} GiB are available and {:.0f} % may be used; give a smaller "
                      "MAX with -m",
                      job.local_ranks(), count * size_of(options.type), needed / (1 << 30),
                      available / (1 << 30), 100 * kMostOfMemory)};
}

// Collective; there is something at rank 0 only.
Result<std::vector<Place>> places_of(Job& job) {
  CpuSet mine;
  for (const int core : usable_cores()) mine.add(core);
  const auto cores = job.gather(mine.list());
  BANYAN_TRY(cores.status());
  const auto hosts = host_names_of(job.comm());
  BANYAN_TRY(hosts.status());
  std::vector<Place> places;
  for (size_t rank = 0; rank < cores->size(); ++rank)
    places.push_back({.host = (*hosts)[rank], .cores = (*cores)[rank]});
  return places;
}

Setting setting_of(const Job& job, const Options& options, const CallPlan& plan,
                   std::vector<Place> places) {
  return {.version = version_text(),
          .ranks = job.size(),
          .hosts = job.hosts(),
          .transports = plan.transports,
          .compress = options.compress.empty() ? "off" : options.compress,
          .determinism = options.invariant ? "invariant" : "deterministic",
          .places = std::move(places),
          .machine = this_machine()};
}

// The number of wrong elements in all rows.
Result<uint64_t> sweep(Job& job, const Options& options, const Buffers& buffers, Report& report) {
  const auto sizes = sizes_of(options);
  const Data data(options.type, options.op);
  auto places = places_of(job);
  BANYAN_TRY(places.status());
  if (job.rank() == 0) {
    const auto plan = plan_at(job, options, buffers, sizes.front().count);
    if (!plan.ok()) return plan.status();
    BANYAN_TRY(report.begin(setting_of(job, options, *plan, std::move(*places))));
  }
  uint64_t wrong = 0;
  for (int round = 1; round <= options.rounds; ++round) {
    for (const Size& size : sizes) {
      const auto row = measure(job, options, data, buffers, size, round);
      if (!row.ok()) return row.status();
      wrong += row->wrong;
      if (job.rank() == 0) BANYAN_TRY(report.add(*row));
    }
  }
  if (job.rank() == 0) BANYAN_TRY(report.finish());
  return wrong;
}

Result<uint64_t> run_job(Job& job, const Options& options, Report& report) {
  if (is_pair(options.pattern) && job.size() < 2)
    return Status(Code::kInvalidUsage, fmt::format("{} is between two ranks, and there is one",
                                                   name_of(options.pattern)));
  const uint64_t count = sizes_of(options).back().count;
  BANYAN_TRY(check_memory(job, options, count));
  Result<uint64_t> wrong = uint64_t{0};
  {
    const auto buffers = allocate_buffers(job, options, count);
    if (!buffers.ok()) return buffers.status();
    wrong = sweep(job, options, *buffers, report);
    if (!wrong.ok()) return wrong;
  }
  BANYAN_TRY(job.finalize());
  return wrong;
}

}  // namespace

Result<std::unique_ptr<Job>> join_team(Team* team, int rank, bool invariant) {
  if (team == nullptr) return Job::join(nullptr, 0, 0, invariant);
  banyan_unique_id_t id{};
  if (rank == 0) {
    const Status made = status_of(banyan_get_unique_id(&id), nullptr);
    team->give_id(made.ok() ? &id : nullptr);
    if (!made.ok()) return made;
  } else {
    const auto taken = team->take_id();
    // Rank 0 says why there is none.
    if (!taken.ok()) return Status(taken.status().code(), std::string());
    id = *taken;
  }
  return Job::join(&id, rank, team->size(), invariant);
}

// Wrong values of variables are the library's to tell, when it joins.
Result<Launched> find_launched(const RawEnvironment& raw) {
  const auto environment = parse_environment(raw);
  if (!environment.ok()) return Launched{};
  const auto launch = detect_launch(raw, *environment);
  if (launch.ok())
    return Launched{launch->rank, launch->local_rank >= 0 ? launch->local_rank : launch->rank,
                    std::string(name_of(launch->kind))};
  if (launch.status().code() != Code::kInvalidUsage) return Launched{};
  return Status(Code::kInvalidUsage,
                fmt::format("no ranks: give -n RANKS to start them here, or start this program "
                            "under a launcher ({})",
                            launch.status().message()));
}

Outcome run_rank(const Options& options, Team* team, int place, Result<Report>& report) {
  Status ready = report.status();
  if (ready.ok() && options.bind) ready = bind_to_core(place);
  const auto job = join_team(team, place, options.invariant);
  if (!ready.ok()) return {kFailed, std::string(ready.message())};
  if (!job.ok()) return {kFailed, std::string(job.status().message())};
  const auto wrong = run_job(**job, options, *report);
  if (!wrong.ok()) return {kFailed, std::string(wrong.status().message())};
  if (*wrong != 0)
    return {kFailed,
            fmt::format("{} wrong element{}, named above", *wrong, *wrong == 1 ? "" : "s")};
  return {};
}

}  // namespace banyan::perf
