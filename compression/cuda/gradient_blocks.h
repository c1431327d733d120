// What the threads of a block do to gradients, as src/reducer/packing.h says it: a block has a
// stretch, and a thread every 256th value of it. Squares are added up by threads, then by lanes of
// a warp, then by one thread, always in the same order.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>

#include "compression/cuda/blocks.h"
#include "compression/cuda/codec_blocks.h"
#include "compression/cuda/gradient_call.h"

namespace banyan {
namespace {

// A value may be of 64 bits, of which nobody makes a contribution.
template <class Values>
struct GradientValues : CudaValues<Values> {
  BANYAN_HOST_DEVICE static bool is_finite(typename CudaValues<Values>::Storage value) {
    return (bits_as<BitsOf<typename Values::Storage>>(value) & Values::kMagnitude) <
           Values::kTopExponent;
  }
};
template <>
struct GradientValues<Float64> {
  using Storage = double;
  BANYAN_HOST_DEVICE static double widened(double value) { return value; }
  BANYAN_HOST_DEVICE static bool is_finite(double value) {
    return (bits_as<uint64_t>(value) & Float64::kMagnitude) < Float64::kTopExponent;
  }
};

struct GradientShared {
  GradientSeen seen[kCudaThreads];
};

BANYAN_HOST_DEVICE void add_seen(GradientSeen& to, const GradientSeen& more) {
  to.gradient += more.gradient;
  to.sum += more.sum;
  to.nonfinite += more.nonfinite;
}

BANYAN_HOST_DEVICE double squared(double value) {
  return value * value;
}

BANYAN_HOST_DEVICE float load_float(const float* from) {
  return load_anywhere<float>(reinterpret_cast<const std::byte*>(from));
}
BANYAN_HOST_DEVICE void store_float(float* to, float value) {
  store_anywhere<float>(reinterpret_cast<std::byte*>(to), value);
}

// Whether the squares of a thread's i-th value of a stretch count.
BANYAN_HOST_DEVICE bool is_sampled(const CudaGradientCall& call, unsigned i) {
  return call.samples == 0 || i == 0;
}

template <class Type>
BANYAN_HOST_DEVICE auto load_value(const CudaGradientCall& call, uint64_t at, GradientSeen& seen) {
  using Storage = typename Type::Storage;
  const auto value = load_anywhere<Storage>(call.values + at * sizeof(Storage));
  seen.nonfinite += Type::is_finite(value) ? 0 : 1;
  return value;
}

template <class Values>
struct Contribute {
  using Type = GradientValues<Values>;

  BANYAN_HOST_DEVICE static void take(const CudaGradientCall& call, uint64_t at, unsigned i,
                                      GradientSeen& seen) {
    const auto value = load_value<Type>(call, at, seen);
    float wide = Type::widened(value);
    if (call.scale != 1) wide *= call.scale;
    if (call.velocity != nullptr) {
      wide += call.momentum * load_float(call.velocity + at);
      store_float(call.next_velocity + at, wide);
    }
    if (is_sampled(call, i)) seen.gradient += squared(wide);
    if (call.residual != nullptr) wide += load_float(call.residual + at);
    if (is_sampled(call, i)) seen.sum += squared(wide);
    store_float(call.sum + at, wide);
  }
};

template <class Values>
struct LookAt {
  using Type = GradientValues<Values>;

  BANYAN_HOST_DEVICE static void take(const CudaGradientCall& call, uint64_t at, unsigned i,
                                      GradientSeen& seen) {
    const auto value = load_value<Type>(call, at, seen);
    if (is_sampled(call, i)) seen.gradient += squared(Type::widened(value));
  }
};

// The velocity of what was sent is over.
struct ForgetSent {
  BANYAN_HOST_DEVICE static void take(const CudaGradientCall& call, uint64_t at, unsigned,
                                      GradientSeen&) {
    const float value = load_anywhere<float>(call.values + at * sizeof(float));
    const float velocity = load_float(call.velocity + at);
    float whole = velocity;
    if (call.residual != nullptr) whole += load_float(call.residual + at);
    const bool sent = call.by_sum != 0 ? value != 0 : value != whole;
    store_float(call.velocity + at, sent ? 0 : velocity);
  }
};

template <class Function>
BANYAN_HOST_DEVICE void take_stretch(const CudaGradientCall& call, GradientShared& shared,
                                     uint64_t stretch, unsigned thread) {
  GradientSeen seen = {0, 0, 0};
  BANYAN_UNROLLED
  for (unsigned i = 0; i < kGradientEach; i++) {
    const uint64_t at = stretch * kGradientStretch + i * kCudaThreads + thread;
    if (at < call.count) Function::take(call, at, i, seen);
  }
  shared.seen[thread] = seen;
}

BANYAN_HOST_DEVICE void add_of_lane(GradientShared& shared, unsigned thread) {
  if (thread >= kCudaLanes) return;
  for (unsigned i = thread + kCudaLanes; i < kCudaThreads; i += kCudaLanes)
    add_seen(shared.seen[thread], shared.seen[i]);
}

BANYAN_HOST_DEVICE void say_of_stretch(const CudaGradientCall& call, GradientShared& shared,
                                       uint64_t stretch, unsigned thread) {
  if (thread != 0 || call.seen == nullptr) return;
  for (unsigned i = 1; i < kCudaLanes; i++) add_seen(shared.seen[0], shared.seen[i]);
  BANYAN_CUDA_WRITES(call.seen + stretch, sizeof(GradientSeen));
  call.seen[stretch] = shared.seen[0];
}

#ifdef __CUDACC__
template <class Function>
__device__ void run_stretches(const CudaGradientCall& call, CudaThread thread) {
  __shared__ GradientShared shared;
  const uint64_t stretches = gradient_stretches(call.count);
  for (uint64_t stretch = thread.block; stretch < stretches; stretch += thread.blocks) {
    take_stretch<Function>(call, shared, stretch, thread.index);
    __syncthreads();
    add_of_lane(shared, thread.index);
    __syncthreads();
    say_of_stretch(call, shared, stretch, thread.index);
    __syncthreads();
  }
}
#endif

// The same on the host: what is between two barriers is a loop over the threads.
template <class Function>
void run_all_stretches(const CudaGradientCall& call, unsigned blocks) {
  const uint64_t stretches = gradient_stretches(call.count);
  for (unsigned block = 0; block < blocks; ++block)
    for (uint64_t stretch = block; stretch < stretches; stretch += blocks) {
      GradientShared shared;
      for (unsigned i = 0; i < kCudaThreads; ++i) take_stretch<Function>(call, shared, stretch, i);
      for (unsigned i = 0; i < kCudaThreads; ++i) add_of_lane(shared, i);
      for (unsigned i = 0; i < kCudaThreads; ++i) say_of_stretch(call, shared, stretch, i);
    }
}

}  // namespace
}  // namespace banyan
