// SPDX-License-Identifier: Apache-2.0

#include "examples/train_mnist/samples.h"

#include <algorithm>
#include <random>
#include <utility>

namespace banyan::example {

std::vector<int> shard_of(int count, int rank, int size) {
  std::vector<int> indices;
  for (int i = rank; i < count; i += size) indices.push_back(i);
  return indices;
}

void shuffle(std::vector<int>& indices, uint64_t seed) {
  std::mt19937_64 random(seed);
  for (size_t i = indices.size(); i > 1; --i) std::swap(indices[i - 1], indices[random() % i]);
}

void take_samples(const Dataset& dataset, std::span<const int> indices, Batch& batch) {
  const auto pixels = static_cast<size_t>(dataset.pixels);
  batch.inputs.resize(indices.size() * pixels);
  batch.labels.resize(indices.size());
  for (size_t i = 0; i < indices.size(); ++i) {
    const auto index = static_cast<size_t>(indices[i]);
    const uint8_t* image = &dataset.images[index * pixels];
    std::transform(image, image + pixels, &batch.inputs[i * pixels],
                   [](uint8_t pixel) { return static_cast<float>(pixel) / 255.0F; });
    batch.labels[i] = dataset.labels[index];
  }
}

}  // namespace banyan::example
