// The work on buckets that lie in the memory of a GPU: kernels and copies on a stream of the
// library's own, which finish() waits for.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "compression/cuda/gradient_call.h"
#include "src/base/cuda_driver.h"
#include "src/cuda/open_gpu.h"
#include "src/engine/scratch.h"
#include "src/reducer/packing.h"

namespace banyan {

class GpuPacking final : public PackingWork {
 public:
  // `gpu` has kernels; `pinned` has memory that it reaches. Both outlive it.
  GpuPacking(const CudaFunctions& cuda, OpenGpu& gpu, ScratchPool& pinned)
      : cuda_(cuda), gpu_(gpu), pinned_(pinned) {}
  ~GpuPacking() override;

  Result<float*> take(uint64_t count) override;
  void give_back(float* floats) override;
  Status read(std::span<float> to, const float* from) override;
  Status write(float* to, std::span<const float> from) override;
  void contribute(const Contribution& part, float* sum, Contributed* seen) override;
  void clear(float* values, uint64_t count) override;
  void copy(std::byte* to, const std::byte* from, uint64_t bytes) override;
  void add(float* to, const float* more, uint64_t count) override;
  void forget_said(float* velocity, const float* left, const float* residual,
                   uint64_t count) override;
  void forget_summed(float* velocity, const float* sum, uint64_t count) override;
  void sample(const float* values, uint64_t count, Sampled* seen) override;
  void round(std::byte* gradient, DataType type, const float* sum, uint64_t count,
             int divisor) override;
  void count_nonfinite(const std::byte* elements, DataType type, uint64_t count,
                       uint64_t* found) override;
  double squares_of(const std::byte* gradient, DataType type, uint64_t count) override;
  Status finish() override;

 private:
  using Stream = CudaFunctions::Handle;
  // What kernels will have said, by stretch, and who is told the total.
  struct Word {
    GradientSeen* seen;
    uint64_t stretches;
    std::function<void(const GradientSeen& total)> tell;
  };

  template <typename Enqueue>
  void enqueue(const Enqueue& enqueue);
  // Null after a failure.
  GradientSeen* word_of(uint64_t count, std::function<void(const GradientSeen& total)> tell);
  void look_at(const std::byte* values, DataType type, uint64_t count, bool samples,
               std::function<void(const GradientSeen& total)> tell);

  const CudaFunctions& cuda_;
  OpenGpu& gpu_;
  ScratchPool& pinned_;
  std::vector<Word> words_;
  Status status_;
};

}  // namespace banyan
