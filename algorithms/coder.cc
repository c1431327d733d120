// SPDX-License-Identifier: Apache-2.0

#include <cassert>

#include "algorithms/generators.h"

namespace banyan {

Coder::Coder(ScheduleBuilder& builder, const Group& group, const Problem& problem, CodecId codec)
    : builder_(builder), id_(codec), type_(problem.accumulator()) {
  if (codec == kNoCodec) return;
  assert(may_encode(problem) && codec <= group.codecs.size());
  codec_ = &group.codecs[size_t{codec} - 1];
}

Slice Coder::room(Slice values) const {
  if (values.size == 0) return {};
  return builder_.wire_slot(codec_->capacity(type_, values.size / size_of(type_)));
}

Slice Coder::encode(Slice values) const {
  const Slice slot = room(values);
  if (slot.is_slot()) builder_.encode_by(id_, type_, values, slot);
  return slot;
}

void Coder::decode(Slice slot, Slice values) const {
  if (slot.is_slot()) builder_.decode_by(id_, type_, slot, values);
}

void Coder::decode_add(Slice addend, Slice slot, Slice sum) const {
  if (slot.is_slot()) builder_.decode_add_by(id_, type_, addend, slot, sum);
}

}  // namespace banyan
