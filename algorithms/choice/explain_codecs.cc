// SPDX-License-Identifier: Apache-2.0

#include "algorithms/choice/explain_codecs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "algorithms/algorithms.h"
#include "algorithms/choice/codec_costs.h"
#include "algorithms/choice/compression.h"
#include "compression/codecs.h"
#include "compression/grammar.h"

namespace banyan {
namespace {

std::string shown_name_of(const CodecChoice& choice) {
  if (choice.is_exact()) return "off";
  if (!depends_on_data(choice) || choice.parameter > 0) return text_of(choice);
  return choice.codec == kSign ? "sign:T" : "threshold:T";
}

// Whose contributions become a sum at the top.
int members_of(const CallSite& call) {
  const int hosts = call.hierarchy.depth() > 0 ? call.hierarchy.parts(0) : 1;
  return hosts > 1 ? hosts : call.ranks;
}

// What a wire slot holds: by which codec, and so many values.
struct SlotContent {
  CodecId codec = kNoCodec;
  double values = 0;
};

std::vector<SlotContent> contents_of(const Schedule& schedule) {
  std::vector<SlotContent> slots(schedule.slots + size_t{1});
  for (const Step& step : schedule.steps) {
    if (step.codec == kNoCodec) continue;
    const bool encodes = step.op == Op::kEncode, adds = step.op == Op::kDecodeAdd;
    if (!encodes && !adds && step.op != Op::kDecode) continue;
    const Slice& values = encodes ? step.src : step.dst;
    const Slice& slot = encodes ? step.dst : adds ? step.src2 : step.src;
    slots[slot.slot] = {step.codec, static_cast<double>(values.size) / sizeof(float)};
  }
  return slots;
}

// Bytes of a message that is sent. A sparse one is as long as it is expected to be, not as it can
// be. Sums of some sparse codecs go on by another one.
double length_of(const Slice& message, const SlotContent& content,
                 const std::vector<CodecCost>& sparse) {
  for (const CodecCost& cost : sparse) {
    if (content.codec == cost.choice.codec) return content.values * cost.message_bytes;
    if (content.codec == kNonzero) return content.values * cost.sum_bytes;
  }
  return static_cast<double>(message.size);
}

// What rank 0 sends.
uint64_t bytes_sent(const CallSite& call, const Hierarchy& simple, const Choice& choice) {
  Group group = Group::everyone(call.ranks, 0, &simple, choice.parameters);
  group.codecs = codecs();
  const Schedule schedule =
      build_schedule(call.problem, group, algorithms()[static_cast<size_t>(choice.algorithm)]);
  std::vector<CodecCost> sparse;
  for (const CodecChoice& codec : {choice.parameters.inter_codec, choice.parameters.intra_codec})
    if (is_sparse(codec)) sparse.push_back(cost_of(codec, members_of(call), {}));
  const std::vector<SlotContent> slots = contents_of(schedule);
  double bytes = 0;
  for (const Step& step : schedule.steps)
    if (step.op == Op::kSend) bytes += length_of(step.src, slots[step.src.slot], sparse);
  return static_cast<uint64_t>(std::llround(bytes));
}

bool is_for_auto(const CodecChoice& choice) {
  const std::span<const CodecChoice> all = automatic_codecs();
  return choice.is_exact() || std::find(all.begin(), all.end(), choice) != all.end();
}

// `chosen_us`: what a call is predicted to take.
std::string why_of(const ExplainedCodec& row, const CallSite& call, const CodecChoice& asked,
                   const Choice& choice, double chosen_us) {
  std::string why;
  if (row.chosen)
    why = fmt::format("what a call gets, by the {}", choice.because);
  else if (asked.codec != kAutomatic)
    why = fmt::format("left out: {} is asked for", text_of(call.problem.compression));
  else if (!is_for_auto(row.codec))
    why = "left out: auto takes off, bf16, int8 or int4";
  else if (row.predicted_us < chosen_us)
    why = "left out: predicted faster, which does not decide";
  if (!depends_on_data(row.codec)) return why;
  return fmt::format("{}{}if {} of the values are kept", why, why.empty() ? "" : "; ",
                     kAssumedShare);
}

}  // namespace

std::vector<CodecChoice> explained_codecs(const Compression& asked) {
  std::vector<CodecChoice> all;
  const size_t last = std::min<size_t>(codecs().size(), kRandk);
  for (size_t id = 1; id <= last; ++id) {
    CodecChoice choice{.codec = static_cast<CodecId>(id)};
    if (is_sparse(choice) && !depends_on_data(choice)) choice.parameter = kAssumedShare;
    for (const CodecChoice& each : {asked.intra, asked.alone, asked.inter})
      if (each.codec == choice.codec) choice = each;
    all.push_back(choice);
  }
  return all;
}

CallSite with_codec_costs(CallSite call) {
  const Compression& asked = call.problem.compression;
  if (!call.model || asked.is_exact()) return call;
  std::vector<CodecChoice> choices = explained_codecs(asked);
  choices.push_back(asked.intra);
  for (const CodecChoice& choice : choices)
    if (!choice.is_exact() && choice.codec != kAutomatic &&
        find_codec(*call.model, choice) == nullptr)
      call.model->codecs.push_back(cost_of(choice, members_of(call), call.codecs));
  return call;
}

double predicted_us(const CallSite& call, int algorithm, const Parameters& parameters) {
  if (!call.model) return 0;
  const Hierarchy* hierarchy = call.hierarchy.depth() > 0 ? &call.hierarchy : nullptr;
  const double us =
      predict(call.problem, algorithm, call.ranks, *call.model, hierarchy, parameters);
  return std::isfinite(us) ? us : 0;
}

std::vector<ExplainedCodec> explain_codecs(const CallSite& call, const Hierarchy& simple,
                                           const Choice& exact, const Choice& choice) {
  const Collective collective = call.problem.collective;
  const Parameters asked = codecs_for(call.problem, call.ranks, call.medium, &simple);
  if (!asked.encodes()) return {};
  const auto predicted = [&](const Choice& by) {
    return predicted_us(call, by.algorithm, by.parameters);
  };
  const double chosen_us = predicted(choice);
  std::vector<CodecChoice> all = explained_codecs(call.problem.compression);
  all.insert(all.begin(), CodecChoice());
  if (is_bound(asked.inter_codec)) all.push_back(asked.inter_codec);
  std::vector<ExplainedCodec> rows;
  for (const CodecChoice& codec : all) {
    Parameters parameters;
    parameters.inter_codec = codec;
    if (asked.intra_codec.codec != kAutomatic) parameters.intra_codec = asked.intra_codec;
    ExplainedCodec row{.codec = codec,
                       .name = shown_name_of(codec),
                       .chosen = codec == choice.parameters.inter_codec};
    const Choice by = row.chosen ? choice : encoded(exact, parameters, collective, &simple);
    row.law = law_of(by.parameters, collective, simple.depth());
    row.predicted_us = predicted(by);
    if (call.ranks <= kMostRanksBuilt) row.bytes_sent = bytes_sent(call, simple, by);
    row.why = why_of(row, call, asked.inter_codec, choice, chosen_us);
    rows.push_back(std::move(row));
  }
  const auto place = [](const ExplainedCodec& row) {
    return std::tuple(!row.chosen, row.predicted_us);
  };
  std::stable_sort(rows.begin(), rows.end(),
                   [&](const auto& a, const auto& b) { return place(a) < place(b); });
  return rows;
}

}  // namespace banyan
