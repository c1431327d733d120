// SPDX-License-Identifier: Apache-2.0

#include "src/engine/steps.h"

#include <algorithm>

#include "src/base/copy.h"

namespace banyan {

bool sums_messages(const Schedule& schedule) {
  return std::any_of(schedule.steps.begin(), schedule.steps.end(), [](const Step& step) {
    return step.op == Op::kRecvReduce || step.op == Op::kRecvDecodeAdd;
  });
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
      kernels.reduce[type][op](dst, src, spaces.at(step.src2), step.dst.size / size_of(step.type),
                               nullptr);
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
                                      step.src2.size / size_of(step.type), nullptr);
      break;
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
