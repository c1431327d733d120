// The gradient of the example's network, against differences of its loss.
// SPDX-License-Identifier: Apache-2.0

#include "examples/train_mnist/network.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace banyan::example::network_test {
namespace {

constexpr Shape kShape{.inputs = 6, .hidden = 5, .outputs = 3};

Batch small_batch() {
  Batch batch;
  batch.labels = {0, 2, 1, 2};
  for (size_t i = 0; i < batch.labels.size() * 6; ++i) {
    batch.inputs.push_back(i % 4 == 0 ? 0.0F : static_cast<float>(i * 7 % 11) / 11.0F);
  }
  return batch;
}

double loss_of(std::span<const float> parameters, const Batch& batch) {
  Activations activations;
  predict(kShape, parameters, batch, activations);
  double loss = 0;
  for (size_t i = 0; i < batch.labels.size(); ++i) {
    loss -= std::log(activations.outputs[i * 3 + batch.labels[i]]);
  }
  return loss / static_cast<double>(batch.labels.size());
}

TEST(NetworkTest, TheGradientIsTheSlopeOfTheLoss) {
  const Batch batch = small_batch();
  std::vector<float> parameters = initial_parameters(kShape, 3);
  Activations activations;
  std::vector<float> gradient(parameters.size(), -1);
  const double loss = compute_gradient(kShape, parameters, batch, activations, gradient);
  EXPECT_NEAR(loss, loss_of(parameters, batch), 1e-6);

  constexpr float kStep = 1e-2F;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const float value = parameters[i];
    parameters[i] = value + kStep;
    const double above = loss_of(parameters, batch);
    parameters[i] = value - kStep;
    const double below = loss_of(parameters, batch);
    parameters[i] = value;
    EXPECT_NEAR(gradient[i], (above - below) / (2 * kStep), 2e-3) << "parameter " << i;
  }
}

TEST(NetworkTest, TheOutputLayersGradientIsThereFirst) {
  const Batch batch = small_batch();
  const std::vector<float> parameters = initial_parameters(kShape, 3);
  Activations activations;
  std::vector<float> whole(parameters.size());
  compute_gradient(kShape, parameters, batch, activations, whole);

  std::vector<float> by_layers(parameters.size(), 42);
  const auto first = static_cast<std::ptrdiff_t>(kShape.tensors()[kFirstOfOutput].begin);
  output_gradient(kShape, parameters, batch, activations, by_layers);
  EXPECT_EQ(std::count(by_layers.begin(), by_layers.begin() + first, 42.0F), first);
  EXPECT_TRUE(std::equal(whole.begin() + first, whole.end(), by_layers.begin() + first));
  // By then its part belongs to whoever averages it.
  std::fill(by_layers.begin() + first, by_layers.end(), 43.0F);
  hidden_gradient(kShape, parameters, batch, activations, by_layers);
  EXPECT_TRUE(std::equal(whole.begin(), whole.begin() + first, by_layers.begin()));
  EXPECT_EQ(std::count(by_layers.begin() + first, by_layers.end(), 43.0F),
            std::distance(by_layers.begin() + first, by_layers.end()));
}

TEST(NetworkTest, TensorsLieSideBySide) {
  size_t end = 0;
  for (const Tensor& tensor : kShape.tensors()) {
    EXPECT_EQ(tensor.begin, end) << tensor.name;
    end += tensor.count;
  }
  EXPECT_EQ(end, 6U * 5 + 5 + 5 * 3 + 3);
  EXPECT_EQ(end, kShape.parameters());
}

TEST(NetworkTest, SameSeedSameBits) {
  EXPECT_EQ(initial_parameters(kShape, 5), initial_parameters(kShape, 5));
  EXPECT_NE(initial_parameters(kShape, 5), initial_parameters(kShape, 6));
}

TEST(NetworkTest, StepsAgainstTheGradientFitTheBatch) {
  const Batch batch = small_batch();
  std::vector<float> parameters = initial_parameters(kShape, 1);
  std::vector<float> gradient(parameters.size());
  Activations activations;
  for (int step = 0; step < 2000; ++step) {
    compute_gradient(kShape, parameters, batch, activations, gradient);
    for (size_t i = 0; i < parameters.size(); ++i) parameters[i] -= 0.5F * gradient[i];
  }
  predict(kShape, parameters, batch, activations);
  EXPECT_EQ(count_correct(kShape, batch, activations), 4);
}

}  // namespace
}  // namespace banyan::example::network_test
