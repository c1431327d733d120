// SPDX-License-Identifier: Apache-2.0

#include "compression/cuda/kernels.h"

#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <utility>

#include "compression/cuda/kernel_names.h"
#include "compression/cuda/quotient.h"
#include "compression/cuda/spans.h"

namespace banyan {

namespace {

size_t index_of(DataType type) {
  return static_cast<size_t>(type);
}

}  // namespace

Result<CudaKernels> CudaKernels::load(const CudaFunctions& cuda, const CudaImage& image) {
  return load_alone<CudaKernels>(cuda, image);
}

Result<CudaKernels> CudaKernels::find_in(std::shared_ptr<const CudaModule> module) {
  CudaKernels kernels(std::move(module));
  BANYAN_TRY(kernels.find_all());
  return kernels;
}

Status CudaKernels::find_all() {
  const auto find = [this](const std::string& name, Function* function) -> Status {
    const Result<Function> found = module_->find(name);
    if (found.ok()) *function = *found;
    return found.status();
  };
  for (size_t t = 0; t < kDataTypeCount; t++) {
    const auto type = static_cast<DataType>(t);
    for (size_t o = 0; o < kReduceOpCount; o++) {
      const auto op = static_cast<ReduceOp>(o);
      BANYAN_TRY(find(cuda_reduce_name(type, op), &reduce_[t][o]));
      BANYAN_TRY(find(cuda_decode_reduce_name(type, op), &decode_reduce_[t][o]));
    }
    BANYAN_TRY(find(cuda_decode_name(type), &decode_[t]));
    BANYAN_TRY(find(cuda_encode_name(type, CudaScaling::kMultiply), &multiply_[t]));
    BANYAN_TRY(find(cuda_encode_name(type, CudaScaling::kDivide), &divide_[t]));
  }
  for (const DataType type : {DataType::kFloat16, DataType::kBfloat16})
    BANYAN_TRY(find(cuda_leave_name(type), &leave_[index_of(type)]));
  return {};
}

Status CudaKernels::launch(Function function, DataType dst_type, DataType src_type, void* dst,
                           const void* local, const void* src, size_t count, uint64_t operand,
                           Stream stream) const {
  if (count == 0) return {};
  CudaKernelCall call{static_cast<std::byte*>(dst), static_cast<const std::byte*>(local),
                      static_cast<const std::byte*>(src), count, operand};
  const CudaPacks packs = cuda_packs(call, static_cast<uint32_t>(size_of(dst_type)),
                                     static_cast<uint32_t>(size_of(src_type)));
  const auto blocks = static_cast<unsigned>(std::min(cuda_blocks(packs), kMostCudaBlocks));
  return module_->launch(function, blocks, &call, stream);
}

Status CudaKernels::reduce(DataType type, ReduceOp op, void* dst, const void* local,
                           const void* incoming, size_t count, Stream stream) const {
  return launch(reduce_[index_of(type)][static_cast<size_t>(op)], type, type, dst, local, incoming,
                count, 0, stream);
}

Status CudaKernels::decode_reduce(DataType type, ReduceOp op, void* dst, const void* local,
                                  const void* incoming, size_t count, Stream stream) const {
  return launch(decode_reduce_[index_of(type)][static_cast<size_t>(op)], accumulator_of(type, op),
                type, dst, local, incoming, count, 0, stream);
}

Status CudaKernels::decode(DataType type, void* dst, const void* src, size_t count,
                           const void* scalar, Stream stream) const {
  return launch(decode_[index_of(type)], accumulator_of(type, ReduceOp::kSum), type, dst, nullptr,
                src, count, cuda_factor(type, scalar), stream);
}

Status CudaKernels::encode(DataType type, void* dst, const void* src, size_t count, int divisor,
                           Stream stream) const {
  if (divisor < 1) {
    return {Code::kInvalidArgument,
            fmt::format("sums are divided by at least 1, not by {}", divisor)};
  }
  const CudaQuotient quotient = cuda_quotient(type, divisor);
  const auto& functions = quotient.by == CudaScaling::kDivide ? divide_ : multiply_;
  return launch(functions[index_of(type)], type, accumulator_of(type, ReduceOp::kSum), dst, nullptr,
                src, count, quotient.operand, stream);
}

Status CudaKernels::leave(DataType type, void* dst, const void* src, size_t count,
                          Stream stream) const {
  return launch(leave_[index_of(type)], DataType::kFloat32, DataType::kFloat32, dst, nullptr, src,
                count, 0, stream);
}

}  // namespace banyan
