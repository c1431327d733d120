// SPDX-License-Identifier: Apache-2.0

#include "src/reducer/bucket_run.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "compression/codecs.h"

namespace banyan {
namespace {

bool any_codec(const Compression& compression, bool (*is)(CodecId)) {
  return is(compression.intra.codec) || is(compression.inter.codec) || is(compression.alone.codec);
}

bool is_bound(CodecId codec) {
  return codec == kAbsoluteBound || codec == kRelativeBound;
}

bool is_sparse_codec(CodecId codec) {
  return codec == kThreshold || codec == kSign || codec == kTopk || codec == kRandk;
}

}  // namespace

bool is_sparse(const Compression& compression) {
  return any_codec(compression, is_sparse_codec);
}

bool is_coarse(const Compression& compression) {
  return is_sparse(compression) ||
         any_codec(compression, [](CodecId codec) { return codec == kOnebit; });
}

BucketRun::BucketRun(const Bucket& bucket, std::span<const Tensor> tensors,
                     const ReducerOptions& options, int ranks, std::span<float> scales,
                     HostPacking& home)
    : bucket_(bucket),
      tensors_(tensors),
      options_(options),
      ranks_(ranks),
      scales_(scales),
      compressed_(!bucket.compression.is_exact()),
      // A bound is on the error of this step's gradients, which what is left of another would
      // break.
      feeds_back_(compressed_ && options.feedback && !any_codec(bucket.compression, is_bound)),
      has_velocity_(options.momentum > 0 && is_sparse(bucket.compression)),
      kept_(compressed_ ? bucket.count : 0),
      work_(&home),
      gradients_(bucket.pieces.size()),
      figures_(bucket.pieces.size()),
      contributed_(bucket.pieces.size()),
      nonfinite_(bucket.pieces.size()) {
  if (feeds_back_) (void)have(residual_[current_], kept_);
  if (has_velocity_) (void)have(velocity_[current_], kept_);
}

Status BucketRun::have(PackedFloats& floats, uint64_t count) const {
  if (floats.size() >= count) return {};
  Result<PackedFloats> more = PackedFloats::of(*work_, count);
  BANYAN_TRY(more.status());
  floats = std::move(*more);
  return {};
}

Result<PackedFloats> BucketRun::moved(const PackedFloats& kept, PackingWork& to) const {
  if (kept.size() == 0) return PackedFloats();
  Result<PackedFloats> there = PackedFloats::of(to, kept_);
  BANYAN_TRY(there.status());
  std::vector<float> values(kept_);
  BANYAN_TRY(work_->read(values, kept.data()));
  BANYAN_TRY(to.write(there->data(), values));
  return there;
}

Status BucketRun::move_to(PackingWork& work) {
  if (&work == work_) return {};
  Result<PackedFloats> residual = moved(residual_[current_], work);
  BANYAN_TRY(residual.status());
  Result<PackedFloats> velocity = moved(velocity_[current_], work);
  BANYAN_TRY(velocity.status());
  // What a step needs beside, so that it does not begin in vain. A rank sums a share.
  const auto ranks = static_cast<uint64_t>(ranks_);
  Result<PackedFloats> left = PackedFloats::of(work, kept_ + (kept_ + ranks - 1) / ranks);
  BANYAN_TRY(left.status());
  Result<PackedFloats> next_velocity = PackedFloats::of(work, has_velocity_ ? kept_ : 0);
  BANYAN_TRY(next_velocity.status());
  residual_[current_] = std::move(*residual);
  velocity_[current_] = std::move(*velocity);
  next(residual_) = std::move(*left);
  next(velocity_) = std::move(*next_velocity);
  work_ = &work;
  return {};
}

Status BucketRun::fill(std::span<std::byte* const> pieces, std::byte* room, PackingWork& work,
                       Call& call) {
  BANYAN_TRY(move_to(work));
  std::copy(pieces.begin(), pieces.end(), gradients_.begin());
  std::fill(figures_.begin(), figures_.end(), PieceFigures());
  vector_ = bucket_.staged ? room : gradients_.front();
  call.send = vector_;
  call.recv = vector_;
  call.send_bytes = bucket_.count * size_of(bucket_.type);
  call.recv_bytes = call.send_bytes;
  if (compressed_)
    BANYAN_TRY(fill_compressed());
  else
    fill_exact();
  return work_->finish();
}

void BucketRun::add_carried() {
  for (size_t i = 0; i < carried_.size(); ++i) {
    if (carried_[i].empty()) continue;
    const Piece& piece = bucket_.pieces[i];
    add_residual(carried_[i], tensors_[piece.tensor].type, best_kernels(), gradients_[i]);
  }
}

void BucketRun::fill_exact() {
  add_carried();
  if (!bucket_.staged) return;
  const uint64_t element = size_of(bucket_.type);
  for (size_t i = 0; i < gradients_.size(); ++i) {
    const Piece& piece = bucket_.pieces[i];
    work_->copy(vector_ + piece.place * element, gradients_[i], piece.count * element);
  }
}

Status BucketRun::fill_compressed() {
  if (has_velocity_) BANYAN_TRY(have(next(velocity_), kept_));
  uint64_t filled = 0;
  for (size_t i = 0; i < gradients_.size(); ++i) {
    const Piece& piece = bucket_.pieces[i];
    Contribution part{.gradient = gradients_[i],
                      .type = tensors_[piece.tensor].type,
                      .count = piece.count,
                      .scale = scale_of(piece)};
    if (has_velocity_) {
      part.momentum = static_cast<float>(options_.momentum);
      part.velocity = velocity_[current_].data() + piece.place;
      part.next_velocity = next(velocity_).data() + piece.place;
    }
    if (feeds_back_)
      part.residual = residual_[current_].data() + piece.place;
    else if (carries() && !carried_[i].empty())
      part.residual = carried_[i].data();
    work_->clear(vector() + filled, piece.place - filled);
    work_->contribute(part, vector() + piece.place, &contributed_[i]);
    filled = piece.place + piece.count;
  }
  work_->clear(vector() + filled, bucket_.count - filled);
  return {};
}

// Each tensor's gradient has a norm of at most clip_norm / sqrt(ranks), so that the sum of those of
// all ranks, if they are independent, has one of clip_norm (DGC, section 3.2).
float BucketRun::scale_of(const Piece& piece) {
  if (options_.clip_norm <= 0) return 1;
  float& scale = scales_[piece.tensor];
  if (piece.first == 0) {
    const Tensor& tensor = tensors_[piece.tensor];
    const auto index = static_cast<size_t>(&piece - bucket_.pieces.data());
    const double norm = std::sqrt(work_->squares_of(gradients_[index], tensor.type, tensor.count));
    const double most = options_.clip_norm / std::sqrt(ranks_);
    scale = norm > most ? static_cast<float>(most / norm) : 1;
  }
  return scale;
}

Status BucketRun::expect(const Schedule& schedule, Call& call) {
  lefts_ = schedule.lefts;
  if (!compressed_) return {};
  PackedFloats& left = next(residual_);
  BANYAN_TRY(have(left, std::max<uint64_t>(kept_, schedule.left_count)));
  call.left = reinterpret_cast<std::byte*>(left.data());
  return {};
}

void BucketRun::gather() {
  float* const left = next(residual_).data();
  // Codecs that say something of every value do not say what was sent.
  const CodecId inside = bucket_.compression.intra.codec;
  const bool by_sums = inside != kNoCodec && !is_sparse_codec(inside);
  if (has_velocity_ && !lefts_.empty())
    mask_velocity(by_sums ? std::span<const Left>() : lefts_,
                  {left, feeds_back_ ? residual_[current_].data() : nullptr, vector()},
                  next(velocity_).data(), kept_, *work_);
  gather_left(lefts_, kept_, left, *work_);
}

Result<bool> BucketRun::deliver(bool scan) {
  if (compressed_) gather();
  const uint64_t element = size_of(bucket_.type);
  const int divisor = compressed_ && options_.op == ReduceOp::kAvg ? ranks_ : 1;
  std::fill(nonfinite_.begin(), nonfinite_.end(), 0);
  for (size_t i = 0; i < gradients_.size(); ++i) {
    const Piece& piece = bucket_.pieces[i];
    const DataType type = tensors_[piece.tensor].type;
    const std::byte* from = vector_ + piece.place * element;
    if (compressed_) {
      figures_[i].nonfinite = contributed_[i].nonfinite;
      figures_[i].gradient = contributed_[i].gradient;
      figures_[i].sum = contributed_[i].sum;
      work_->sample(next(residual_).data() + piece.place, piece.count, &figures_[i].left);
      if (from != gradients_[i] || divisor != 1)
        work_->round(gradients_[i], type, vector() + piece.place, piece.count, divisor);
    } else if (from != gradients_[i]) {
      work_->copy(gradients_[i], from, piece.count * element);
    }
    if (scan) work_->count_nonfinite(gradients_[i], type, piece.count, &nonfinite_[i]);
  }
  BANYAN_TRY(work_->finish());
  for (size_t i = 0; i < gradients_.size(); ++i)
    if (!compressed_) figures_[i].nonfinite = nonfinite_[i];
  return std::all_of(nonfinite_.begin(), nonfinite_.end(),
                     [](uint64_t found) { return found == 0; });
}

std::span<const float> BucketRun::residual(size_t piece) const {
  const Piece& part = bucket_.pieces[piece];
  if (feeds_back_) return {residual_[current_].data() + part.place, part.count};
  if (carries()) return carried_[piece];
  return {};
}

std::span<const float> BucketRun::velocity(size_t piece) const {
  const Piece& part = bucket_.pieces[piece];
  if (!has_velocity_) return {};
  return {velocity_[current_].data() + part.place, part.count};
}

void BucketRun::take_over(size_t piece, std::span<const float> residual,
                          std::span<const float> velocity) {
  const Piece& part = bucket_.pieces[piece];
  const auto take = [&](std::span<const float> from, const PackedFloats& to) {
    std::copy(from.begin(), from.end(), to.data() + part.place);
  };
  if (has_velocity_) take(velocity, velocity_[current_]);
  if (feeds_back_) {
    take(residual, residual_[current_]);
  } else if (!residual.empty()) {
    carried_.resize(bucket_.pieces.size());
    carried_[piece].assign(residual.begin(), residual.end());
  }
}

void BucketRun::keep(bool finite) {
  if (!finite) return;
  carried_.clear();
  if (feeds_back_ || has_velocity_) current_ = 1 - current_;
}

}  // namespace banyan
