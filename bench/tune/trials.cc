// SPDX-License-Identifier: Apache-2.0

#include "bench/tune/trials.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "algorithms/algorithms.h"
#include "algorithms/choice/codec_costs.h"
#include "bench/machine.h"
#include "bench/tune/candidates.h"
#include "src/base/clock.h"
#include "src/c_api/inspect.h"

namespace banyan::tune {

namespace {

constexpr uint64_t kMostBytes = uint64_t{64} << 20;
constexpr uint64_t kMostOfRank = uint64_t{192} << 20;  // both buffers of a rank
constexpr double kMostOfMemory = 0.4;                  // of what is available on a host
constexpr uint64_t kSurelyByNccl = 256 << 10;          // where it is there
constexpr double kPatienceSeconds = 5;                 // that NCCL has to begin

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

// What a rank does with its partner.
banyan_result_t exchange_with(const perf::Call& call) {
  const banyan_result_t begun = banyan_group_start();
  if (begun != BANYAN_SUCCESS) return begun;
  banyan_result_t called = banyan_recv(call.recv, call.count, call.type, call.peer, call.comm);
  if (called == BANYAN_SUCCESS)
    called = banyan_send(call.send, call.count, call.type, call.peer, call.comm);
  const banyan_result_t ended = banyan_group_end();
  return called == BANYAN_SUCCESS ? ended : called;
}

banyan_result_t run_probe(Probe::Kind kind, const perf::Call& call) {
  return kind == Probe::Kind::kExchange ? exchange_with(call) : perf::run_once(call);
}

perf::Pattern pattern_of(Probe::Kind kind) {
  return kind == Probe::Kind::kWindow ? perf::Pattern::kBandwidth : perf::Pattern::kLatency;
}

// Between hosts where there are several, as BANYAN_COMPRESS has it.
Compression compression_of(int codec) {
  Compression compression;
  if (codec >= 0)
    compression.inter = compression.alone = automatic_codecs()[static_cast<size_t>(codec)];
  return compression;
}

// That follow each other in it.
double messages_of(Probe::Kind kind) {
  switch (kind) {
    case Probe::Kind::kRoundTrip: return 2;
    case Probe::Kind::kWindow: return perf::kWindow;
    case Probe::Kind::kExchange: return 1;
  }
  return 1;
}

// Lengths are in bytes.
Status reserve(perf::Job& job, perf::Home home, uint64_t input, uint64_t output,
               perf::Buffers* buffers) {
  const auto grow = [&](perf::Memory& memory, uint64_t bytes) -> Status {
    if (bytes <= memory.size()) return {};
    memory = perf::Memory();  // before the larger one comes
    auto larger = perf::Memory::allocate(job, bytes, home);
    BANYAN_TRY(larger.status());
    memory = std::move(*larger);
    return {};
  };
  BANYAN_TRY(grow(buffers->input, input));
  return grow(buffers->output, output);
}

}  // namespace

// As it travels. kStop and kRenew have no trial, and only kProbe has a probe.
struct Trials::Order {
  enum class Kind : uint32_t { kTry, kDefault, kProbe, kRenew, kStop };

  Kind kind = Kind::kStop;
  uint32_t pattern = 0;
  uint64_t bytes = 0;
  uint64_t iterations = 0;
  uint64_t warm_up = 0;
  int32_t algorithm = 0;
  int32_t codec = -1;
  Probe probe{};
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

// All ranks come here between the same two calls.
Status Trials::use(const std::string& rules) {
  if (rules == rules_) return {};
  const auto parsed = parse_rules(rules);
  BANYAN_TRY(parsed.status());
  BANYAN_TRY(use_rules(trial_->comm(), *parsed));
  rules_ = rules;
  return {};
}

// As use().
Status Trials::use_codec(int codec) {
  if (codec == codec_) return {};
  BANYAN_TRY(use_compression(trial_->comm(), compression_of(codec)));
  codec_ = codec;
  return {};
}

// All ranks come here between the same two calls.
Status Trials::make_anew() {
  BANYAN_TRY(leave());
  buffers_ = {};
  nccl_ = Nccl::kUnknown;
  rules_.reset();
  codec_.reset();
  auto next = job_.again();
  BANYAN_TRY(next.status());
  trial_ = std::move(*next);
  return {};
}

// The first call of some length has NCCL begun, and calls go by the host until it is ready. All
// ranks find the same.
Result<bool> Trials::is_by_nccl(const perf::Call& call) {
  if (nccl_ == Nccl::kMissing) return false;
  const TimePoint end = deadline_after(kPatienceSeconds);
  for (;;) {
    const Result<uint64_t> before = calls_by_windows(trial_->comm());
    BANYAN_TRY(before.status());
    BANYAN_TRY(perf::status_of(perf::run_once(call), trial_->comm()));
    const Result<uint64_t> after = calls_by_windows(trial_->comm());
    BANYAN_TRY(after.status());
    const bool goes_on = nccl_ == Nccl::kUnknown && call.count * kElementBytes >= kSurelyByNccl;
    // One rank's clock is enough for all to stop.
    const auto least = job_.allreduce(
        {*after > *before ? 1.0 : 0.0, goes_on && Clock::now() < end ? 1.0 : 0.0}, BANYAN_MIN);
    BANYAN_TRY(least.status());
    if (least->at(0) > 0) {
      nccl_ = Nccl::kThere;
      return true;
    }
    if (least->at(1) > 0) continue;
    if (goes_on) nccl_ = Nccl::kMissing;
    return false;
  }
}

// The microseconds, or of the default choice the algorithm: at rank 0.
Result<double> Trials::obey(const Order& order) {
  const auto pattern = static_cast<perf::Pattern>(order.pattern);
  const perf::Case which = case_of(pattern, job_, order.bytes);
  const perf::Layout layout = perf::layout_of(which);
  BANYAN_TRY(
      reserve(job_, home_, layout.input * kElementBytes, layout.output * kElementBytes, &buffers_));
  perf::Job& job = order.kind == Order::Kind::kTry ? *trial_ : job_;
  const perf::Call call{.pattern = pattern,
                        .send = layout.input != 0 ? buffers_.input.home() : nullptr,
                        .recv = layout.output != 0 ? buffers_.output.home() : nullptr,
                        .count = which.count,
                        .rank = which.rank,
                        .comm = job.comm()};
  if (order.kind == Order::Kind::kDefault) {
    const auto plan = plan_of(job.comm(), perf::describe(call));
    BANYAN_TRY(plan.status());
    return static_cast<double>(find_algorithm(plan->algorithm));
  }
  // The barrier before each call stays what it is, unless it is what is tried.
  BANYAN_TRY(use(fmt::format("{}: {}", perf::name_of(pattern), candidate_text(order.algorithm))));
  BANYAN_TRY(use_codec(order.codec));
  if (goes_by_nccl(order.algorithm) && order.codec < 0) {
    const Result<bool> there = is_by_nccl(call);
    BANYAN_TRY(there.status());
    if (!*there) return kNotThere;
  }
  Clock::duration spent{};
  for (uint64_t i = 0; i < order.warm_up + order.iterations; ++i) {
    if (pattern != perf::Pattern::kBarrier) BANYAN_TRY(job.barrier());
    const TimePoint begin = Clock::now();
    BANYAN_TRY(perf::status_of(perf::run_once(call), job.comm()));
    if (i >= order.warm_up) spent += Clock::now() - begin;
  }
  const double mine = std::chrono::duration<double, std::micro>(spent).count() /
                      static_cast<double>(order.iterations);
  const auto slowest = job_.allreduce({mine}, BANYAN_MAX);
  BANYAN_TRY(slowest.status());
  return slowest->front();
}

Result<double> Trials::run(const Trial& trial) {
  Order order{.kind = Order::Kind::kTry,
              .pattern = static_cast<uint32_t>(trial.pattern),
              .bytes = trial.bytes,
              .iterations = trial.iterations,
              .warm_up = trial.warm_up,
              .algorithm = trial.algorithm,
              .codec = trial.codec};
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

// Everybody's microseconds of a message, at rank 0.
Result<std::vector<double>> Trials::exchange(const Probe& probe) {
  const int partner = partners_of(lie_, probe)[static_cast<size_t>(job_.rank())];
  BANYAN_TRY(reserve(job_, perf::Home::kHost, probe.bytes, probe.bytes, &probe_buffers_));
  const perf::Call call{.pattern = pattern_of(probe.kind),
                        .send = probe_buffers_.input.data(),
                        .recv = probe_buffers_.output.data(),
                        .count = probe.bytes,
                        .type = BANYAN_UINT8,
                        .rank = job_.rank() < partner ? 0 : 1,
                        .comm = job_.comm(),
                        .peer = partner};
  BANYAN_TRY(job_.barrier());
  double us = 0;
  if (partner >= 0) {
    const uint64_t warm_up = probe.iterations / 4 + 1;
    TimePoint begin{};
    for (uint64_t i = 0; i < warm_up + probe.iterations; ++i) {
      if (i == warm_up) begin = Clock::now();
      BANYAN_TRY(perf::status_of(run_probe(probe.kind, call), job_.comm()));
    }
    us = std::chrono::duration<double, std::micro>(Clock::now() - begin).count() /
         static_cast<double>(probe.iterations) / messages_of(probe.kind);
  }
  return job_.gather({us});
}

Result<std::vector<double>> Trials::probe(const Probe& probe) {
  Order order{.kind = Order::Kind::kProbe, .probe = probe};
  BANYAN_TRY(job_.broadcast(&order, sizeof order));
  return exchange(probe);
}

Status Trials::renew() {
  if (home_ == perf::Home::kDevice && trial_) return {};
  Order order{.kind = Order::Kind::kRenew};
  BANYAN_TRY(job_.broadcast(&order, sizeof order));
  return make_anew();
}

Status Trials::stop() {
  Order order;
  BANYAN_TRY(job_.broadcast(&order, sizeof order));
  return leave();
}

Status Trials::leave() {
  if (!trial_) return {};
  BANYAN_TRY(trial_->finalize());
  trial_.reset();
  return {};
}

Status Trials::follow() {
  for (;;) {
    Order order;
    BANYAN_TRY(job_.broadcast(&order, sizeof order));
    switch (order.kind) {
      case Order::Kind::kStop: return leave();
      case Order::Kind::kRenew: BANYAN_TRY(make_anew()); break;
      case Order::Kind::kProbe: BANYAN_TRY(exchange(order.probe).status()); break;
      case Order::Kind::kTry:
      case Order::Kind::kDefault: BANYAN_TRY(obey(order).status()); break;
    }
  }
}

}  // namespace banyan::tune
