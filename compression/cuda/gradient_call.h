// What the kernels are told that look at gradients, and make contributions of them: both sides see
// it.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <cstdint>

#include "compression/cuda/spans.h"

namespace banyan {

inline constexpr unsigned kGradientEach = 16;  // values of a thread, in a stretch
inline constexpr unsigned kGradientStretch = kGradientEach * kCudaThreads;

// What was seen of a stretch. The first two are sums of squares.
struct GradientSeen {
  double gradient;     // or the velocity, or what was looked at
  double sum;          // with the residual
  uint64_t nonfinite;  // elements
};

struct CudaGradientCall {
  const std::byte* values = nullptr;  // the gradient, what is looked at, or the vector
  float* sum = nullptr;
  float* velocity = nullptr;  // is read, and written by who forgets; or null
  float* next_velocity = nullptr;
  const float* residual = nullptr;  // or null
  GradientSeen* seen = nullptr;     // by stretch
  uint64_t count = 0;
  float scale = 1;
  float momentum = 0;
  // 1: the squares are those of the first kCudaThreads values of each stretch.
  uint32_t samples = 0;
  // Forgetting goes by this: 1, the vector is the sum; 0, it is what is left.
  uint32_t by_sum = 0;
};

BANYAN_HOST_DEVICE uint64_t gradient_stretches(uint64_t count) {
  return (count + kGradientStretch - 1) / kGradientStretch;
}

}  // namespace banyan
