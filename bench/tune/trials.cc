// SPDX-License-Identifier: Apache-2.0

#include "bench/tune/trials.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "algorithms/algorithms.h"
#include "bench/machine.h"
#include "bench/perf/calls.h"
#include "src/base/clock.h"
#include "src/c_api/inspect.h"

namespace banyan::tune {

namespace {

constexpr uint64_t kMostBytes = uint64_t{64} << 20;
constexpr uint64_t kMostOfRank = uint64_t{192} << 20;  // both buffers of a rank
constexpr double kMostOfMemory = 0.4;                  // of what is available on a host

uint64_t bytes_of_buffers(const perf::Case& which) {
  const perf::Layout layout = perf::layout_of(which);
  return (layout.input + layout.output) * kElementBytes;
}

perf::Case case_of(perf::Pattern pattern, const perf::Job& job, uint64_t bytes) {
  const bool barrier = pattern == perf::Pattern::kBarrier;
  return {.pattern = pattern,
          .rank = job.rank(),
          .size = job.size(),
          .count = barrier ? 0 : std::max<uint64_t>(bytes / kElementBytes, 1)};
}

}  // namespace

// As it travels. kStop has no trial.
struct Trials::Order {
  enum class Kind : uint32_t { kTry, kDefault, kStop };

  Kind kind = Kind::kStop;
  uint32_t pattern = 0;
  uint64_t bytes = 0;
  uint64_t iterations = 0;
  uint64_t warm_up = 0;
  int32_t algorithm = 0;
  uint32_t unused = 0;
};

Result<uint64_t> Trials::most_bytes(perf::Pattern pattern) {
  if (pattern == perf::Pattern::kBarrier) return uint64_t{0};
  const double mine = static_cast<double>(this_machine().available_bytes) * kMostOfMemory /
                      std::max(1, job_.local_ranks());
  const auto least = job_.allreduce({mine}, BANYAN_MIN);
  BANYAN_TRY(least.status());
  const auto room = std::min(kMostOfRank, static_cast<uint64_t>(least->front()));
  uint64_t most = kMostBytes;
  // Rank 0, the root, has the most.
  const auto needed = [&] {
    perf::Case which = case_of(pattern, job_, most);
    which.rank = 0;
    return bytes_of_buffers(which);
  };
  while (most > kElementBytes && needed() > room) most /= 2;
  return most;
}

Status Trials::reserve(const perf::Case& which) {
  const perf::Layout layout = perf::layout_of(which);
  const auto grow = [&](perf::Memory& memory, uint64_t elements) -> Status {
    if (elements * kElementBytes <= memory.size()) return {};
    memory = perf::Memory();  // before the larger one comes
    auto larger = perf::Memory::allocate(job_, elements * kElementBytes, false);
    BANYAN_TRY(larger.status());
    memory = std::move(*larger);
    return {};
  };
  BANYAN_TRY(grow(buffers_.input, layout.input));
  return grow(buffers_.output, layout.output);
}

// All ranks come here between the same two calls.
Status Trials::use(const std::string& rules) {
  if (rules == rules_) return {};
  const auto parsed = parse_rules(rules);
  BANYAN_TRY(parsed.status());
  BANYAN_TRY(use_rules(job_.comm(), *parsed));
  rules_ = rules;
  return {};
}

// The microseconds, or of the default choice the algorithm: at rank 0.
Result<double> Trials::obey(const Order& order) {
  const auto pattern = static_cast<perf::Pattern>(order.pattern);
  const perf::Case which = case_of(pattern, job_, order.bytes);
  BANYAN_TRY(reserve(which));
  // The barrier before each call stays what it is, unless it is what is tried.
  BANYAN_TRY(use(order.kind == Order::Kind::kTry
                     ? fmt::format("{}: {}", perf::name_of(pattern),
                                   algorithms()[static_cast<size_t>(order.algorithm)].name)
                     : std::string()));
  const perf::Layout layout = perf::layout_of(which);
  const perf::Call call{.pattern = pattern,
                        .send = layout.input != 0 ? buffers_.input.data() : nullptr,
                        .recv = layout.output != 0 ? buffers_.output.data() : nullptr,
                        .count = which.count,
                        .rank = which.rank,
                        .comm = job_.comm()};
  if (order.kind == Order::Kind::kDefault) {
    const auto plan = plan_of(job_.comm(), perf::describe(call));
    BANYAN_TRY(plan.status());
    return static_cast<double>(find_algorithm(plan->algorithm));
  }
  Clock::duration spent{};
  for (uint64_t i = 0; i < order.warm_up + order.iterations; ++i) {
    if (pattern != perf::Pattern::kBarrier) BANYAN_TRY(job_.barrier());
    const TimePoint begin = Clock::now();
    BANYAN_TRY(perf::status_of(perf::run_once(call), job_.comm()));
    if (i >= order.warm_up) spent += Clock::now() - begin;
  }
  const double mine = std::chrono::duration<double, std::micro>(spent).count() /
                      static_cast<double>(order.iterations);
  const auto sum = job_.allreduce({mine}, BANYAN_SUM);
  BANYAN_TRY(sum.status());
  return sum->front() / job_.size();
}

Result<double> Trials::run(const Trial& trial) {
  Order order{.kind = Order::Kind::kTry,
              .pattern = static_cast<uint32_t>(trial.pattern),
              .bytes = trial.bytes,
              .iterations = trial.iterations,
              .warm_up = trial.warm_up,
              .algorithm = trial.algorithm};
  BANYAN_TRY(job_.broadcast(&order, sizeof order));
  return obey(order);
}

Result<int> Trials::default_of(perf::Pattern pattern, uint64_t bytes) {
  Order order{
      .kind = Order::Kind::kDefault, .pattern = static_cast<uint32_t>(pattern), .bytes = bytes};
  BANYAN_TRY(job_.broadcast(&order, sizeof order));
  const auto algorithm = obey(order);
  BANYAN_TRY(algorithm.status());
  return static_cast<int>(*algorithm);
}

Status Trials::stop() {
  Order order;
  return job_.broadcast(&order, sizeof order);
}

Status Trials::follow() {
  for (;;) {
    Order order;
    BANYAN_TRY(job_.broadcast(&order, sizeof order));
    if (order.kind == Order::Kind::kStop) return {};
    BANYAN_TRY(obey(order).status());
  }
}

}  // namespace banyan::tune
