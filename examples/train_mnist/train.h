// Trains data-parallel: every rank computes the gradient of its own samples, a reducer of Banyan
// averages the gradients while they are computed, and every rank makes the same step.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <string>

#include "banyan/communicator.h"
#include "examples/train_mnist/idx.h"
#include "examples/train_mnist/network.h"
#include "examples/train_mnist/reducing.h"

namespace banyan::example {

inline constexpr int kClasses = 10;

struct TrainOptions {
  int epochs = 5;
  int stop_after = 0;           // end after this epoch, though more are planned; 0: after the last
  int batch = 32;               // samples of one rank in one step
  double learning_rate = 0.02;  // for one rank; multiplied by their number after the warm-up
  double momentum = 0.9;        // of the optimiser, or of the reducer where that has one
  int hidden = 128;
  int limit = 0;  // use at most so many samples for training; 0: all
  uint64_t seed = 1;
  ReducerOptions reducer;
  std::string checkpoint;  // every rank writes FILE.RANK at the end of each epoch; empty: none
  std::string resume;      // begin with what is in these files; empty: at the beginning
};

// Everything but `identical` and `checksum` is of this job's own steps.
struct TrainReport {
  double accuracy = 0;  // on the test data, 0 to 1
  double seconds = 0;   // in training, without the tests of accuracy
  // Medians of what a step waits for sums, on the rank that waits least, and of what it takes where
  // nothing is computed.
  double waited_seconds = 0;
  double alone_seconds = 0;
  int64_t steps = 0;
  int64_t bytes_sent = 0;     // by the reducers of all ranks
  size_t gradient_bytes = 0;  // of one rank in one step
  bool identical = false;     // the parameters, on all ranks
  uint64_t checksum = 0;      // of rank 0's

  // The share of communication that was hidden behind computation: what it takes alone, less what
  // was waited for all the same.
  double hidden() const;
};

// Images of the training data that are used, by all ranks together.
int samples_used(const Dataset& training, const TrainOptions& options);

// Collective. Rank 0 prints loss and accuracy of each epoch on stdout.
Result<TrainReport> train(Communicator& communicator, const Dataset& training, const Dataset& test,
                          const TrainOptions& options);

}  // namespace banyan::example
