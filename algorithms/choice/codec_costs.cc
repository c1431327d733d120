// SPDX-License-Identifier: Apache-2.0

#include "algorithms/choice/codec_costs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "compression/codecs.h"
#include "compression/grammar.h"

namespace banyan {
namespace {

constexpr CodecChoice kAutomaticCodecs[] = {{.codec = kBf16}, {.codec = kInt8}, {.codec = kInt4}};

constexpr double kByteAtOneGBps = 1e-3;  // of a byte, at 1 GB/s
constexpr double kRegionValues = 65536;  // values that share a count in a list
constexpr double kCountBytes = 4, kPlaceBytes = 2, kBitBytes = 1.0 / 8;  // bytes

// codec_costs_test.cc measures these.
struct Loss {
  CodecId codec;
  double nearest, by_chance;
};
constexpr Loss kLosses[] = {
    {kFp16, 4.3e-8, 0},       {kBf16, 2.76e-6, 0}, {kInt8, 4.9e-5, 9.8e-5},
    {kInt4, 9.6e-3, 1.9e-2},  {kDyn8, 1.18e-4, 0}, {kE4m3, 6.8e-4, 1.36e-3},
    {kE5m2, 2.7e-3, 5.45e-3}, {kOnebit, 0.36, 0},
};

Figure byte_at(double rate) {
  return {kByteAtOneGBps / rate, Source::kMeasured};
}

// Bytes of a message for one value, of which a share is kept.
double sparse_bytes(const CodecChoice& choice, double kept, bool signs) {
  const double value = choice.half ? 2 : 4;
  if (choice.codec == kRandk) return kept * value;
  if (signs) return 2 * kCountBytes / kRegionValues + kPlaceBytes * kept;
  return std::min({kCountBytes / kRegionValues + (kPlaceBytes + value) * kept,
                   kBitBytes + value * kept, value});
}

CodecCost sparse_cost(const CodecChoice& choice, int members) {
  const double kept = depends_on_data(choice) ? kAssumedShare : choice.parameter;
  const bool same = choice.reselects || choice.codec == kRandk;
  const double in_sum = same ? kept : 1 - std::pow(1 - kept, members);
  return {.choice = choice,
          .message_bytes = sparse_bytes(choice, kept, choice.codec == kSign),
          .sum_bytes = sparse_bytes(choice, in_sum, false)};
}

}  // namespace

std::span<const CodecChoice> automatic_codecs() {
  return kAutomaticCodecs;
}

bool is_bound(const CodecChoice& choice) {
  return choice.codec == kAbsoluteBound || choice.codec == kRelativeBound;
}

bool depends_on_data(const CodecChoice& choice) {
  return choice.codec == kThreshold || choice.codec == kSign;
}

bool is_sparse(const CodecChoice& choice) {
  return depends_on_data(choice) || choice.codec == kTopk || choice.codec == kRandk;
}

CodecCost cost_of(const CodecChoice& choice, int members, std::span<const MeasuredCodec> speeds) {
  CodecCost cost;
  if (is_sparse(choice)) {
    cost = sparse_cost(choice, members);
  } else {
    const Codec& codec = codecs()[choice.codec - size_t{1}];
    const Coding coding = coding_of(choice, DataType::kFloat32);
    const auto bytes = codec.capacity(coding, DataType::kFloat32, codec.unit);
    cost = {.choice = choice,
            .unit = static_cast<double>(codec.unit),
            .message_bytes = static_cast<double>(bytes),
            .sum_bytes = static_cast<double>(bytes)};
  }
  const auto speed = std::find_if(speeds.begin(), speeds.end(),
                                  [&](const auto& each) { return each.choice == choice; });
  if (speed == speeds.end()) return cost;
  cost.encode_byte = byte_at(speed->encode_GBps);
  cost.decode_byte = byte_at(speed->decode_GBps);
  return cost;
}

double loss_of(const CodecChoice& choice) {
  const auto* loss = std::find_if(std::begin(kLosses), std::end(kLosses),
                                  [&](const Loss& each) { return each.codec == choice.codec; });
  if (loss == std::end(kLosses)) return 0;
  return choice.stochastic ? loss->by_chance : loss->nearest;
}

std::string law_of(const CodecChoice& choice, Collective collective) {
  if (choice.is_exact()) return "none";
  if (is_bound(choice)) return "at most the bound";
  switch (choice.codec) {
    case kThreshold: return "a rank's values below T";
    case kSign: return "what a rank's values are not T";
    case kTopk:
    case kRandk: return fmt::format("all but {} of a rank's values", choice.parameter);
    default: break;
  }
  const double once = loss_of(choice);
  if (once == 0) return "not known";
  return fmt::format("{}c = {:.1e}", collective == Collective::kAllreduce ? "2 c, " : "", once);
}

}  // namespace banyan
