// SPDX-License-Identifier: Apache-2.0

#include "src/reducer/bucket_run.h"

#include <algorithm>
#include <cmath>
#include <cstring>

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
                     const ReducerOptions& options, int ranks, std::span<float> scales)
    : bucket_(bucket),
      tensors_(tensors),
      options_(options),
      kernels_(best_kernels()),
      ranks_(ranks),
      scales_(scales),
      compressed_(!bucket.compression.is_exact()),
      // A bound is on the error of this step's gradients, which what is left of another would
      // break.
      feeds_back_(compressed_ && options.feedback && !any_codec(bucket.compression, is_bound)),
      has_velocity_(options.momentum > 0 && is_sparse(bucket.compression)),
      kept_(compressed_ ? bucket.count : 0),
      gradients_(bucket.pieces.size()),
      figures_(bucket.pieces.size()) {
  if (feeds_back_) residual_[current_].resize(kept_);
  if (has_velocity_) velocity_[current_].resize(kept_);
}

void BucketRun::fill(std::span<std::byte* const> pieces, std::byte* room, Call& call) {
  std::copy(pieces.begin(), pieces.end(), gradients_.begin());
  set_vector(bucket_.staged ? room : gradients_.front(), call);
  if (compressed_)
    fill_compressed();
  else
    fill_exact();
}

void BucketRun::fill_there(std::byte* vector, Call& call) {
  set_vector(vector, call);
}

void BucketRun::set_vector(std::byte* vector, Call& call) {
  std::fill(figures_.begin(), figures_.end(), PieceFigures());
  vector_ = vector;
  call.send = vector;
  call.recv = vector;
  call.send_bytes = bucket_.count * size_of(bucket_.type);
  call.recv_bytes = call.send_bytes;
}

void BucketRun::add_carried() {
  for (size_t i = 0; i < carried_.size(); ++i) {
    if (carried_[i].empty()) continue;
    const Piece& piece = bucket_.pieces[i];
    add_residual(carried_[i], tensors_[piece.tensor].type, kernels_, gradients_[i]);
  }
}

void BucketRun::fill_exact() {
  add_carried();
  if (!bucket_.staged) return;
  const uint64_t element = size_of(bucket_.type);
  for (size_t i = 0; i < gradients_.size(); ++i) {
    const Piece& piece = bucket_.pieces[i];
    std::memcpy(vector_ + piece.place * element, gradients_[i], piece.count * element);
  }
}

void BucketRun::fill_compressed() {
  if (has_velocity_) velocity_[1 - current_].resize(kept_);
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
      part.next_velocity = velocity_[1 - current_].data() + piece.place;
    }
    if (feeds_back_)
      part.residual = residual_[current_].data() + piece.place;
    else if (carries() && !carried_[i].empty())
      part.residual = carried_[i].data();
    std::fill(vector() + filled, vector() + piece.place, 0.0F);
    const Contributed seen = contribute(part, kernels_, vector() + piece.place);
    filled = piece.place + piece.count;
    figures_[i] = {seen.nonfinite, seen.gradient, seen.sum, {}};
  }
  std::fill(vector() + filled, vector() + bucket_.count, 0.0F);
}

// Each tensor's gradient has a norm of at most clip_norm / sqrt(ranks), so that the sum of those of
// all ranks, if they are independent, has one of clip_norm (DGC, section 3.2).
float BucketRun::scale_of(const Piece& piece) {
  if (options_.clip_norm <= 0) return 1;
  float& scale = scales_[piece.tensor];
  if (piece.first == 0) {
    const Tensor& tensor = tensors_[piece.tensor];
    const auto index = static_cast<size_t>(&piece - bucket_.pieces.data());
    const double norm =
        std::sqrt(squares_of(gradients_[index], tensor.type, tensor.count, kernels_));
    const double most = options_.clip_norm / std::sqrt(ranks_);
    scale = norm > most ? static_cast<float>(most / norm) : 1;
  }
  return scale;
}

void BucketRun::expect(const Schedule& schedule, Call& call) {
  lefts_ = schedule.lefts;
  if (!compressed_) return;
  std::vector<float>& left = residual_[1 - current_];
  left.resize(std::max<uint64_t>(kept_, schedule.left_count));
  call.left = reinterpret_cast<std::byte*>(left.data());
}

bool BucketRun::deliver(bool scan) {
  if (compressed_) {
    std::vector<float>& left = residual_[1 - current_];
    const std::span<const float> before(residual_[current_].data(), feeds_back_ ? kept_ : 0);
    const std::span<const float> sums(vector(), kept_);
    // Codecs that say something of every value do not say what was sent.
    const CodecId inside = bucket_.compression.intra.codec;
    const bool by_sums = inside != kNoCodec && !is_sparse_codec(inside);
    if (has_velocity_ && !lefts_.empty())
      mask_velocity(by_sums ? std::span<const Left>() : lefts_, left, before, sums,
                    velocity_[1 - current_]);
    gather_left(lefts_, kept_, left);
  }
  const uint64_t element = size_of(bucket_.type);
  const int divisor = compressed_ && options_.op == ReduceOp::kAvg ? ranks_ : 1;
  bool finite = true;
  for (size_t i = 0; i < gradients_.size(); ++i) {
    const Piece& piece = bucket_.pieces[i];
    const DataType type = tensors_[piece.tensor].type;
    const std::byte* from = vector_ + piece.place * element;
    if (compressed_) {
      figures_[i].left = sample({residual_[1 - current_].data() + piece.place, piece.count});
      if (from != gradients_[i] || divisor != 1)
        kernels_.encode[static_cast<size_t>(type)](gradients_[i], from, piece.count, divisor);
    } else if (from != gradients_[i]) {
      std::memcpy(gradients_[i], from, piece.count * element);
    }
    if (!scan) continue;
    const uint64_t nonfinite = nonfinite_in(gradients_[i], type, piece.count);
    if (!compressed_) figures_[i].nonfinite = nonfinite;
    finite = finite && nonfinite == 0;
  }
  return finite;
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
  const auto take = [&](std::span<const float> from, std::vector<float>& to) {
    std::copy(from.begin(), from.end(), to.begin() + static_cast<ptrdiff_t>(part.place));
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
