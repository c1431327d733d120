// SPDX-License-Identifier: Apache-2.0

#include "src/engine/steps.h"

#include <algorithm>

#include "src/base/copy.h"

namespace banyan {

namespace {

uint64_t bytes_of(const Schedule& schedule, Space space) {
  uint64_t end = 0;
  for (const Step& step : schedule.steps)
    for (const Slice& slice : {step.src, step.dst, step.dst2})
      if (slice.space == space) end = std::max(end, slice.end());
  return end;
}

}  // namespace

Usage usage_of(const Schedule& schedule) {
  const uint64_t output_bytes = bytes_of(schedule, Space::kOutput);
  const auto sums = [](const Step& step) {
    return step.op == Op::kRecvReduce || step.op == Op::kRecvDecodeAdd;
  };
  return {.output_bytes = output_bytes,
          .caller_bytes = output_bytes + bytes_of(schedule, Space::kInput),
          .sums = std::any_of(schedule.steps.begin(), schedule.steps.end(), sums)};
}

Usage usage_of(const Schedule& schedule, uint32_t step, const Usage& call) {
  const Step& what = schedule.steps[step];
  Usage usage = call;
  if (what.op == Op::kSend)
    usage.given = what.src.space == Space::kInput;
  else
    usage.is_result = what.dst.space == Space::kOutput && schedule.successors_of(step).empty();
  return usage;
}

void run_local_step(const Step& step, const Spaces& spaces, const Arithmetic& arithmetic,
                    const Kernels& kernels) {
  const auto type = static_cast<size_t>(step.type);
  const auto op = static_cast<size_t>(arithmetic.op);
  std::byte* dst = spaces.at(step.dst);
  const std::byte* src = spaces.at(step.src);
  switch (step.op) {
    case Op::kCopy:
      if (dst != src) copy_bytes(dst, src, step.dst.size);
      break;
    case Op::kReduce:
      kernels.reduce[type][op](dst, src, spaces.at(step.src2), step.dst.size / size_of(step.type));
      break;
    case Op::kEncode:
      kernels.encode[type](dst, src, step.dst.size / size_of(step.type), arithmetic.divisor);
      break;
    case Op::kDecode:
      kernels.decode[type](
          dst, src, step.src.size / size_of(step.type),
          arithmetic.op == ReduceOp::kPreMulSum ? arithmetic.scalar.data() : nullptr);
      break;
    case Op::kDecodeAdd:
      kernels.decode_reduce[type][op](dst, src, spaces.at(step.src2),
                                      step.src2.size / size_of(step.type));
      break;
    case Op::kOffer:
    case Op::kDecide:
    case Op::kFold:
    case Op::kDelegate:
    case Op::kWithdraw:  // by who knows of windows
    case Op::kSelect:    // by codecs only
    case Op::kSend:
    case Op::kRecv:
    case Op::kRecvReduce:
    case Op::kRecvDecodeAdd: break;  // messages never come here
  }
}

Transfer transfer_of(const Step& step, ReduceOp op, const Envelope& envelope,
                     const Kernels& kernels) {
  Transfer transfer;
  transfer.peer = step.peer;
  transfer.kind = step.memory;
  transfer.envelope = envelope;
  if (step.op == Op::kSend) {
    transfer.direction = Direction::kSend;
    transfer.envelope.bytes = step.src.size;
    return transfer;
  }
  transfer.direction = Direction::kRecv;
  transfer.envelope.bytes = step.dst.size;
  if (step.op == Op::kRecv) return transfer;

  const auto type = static_cast<size_t>(step.type);
  const bool decode = step.op == Op::kRecvDecodeAdd;
  const DataType local = decode ? accumulator_of(step.type, ReduceOp::kSum) : step.type;
  transfer.combine = (decode ? kernels.decode_reduce : kernels.reduce)[type][static_cast<int>(op)];
  transfer.message_element = static_cast<uint32_t>(size_of(step.type));
  transfer.local_element = static_cast<uint32_t>(size_of(local));
  transfer.envelope.bytes = step.dst.size / size_of(local) * size_of(step.type);
  return transfer;
}

}  // namespace banyan
