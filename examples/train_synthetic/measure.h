// Times the steps of a training whose computation is time that passes.
//
// A step is a forward pass from the first layer to the last, in which each layer waits for the sums
// of its own gradients of the step before, and a backward pass from the last layer to the first,
// in which gradients become ready layer by layer. The forward pass takes a third of the computation
// time, the backward pass two thirds; layers share them in proportion to their multiply-adds.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <optional>

#include "banyan/communicator.h"
#include "banyan/status.h"
#include "examples/train_synthetic/models.h"

namespace banyan::synthetic {

enum class Way {
  kReducer,  // gradients travel while others are computed
  kEnd,      // one allreduce of all, at the end of the backward pass
};

struct Options {
  Way way = Way::kReducer;
  double compute = 0.2;  // seconds of a step
  bool spins = false;
  int steps = 10;           // that are timed
  int warm_up = 3;          // steps before those
  size_t bucket_bytes = 0;  // of the reducer; 0: chosen
};

// Seconds from the beginning of a step to that of the next, of the rank that took longest.
struct StepTimes {
  double median = 0;
  double least = 0;
  double most = 0;
};

struct Report {
  double compute = 0;           // seconds of a step, as given
  StepTimes communication;      // of steps with nothing to compute
  StepTimes step;               // of steps with both
  std::optional<double> bytes;  // in a step, sent by the reducers of all ranks

  // The share of what could be hidden that was: 0 where one comes after the other, 1 where a step
  // takes no longer than the longer of the two.
  double overlap() const;
};

// Collective. Nothing to compute is measured first.
Result<Report> measure(Communicator& communicator, const Model& model, const Options& options);

}  // namespace banyan::synthetic
