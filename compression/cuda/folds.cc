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
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kProd, ReduceOp::kMax, ReduceOp::kMin}) {
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

Status CudaFolds::fold(DataType type, ReduceOp op, std::byte* dst,
                       std::span<const std::byte* const> sources, uint64_t count, int divisor,
                       Stream stream) const {
  if (sources.empty() || sources.size() > kCudaFoldMost || divisor < 1)
    return {Code::kInvalidArgument,
            fmt::format("{} ranks and a divisor of {}: there are 1 to {} ranks, and divisors from "
                        "1 on",
                        sources.size(), divisor, kCudaFoldMost)};
  if (count == 0) return {};
  const CudaQuotient quotient = cuda_quotient(type, divisor);
  const size_t kind = static_cast<size_t>(op == ReduceOp::kAvg ? ReduceOp::kSum : op);
  const ByType& functions = quotient.by == CudaScaling::kDivide ? means_ : folds_[kind];
  CudaFoldCall call{.dst = dst,
                    .count = count,
                    .operand = quotient.operand,
                    .ranks = static_cast<uint32_t>(sources.size())};
  std::copy(sources.begin(), sources.end(), call.sources);
  const uint64_t blocks = cuda_fold_blocks(call, static_cast<uint32_t>(size_of(type)));
  return module_->launch(functions[static_cast<size_t>(type)],
                         static_cast<unsigned>(std::min(blocks, kMostCudaBlocks)), &call, stream);
}

}  // namespace banyan
