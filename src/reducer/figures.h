// What happened to a tensor, and whether it is to be exact for a while.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "src/reducer/bucket_run.h"

namespace banyan {

// banyan_tensor_stats_t.
struct TensorFigures {
  uint64_t steps = 0, bytes_raw = 0, bytes_sent = 0, nonfinite = 0, fallbacks = 0;
  double error_nmse = 0, residual_norm = 0;    // of the last step
  double codec_seconds = 0, wait_seconds = 0;  // of all
};

// The squares of a vector of so many values, by those of a sample.
inline double estimate(const Sampled& seen, uint64_t count) {
  if (seen.values == 0) return 0;
  return seen.squares * static_cast<double>(count) / static_cast<double>(seen.values);
}

// Sees a tensor step by step.
//
// Feedback loses its hold where a tensor is sent by a codec that cannot keep up: its residual grows
// from step to step, and what arrives is old. Then it has to be exact for a while, which takes all
// that is left with it.
class TensorLog {
 public:
  // A residual of so many gradients, by their norms, is too much: what arrives is that many steps
  // old.
  static constexpr double kMostLeft = 1024;
  // A quantiser whose messages miss half of what they say does not fit the values.
  static constexpr double kMostError = 0.5;
  // For so many steps it is exact.
  static constexpr uint64_t kExactSteps = 64;

  TensorFigures figures;
  double squares_sent = 0, squares_left = 0;  // of the last step, for a sum over tensors
  bool told = false;                          // that it is out of hand

  // One part of a step.
  void add(const PieceFigures& piece, uint64_t count) {
    gradient_ += estimate(piece.gradient, count);
    sum_ += estimate(piece.sum, count);
    left_ += estimate(piece.left, count);
    nonfinite_ += piece.nonfinite;
  }
  // The step is over. Without feedback, what is left is lost.
  void end_step(bool finite) {
    figures.steps += 1;
    figures.nonfinite += nonfinite_;
    if (finite) {
      squares_sent = sum_;
      squares_left = left_;
      figures.error_nmse = sum_ > 0 ? left_ / sum_ : 0;
      figures.residual_norm = std::sqrt(left_);
      // Gradients fall to zero now and then, which says nothing.
      largest_gradient_ = std::max(kForgets * largest_gradient_, std::sqrt(gradient_));
    }
    gradient_ = sum_ = left_ = 0;
    nonfinite_ = 0;
  }
  // `coarse`: its codec misses most of every message by design.
  bool is_out_of_hand(bool coarse) const {
    const bool has_begun =
        largest_gradient_ > 0;  // after a restart, a residual may be all there is
    if (has_begun && figures.residual_norm > kMostLeft * largest_gradient_) return true;
    return !coarse && figures.error_nmse > kMostError;
  }

 private:
  static constexpr double kForgets = 0.99;  // so much of it is still known a step later

  double gradient_ = 0, sum_ = 0, left_ = 0;
  uint64_t nonfinite_ = 0;
  double largest_gradient_ = 0;
};

}  // namespace banyan
