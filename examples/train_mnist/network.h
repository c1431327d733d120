// This is a multilayer perceptron with one hidden layer, as plain loops over one vector of
// parameters.
//
// Parameters and their gradient are contiguous, so that one allreduce serves them all. The loops
// add whole rows, which compilers vectorise without reordering a sum: same input, same bits.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace banyan::example {

struct Shape {
  int inputs = 784;
  int hidden = 128;
  int outputs = 10;

  // Weights and biases lie in this order: input weights (inputs x hidden), hidden biases, output
  // weights (hidden x outputs), output biases.
  size_t input_weights() const { return static_cast<size_t>(inputs) * static_cast<size_t>(hidden); }
  size_t output_weights() const {
    return static_cast<size_t>(hidden) * static_cast<size_t>(outputs);
  }
  size_t parameters() const {
    return input_weights() + static_cast<size_t>(hidden) + output_weights() +
           static_cast<size_t>(outputs);
  }
};

// Samples side by side: inputs in 0 to 1, and their classes.
struct Batch {
  std::vector<float> inputs;  // labels.size() x Shape::inputs
  std::vector<uint8_t> labels;
};

// What a pass over a batch needs beside the parameters; kept between passes.
struct Activations {
  std::vector<float> hidden;         // samples x Shape::hidden, after the rectifier
  std::vector<float> outputs;        // samples x Shape::outputs: probabilities
  std::vector<float> hidden_errors;  // samples x Shape::hidden
};

// Uniform weights of a width that fits the layer, biases of zero.
std::vector<float> initial_parameters(const Shape& shape, uint64_t seed);

// Fills activations.outputs with the probability of each class.
void predict(const Shape& shape, std::span<const float> parameters, const Batch& batch,
             Activations& activations);
// Writes the mean gradient of the cross-entropy over the batch and returns its mean.
double compute_gradient(const Shape& shape, std::span<const float> parameters, const Batch& batch,
                        Activations& activations, std::span<float> gradient);
// How many samples have their own class as the most probable one.
int count_correct(const Shape& shape, const Batch& batch, const Activations& activations);

}  // namespace banyan::example
