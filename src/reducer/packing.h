// How gradients get into the vector of a bucket, and sums out of it.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "algorithms/schedule.h"
#include "banyan/status.h"
#include "banyan/types.h"
#include "compression/kernels.h"

namespace banyan {

// What was seen of values in passing: the squares of a sample of them, added up, which stands for
// all. Of vectors of up to 65,536 values it has all, of longer ones every 16th block of 256.
struct Sampled {
  double squares = 0;
  uint64_t values = 0;  // in the sample

  void add(const Sampled& other) {
    squares += other.squares;
    values += other.values;
  }
};
// How many of so many values are in the sample.
uint64_t sampled_of(uint64_t count);
// Whether that is not all of them.
bool samples_parts(uint64_t count);

// What a rank has to say of a part of a tensor.
struct Contribution {
  const std::byte* gradient = nullptr;  // `count` elements of `type`, which is 32 or 16 bits wide
  DataType type = DataType::kFloat32;
  uint64_t count = 0;
  float scale = 1;
  // Momentum correction (DGC, Lin et al. 2018, section 3.1): the velocity, which becomes
  // momentum * velocity + gradient, stands for the gradient. Null: there is none.
  float momentum = 0;
  const float* velocity = nullptr;
  float* next_velocity = nullptr;
  const float* residual = nullptr;  // is added; null: there is none
};
struct Contributed {
  uint64_t nonfinite = 0;  // elements of the gradient
  Sampled gradient;        // or of the velocity
  Sampled sum;             // with the residual
};

// Works where a bucket's memory is: on the host, at once, or on a GPU, where what was asked for is
// done, in order, and what is said of it is written, by the time that finish() returns. Everything
// that is named stays where it is until then.
//
// One that has failed does nothing any more. One thread at a time.
class PackingWork {
 public:
  virtual ~PackingWork() = default;

  // So many floats, all zero. kCuda: the device has no memory left, which is no failure of the
  // work. Throws std::bad_alloc.
  virtual Result<float*> take(uint64_t count) = 0;
  virtual void give_back(float* floats) = 0;
  // From and to memory of the host; done when it returns.
  virtual Status read(std::span<float> to, const float* from) = 0;
  virtual Status write(float* to, std::span<const float> from) = 0;

  // sum[i] = scale * gradient[i], or the velocity, + residual[i]. `sum` may be the gradient, and
  // overlaps nothing else.
  virtual void contribute(const Contribution& part, float* sum, Contributed* seen) = 0;
  virtual void clear(float* values, uint64_t count) = 0;
  virtual void copy(std::byte* to, const std::byte* from, uint64_t bytes) = 0;
  // to[i] += more[i]
  virtual void add(float* to, const float* more, uint64_t count) = 0;
  // velocity[i] = 0 where not all of velocity[i] + residual[i] is left; the residual may be null.
  virtual void forget_said(float* velocity, const float* left, const float* residual,
                           uint64_t count) = 0;
  // velocity[i] = 0 where the sum is not.
  virtual void forget_summed(float* velocity, const float* sum, uint64_t count) = 0;
  virtual void sample(const float* values, uint64_t count, Sampled* seen) = 0;
  // gradient[i] = sum[i] / divisor, rounded once to its type.
  virtual void round(std::byte* gradient, DataType type, const float* sum, uint64_t count,
                     int divisor) = 0;
  // How many elements are NaN or infinite.
  virtual void count_nonfinite(const std::byte* elements, DataType type, uint64_t count,
                               uint64_t* found) = 0;
  // The squares of a gradient, added up; done when it returns.
  virtual double squares_of(const std::byte* gradient, DataType type, uint64_t count) = 0;

  // kCuda: the driver refuses, or has refused before.
  virtual Status finish() = 0;
};

class HostPacking final : public PackingWork {
 public:
  HostPacking() : kernels_(best_kernels()) {}

  Result<float*> take(uint64_t count) override;
  void give_back(float* floats) override;
  Status read(std::span<float> to, const float* from) override;
  Status write(float* to, std::span<const float> from) override;
  void contribute(const Contribution& part, float* sum, Contributed* seen) override;
  void clear(float* values, uint64_t count) override;
  void copy(std::byte* to, const std::byte* from, uint64_t bytes) override;
  void add(float* to, const float* more, uint64_t count) override;
  void forget_said(float* velocity, const float* left, const float* residual,
                   uint64_t count) override;
  void forget_summed(float* velocity, const float* sum, uint64_t count) override;
  void sample(const float* values, uint64_t count, Sampled* seen) override;
  void round(std::byte* gradient, DataType type, const float* sum, uint64_t count,
             int divisor) override;
  void count_nonfinite(const std::byte* elements, DataType type, uint64_t count,
                       uint64_t* found) override;
  double squares_of(const std::byte* gradient, DataType type, uint64_t count) override;
  Status finish() override { return {}; }

 private:
  const Kernels& kernels_;
};

// Floats where that work is done, which outlives them. All are zero at first.
class PackedFloats {
 public:
  PackedFloats() = default;
  // Fails as PackingWork::take().
  static Result<PackedFloats> of(PackingWork& home, uint64_t count) {
    PackedFloats floats;
    if (count == 0) return floats;
    const Result<float*> taken = home.take(count);
    BANYAN_TRY(taken.status());
    floats.home_ = &home;
    floats.floats_ = *taken;
    floats.count_ = count;
    return floats;
  }
  PackedFloats(PackedFloats&& other) noexcept { *this = std::move(other); }
  PackedFloats& operator=(PackedFloats&& other) noexcept {
    std::swap(home_, other.home_);
    std::swap(floats_, other.floats_);
    std::swap(count_, other.count_);
    return *this;
  }
  ~PackedFloats() {
    if (floats_ != nullptr) home_->give_back(floats_);
  }

  float* data() const { return floats_; }
  uint64_t size() const { return count_; }

 private:
  PackingWork* home_ = nullptr;
  float* floats_ = nullptr;
  uint64_t count_ = 0;
};

// gradient[i] += residual[i], rounded once to its type, on the host.
void add_residual(std::span<const float> residual, DataType type, const Kernels& kernels,
                  std::byte* gradient);

// Makes one residual per element of the vector of what a call left: its contributions at their
// places, and behind them what it dropped of sums, which it adds to the elements they are of. What
// no contribution has said anything of becomes zero. `left` has `count` elements, and more behind.
void gather_left(std::span<const Left> lefts, uint64_t count, float* left, PackingWork& work);
// What a step of a vector with a velocity has come to.
struct SentVector {
  const float* left;      // before gather_left()
  const float* residual;  // null: there was none
  const float* sum;
};
// Momentum factor masking (the same paper, section 3.2): the velocity of what was sent is over. An
// element was sent if not all of it is left, which is velocity[i] + residual[i]; where no piece is
// a contribution of this rank, as inside a host, if the sum has anything of it.
void mask_velocity(std::span<const Left> lefts, const SentVector& sent, float* velocity,
                   uint64_t count, PackingWork& work);

}  // namespace banyan
