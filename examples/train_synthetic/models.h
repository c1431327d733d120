// The tensors of models that people train, made from the numbers that their papers give.
//
//   resnet50    He et al., "Deep Residual Learning for Image Recognition", 2016, table 1, with the
//               batch norms that its section 3.4 puts behind each convolution
//   gpt2        Radford et al., "Language Models are Unsupervised Multitask Learners", 2019, table
//               2, first row: 12 blocks of width 768. The output matrix is the embedding's.
//   mlp:A-B-C   A inputs, layers of B and C nodes
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "banyan/status.h"

namespace banyan::synthetic {

struct Tensor {
  std::string name;
  int dimensions = 1;
  size_t count = 0;
};

// Tensors whose gradients are there at once.
struct Layer {
  std::vector<Tensor> tensors;
  double work = 0;  // multiply-adds of the forward pass, for one image or one token
};

// The first layer first.
using Model = std::vector<Layer>;

Result<Model> model_of(std::string_view name);

size_t parameters_of(const Model& model);
size_t tensors_of(const Model& model);
double work_of(const Model& model);

}  // namespace banyan::synthetic
