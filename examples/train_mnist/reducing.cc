// SPDX-License-Identifier: Apache-2.0

#include "examples/train_mnist/reducing.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>
#include <vector>

namespace banyan::example {

bool may_compress(const Tensor& tensor) {
  return tensor.dimensions > 1 && tensor.count >= 4096;
}

Result<Reducer> make_reducer(Communicator& communicator, const Shape& shape,
                             const ReducerOptions& options) {
  const auto tensors = shape.tensors();
  std::array<banyan_tensor_t, kTensors> registered{};
  for (size_t i = 0; i < kTensors; ++i) {
    registered[i].size = sizeof(banyan_tensor_t);
    registered[i].id = i;
    registered[i].name = tensors[i].name;
    registered[i].count = tensors[i].count;
    registered[i].dimensions = tensors[i].dimensions;
    registered[i].datatype = BANYAN_FLOAT32;
  }
  banyan_reducer_config_t config = BANYAN_REDUCER_CONFIG_INIT;
  config.error_feedback = options.feedback ? 1 : 0;
  config.momentum = options.momentum;
  config.clip_norm = options.clip_norm;
  config.warmup_steps = options.warmup_steps;
  return Reducer::create(communicator, registered, &config);
}

Status ready(Reducer& reducer, const Shape& shape, size_t first, size_t last,
             std::span<float> gradient) {
  const auto tensors = shape.tensors();
  for (size_t i = last; i-- > first;) {
    BANYAN_TRY(reducer.ready(i, &gradient[tensors[i].begin]));
  }
  return {};
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

Result<double> seconds_alone(Communicator& communicator, const Shape& shape,
                             const ReducerOptions& options, std::span<const float> gradient) {
  constexpr size_t kWarmUp = 5;
  constexpr size_t kSteps = 51;
  ReducerOptions settled = options;
  settled.warmup_steps = 0;
  Result<Reducer> reducer = make_reducer(communicator, shape, settled);
  if (!reducer.ok()) return reducer.status();
  std::vector<float> copy(gradient.size());
  std::vector<double> seconds;
  for (size_t step = 0; step < kWarmUp + kSteps; ++step) {
    std::copy(gradient.begin(), gradient.end(), copy.begin());
    BANYAN_TRY(communicator.barrier());
    const auto start = std::chrono::steady_clock::now();
    BANYAN_TRY(ready(*reducer, shape, 0, kTensors, copy));
    BANYAN_TRY(reducer->wait());
    const auto took = std::chrono::steady_clock::now() - start;
    if (step >= kWarmUp) seconds.push_back(std::chrono::duration<double>(took).count());
  }
  return median(std::move(seconds));
}

}  // namespace banyan::example
