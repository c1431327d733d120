// Which images a rank trains with, and in which order.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "examples/train_mnist/idx.h"
#include "examples/train_mnist/network.h"

namespace banyan::example {

// The samples of one rank: every size-th, from its rank on.
std::vector<int> shard_of(int count, int rank, int size);
void shuffle(std::vector<int>& indices, uint64_t seed);
// Makes a batch of those samples.
void take_samples(const Dataset& dataset, std::span<const int> indices, Batch& batch);

}  // namespace banyan::example
