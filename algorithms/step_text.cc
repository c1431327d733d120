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
  }
  return "unknown";
}

std::string text_of(const Slice& slice) {
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
    case Op::kDecodeAdd: return 0;
  }
  return 0;
}

StepText text_of(const Step& step) {
  const std::string_view verb = banyan::name_of(step.op);
  const auto moved = [&](uint64_t bytes, std::string_view end) {
    return end.empty() ? fmt::format("{} {} B", verb, bytes)
                       : fmt::format("{} {} B {} {}", verb, bytes, end, step.peer);
  };
  const std::string src = text_of(step.src);
  const std::string dst = text_of(step.dst);
  switch (step.op) {
    case Op::kSend: return {moved(step.src.size, "to"), src};
    case Op::kRecv: return {moved(step.dst.size, "from"), "-> " + dst};
    case Op::kRecvReduce: return {moved(step.dst.size, "from"), src + " -> " + dst};
    case Op::kRecvDecodeAdd: return {moved(message_bytes(step), "from"), src + " -> " + dst};
    case Op::kCopy:
    case Op::kEncode:
    case Op::kDecode: return {moved(step.dst.size, ""), src + " -> " + dst};
    case Op::kReduce:
    case Op::kDecodeAdd:
      return {moved(step.dst.size, ""), src + " + " + text_of(step.src2) + " -> " + dst};
  }
  return {std::string(verb), {}};
}

}  // namespace banyan
