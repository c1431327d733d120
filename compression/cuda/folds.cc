// SPDX-License-Identifier: Apache-2.0

#include "compression/cuda/folds.h"

#include <fmt/core.h>

#include <algorithm>

#include "compression/cuda/kernel_names.h"
#include "compression/cuda/quotient.h"

namespace banyan {

Result<CudaFolds> CudaFolds::load(const CudaFunctions& cuda, const CudaImage& image) {
  return load_alone<CudaFolds>(cuda, image);
}

Result<CudaFolds> CudaFolds::find_in(std::shared_ptr<const CudaModule> module) {
  CudaFolds folds(std::move(module));
  BANYAN_TRY(folds.find_all());
  return folds;
}

Status CudaFolds::find_all() {
  for (size_t t = 0; t < kDataTypeCount; ++t) {
    const auto type = static_cast<DataType>(t);
    for (const ReduceOp op :
         {ReduceOp::kSum, ReduceOp::kProd, ReduceOp::kMax, ReduceOp::kMin, ReduceOp::kPreMulSum}) {
      const auto found = module_->find(cuda_fold_name(type, op, CudaScaling::kMultiply));
      BANYAN_TRY(found.status());
      folds_[static_cast<size_t>(op)][t] = *found;
    }
    const auto mean = module_->find(cuda_fold_name(type, ReduceOp::kAvg, CudaScaling::kDivide));
    BANYAN_TRY(mean.status());
    means_[t] = *mean;
  }
  return {};
}

Status CudaFolds::launch(CudaModule::Function function, DataType type, CudaFoldCall& call,
                         std::span<const std::byte* const> sources, Stream stream) const {
  if (sources.empty() || sources.size() > kCudaFoldMost)
    return {Code::kInvalidArgument,
            fmt::format("{} ranks: there are 1 to {}", sources.size(), kCudaFoldMost)};
  if (call.count == 0) return {};
  call.ranks = static_cast<uint32_t>(sources.size());
  std::copy(sources.begin(), sources.end(), call.sources);
  const uint64_t blocks = cuda_fold_blocks(call, static_cast<uint32_t>(size_of(type)));
  return module_->launch(function, static_cast<unsigned>(std::min(blocks, kMostCudaBlocks)), &call,
                         stream);
}

Status CudaFolds::fold(DataType type, ReduceOp op, std::byte* dst,
                       std::span<const std::byte* const> sources, uint64_t count, int divisor,
                       Stream stream) const {
  if (divisor < 1)
    return {Code::kInvalidArgument, fmt::format("a divisor of {}: it is 1 at least", divisor)};
  const CudaQuotient quotient = cuda_quotient(type, divisor);
  const size_t kind = static_cast<size_t>(op == ReduceOp::kAvg ? ReduceOp::kSum : op);
  const ByType& functions = quotient.by == CudaScaling::kDivide ? means_ : folds_[kind];
  CudaFoldCall call{.dst = dst, .count = count, .operand = quotient.operand};
  return launch(functions[static_cast<size_t>(type)], type, call, sources, stream);
}

Status CudaFolds::fold_scaled(DataType type, std::byte* dst,
                              std::span<const std::byte* const> sources,
                              std::span<const CudaScalar> scalars, uint64_t count,
                              Stream stream) const {
  if (scalars.size() != sources.size())
    return {Code::kInvalidArgument, fmt::format("{} scalars of {} ranks: there is one of each",
                                                scalars.size(), sources.size())};
  CudaFoldCall call{.dst = dst, .count = count, .operand = cuda_quotient(type, 1).operand};
  for (size_t rank = 0; rank < std::min<size_t>(scalars.size(), kCudaFoldMost); ++rank)
    call.factors[rank] = cuda_factor(type, scalars[rank].data());
  const size_t kind = static_cast<size_t>(ReduceOp::kPreMulSum);
  return launch(folds_[kind][static_cast<size_t>(type)], type, call, sources, stream);
}

}  // namespace banyan
