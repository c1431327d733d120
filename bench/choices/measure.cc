// SPDX-License-Identifier: Apache-2.0

#include "bench/choices/measure.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>

#include "algorithms/algorithms.h"
#include "algorithms/choice/select.h"
#include "algorithms/cost/cost.h"
#include "bench/choices/rows.h"
#include "bench/perf/job.h"
#include "bench/perf/run.h"
#include "bench/perf/team.h"
#include "src/base/clock.h"
#include "src/c_api/arguments.h"
#include "src/c_api/inspect.h"
#include "src/c_api/run.h"

namespace banyan::choices {
namespace {

using perf::Job;
using perf::Memory;
using perf::Team;

constexpr int kMostCalls = 500;  // timed together

struct Lengths {
  uint64_t input, output;
};

// In bytes; as every rank has them but those of a broadcast, where only the root needs an input.
Lengths lengths_of(Collective collective, uint64_t bytes, int ranks) {
  const uint64_t all = bytes * static_cast<uint64_t>(ranks);
  switch (collective) {
    case Collective::kAllgather:
    case Collective::kGather: return {bytes, all};
    case Collective::kReduceScatter:
    case Collective::kScatter: return {all, bytes};
    case Collective::kAlltoall: return {all, all};
    case Collective::kAllreduce:
    case Collective::kReduce:
    case Collective::kBroadcast:
    case Collective::kBarrier:
    case Collective::kAllgatherv:
    case Collective::kReduceScatterv:
    case Collective::kAlltoallv:
    case Collective::kSend:
    case Collective::kRecv:
    case Collective::kFinalize:
    case Collective::kSplit: break;
  }
  return {bytes, bytes};
}

bool fits_memory(Collective collective, uint64_t bytes, int ranks) {
  const Lengths lengths = lengths_of(collective, bytes, ranks);
  // Scratch of an algorithm may take twice as much again.
  return (lengths.input + lengths.output) * 2 * static_cast<uint64_t>(ranks) <= kMostBytes;
}

class Rank {
 public:
  Rank(Job& job, const Plan& plan) : job_(job), plan_(plan) {}

  Status run(bool predictions) {
    uint64_t input = 0, output = 0;
    for (const Kind& kind : plan_.kinds) {
      for (const uint64_t bytes : sizes_of(kind.collective)) {
        const Lengths lengths = lengths_of(kind.collective, bytes, job_.size());
        input = std::max(input, lengths.input);
        output = std::max(output, lengths.output);
      }
    }
    const auto open = find_communicator(job_.comm());
    BANYAN_TRY(open.status());
    open_ = *open;
    const auto hosts = hosts_of(job_.comm());
    BANYAN_TRY(hosts.status());
    by_levels_ = open_->membership->hierarchy().depth() > 0;
    if (medium() == Medium::kNetwork) hosts_ = fmt::format("{}", fmt::join(*hosts, "."));
    auto inputs = Memory::allocate(job_, input, perf::Home::kHost);
    BANYAN_TRY(inputs.status());
    auto outputs = Memory::allocate(job_, output, perf::Home::kHost);
    BANYAN_TRY(outputs.status());
    input_ = inputs->data();
    output_ = outputs->data();
    if (predictions) BANYAN_TRY(print_message_times());
    for (const Kind& kind : plan_.kinds)
      for (const uint64_t bytes : sizes_of(kind.collective))
        BANYAN_TRY(predictions ? prediction(kind, bytes) : point(kind, bytes));
    if (predictions && job_.rank() == 0)
      std::fputs(fmt::format("{} of {} predictions are within 30 % of what was measured\n", near_,
                             predicted_)
                     .c_str(),
                 stdout);
    return job_.finalize();
  }

 private:
  Medium medium() const { return open_->membership->medium(); }

  std::vector<uint64_t> sizes_of(Collective collective) const {
    if (collective == Collective::kBarrier) return {0};
    std::vector<uint64_t> sizes;
    std::copy_if(plan_.sizes.begin(), plan_.sizes.end(), std::back_inserter(sizes),
                 [&](uint64_t bytes) { return fits_memory(collective, bytes, job_.size()); });
    return sizes;
  }

  banyan_call_t call_of(const Kind& kind, uint64_t bytes, const char* algorithm) const {
    banyan_call_t call = BANYAN_CALL_INIT;
    call.collective = static_cast<banyan_collective_t>(kind.collective);
    call.datatype = static_cast<banyan_datatype_t>(kind.type);
    call.send = input_;
    call.recv = output_;
    call.count = bytes / size_of(kind.type);
    call.algorithm = algorithm;  // a literal of the list, or null
    return call;
  }

  // Gives the microseconds of one call, the mean of `calls`, on the slowest rank. It is a call that
  // the library knows already, but for finding its plan: 25 ns.
  Result<double> time(const Call& call, int calls) {
    double sum = 0;
    for (int i = 0; i < calls; ++i) {
      BANYAN_TRY(job_.barrier());
      const TimePoint begin = Clock::now();
      BANYAN_TRY(run_now(*open_, call));
      sum += std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
    }
    const auto slowest = job_.allreduce({sum / calls}, BANYAN_MAX);
    BANYAN_TRY(slowest.status());
    return slowest->front();
  }

  // Whatever a call learns, it has learnt before it counts: as many go before as count.
  Result<double> time_of(const Call& call) {
    BANYAN_TRY(time(call, 1).status());  // builds, touches pages
    const auto once = time(call, 1);
    BANYAN_TRY(once.status());
    const int calls =
        std::clamp(static_cast<int>(plan_.least_us / std::max(*once, 0.1)), 2, kMostCalls);
    BANYAN_TRY(time(call, calls - 1).status());
    return time(call, calls);
  }

  Status point(const Kind& kind, uint64_t bytes) {
    std::string lines;
    const int all = static_cast<int>(algorithms().size());
    for (int turn = 0; turn < all; ++turn) {
      const Algorithm& algorithm = algorithms()[static_cast<size_t>((turn + plan_.first) % all)];
      // On one host, or with one rank a host, these are others by another name.
      if (!algorithm.fits(kind.collective) || (algorithm.by_levels && !by_levels_)) continue;
      const auto call = check_call(*open_, call_of(kind, bytes, algorithm.name.data()));
      BANYAN_TRY(call.status());
      const auto took = time_of(*call);
      BANYAN_TRY(took.status());
      lines += fmt::format("{},{},{},{},{},{:.3f},{}\n", text_of(kind), job_.size(),
                           name_of(medium()), bytes, algorithm.name, *took, hosts_);
    }
    if (job_.rank() == 0) std::fputs(lines.c_str(), stdout);
    return {};
  }

  Status print_message_times() const {
    const auto times = message_times_of(job_.comm());
    BANYAN_TRY(times.status());
    std::string text;
    for (const MessageTime& each : times->messages)
      text += fmt::format(
          "# {} bytes: by slots {:.2f} us, read {:.2f} and again {:.2f}, written "
          "{:.2f}\n",
          each.bytes, each.slots_us, each.first_us, each.again_us, each.write_us);
    text += text.empty() ? "# nothing was measured when the ranks met\n"
                         : fmt::format("# a word: {:.3f} us\n", times->word_us);
    text += fmt::format("{:<15} {:>10} {:<20} {:>12} {:>12} {:>7}\n", "collective", "bytes",
                        "algorithm", "predicted us", "measured us", "ratio");
    if (job_.rank() == 0) std::fputs(text.c_str(), stdout);
    return {};
  }

  // banyan_perf times calls so: one after the other.
  Result<double> time_in_a_row(const Call& call, int calls) {
    BANYAN_TRY(job_.barrier());
    const TimePoint begin = Clock::now();
    for (int i = 0; i < calls; ++i) BANYAN_TRY(run_now(*open_, call));
    const double us = std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
    const auto all = job_.allreduce({us / calls}, BANYAN_SUM);
    BANYAN_TRY(all.status());
    return all->front() / job_.size();
  }

  Status prediction(const Kind& kind, uint64_t bytes) {
    constexpr int kRuns = 7;
    const auto call = check_call(*open_, call_of(kind, bytes, nullptr));
    BANYAN_TRY(call.status());
    const auto model = model_of(job_.comm());
    BANYAN_TRY(model.status());
    if (!*model) return {Code::kInvalidUsage, "nothing is known of the network between the hosts"};
    const MeasuredNetwork* network = open_->membership->measured();
    const Choice choice =
        choose(call->problem, job_.size(), medium(), {}, &open_->membership->hierarchy(), network);
    const double predicted =
        predict(call->problem, choice.algorithm, job_.size(), **model,
                network == nullptr ? nullptr : &network->levels, choice.parameters);
    BANYAN_TRY(time_in_a_row(*call, 2).status());
    const auto once = time_in_a_row(*call, 2);
    BANYAN_TRY(once.status());
    const int calls = std::clamp(static_cast<int>(20 * plan_.least_us / std::max(*once, 0.1)), 10,
                                 20 * kMostCalls);
    std::vector<double> runs;
    for (int run = 0; run < kRuns; ++run) {
      const auto took = time_in_a_row(*call, calls);
      BANYAN_TRY(took.status());
      runs.push_back(*took);
    }
    std::sort(runs.begin(), runs.end());
    const double measured = runs[kRuns / 2];
    ++predicted_;
    near_ += predicted <= 1.3 * measured && measured <= 1.3 * predicted ? 1 : 0;
    if (job_.rank() == 0)
      std::fputs(fmt::format("{:<15} {:>10} {:<20} {:>12.2f} {:>12.2f} {:>7.2f}\n", text_of(kind),
                             bytes, algorithms()[static_cast<size_t>(choice.algorithm)].name,
                             predicted, measured, predicted / measured)
                     .c_str(),
                 stdout);
    return {};
  }

  Job& job_;
  const Plan& plan_;
  int predicted_ = 0, near_ = 0;
  OpenCommunicator* open_ = nullptr;
  bool by_levels_ = false;
  std::string hosts_;
  std::byte* input_ = nullptr;
  std::byte* output_ = nullptr;
};

// `team` is null where a launcher has started the ranks.
Status run_rank(const Plan& plan, Team* team, int rank, bool predictions) {
  const auto job = perf::join_team(team, rank);
  BANYAN_TRY(job.status());
  return Rank(**job, plan).run(predictions);
}

int failed(std::string_view text) {
  std::fputs(fmt::format("choices: {}\n", text).c_str(), stderr);
  return 1;
}

int run_ranks(const Plan& plan, bool predictions) {
  if (plan.ranks == 0) {
    const Status status = run_rank(plan, nullptr, 0, predictions);
    return status.ok() ? 0 : failed(status.message());
  }
  const auto team = Team::create(plan.ranks, "choices");
  if (!team.ok()) return failed(team.status().message());
  const auto rank = (*team)->start();
  if (!rank.ok()) return failed(rank.status().message());
  if (*rank < 0) return (*team)->supervise();
  const Status status = run_rank(plan, team->get(), *rank, predictions);
  if (!status.ok()) (*team)->leave_words(*rank, status.message());
  return status.ok() ? 0 : 1;
}

}  // namespace

int measure(const Plan& plan) {
  return run_ranks(plan, false);
}

int compare_predictions(const Plan& plan) {
  return run_ranks(plan, true);
}

}  // namespace banyan::choices
