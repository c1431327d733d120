// What a reducer does to gradients in the memory of a GPU (src/reducer/packing.h), as launches on a
// stream: to the bits of the host, but for sums of squares, which are added up in another order.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <utility>

#include "banyan/status.h"
#include "banyan/types.h"
#include "compression/cuda/gradient_call.h"
#include "compression/cuda/image.h"
#include "compression/cuda/module.h"
#include "src/base/cuda_driver.h"

namespace banyan {

// Those of one CUDA context, as CudaKernels (kernels.h) are, which says of threads, of memory and
// of failures what holds here, too. `call.seen` is memory that the GPU reaches, one for each of
// gradient_stretches(call.count).
class CudaGradients {
 public:
  using Stream = CudaModule::Stream;

  // As CudaModule::load().
  static Result<CudaGradients> load(const CudaFunctions& cuda,
                                    const CudaImage& image = cuda_image());
  // Those of a module that is loaded.
  static Result<CudaGradients> find_in(std::shared_ptr<const CudaModule> module);

  // sum[i] = scale * value[i] + momentum * velocity[i] + residual[i]; without the residual it is
  // the next velocity. Values are float32, float16 or bfloat16, and may be the sum.
  Status contribute(DataType type, const CudaGradientCall& call, Stream stream) const;
  // Only sees. Values may be float64, too.
  Status look_at(DataType type, const CudaGradientCall& call, Stream stream) const;
  // velocity[i] = 0, where the sum is not, or where not all of velocity[i] + residual[i] is left.
  Status forget_sent(const CudaGradientCall& call, Stream stream) const;

 private:
  using ByType = std::array<CudaModule::Function, kDataTypeCount>;

  explicit CudaGradients(std::shared_ptr<const CudaModule> module) : module_(std::move(module)) {}
  Status find_all();
  Status launch(CudaModule::Function function, CudaGradientCall call, Stream stream) const;

  std::shared_ptr<const CudaModule> module_;
  ByType contribute_{};
  ByType look_at_{};
  CudaModule::Function forget_sent_{};
};

}  // namespace banyan
