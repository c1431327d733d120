// SPDX-License-Identifier: Apache-2.0

#include "algorithms/schedule.h"

namespace banyan {

std::string_view name_of(Op op) {
  switch (op) {
    case Op::kSend: return "send";
    case Op::kRecv: return "recv";
    case Op::kCopy: return "copy";
    case Op::kReduce: return "reduce";
    case Op::kEncode: return "encode";
    case Op::kDecode: return "decode";
    case Op::kDecodeAdd: return "decode_add";
    case Op::kSelect: return "select";
    case Op::kOffer: return "offer";
    case Op::kDecide: return "decide";
    case Op::kFold: return "fold";
    case Op::kDelegate: return "delegate";
    case Op::kWithdraw: return "withdraw";
    case Op::kRecvReduce: return "recv_reduce";
    case Op::kRecvDecodeAdd: return "recv_decode_add";
  }
  return "unknown";
}

uint64_t Schedule::bytes_sent() const {
  uint64_t bytes = 0;
  for (const Step& step : steps)
    if (step.op == Op::kSend) bytes += step.src.size;
  return bytes;
}

}  // namespace banyan
