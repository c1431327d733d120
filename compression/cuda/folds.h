// Combining what several ranks have in the memory of GPUs, in the order of ranks, as a launch on a
// stream: to the bytes of the host, where the algorithm `direct` decodes the first one's elements,
// adds the others', and encodes the sum.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "banyan/status.h"
#include "banyan/types.h"
#include "compression/cuda/fold_call.h"
#include "compression/cuda/image.h"
#include "compression/cuda/module.h"
#include "src/base/cuda_driver.h"

namespace banyan {

using CudaScalar = std::array<std::byte, 8>;

// Those of one CUDA context, as CudaKernels (kernels.h) are, which says of threads, of memory and
// of failures what holds here, too.
class CudaFolds {
 public:
  using Stream = CudaModule::Stream;

  // As CudaModule::load().
  static Result<CudaFolds> load(const CudaFunctions& cuda, const CudaImage& image = cuda_image());
  // Those of a module that is loaded.
  static Result<CudaFolds> find_in(std::shared_ptr<const CudaModule> module);

  // dst[i] = (sources[0][i] (+) sources[1][i] (+) ...) / divisor, for kSum, kAvg, kProd, kMax and
  // kMin, of which only kAvg has a divisor other than 1. Narrow floats are added as float32.
  // There are 1 to kCudaFoldMost sources, of which dst may be one. Any alignment is taken; slow is
  // what does not begin at multiples of 16 bytes.
  Status fold(DataType type, ReduceOp op, std::byte* dst, std::span<const std::byte* const> sources,
              uint64_t count, int divisor, Stream stream) const;
  // dst[i] = scalars[0] * sources[0][i] + scalars[1] * sources[1][i] + ..., as fold(): kPreMulSum.
  // Each product is rounded to an accumulator before it is added. There is a scalar, an element in
  // its first bytes, for each source.
  Status fold_scaled(DataType type, std::byte* dst, std::span<const std::byte* const> sources,
                     std::span<const CudaScalar> scalars, uint64_t count, Stream stream) const;

 private:
  using ByType = std::array<CudaModule::Function, kDataTypeCount>;

  explicit CudaFolds(std::shared_ptr<const CudaModule> module) : module_(std::move(module)) {}
  Status find_all();
  Status launch(CudaModule::Function function, DataType type, CudaFoldCall& call,
                std::span<const std::byte* const> sources, Stream stream) const;

  std::shared_ptr<const CudaModule> module_;
  std::array<ByType, kReduceOpCount> folds_{};
  ByType means_{};
};

}  // namespace banyan
