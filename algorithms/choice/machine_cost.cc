// These figures were taken by bench/select on 2, 3, 4, 6 and 8 ranks of a virtual machine with two
// cores of an AMD EPYC (Zen 3), as docs/choice.md tells: those whose choices lost least. They are
// about this library's own way through memory on such a machine, not about memory as such.
// SPDX-License-Identifier: Apache-2.0

#include "algorithms/choice/machine_cost.h"

#include <algorithm>

namespace banyan {
namespace {

// Microseconds, and microseconds of a byte.
struct Fitted {
  double call, alpha, overhead, send_byte, recv_byte, long_overhead, long_byte, far_byte, turn,
      reduce_byte, reduce_far_byte, copy_byte, copy_far_byte, cache_bytes;
};

// Ranks with a core each; two on a core; three and more.
constexpr Fitted kOwnCores = {0.129,    0.528, 0.0111,  1.35e-4, 1.0e-4,  1.36,   5.32e-4,
                              1.756e-4, 0.005, 6.54e-5, 1e-9,    1.99e-5, 3.3e-7, 9.87e6};
constexpr Fitted kTwoOnACore = {0.0,     0.387, 0.313, 1.586e-4, 1.97e-4, 1.49,    1.52e-4,
                                3.16e-5, 3.005, 2e-8,  2.82e-4,  1.7e-5,  2.01e-4, 17.5e6};
constexpr Fitted kManyOnACore = {0.276,   1.584, 0.228,  8.86e-5, 5.1e-5,   0.457,   1.23e-4,
                                 1.51e-4, 1.903, 5.1e-5, 5.56e-5, 2.765e-5, 2.06e-4, 7.87e6};
// What AVX2 takes to widen or narrow and add a byte of fp32: bench/micro/kernels_bench.
constexpr double kCodecByte = 1.0e-4;

// These stand beside what was measured of messages when ranks met. They were fitted to calls of two
// and four ranks on two cores, as docs/choice.md tells.
constexpr double kOwnOverhead = 0.03, kSharedOverhead = 0.05;
// A sum reads the message where it lies, in place of a copy out of there.
constexpr double kFusedSumByte = 2.5e-5;
// Buffers of calls have the last cache not to themselves.
constexpr double kShareOfCache = 0.6;
// Ranks that share cores look for a word a while before they yield; calls wait so much of that.
constexpr double kShareOfWord = 0.7;

CostModel model_from(const Fitted& fitted, double cores) {
  const auto of = [](double value) { return Figure{value, Source::kTable}; };
  CostModel model;
  model.call = of(fitted.call);
  model.within = {.alpha = of(fitted.alpha),
                  .overhead = of(fitted.overhead),
                  .send_byte = of(fitted.send_byte),
                  .recv_byte = of(fitted.recv_byte),
                  .long_overhead = of(fitted.long_overhead),
                  .long_byte = of(fitted.long_byte),
                  .far_byte = of(fitted.far_byte)};
  model.between = model.within;
  model.cores = cores;
  model.turn = of(fitted.turn);
  model.reduce_byte = of(fitted.reduce_byte);
  model.reduce_far_byte = of(fitted.reduce_far_byte);
  model.codec_byte = of(std::max(kCodecByte, fitted.reduce_byte));
  model.copy_byte = of(fitted.copy_byte);
  model.copy_far_byte = of(fitted.copy_far_byte);
  model.cache_bytes = fitted.cache_bytes;
  return model;
}

}  // namespace

CostModel memory_model(int ranks, int cores) {
  const int each = (ranks + cores - 1) / cores;
  if (each <= 1) return model_from(kOwnCores, ranks);
  return model_from(each == 2 ? kTwoOnACore : kManyOnACore, std::min(cores, ranks));
}

CostModel with_message_times(CostModel model, const MessageTimes& times, int ranks) {
  if (times.messages.empty()) return model;
  const auto of = [](double value) { return Figure{value, Source::kMeasured}; };
  const MessageTime& message = times.messages.back();
  const auto bytes = static_cast<double>(message.bytes);
  PairCost& within = model.within;
  within.send_byte = within.recv_byte = of(message.slots_us / bytes / 2);
  within.long_byte = of((message.first_us + message.write_us) / bytes);
  within.given_byte = of(message.again_us / bytes);
  within.long_least = static_cast<double>(times.afar_least);
  const double others = ranks / std::max(model.cores, 1.0) - 1;
  if (others > 0) {
    within.overhead = {kSharedOverhead, Source::kTable};
    within.alpha = of(0);
    model.turn = of(kShareOfWord * times.word_us / others);
  } else {
    within.overhead = {kOwnOverhead, Source::kTable};
    within.alpha = of(times.word_us);
    model.reduce_byte = {kFusedSumByte, Source::kTable};
    if (times.cache_bytes > 0)
      model.cache_bytes = kShareOfCache * static_cast<double>(times.cache_bytes);
  }
  model.between = within;
  return model;
}

// Nobody says how many ranks beyond two share a core: four are assumed.
CostModel memory_model(int ranks, Medium medium) {
  switch (medium) {
    case Medium::kMemory:
    case Medium::kNetwork:
    case Medium::kLoopback: return memory_model(ranks, ranks);
    case Medium::kSharedCores: return memory_model(ranks, (ranks + 1) / 2);
    case Medium::kCrowdedCores: {
      const int cores = (ranks + 3) / 4;
      return model_from(kManyOnACore, cores);
    }
  }
  return memory_model(ranks, ranks);
}

}  // namespace banyan
