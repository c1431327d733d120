// SPDX-License-Identifier: Apache-2.0

#include "examples/train_synthetic/models.h"

#include <fmt/format.h>

#include <charconv>
#include <utility>

namespace banyan::synthetic {
namespace {

Tensor vector(std::string name, size_t count) {
  return {std::move(name), 1, count};
}

Layer linear(const std::string& name, size_t inputs, size_t outputs) {
  return {{{name + ".weight", 2, inputs * outputs}, vector(name + ".bias", outputs)},
          static_cast<double>(inputs * outputs)};
}

// A square kernel, a square image of outputs, and the batch norm behind it.
Layer convolution(const std::string& name, size_t inputs, size_t outputs, size_t kernel,
                  size_t size) {
  const size_t weights = inputs * outputs * kernel * kernel;
  return {{{name + ".weight", 4, weights},
           vector(name + ".norm.weight", outputs),
           vector(name + ".norm.bias", outputs)},
          static_cast<double>(weights * size * size)};
}

Model resnet50() {
  Model model = {convolution("conv1", 3, 64, 7, 112)};
  size_t inputs = 64;
  size_t width = 64;
  size_t size = 56;
  for (const int blocks : {3, 4, 6, 3}) {
    for (int block = 0; block < blocks; ++block) {
      const std::string name = fmt::format("stage{}.{}", width / 64, block);
      const size_t outputs = 4 * width;
      model.push_back(convolution(name + ".conv1", inputs, width, 1, size));
      model.push_back(convolution(name + ".conv2", width, width, 3, size));
      model.push_back(convolution(name + ".conv3", width, outputs, 1, size));
      if (block == 0) model.push_back(convolution(name + ".shortcut", inputs, outputs, 1, size));
      inputs = outputs;
    }
    width *= 2;
    size /= 2;
  }
  model.push_back(linear("fc", inputs, 1000));
  return model;
}

void add_norm(Layer& layer, const std::string& name, size_t width) {
  layer.tensors.insert(layer.tensors.begin(),
                       {vector(name + ".weight", width), vector(name + ".bias", width)});
}

Model gpt2() {
  constexpr size_t kBlocks = 12;
  constexpr size_t kWidth = 768;
  constexpr size_t kVocabulary = 50257;
  constexpr size_t kContext = 1024;
  // The gradient of the embedding is whole at the end of the backward pass, although the output
  // adds to it at the beginning.
  Model model = {{{{"wte", 2, kVocabulary * kWidth}, {"wpe", 2, kContext * kWidth}}, 0}};
  for (size_t block = 0; block < kBlocks; ++block) {
    const std::string name = fmt::format("h{}", block);
    Layer attention = linear(name + ".attention", kWidth, 3 * kWidth);
    add_norm(attention, name + ".norm1", kWidth);
    Layer projection = linear(name + ".projection", kWidth, kWidth);
    projection.work += 2.0 * kContext * kWidth;  // scores, and the values that they weigh
    Layer wide = linear(name + ".wide", kWidth, 4 * kWidth);
    add_norm(wide, name + ".norm2", kWidth);
    Layer narrow = linear(name + ".narrow", 4 * kWidth, kWidth);
    for (Layer* layer : {&attention, &projection, &wide, &narrow})
      model.push_back(std::move(*layer));
  }
  Layer output{{}, static_cast<double>(kVocabulary * kWidth)};
  add_norm(output, "norm", kWidth);
  model.push_back(std::move(output));
  return model;
}

// Two or more numbers of nodes, with '-' between them.
Result<Model> perceptron(std::string_view name, std::string_view text) {
  constexpr size_t kMostNodes = 1 << 16;
  std::vector<size_t> nodes;
  bool more = true;
  while (more) {
    size_t count = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
    if (error != std::errc() || count == 0 || count > kMostNodes) break;
    nodes.push_back(count);
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    more = text.starts_with('-');
    if (more) text.remove_prefix(1);
  }
  if (more || !text.empty() || nodes.size() < 2)
    return Status(Code::kInvalidArgument,
                  fmt::format("model '{}': right is mlp:A-B or mlp:A-B-C and so on, with 1 to {} "
                              "nodes each",
                              name, kMostNodes));
  Model model;
  for (size_t i = 1; i < nodes.size(); ++i)
    model.push_back(linear(fmt::format("layer{}", i), nodes[i - 1], nodes[i]));
  return model;
}

}  // namespace

Result<Model> model_of(std::string_view name) {
  constexpr std::string_view kPerceptron = "mlp:";
  if (name == "resnet50") return resnet50();
  if (name == "gpt2") return gpt2();
  if (name.starts_with(kPerceptron)) return perceptron(name, name.substr(kPerceptron.size()));
  return Status(Code::kInvalidArgument,
                fmt::format("model '{}' is unknown; valid: resnet50, gpt2, mlp:A-B-C", name));
}

size_t parameters_of(const Model& model) {
  size_t sum = 0;
  for (const Layer& layer : model)
    for (const Tensor& tensor : layer.tensors) sum += tensor.count;
  return sum;
}

size_t tensors_of(const Model& model) {
  size_t sum = 0;
  for (const Layer& layer : model) sum += layer.tensors.size();
  return sum;
}

double work_of(const Model& model) {
  double sum = 0;
  for (const Layer& layer : model) sum += layer.work;
  return sum;
}

}  // namespace banyan::synthetic
