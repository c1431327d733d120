// SPDX-License-Identifier: Apache-2.0

#include "src/engine/local_work.h"

namespace banyan {

LocalWork::End HostWork::run_codec(const LocalStep& local, uint64_t cookie) const {
  const Step& step = local.step;
  const Spaces& spaces = local.spaces;
  const Codec& codec = codecs_[step.codec - size_t{1}];
  const auto elements = [&](Slice values) { return values.size / size_of(step.type); };
  const auto end = [&](bool good) {
    return End{cookie, good ? Outcome::kDone : Outcome::kCorrupt, 0};
  };
  std::byte* dst = spaces.at(step.dst);
  const std::byte* src = spaces.at(step.src);
  switch (step.op) {
    case Op::kEncode: {
      std::byte* left = step.dst2.size == 0 ? nullptr : spaces.at(step.dst2);
      return {cookie, Outcome::kDone, codec.encode(step.type, src, elements(step.src), dst, left)};
    }
    case Op::kDecode:
      return end(codec.decode(step.type, src, local.message_bytes, elements(step.dst), dst));
    case Op::kDecodeAdd:
      return end(codec.decode_add(step.type, spaces.at(step.src2), local.message_bytes,
                                  elements(step.dst), src, dst));
    case Op::kSend:
    case Op::kRecv:
    case Op::kCopy:
    case Op::kReduce:
    case Op::kRecvReduce:
    case Op::kRecvDecodeAdd: break;  // these have no codec
  }
  return end(false);
}

}  // namespace banyan
