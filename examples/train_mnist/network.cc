// Forward and backward pass. Matrices are row by row; a sum over samples or inputs is always made
// in the order of their indices.
// SPDX-License-Identifier: Apache-2.0

#include "examples/train_mnist/network.h"

#include <algorithm>
#include <cmath>
#include <random>

namespace banyan::example {
namespace {

// The same parameters, by layer.
template <typename T>
struct Layers {
  std::span<T> hidden_weights, hidden_biases, output_weights, output_biases;

  Layers(const Shape& shape, std::span<T> all) {
    std::span<T>* const in_order[] = {&hidden_weights, &hidden_biases, &output_weights,
                                      &output_biases};
    const auto tensors = shape.tensors();
    for (size_t i = 0; i < kTensors; ++i)
      *in_order[i] = all.subspan(tensors[i].begin, tensors[i].count);
  }
};

void zero(std::span<float> values) {
  std::fill(values.begin(), values.end(), 0.0F);
}

// y += a * x
void add_scaled(float* __restrict y, float a, const float* __restrict x, size_t count) {
  for (size_t i = 0; i < count; ++i) y[i] += a * x[i];
}

// Adds to out (rows x columns) the product of left (rows x inner) and right (inner x columns). The
// pixels of a picture are mostly zero, and those are skipped; a row of `right` is used for all rows
// while it is in cache.
void multiply_add(std::span<float> out, std::span<const float> left, std::span<const float> right,
                  size_t inner, size_t columns) {
  const size_t rows = out.size() / columns;
  for (size_t i = 0; i < inner; ++i) {
    for (size_t row = 0; row < rows; ++row) {
      const float scale = left[row * inner + i];
      if (scale != 0) add_scaled(&out[row * columns], scale, &right[i * columns], columns);
    }
  }
}

// out (inner x columns) += transposed left (rows x inner) * right (rows x columns).
void multiply_transposed_add(std::span<float> out, std::span<const float> left,
                             std::span<const float> right, size_t inner, size_t columns) {
  const size_t rows = right.size() / columns;
  for (size_t i = 0; i < inner; ++i) {
    for (size_t row = 0; row < rows; ++row) {
      const float scale = left[row * inner + i];
      if (scale != 0) add_scaled(&out[i * columns], scale, &right[row * columns], columns);
    }
  }
}

// Every row of `matrix` becomes `row`.
void fill_rows(std::vector<float>& matrix, std::span<const float> row, size_t rows) {
  matrix.resize(rows * row.size());
  for (size_t r = 0; r < rows; ++r) std::copy(row.begin(), row.end(), &matrix[r * row.size()]);
}

void add_rows(std::span<float> sum, std::span<const float> matrix) {
  for (size_t at = 0; at < matrix.size(); at += sum.size()) {
    add_scaled(sum.data(), 1, &matrix[at], sum.size());
  }
}

void softmax(std::span<float> row) {
  const float most = *std::max_element(row.begin(), row.end());
  float sum = 0;
  for (float& x : row) sum += x = std::exp(x - most);
  for (float& x : row) x /= sum;
}

// Finds the errors of the hidden layer, from those of the outputs through the output weights; zero
// where the rectifier was.
void propagate_back(const Shape& shape, std::span<const float> output_errors,
                    std::span<const float> output_weights, Activations& activations) {
  const auto outputs = static_cast<size_t>(shape.outputs);
  const auto hidden = static_cast<size_t>(shape.hidden);
  activations.hidden_errors.assign(activations.hidden.size(), 0);
  for (size_t at = 0; at < activations.hidden.size(); ++at) {
    if (activations.hidden[at] == 0) continue;
    const float* errors = &output_errors[at / hidden * outputs];
    const float* weights = &output_weights[at % hidden * outputs];
    for (size_t o = 0; o < outputs; ++o) activations.hidden_errors[at] += errors[o] * weights[o];
  }
}

void fill_uniform(std::span<float> weights, int inputs, std::mt19937_64& random) {
  const double width = std::sqrt(6.0 / inputs);
  for (float& weight : weights) {
    // These are the top 53 bits as a number in [0, 1): the same everywhere, unlike the standard's
    // distributions.
    const double unit = std::ldexp(static_cast<double>(random() >> 11), -53);
    weight = static_cast<float>((2 * unit - 1) * width);
  }
}

}  // namespace

std::array<Tensor, kTensors> Shape::tensors() const {
  const auto in = static_cast<size_t>(inputs);
  const auto middle = static_cast<size_t>(hidden);
  const auto out = static_cast<size_t>(outputs);
  std::array<Tensor, kTensors> all{{{"hidden.weight", 2, 0, in * middle},
                                    {"hidden.bias", 1, 0, middle},
                                    {"output.weight", 2, 0, middle * out},
                                    {"output.bias", 1, 0, out}}};
  for (size_t i = 1; i < kTensors; ++i) all[i].begin = all[i - 1].begin + all[i - 1].count;
  return all;
}

size_t Shape::parameters() const {
  const Tensor last = tensors().back();
  return last.begin + last.count;
}

std::vector<float> initial_parameters(const Shape& shape, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<float> parameters(shape.parameters());
  const Layers<float> layers(shape, parameters);
  fill_uniform(layers.hidden_weights, shape.inputs, random);
  fill_uniform(layers.output_weights, shape.hidden, random);
  return parameters;
}

void predict(const Shape& shape, std::span<const float> parameters, const Batch& batch,
             Activations& activations) {
  const Layers<const float> layers(shape, parameters);
  const size_t samples = batch.labels.size();
  const auto hidden = static_cast<size_t>(shape.hidden);
  const auto outputs = static_cast<size_t>(shape.outputs);

  fill_rows(activations.hidden, layers.hidden_biases, samples);
  multiply_add(activations.hidden, batch.inputs, layers.hidden_weights,
               static_cast<size_t>(shape.inputs), hidden);
  for (float& x : activations.hidden) x = std::max(x, 0.0F);

  fill_rows(activations.outputs, layers.output_biases, samples);
  multiply_add(activations.outputs, activations.hidden, layers.output_weights, hidden, outputs);
  for (size_t at = 0; at < activations.outputs.size(); at += outputs) {
    softmax(std::span(activations.outputs).subspan(at, outputs));
  }
}

double output_gradient(const Shape& shape, std::span<const float> parameters, const Batch& batch,
                       Activations& activations, std::span<float> gradient) {
  predict(shape, parameters, batch, activations);
  const size_t samples = batch.labels.size();
  const auto outputs = static_cast<size_t>(shape.outputs);

  // The gradient of the cross-entropy at the outputs is the probability, less one for the right
  // class.
  double loss = 0;
  std::vector<float>& errors = activations.outputs;
  for (size_t sample = 0; sample < samples; ++sample) {
    float& right = errors[sample * outputs + batch.labels[sample]];
    loss -= std::log(std::max(right, 1e-30F));
    right -= 1;
  }
  for (float& error : errors) error /= static_cast<float>(samples);

  const Layers<float> layers(shape, gradient);
  zero(layers.output_weights);
  zero(layers.output_biases);
  add_rows(layers.output_biases, errors);
  multiply_transposed_add(layers.output_weights, activations.hidden, errors,
                          static_cast<size_t>(shape.hidden), outputs);
  return loss / static_cast<double>(samples);
}

void hidden_gradient(const Shape& shape, std::span<const float> parameters, const Batch& batch,
                     Activations& activations, std::span<float> gradient) {
  const Layers<const float> weights(shape, parameters);
  const Layers<float> layers(shape, gradient);
  propagate_back(shape, activations.outputs, weights.output_weights, activations);
  zero(layers.hidden_weights);
  zero(layers.hidden_biases);
  add_rows(layers.hidden_biases, activations.hidden_errors);
  multiply_transposed_add(layers.hidden_weights, batch.inputs, activations.hidden_errors,
                          static_cast<size_t>(shape.inputs), static_cast<size_t>(shape.hidden));
}

double compute_gradient(const Shape& shape, std::span<const float> parameters, const Batch& batch,
                        Activations& activations, std::span<float> gradient) {
  const double loss = output_gradient(shape, parameters, batch, activations, gradient);
  hidden_gradient(shape, parameters, batch, activations, gradient);
  return loss;
}

int count_correct(const Shape& shape, const Batch& batch, const Activations& activations) {
  const auto outputs = static_cast<size_t>(shape.outputs);
  int correct = 0;
  for (size_t sample = 0; sample < batch.labels.size(); ++sample) {
    const auto row = std::span(activations.outputs).subspan(sample * outputs, outputs);
    const auto likeliest = std::max_element(row.begin(), row.end()) - row.begin();
    correct += likeliest == batch.labels[sample] ? 1 : 0;
  }
  return correct;
}

}  // namespace banyan::example
