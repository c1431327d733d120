// What a reducer writes to a checkpoint, and takes over from those of former ranks.
// SPDX-License-Identifier: Apache-2.0

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "src/reducer/checkpoint.h"
#include "src/reducer/reducer.h"

namespace banyan {
namespace {

void add_up(std::vector<float>& sum, const std::vector<float>& values) {
  if (sum.empty()) {
    sum = values;
    return;
  }
  for (size_t i = 0; i < values.size(); ++i) sum[i] += values[i];
}

// They are of one moment, and no former rank is there twice.
Status check_together(std::span<const Checkpoint> checkpoints) {
  std::vector<uint32_t> ranks;
  for (const Checkpoint& checkpoint : checkpoints) {
    const Checkpoint& first = checkpoints.front();
    if (checkpoint.ranks != first.ranks || checkpoint.steps != first.steps)
      return {Code::kInvalidArgument,
              fmt::format("the blobs are not of one checkpoint: one is of {} ranks after {} steps, "
                          "another of {} ranks after {} steps",
                          first.ranks, first.steps, checkpoint.ranks, checkpoint.steps)};
    if (std::find(ranks.begin(), ranks.end(), checkpoint.rank) != ranks.end())
      return {Code::kInvalidArgument, fmt::format("two blobs are of rank {}", checkpoint.rank)};
    ranks.push_back(checkpoint.rank);
  }
  return {};
}

// By tensor, in their order of registration: all that the former ranks kept of it.
std::vector<TensorState> total_of(std::span<const Checkpoint> checkpoints,
                                  const std::unordered_map<uint64_t, size_t>& index) {
  std::vector<TensorState> totals(index.size());
  for (const Checkpoint& checkpoint : checkpoints) {
    for (const TensorState& state : checkpoint.tensors) {
      TensorState& total = totals[index.at(state.id)];
      total.exact_until = std::max(total.exact_until, state.exact_until);
      add_up(total.residual, state.residual);
      add_up(total.momentum, state.momentum);
    }
  }
  return totals;
}

// Nothing, where it is of nothing.
std::span<const float> part_of(const std::vector<float>& values, const Piece& piece) {
  if (values.empty()) return {};
  return std::span(values).subspan(piece.first, piece.count);
}

}  // namespace

// After a failure it is what the last step that has ended left.
Status GradientReducer::save(std::byte* blob, size_t* bytes) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return failed_ || (!agreeing_ && !has_failed()); });
  if (!failed_) BANYAN_TRY(check_idle("this one is saved"));
  for (const BucketState& bucket : buckets_) BANYAN_TRY(bucket.run->move_to(host_));
  CheckpointView view{.ranks = static_cast<uint32_t>(membership_->size()),
                      .rank = static_cast<uint32_t>(membership_->rank()),
                      .steps = first_step_ + steps_done_,
                      .tensors = {}};
  for (const Tensor& tensor : tensors_)
    view.tensors.push_back({.id = tensor.id, .count = tensor.count});
  // Pieces of one tensor follow one another from bucket to bucket.
  for (const BucketState& bucket : buckets_) {
    const std::vector<Piece>& pieces = bucket.run->bucket().pieces;
    for (size_t i = 0; i < pieces.size(); ++i) {
      TensorView& tensor = view.tensors[pieces[i].tensor];
      tensor.exact_until = std::max(tensor.exact_until, bucket.exact_until);
      if (const auto residual = bucket.run->residual(i); !residual.empty())
        tensor.residual.push_back(residual);
      if (const auto velocity = bucket.run->velocity(i); !velocity.empty())
        tensor.momentum.push_back(velocity);
    }
  }
  const size_t needed = checkpoint_bytes(view);
  const size_t room = std::exchange(*bytes, needed);
  if (blob == nullptr) return {};
  if (room < needed)
    return {Code::kInvalidArgument,
            fmt::format("*bytes is {}, and the blob takes {}", room, needed)};
  write_checkpoint(view, {blob, needed});
  return {};
}

Status GradientReducer::load(std::span<const std::span<const std::byte>> blobs) {
  std::vector<Checkpoint> checkpoints;
  for (const std::span<const std::byte> blob : blobs) {
    Result<Checkpoint> checkpoint = parse_checkpoint(blob);
    BANYAN_TRY(checkpoint.status());
    BANYAN_TRY(check_against(*checkpoint, tensors_));
    checkpoints.push_back(std::move(*checkpoint));
  }
  BANYAN_TRY(check_together(checkpoints));
  const std::lock_guard lock(mutex_);
  if (steps_done_ > 0 || latest_step_ > 0)
    return {Code::kInvalidUsage, "a checkpoint is loaded before the first step"};
  if (loaded_) return {Code::kInvalidUsage, "a checkpoint is loaded already"};
  if (checkpoints.empty()) return {};
  loaded_ = true;
  first_step_ = checkpoints.front().steps;
  const std::vector<TensorState> totals = total_of(checkpoints, index_);
  for (BucketState& bucket : buckets_) {
    const std::vector<Piece>& pieces = bucket.run->bucket().pieces;
    for (size_t i = 0; i < pieces.size(); ++i) {
      const TensorState& tensor = totals[pieces[i].tensor];
      bucket.exact_until = std::max(bucket.exact_until, tensor.exact_until);
      bucket.run->take_over(i, part_of(tensor.residual, pieces[i]),
                            part_of(tensor.momentum, pieces[i]));
    }
    scans_ = scans_ || bucket.run->carries();
  }
  return {};
}

}  // namespace banyan
