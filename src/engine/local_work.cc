// SPDX-License-Identifier: Apache-2.0

#include "src/engine/local_work.h"

#include <cstring>

namespace banyan {

namespace {

// A selection is copied to where `selection` points.
Coding coding_of(const LocalStep& local, Selection* selection) {
  const Step& step = local.step;
  Coding coding = coding_of(local);
  if (step.op == Op::kEncode && step.src2.size != 0) {
    std::memcpy(selection, local.spaces.at(step.src2), sizeof *selection);
    coding.selection = selection;
  }
  return coding;
}

// The flags of a codec that has any are the last byte of what travels.
CodecMessage message_in(const Codec& codec, const std::byte* slot, uint64_t bytes) {
  if (!codec.has_flags) return {slot, bytes, 0};
  return {slot, bytes - 1, static_cast<uint8_t>(slot[bytes - 1])};
}

}  // namespace

Coding coding_of(const LocalStep& local) {
  Coding coding = local.codings.empty() ? Coding() : local.codings[local.step.coding];
  coding.step = local.chance.step;
  coding.tensor = local.chance.tensor;
  return coding;
}

LocalWork::End HostWork::decline(const LocalStep& local, uint64_t cookie) {
  const Slice offer = local.step.dst;
  if (local.step.op == Op::kOffer) std::memset(local.spaces.at(offer), 0, offer.size);
  return {cookie, Outcome::kDone, 0, Branch::kOtherwise};
}

LocalWork::End HostWork::run_codec(const LocalStep& local, uint64_t cookie) const {
  const Step& step = local.step;
  const Spaces& spaces = local.spaces;
  const Codec& codec = codecs_[step.codec - size_t{1}];
  Selection selection;
  const Coding coding = coding_of(local, &selection);
  const auto elements = [&](Slice values) { return values.size / size_of(step.type); };
  const bool is_cut = codec.has_flags && local.message_bytes == 0;
  const auto end = [&](bool good) {
    return End{cookie, good ? Outcome::kDone : Outcome::kCorrupt, 0};
  };
  std::byte* dst = spaces.at(step.dst);
  const std::byte* src = spaces.at(step.src);
  switch (step.op) {
    case Op::kEncode: {
      std::byte* left = step.dst2.size == 0 ? nullptr : spaces.at(step.dst2);
      Encoded said = codec.encode(coding, step.type, src, elements(step.src), dst, left);
      if (codec.has_flags) dst[said.size++] = static_cast<std::byte>(said.flags);
      return {cookie, Outcome::kDone, said.size};
    }
    case Op::kSelect:
      if (codec.look != nullptr && step.dst.size == codec.look_size) {
        codec.look(coding, step.type, src, elements(step.src), dst);
        return end(true);
      }
      selection = codec.select(coding, step.type, src, elements(step.src));
      std::memcpy(dst, &selection, sizeof selection);
      return end(true);
    case Op::kDecode:
      return end(!is_cut &&
                 codec.decode(coding, step.type, message_in(codec, src, local.message_bytes),
                              elements(step.dst), dst));
    case Op::kDecodeAdd:
      return end(!is_cut &&
                 codec.decode_add(coding, step.type,
                                  message_in(codec, spaces.at(step.src2), local.message_bytes),
                                  elements(step.dst), src, dst));
    case Op::kSend:
    case Op::kRecv:
    case Op::kCopy:
    case Op::kReduce:
    case Op::kRecvReduce:
    case Op::kOffer:
    case Op::kDecide:
    case Op::kFold:
    case Op::kDelegate:
    case Op::kWithdraw:
    case Op::kRecvDecodeAdd: break;  // these have no codec
  }
  return end(false);
}

}  // namespace banyan
