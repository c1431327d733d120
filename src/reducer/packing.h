// How gradients get into the vector of a bucket, and sums out of it.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "algorithms/schedule.h"
#include "banyan/types.h"
#include "compression/kernels.h"

namespace banyan {

// What was seen of values in passing: the squares of a sample of them, added up, which stands for
// all. Of vectors of up to 65,536 values it has all, of longer ones every 16th block of 256.
struct Sampled {
  double squares = 0;
  uint64_t values = 0;  // in the sample

  void add(const Sampled& other) {
    squares += other.squares;
    values += other.values;
  }
};
Sampled sample(std::span<const float> values);

// What a rank has to say of a part of a tensor.
struct Contribution {
  const std::byte* gradient = nullptr;  // `count` elements of `type`, which is 32 or 16 bits wide
  DataType type = DataType::kFloat32;
  uint64_t count = 0;
  float scale = 1;
  // Momentum correction (DGC, Lin et al. 2018, section 3.1): the velocity, which becomes
  // momentum * velocity + gradient, stands for the gradient. Null: there is none.
  float momentum = 0;
  const float* velocity = nullptr;
  float* next_velocity = nullptr;
  const float* residual = nullptr;  // is added; null: there is none
};
struct Contributed {
  uint64_t nonfinite = 0;  // elements of the gradient
  Sampled gradient;        // or of the velocity
  Sampled sum;             // with the residual
};
// sum[i] = scale * gradient[i], or the velocity, + residual[i]. `sum` may be the gradient, and
// overlaps nothing else.
Contributed contribute(const Contribution& part, const Kernels& kernels, float* sum);

// gradient[i] += residual[i], rounded once to its type.
void add_residual(std::span<const float> residual, DataType type, const Kernels& kernels,
                  std::byte* gradient);

// The squares of a gradient, added up.
double squares_of(const std::byte* gradient, DataType type, uint64_t count, const Kernels& kernels);
// How many elements are NaN or infinite.
uint64_t nonfinite_in(const std::byte* elements, DataType type, uint64_t count);

// Makes one residual per element of the vector of what a call left: its contributions at their
// places, and behind them what it dropped of sums, which it adds to the elements they are of. What
// no contribution has said anything of becomes zero. `left` has `count` elements, and more behind.
void gather_left(std::span<const Left> lefts, uint64_t count, std::span<float> left);
// Momentum factor masking (the same paper, section 3.2): the velocity of what was sent is over. An
// element was sent if not all of it is left, which is velocity[i] + residual[i]; where no piece is
// a contribution of this rank, as inside a host, if the sum has anything of it. `residual` has no
// values where there is none. Before gather_left().
void mask_velocity(std::span<const Left> lefts, std::span<const float> left,
                   std::span<const float> residual, std::span<const float> sum,
                   std::span<float> velocity);

}  // namespace banyan
