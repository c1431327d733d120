// SPDX-License-Identifier: Apache-2.0

#include "src/reducer/gpu_packing.h"

#include <new>
#include <utility>

#include "src/cuda/driver_calls.h"

namespace banyan {
namespace {

const std::byte* bytes_of(const float* floats) {
  return reinterpret_cast<const std::byte*>(floats);
}

size_t bytes_of_words(uint64_t stretches) {
  return stretches * sizeof(GradientSeen);
}

}  // namespace

GpuPacking::~GpuPacking() {
  (void)finish();
}

template <typename Enqueue>
void GpuPacking::enqueue(const Enqueue& enqueue) {
  if (!status_.ok()) return;
  const Result<CopyLine*> line = gpu_.own();
  const CurrentContext current = gpu_.make_current();
  status_ = line.ok() ? (*line)->enqueue(enqueue) : line.status();
}

Status GpuPacking::finish() {
  if (status_.ok()) {
    const Result<CopyLine*> line = gpu_.own();
    const CurrentContext current = gpu_.make_current();
    status_ = line.ok() ? (*line)->finish() : line.status();
  }
  for (const Word& word : words_) {
    GradientSeen total{0, 0, 0};
    for (uint64_t stretch = 0; status_.ok() && stretch < word.stretches; ++stretch) {
      total.gradient += word.seen[stretch].gradient;
      total.sum += word.seen[stretch].sum;
      total.nonfinite += word.seen[stretch].nonfinite;
    }
    word.tell(total);
    pinned_.give_back(reinterpret_cast<std::byte*>(word.seen), bytes_of_words(word.stretches));
  }
  words_.clear();
  return status_;
}

GradientSeen* GpuPacking::word_of(uint64_t count,
                                  std::function<void(const GradientSeen& total)> tell) {
  const uint64_t stretches = gradient_stretches(count);
  std::byte* const memory = pinned_.take(bytes_of_words(stretches));
  if (memory == nullptr) throw std::bad_alloc();
  auto* const seen = reinterpret_cast<GradientSeen*>(memory);
  words_.push_back({seen, stretches, std::move(tell)});
  return seen;
}

// It is zero by the time that somebody writes there by another stream.
Result<float*> GpuPacking::take(uint64_t count) {
  BANYAN_TRY(status_);
  const CurrentContext current = gpu_.make_current();
  const Result<std::byte*> memory = gpu_.pool().take(count * sizeof(float));
  BANYAN_TRY(memory.status());
  auto* const floats = reinterpret_cast<float*>(*memory);
  clear(floats, count);
  BANYAN_TRY(finish());
  return floats;
}

void GpuPacking::give_back(float* floats) {
  (void)gpu_.pool().give_back(bytes_of(floats));
}

Status GpuPacking::read(std::span<float> to, const float* from) {
  copy(reinterpret_cast<std::byte*>(to.data()), bytes_of(from), to.size_bytes());
  return finish();
}

Status GpuPacking::write(float* to, std::span<const float> from) {
  copy(reinterpret_cast<std::byte*>(to), bytes_of(from.data()), from.size_bytes());
  return finish();
}

void GpuPacking::contribute(const Contribution& part, float* sum, Contributed* seen) {
  *seen = {};
  if (part.count == 0 || !status_.ok()) return;
  const CudaGradientCall call{
      .values = part.gradient,
      .sum = sum,
      .velocity = const_cast<float*>(part.velocity),
      .next_velocity = part.next_velocity,
      .residual = part.residual,
      .seen = word_of(part.count,
                      [seen, count = part.count](const GradientSeen& total) {
                        *seen = {total.nonfinite,
                                 {total.gradient, sampled_of(count)},
                                 {total.sum, sampled_of(count)}};
                      }),
      .count = part.count,
      .scale = part.scale,
      .momentum = part.momentum,
      .samples = samples_parts(part.count) ? 1U : 0U};
  enqueue(
      [&](Stream stream) { return gpu_.kernels()->gradients.contribute(part.type, call, stream); });
}

void GpuPacking::clear(float* values, uint64_t count) {
  if (count == 0) return;
  enqueue([&](Stream stream) {
    return cuda_status(cuda_, cuda_.fill(cuda_address(values), 0, count * sizeof(float), stream),
                       "cuMemsetD8Async");
  });
}

void GpuPacking::copy(std::byte* to, const std::byte* from, uint64_t bytes) {
  if (bytes == 0) return;
  enqueue([&](Stream stream) {
    return cuda_status(cuda_, cuda_.copy(cuda_address(to), cuda_address(from), bytes, stream),
                       "cuMemcpyAsync");
  });
}

void GpuPacking::add(float* to, const float* more, uint64_t count) {
  enqueue([&](Stream stream) {
    return gpu_.kernels()->sums.reduce(DataType::kFloat32, ReduceOp::kSum, to, to, more, count,
                                       stream);
  });
}

void GpuPacking::forget_said(float* velocity, const float* left, const float* residual,
                             uint64_t count) {
  const CudaGradientCall call{
      .values = bytes_of(left), .velocity = velocity, .residual = residual, .count = count};
  enqueue([&](Stream stream) { return gpu_.kernels()->gradients.forget_sent(call, stream); });
}

void GpuPacking::forget_summed(float* velocity, const float* sum, uint64_t count) {
  const CudaGradientCall call{
      .values = bytes_of(sum), .velocity = velocity, .count = count, .by_sum = 1};
  enqueue([&](Stream stream) { return gpu_.kernels()->gradients.forget_sent(call, stream); });
}

void GpuPacking::look_at(const std::byte* values, DataType type, uint64_t count, bool samples,
                         std::function<void(const GradientSeen& total)> tell) {
  if (count == 0 || !status_.ok()) return;
  const CudaGradientCall call{.values = values,
                              .seen = word_of(count, std::move(tell)),
                              .count = count,
                              .samples = samples ? 1U : 0U};
  enqueue([&](Stream stream) { return gpu_.kernels()->gradients.look_at(type, call, stream); });
}

void GpuPacking::sample(const float* values, uint64_t count, Sampled* seen) {
  *seen = {};
  look_at(bytes_of(values), DataType::kFloat32, count, samples_parts(count),
          [seen, count](const GradientSeen& total) {
            *seen = {total.gradient, sampled_of(count)};
          });
}

void GpuPacking::round(std::byte* gradient, DataType type, const float* sum, uint64_t count,
                       int divisor) {
  enqueue([&](Stream stream) {
    return gpu_.kernels()->sums.encode(type, gradient, sum, count, divisor, stream);
  });
}

void GpuPacking::count_nonfinite(const std::byte* elements, DataType type, uint64_t count,
                                 uint64_t* found) {
  *found = 0;
  look_at(elements, type, count, true,
          [found](const GradientSeen& total) { *found = total.nonfinite; });
}

double GpuPacking::squares_of(const std::byte* gradient, DataType type, uint64_t count) {
  double squares = 0;
  look_at(gradient, type, count, false,
          [&squares](const GradientSeen& total) { squares = total.gradient; });
  (void)finish();  // a failure is said by the next one
  return squares;
}

}  // namespace banyan
