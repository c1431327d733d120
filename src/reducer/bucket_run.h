// A bucket at work: it fills its vector, takes the sums back to the tensors, and keeps what its
// messages did not say for the next step.
//
//   BANYAN_TRY(run.fill(gradients, room, work, call));  // the call is about to start
//   BANYAN_TRY(run.expect(schedule, call));             // and this is how it will go
//   const Result<bool> finite = run.deliver(scan);      // it has ended
//   run.keep(all_finite);                               // the step has ended
//
// All memory of a step is where its work is. What is kept from step to step goes along.
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
  // At first, what it keeps is on the host: `home` does its work. It outlives the run, too.
  BucketRun(const Bucket& bucket, std::span<const Tensor> tensors, const ReducerOptions& options,
            int ranks, std::span<float> scales, HostPacking& home);

  const Bucket& bucket() const { return bucket_; }
  bool compressed() const { return compressed_; }
  bool has_velocity() const { return has_velocity_; }

  // Fills the vector: the only tensor itself, or `room`, which has its bytes where it is staged.
  // `pieces` has the address of each. All of these are where `work` is.
  //
  // This and what follows fail as PackingWork does.
  Status fill(std::span<std::byte* const> pieces, std::byte* room, PackingWork& work, Call& call);
  // Gives the call memory for what its messages do not say.
  Status expect(const Schedule& schedule, Call& call);
  // Takes the sums to the tensors. `scan`: looks for NaN and infinity in them. False: there is one.
  Result<bool> deliver(bool scan);
  // What was found since fill(), piece by piece.
  std::span<const PieceFigures> figures() const { return figures_; }
  // What is left of this step is what the next one begins with. `finite` false: it begins with what
  // this one began with.
  void keep(bool finite);

  // Takes what it keeps to where that work is. Between steps. Where there is no memory for that,
  // it stays where it was.
  Status move_to(PackingWork& work);
  // What a piece keeps between steps; empty where it keeps nothing. It is on the host.
  std::span<const float> residual(size_t piece) const;
  std::span<const float> velocity(size_t piece) const;
  // Before the first step: what former ranks kept. Where the bucket keeps no residual, it goes with
  // the next step that is finite.
  void take_over(size_t piece, std::span<const float> residual, std::span<const float> velocity);
  bool carries() const { return !carried_.empty(); }

 private:
  float* vector() const { return reinterpret_cast<float*>(vector_); }
  // The one of the next step.
  PackedFloats& next(std::array<PackedFloats, 2>& both) const { return both[1 - current_]; }
  Status have(PackedFloats& floats, uint64_t count) const;
  Result<PackedFloats> moved(const PackedFloats& kept, PackingWork& to) const;
  void add_carried();
  Status fill_compressed();
  void fill_exact();
  void gather();
  float scale_of(const Piece& piece);

  const Bucket& bucket_;
  const std::span<const Tensor> tensors_;
  const ReducerOptions& options_;
  const int ranks_;
  const std::span<float> scales_;
  const bool compressed_;
  const bool feeds_back_;
  const bool has_velocity_;
  const size_t kept_;                  // elements of a residual
  PackingWork* work_;                  // where what is kept is
  std::vector<std::byte*> gradients_;  // of the pieces
  std::byte* vector_ = nullptr;
  std::vector<PieceFigures> figures_;
  std::vector<Contributed> contributed_;  // by piece, as the next
  std::vector<uint64_t> nonfinite_;       // of the sums
  std::vector<Left> lefts_;               // of the call
  size_t current_ = 0;                    // of the two of each
  // Behind a residual lies what the call left of sums.
  std::array<PackedFloats, 2> residual_;
  std::array<PackedFloats, 2> velocity_;
  std::vector<std::vector<float>> carried_;  // by piece; empty where none carries anything
};

}  // namespace banyan
