// SPDX-License-Identifier: Apache-2.0

#include "compression/cuda/kernel_names.h"

namespace banyan {

namespace {

// Where integers wrap, those with a sign have the same bits as those without.
DataType wrapping(DataType type) {
  switch (type) {
    case DataType::kInt8: return DataType::kUint8;
    case DataType::kInt32: return DataType::kUint32;
    case DataType::kInt64: return DataType::kUint64;
    default: return type;
  }
}

std::string named(std::string verb, DataType type) {
  return verb.append("_").append(name_of(type));
}

}  // namespace

std::string cuda_reduce_name(DataType type, ReduceOp op) {
  switch (op) {
    case ReduceOp::kMax: return named("reduce_max", type);
    case ReduceOp::kMin: return named("reduce_min", type);
    case ReduceOp::kProd: return named("reduce_prod", wrapping(type));
    case ReduceOp::kSum:
    case ReduceOp::kAvg:
    case ReduceOp::kPreMulSum: break;
  }
  return named("reduce_sum", wrapping(type));
}

std::string cuda_decode_reduce_name(DataType type, ReduceOp op) {
  const std::string name = cuda_reduce_name(type, op);
  return accumulator_of(type, op) == type ? name : "decode_" + name;
}

std::string cuda_decode_name(DataType type) {
  return named(is_narrow_float(type) ? "decode" : "scale", wrapping(type));
}

std::string cuda_encode_name(DataType type, CudaScaling by) {
  return by == CudaScaling::kDivide ? named("divide", type) : named("scale", wrapping(type));
}

std::string cuda_leave_name(DataType type) {
  return named("leave", type);
}

std::string cuda_fold_name(DataType type, ReduceOp op, CudaScaling by) {
  switch (op) {
    case ReduceOp::kMax: return named("fold_max", type);
    case ReduceOp::kMin: return named("fold_min", type);
    case ReduceOp::kProd: return named("fold_prod", wrapping(type));
    case ReduceOp::kPreMulSum: return named("fold_scaled", wrapping(type));
    case ReduceOp::kSum:
    case ReduceOp::kAvg: break;
  }
  return by == CudaScaling::kDivide ? named("fold_mean", type) : named("fold_sum", wrapping(type));
}

std::string cuda_codec_name(std::string_view verb, std::string_view codec, DataType type) {
  return named(std::string(verb).append("_").append(codec), type);
}

}  // namespace banyan
