// A bucket at work: it fills its vector, takes the sums back to the tensors, and keeps what its
// messages did not say for the next step.
//
//   run.fill(gradients, room, call);           // the call is about to start
//   run.expect(schedule, call);                // and this is how it will go
//   const bool finite = run.deliver(figures);  // it has ended
//   run.keep(all_finite);                      // the step has ended
//
// One thread at a time.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "compression/kernels.h"
#include "src/communicator/call.h"
#include "src/reducer/buckets.h"
#include "src/reducer/packing.h"
#include "src/reducer/tensor.h"

namespace banyan {

// How a reducer works, the same on all ranks.
struct ReducerOptions {
  ReduceOp op = ReduceOp::kAvg;  // or kSum
  bool feedback = true;
  double momentum = 0;
  double clip_norm = 0;  // 0: it clips nothing
  uint64_t warmup_steps = 0;
  uint64_t bucket_bytes = 0;  // at least 1
};

// Whether codecs of this setting leave most values out of a message; and whether they do, or say
// no more than signs.
bool is_sparse(const Compression& compression);
bool is_coarse(const Compression& compression);

// What one step says of a part of a tensor.
struct PieceFigures {
  uint64_t nonfinite = 0;
  Sampled gradient;
  Sampled sum;   // what was to be sent
  Sampled left;  // of that, what was not
};

class BucketRun {
 public:
  // `scales` has one number per tensor, by which its gradient is scaled; the bucket with the first
  // piece of a tensor sets it. All outlive the run.
  BucketRun(const Bucket& bucket, std::span<const Tensor> tensors, const ReducerOptions& options,
            int ranks, std::span<float> scales);

  const Bucket& bucket() const { return bucket_; }
  bool compressed() const { return compressed_; }
  bool has_velocity() const { return has_velocity_; }

  // Fills the vector: the only tensor itself, or `room`, which has its bytes where it is staged.
  // `pieces` has the address of each.
  void fill(std::span<std::byte* const> pieces, std::byte* room, Call& call);
  // The same, where nobody but the call touches the vector: it is exact, and carries nothing.
  void fill_there(std::byte* vector, Call& call);
  // Gives the call memory for what its messages do not say.
  void expect(const Schedule& schedule, Call& call);
  // Takes the sums to the tensors. `scan`: looks for NaN and infinity in them. False: there is one.
  bool deliver(bool scan);
  // What was found since fill(), piece by piece.
  std::span<const PieceFigures> figures() const { return figures_; }
  // What is left of this step is what the next one begins with. `finite` false: it begins with what
  // this one began with.
  void keep(bool finite);

  // What a piece keeps between steps; empty where it keeps nothing.
  std::span<const float> residual(size_t piece) const;
  std::span<const float> velocity(size_t piece) const;
  // Before the first step: what former ranks kept. Where the bucket keeps no residual, it goes with
  // the next step that is finite.
  void take_over(size_t piece, std::span<const float> residual, std::span<const float> velocity);
  bool carries() const { return !carried_.empty(); }

 private:
  float* vector() const { return reinterpret_cast<float*>(vector_); }
  void set_vector(std::byte* vector, Call& call);
  void add_carried();
  void fill_compressed();
  void fill_exact();
  float scale_of(const Piece& piece);

  const Bucket& bucket_;
  const std::span<const Tensor> tensors_;
  const ReducerOptions& options_;
  const Kernels& kernels_;
  const int ranks_;
  const std::span<float> scales_;
  const bool compressed_;
  const bool feeds_back_;
  const bool has_velocity_;
  const size_t kept_;                  // elements of a residual
  std::vector<std::byte*> gradients_;  // of the pieces
  std::byte* vector_ = nullptr;
  std::vector<PieceFigures> figures_;
  std::vector<Left> lefts_;  // of the call
  size_t current_ = 0;       // of the two of each
  // Behind a residual lies what the call left of sums.
  std::array<std::vector<float>, 2> residual_;
  std::array<std::vector<float>, 2> velocity_;
  std::vector<std::vector<float>> carried_;  // by piece; empty where none carries anything
};

}  // namespace banyan
