// What each operation reads and writes, in words.
// SPDX-License-Identifier: Apache-2.0

#include "algorithms/step_text.h"

#include <fmt/core.h>

#include <string_view>

namespace banyan {

namespace {

std::string_view name_of(Space space) {
  switch (space) {
    case Space::kInput: return "input";
    case Space::kOutput: return "output";
    case Space::kScratch: return "scratch";
    case Space::kLeft: return "left";
    case Space::kWindow: return "window";
  }
  return "unknown";
}

std::string text_of(const Slice& slice) {
  if (slice.is_slot()) return fmt::format("slot {}", slice.slot);
  return fmt::format("{}[{}..{})", name_of(slice.space), slice.offset, slice.end());
}

}  // namespace

uint64_t message_bytes(const Step& step) {
  switch (step.op) {
    case Op::kSend: return step.src.size;
    case Op::kRecv:
    case Op::kRecvReduce: return step.dst.size;
    case Op::kRecvDecodeAdd:  // elements of its own, narrower type
      return step.dst.size / size_of(accumulator_of(step.type, ReduceOp::kSum)) *
             size_of(step.type);
    case Op::kCopy:
    case Op::kReduce:
    case Op::kEncode:
    case Op::kDecode:
    case Op::kDecodeAdd:
    case Op::kSelect:
    case Op::kOffer:
    case Op::kDecide:
    case Op::kFold:
    case Op::kDelegate:
    case Op::kWithdraw: return 0;
  }
  return 0;
}

// "send 40 B to 1", "encode up to 20 B by codec 2"
StepText text_of(const Step& step) {
  const auto moved = [&](const Slice& slice, uint64_t bytes) {
    return fmt::format("{} {}{} B", banyan::name_of(step.op), slice.is_slot() ? "up to " : "",
                       bytes);
  };
  const std::string from = fmt::format(" from {}", step.peer);
  const std::string from_peer = fmt::format(" of {}", step.peer);
  const std::string codec = step.codec == kNoCodec ? "" : fmt::format(" by codec {}", step.codec);
  const std::string left = step.dst2.size == 0 ? "" : ", left over -> " + text_of(step.dst2);
  const std::string src = text_of(step.src);
  const std::string dst = text_of(step.dst);
  const std::string written = moved(step.dst, step.dst.size);
  switch (step.op) {
    case Op::kSend: return {moved(step.src, step.src.size) + fmt::format(" to {}", step.peer), src};
    case Op::kRecv: return {written + from, "-> " + dst};
    case Op::kRecvReduce: return {written + from, src + " -> " + dst};
    case Op::kRecvDecodeAdd:
      return {moved(step.dst, message_bytes(step)) + from, src + " -> " + dst};
    case Op::kOffer: return {written, "-> " + dst};
    case Op::kDecide: return {std::string(banyan::name_of(step.op)), src};
    case Op::kFold:
      if (step.src2.size != 0) return {written, "parts of " + text_of(step.src2) + " -> " + dst};
      return {written, "all " + src + " -> " + dst};
    case Op::kDelegate: return {std::string(banyan::name_of(step.op)), src + " -> " + dst};
    case Op::kWithdraw: return {std::string(banyan::name_of(step.op)), ""};
    case Op::kCopy:
      if (step.peer >= 0) return {written, src + from_peer + " -> " + dst};
      [[fallthrough]];
    case Op::kEncode:
    case Op::kDecode:
    case Op::kSelect: return {written + codec, src + " -> " + dst + left};
    case Op::kReduce:
    case Op::kDecodeAdd: return {written + codec, src + " + " + text_of(step.src2) + " -> " + dst};
  }
  return {};
}

}  // namespace banyan
