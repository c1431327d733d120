// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cassert>
#include <numeric>

#include "algorithms/generators.h"
#include "compression/codecs.h"

namespace banyan {
namespace {

// Sums have no rank: whoever owns one, its bits are the same.
constexpr uint32_t kSumsRank = UINT32_MAX;

const Codec& codec_of(const Group& group, CodecId id) {
  assert(id != kNoCodec && id <= group.codecs.size());
  return group.codecs[id - size_t{1}];
}

// As which sparse codecs send values. What is no element would lose by being made one.
DataType carried_as(const Problem& problem, CodecChoice codec, Coder::Of what, bool raw) {
  if (codec.half) return DataType::kFloat16;
  const ReduceOp changes = what == Coder::Of::kSums ? ReduceOp::kAvg : ReduceOp::kPreMulSum;
  return raw && problem.op != changes ? problem.type : problem.accumulator();
}

}  // namespace

Coder::Coder(ScheduleBuilder& builder, const Group& group, const Problem& problem,
             CodecChoice codec, Of what, bool raw)
    : builder_(builder),
      type_(problem.accumulator()),
      keeps_left_(problem.keeps_left),
      own_(what == Of::kContributions && raw),
      count_(problem.count) {
  if (codec.is_exact()) return;
  assert(may_encode(problem));
  id_ = codec.codec;
  codec_ = &codec_of(group, id_);
  const bool sums = what == Of::kSums;
  if (sums && !codec.reselects && codec_->of_sums != kNoCodec) {
    id_ = codec_->of_sums;
    codec_ = &codec_of(group, id_);
  }
  const bool divides = codec.codec == kAbsoluteBound && problem.op == ReduceOp::kAvg;
  coding_ = {.parameter = codec.parameter * (divides ? group.size() : 1),
             .within = codec.within,
             .carried = carried_as(problem, codec, what, raw),
             .stochastic = codec.stochastic,
             .seed = problem.compression.seed,
             .rank = sums ? kSumsRank : static_cast<uint32_t>(group.at(group.me))};
}

Slice Coder::room(Slice values) const {
  if (values.size == 0) return {};
  return builder_.wire_slot(codec_->capacity(coding_, type_, values.size / size_of(type_)) +
                            (codec_->has_flags ? 1 : 0));
}

Slice Coder::select(const Group& group, Slice vector) const {
  if (!selects() || vector.size == 0) return {};
  const StepCodec codec = builder_.step_codec(id_, coding_);
  if (!looks()) return builder_.select_by(codec, type_, vector);
  const uint64_t size = codec_->look_size;
  const Slice looks = builder_.scratch(size * group.ranks.size());
  const auto look_of = [&](int place) {
    return looks.sub(size * static_cast<uint64_t>(place), size);
  };
  builder_.look_by(codec, type_, vector, look_of(group.me));
  send_to_others(builder_, group, look_of(group.me));
  for (int step = 1; step < group.size(); ++step) {
    const int from = group.wrap(group.me - step);
    builder_.recv(look_of(from), group.at(from));
  }
  return builder_.select_by(codec, type_, looks);
}

StepCodec Coder::codec_from(uint64_t first) const {
  Coding coding = coding_;
  if (coding.stochastic) coding.first = first;
  return builder_.step_codec(id_, coding);
}

uint64_t Coder::capacity(uint64_t count) const {
  return codec_->capacity(coding_, type_, count);
}

Slice Coder::encode(Slice values, uint64_t first, Slice selection) const {
  const Slice slot = room(values);
  if (!slot.is_slot()) return slot;
  Coding coding = coding_;
  if (coding.stochastic || selection.size != 0) coding.first = first;
  Slice left;
  if (keeps_left_)
    left = builder_.room_for_left({first, values.size / size_of(type_)}, count_, own_);
  builder_.encode_by(builder_.step_codec(id_, coding), type_, values, slot, left, selection);
  return slot;
}

void Coder::decode(Slice slot, Slice values) const {
  if (slot.is_slot()) builder_.decode_by(builder_.step_codec(id_, coding_), type_, slot, values);
}

void Coder::decode_add(Slice addend, Slice slot, Slice sum) const {
  if (slot.is_slot())
    builder_.decode_add_by(builder_.step_codec(id_, coding_), type_, addend, slot, sum);
}

uint64_t unit_of(const Group& group) {
  uint64_t unit = 1;
  for (const CodecChoice codec : {group.parameters.intra_codec, group.parameters.inter_codec})
    if (!codec.is_exact()) unit = std::lcm(unit, codec_of(group, codec.codec).unit);
  return unit;
}

}  // namespace banyan
