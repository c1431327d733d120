// Trains data-parallel: every rank computes the gradient of its own samples, Banyan averages the
// gradients, and every rank makes the same step.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>

#include "banyan/communicator.h"
#include "examples/train_mnist/idx.h"
#include "examples/train_mnist/network.h"

namespace banyan::example {

inline constexpr int kClasses = 10;

struct TrainOptions {
  int epochs = 5;
  int batch = 32;               // samples of one rank in one step
  double learning_rate = 0.02;  // for one rank; multiplied by their number after the warm-up
  double momentum = 0.9;
  int hidden = 128;
  int limit = 0;  // use at most so many samples for training; 0: all
  uint64_t seed = 1;
};

struct TrainReport {
  double accuracy = 0;               // on the test data, 0 to 1
  double seconds = 0;                // in training, without the tests of accuracy
  double communication_seconds = 0;  // of them, in allreduce; waiting for slower ranks included
  int64_t steps = 0;
  size_t gradient_bytes = 0;  // of one rank in one step
  bool identical = false;     // the parameters, on all ranks
};

// Images of the training data that are used, by all ranks together.
int samples_used(const Dataset& training, const TrainOptions& options);

// Collective. Rank 0 prints loss and accuracy of each epoch on stdout.
Result<TrainReport> train(Communicator& communicator, const Dataset& training, const Dataset& test,
                          const TrainOptions& options);

}  // namespace banyan::example
