// Buffers, warm-up, timing, and what is made of the times.
// SPDX-License-Identifier: Apache-2.0

#include "bench/perf/measure.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <string_view>
#include <utility>

#include "bench/perf/calls.h"
#include "bench/perf/statistics.h"
#include "bench/perf/validate.h"
#include "compression/codecs.h"
#include "compression/grammar.h"
#include "src/base/clock.h"

namespace banyan::perf {

namespace {

constexpr uint64_t kAnswerBytes = 4;  // of the receiver in the bandwidth pattern
// Times that are kept for percentiles: on each rank, and at rank 0 of all ranks together.
constexpr size_t kMostTimes = 65536;
constexpr size_t kMostTimesOfAll = size_t{4} << 20;

Case case_of(const Options& options, int rank, int size, uint64_t count) {
  return {.pattern = options.pattern,
          .rank = rank,
          .size = size,
          .count = count,
          .in_place = options.in_place};
}

Work make_work(Job& job, const Options& options, const Data& data, const Buffers& buffers,
               uint64_t count) {
  Work work{.job = job,
            .options = options,
            .data = data,
            .which = case_of(options, job.rank(), job.size(), count),
            .buffers = buffers,
            .layout = {},
            .call = {}};
  work.layout = layout_of(work.which);
  const Layout& layout = work.layout;
  const uint64_t input_at = work.bytes_of(layout.input_offset);
  const uint64_t output_at = layout.one_buffer ? work.bytes_of(layout.output_offset) : 0;
  const Memory& outputs = layout.one_buffer ? buffers.input : buffers.output;
  if (layout.input != 0) work.input = buffers.input.data() + input_at;
  if (layout.output != 0) work.output = outputs.data() + output_at;
  work.call = {.pattern = options.pattern,
               .send = layout.input != 0 ? buffers.input.home() + input_at : nullptr,
               .recv = layout.output != 0 ? outputs.home() + output_at : nullptr,
               .count = count,
               .type = static_cast<banyan_datatype_t>(options.type),
               .op = static_cast<banyan_op_t>(options.op),
               .rank = job.rank(),
               .comm = job.comm()};
  return work;
}

Result<CallPlan> plan_of_work(const Work& work) {
  if (work.onlooker()) return CallPlan{};
  return plan_of(work.job.comm(), describe(work.call));
}

// `times` is null during warm-up.
Status run_loop(const Work& work, uint64_t iterations, Times* times) {
  const Pattern pattern = work.which.pattern;
  const bool fresh = work.options.fresh;
  // As OSU: ranks start every iteration of a collective together, and pairs follow each other.
  const bool together = is_pair(pattern) ? fresh : pattern != Pattern::kBarrier;
  if (!together && work.onlooker()) return {};
  const double parts = static_cast<double>(pattern == Pattern::kLatency ? 2
                                           : is_pair(pattern)           ? kWindow
                                                                        : 1);
  for (uint64_t i = 0; i < iterations; ++i) {
    if (fresh) BANYAN_TRY(write_input(work));
    if (together) BANYAN_TRY(work.job.barrier());
    const TimePoint begin = Clock::now();
    const banyan_result_t result = run_once(work.call);
    const TimePoint end = Clock::now();
    if (result != BANYAN_SUCCESS) return status_of(result, work.job.comm());
    if (times != nullptr)
      times->add(std::chrono::duration<double, std::micro>(end - begin).count() / parts);
  }
  return {};
}

Latency latency_of(double average, double least, double most, std::vector<double> times) {
  std::sort(times.begin(), times.end());
  return {.average = average,
          .least = least,
          .most = most,
          .p50 = percentile(times, 50),
          .p90 = percentile(times, 90),
          .p99 = percentile(times, 99)};
}

// Complete at rank 0. Between two ranks, rank 0 has the watch.
Result<Latency> collect(const Work& work, const Times& times) {
  std::vector<double> kept(times.kept().begin(), times.kept().end());
  if (is_pair(work.which.pattern))
    return latency_of(times.mean(), times.least(), times.most(), std::move(kept));
  const auto sum = work.job.allreduce({times.mean()}, BANYAN_SUM);
  if (!sum.ok()) return sum.status();
  const auto least = work.job.allreduce({times.least()}, BANYAN_MIN);
  if (!least.ok()) return least.status();
  const auto most = work.job.allreduce({times.most()}, BANYAN_MAX);
  if (!most.ok()) return most.status();
  auto all = work.job.gather(kept);
  if (!all.ok()) return all.status();
  return latency_of(sum->front() / work.which.size, least->front(), most->front(), std::move(*all));
}

Result<uint64_t> wire_bytes(const Work& work, const CallPlan& plan) {
  uint64_t mine = plan.bytes_sent * messages_of(work.call);
  if (work.which.pattern == Pattern::kBandwidth && work.which.rank == 1) mine += kAnswerBytes;
  return work.job.sum(mine);
}

// Onlookers wait for as long as the pair works, and everybody for those who check more than others.
Status meet(const Work& work) {
  return work.onlooker() || work.options.check ? work.job.patient_barrier() : work.job.barrier();
}

// Validation, warm-up, time, validation again: wrong only when warm is wrong too.
Result<uint64_t> run_all(const Work& work, uint64_t bytes, Times& times) {
  uint64_t wrong = 0;
  const bool check = work.options.check && work.which.pattern != Pattern::kBarrier;
  std::optional<uint64_t> right;
  if (check) {
    const auto before = validate(work, right);
    if (!before.ok()) return before.status();
    wrong += *before;
  }
  BANYAN_TRY(write_input(work));
  BANYAN_TRY(meet(work));
  BANYAN_TRY(run_loop(work, warm_up_at(work.options, bytes), nullptr));
  BANYAN_TRY(run_loop(work, iterations_at(work.options, bytes), &times));
  BANYAN_TRY(meet(work));
  if (check) {
    const auto after = validate(work, right);
    if (!after.ok()) return after.status();
    wrong += *after;
  }
  return wrong;
}

// The share of a block's, or of all, greatest magnitude that a value may be off.
double loss_share_of(const CodecChoice& choice) {
  const double chance = choice.stochastic ? 2 : 1;
  switch (choice.codec) {
    case kInt8: return chance * 0.5 / 127;
    case kInt4: return chance * 0.5 / 7 * 1.01;
    case kFp16: return 0x1p-11;
    case kBf16: return 0x1p-8;
    case kDyn8: return 0.9 / 128;
    case kE4m3: return chance * 0x1p-4;
    case kE5m2: return chance * 0x1p-3;
    case kSign: return 1 + choice.parameter;
    default: return 1;  // a value may be left out
  }
}

// Adds up all codecs that the library says: "hierarchical(codec=int8,intra_codec=bf16)".
Result<double> loss_share_in(std::string_view algorithm) {
  constexpr std::string_view kWord = "codec=";
  double share = 0;
  for (size_t at = algorithm.find(kWord); at != std::string_view::npos;
       at = algorithm.find(kWord, at + 1)) {
    const std::string_view rest = algorithm.substr(at + kWord.size());
    const Result<CodecChoice> choice = parse_codec(rest.substr(0, rest.find_first_of(",)")));
    BANYAN_TRY(choice.status());
    share += loss_share_of(*choice);
  }
  return share;
}

size_t times_kept_by(int ranks) {
  return std::clamp(kMostTimesOfAll / static_cast<size_t>(ranks), size_t{64}, kMostTimes);
}

}  // namespace

uint64_t buffer_bytes(const Options& options, int rank, int size, uint64_t count) {
  const Layout layout = layout_of(case_of(options, rank, size, count));
  const uint64_t elements = layout.one_buffer ? layout.span : layout.input + layout.output;
  return elements * size_of(options.type);
}

Result<Buffers> allocate_buffers(Job& job, const Options& options, uint64_t count) {
  const Layout layout = layout_of(case_of(options, job.rank(), job.size(), count));
  const uint64_t element = size_of(options.type);
  auto input = Memory::allocate(job, (layout.one_buffer ? layout.span : layout.input) * element,
                                options.home);
  if (!input.ok()) return input.status();
  auto output =
      Memory::allocate(job, layout.one_buffer ? 0 : layout.output * element, options.home);
  if (!output.ok()) return output.status();
  return Buffers{std::move(*input), std::move(*output)};
}

Result<CallPlan> plan_at(Job& job, const Options& options, const Buffers& buffers, uint64_t count) {
  const Data data(options.type, options.op);
  return plan_of_work(make_work(job, options, data, buffers, count));
}

Result<Row> measure(Job& job, const Options& options, const Data& data, const Buffers& buffers,
                    const Size& size, int round) {
  Work work = make_work(job, options, data, buffers, size.count);
  const auto plan = plan_of_work(work);
  if (!plan.ok()) return plan.status();
  const auto loss_share = loss_share_in(plan->algorithm);
  if (!loss_share.ok()) return loss_share.status();
  work.loss_share = *loss_share;
  Times times(times_kept_by(job.size()));
  const auto wrong = run_all(work, size.bytes, times);
  if (!wrong.ok()) return wrong.status();
  const auto latency = collect(work, times);
  if (!latency.ok()) return latency.status();
  const auto made = plan_of_work(work);
  if (!made.ok()) return made.status();
  const auto wire = wire_bytes(work, *made);
  if (!wire.ok()) return wire.status();
  Row row{.round = round,
          .bytes = size.bytes,
          .count = size.count,
          .algorithm = plan->algorithm,
          .transports = plan->transports,
          .iterations = iterations_at(options, size.bytes),
          .latency = *latency};
  row.algorithm_bandwidth =
      algorithm_bandwidth(options.pattern, job.size(), size.bytes, latency->average);
  row.bus_bandwidth = row.algorithm_bandwidth * bus_factor(options.pattern, job.size());
  row.wire_bytes = *wire;
  row.checked = options.validates();
  row.wrong = *wrong;
  return row;
}

}  // namespace banyan::perf
