// This is a multilayer perceptron with one hidden layer, as plain loops over one vector of
// parameters.
//
// Parameters and their gradient are contiguous, tensor by tensor. The loops add whole rows, which
// compilers vectorise without reordering a sum: same input, same bits.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace banyan::example {

// Elements [begin, begin + count) of the parameters, and of their gradient.
struct Tensor {
  const char* name;
  int dimensions;
  size_t begin;
  size_t count;
};
inline constexpr size_t kTensors = 4;
inline constexpr size_t kFirstOfOutput = 2;  // the hidden layer's are before it

struct Shape {
  int inputs = 784;
  int hidden = 128;
  int outputs = 10;

  bool operator==(const Shape&) const = default;
  // Weights and biases of the hidden layer (inputs x hidden, hidden), then those of the output
  // layer (hidden x outputs, outputs). They lie in this order, without gaps.
  std::array<Tensor, kTensors> tensors() const;
  size_t parameters() const;
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
// Writes the mean gradient of the cross-entropy over the batch, of the tensors of the output layer,
// and returns the mean of the cross-entropy.
double output_gradient(const Shape& shape, std::span<const float> parameters, const Batch& batch,
                       Activations& activations, std::span<float> gradient);
// Writes that of the hidden layer's tensors; after output_gradient().
void hidden_gradient(const Shape& shape, std::span<const float> parameters, const Batch& batch,
                     Activations& activations, std::span<float> gradient);
// Does both.
double compute_gradient(const Shape& shape, std::span<const float> parameters, const Batch& batch,
                        Activations& activations, std::span<float> gradient);
// How many samples have their own class as the most probable one.
int count_correct(const Shape& shape, const Batch& batch, const Activations& activations);

}  // namespace banyan::example
