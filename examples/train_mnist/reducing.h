// The reducer of the network's gradient.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "banyan/communicator.h"
#include "banyan/reducer.h"
#include "examples/train_mnist/network.h"

namespace banyan::example {

struct ReducerOptions {
  bool feedback = true;
  double momentum = 0;  // of momentum correction; 0: none
  double clip_norm = 0;
  uint64_t warmup_steps = 0;
};

// Whether the reducer's default rules let a codec have it; small tensors and biases are exact.
bool may_compress(const Tensor& tensor);

// Collective. A tensor's id is its place in Shape::tensors().
Result<Reducer> make_reducer(Communicator& communicator, const Shape& shape,
                             const ReducerOptions& options);
// The tensors [first, last) are ready, the last one first.
Status ready(Reducer& reducer, const Shape& shape, size_t first, size_t last,
             std::span<float> gradient);

// The upper one of two in the middle.
double median(std::vector<double> values);

// Collective. How long a step takes that has nothing to compute: the median of many, with this
// gradient in each, by a reducer of its own.
Result<double> seconds_alone(Communicator& communicator, const Shape& shape,
                             const ReducerOptions& options, std::span<const float> gradient);

}  // namespace banyan::example
