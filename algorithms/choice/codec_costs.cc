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

namespace {

// Empty: it loses a share of the power.
std::string loss_in_words(const CodecChoice& choice) {
  if (is_bound(choice)) return "at most the bound";
  switch (choice.codec) {
    case kThreshold: return "a rank's values below T";
    case kSign: return "what a rank's values are not T";
    case kTopk:
    case kRandk: return fmt::format("all but {} of a rank's values", choice.parameter);
    default: return {};
  }
}

// How often values are encoded that no codec of the same kind has made yet: by the codec of the
// top, or only, level, and by that of `inside` levels below it.
struct Encodings {
  int at_top = 0;
  int inside = 0;
};

Encodings encodings_of(const Parameters& codecs, Collective collective, int inside) {
  const bool sums = collective == Collective::kAllreduce;
  const CodecChoice &top = codecs.inter_codec, &below = codecs.intra_codec;
  Encodings count;
  if (!top.is_exact()) count.at_top = sums ? 2 : 1;
  if (!below.is_exact()) count.inside = inside + (sums && below.codec != top.codec ? 1 : 0);
  return count;
}

bool is_float8(const CodecChoice& choice) {
  return choice.codec == kE4m3 || choice.codec == kE5m2;
}

std::string text_of_times(int times, std::string_view what) {
  return times == 1 ? std::string(what) : fmt::format("{} {}", times, what);
}

// What onebit made of two values is no longer normal, and loses less.
std::string_view limit_of(const CodecChoice& choice, int times) {
  return choice.codec == kOnebit && times > 1 ? "at most " : "";
}

std::string law_of_level(const CodecChoice& choice, int times, std::string_view mark) {
  if (std::string words = loss_in_words(choice); !words.empty()) return words;
  const double once = loss_of(choice);
  if (once == 0) return "not known";
  std::string one = fmt::format("{} = {:.1e}", mark, once);
  if (times == 1) return one;
  return fmt::format("{}{}, {}", limit_of(choice, times), text_of_times(times, mark), one);
}

}  // namespace

double loss_of(const Parameters& codecs, Collective collective, int inside) {
  const CodecChoice &top = codecs.inter_codec, &below = codecs.intra_codec;
  const Encodings count = encodings_of(codecs, collective, inside);
  const bool meet = is_float8(top) && is_float8(below) && top.codec != below.codec;
  const bool unknown =
      (count.at_top > 0 && loss_of(top) == 0) || (count.inside > 0 && loss_of(below) == 0);
  return meet || unknown ? 0 : count.at_top * loss_of(top) + count.inside * loss_of(below);
}

std::string law_of(const Parameters& codecs, Collective collective, int inside) {
  const CodecChoice &top = codecs.inter_codec, &below = codecs.intra_codec;
  const auto [at_top, within] = encodings_of(codecs, collective, inside);
  if (at_top == 0 && within == 0) return "none";
  if (within == 0 || top == below) return law_of_level(top, at_top + within, "c");
  std::string own = law_of_level(below, within, "c'");
  if (at_top == 0) return own;
  if (!loss_in_words(top).empty() || !loss_in_words(below).empty())
    return fmt::format("{}; inside {}", law_of_level(top, at_top, "c"), own);
  const double all = loss_of(codecs, collective, inside);
  if (all == 0) return "not known";
  const bool limited = !limit_of(top, at_top).empty() || !limit_of(below, within).empty();
  return fmt::format("{}{} + {} = {:.1e}", limited ? "at most " : "", text_of_times(at_top, "c"),
                     text_of_times(within, "c'"), all);
}

}  // namespace banyan
