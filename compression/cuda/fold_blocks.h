// What one thread of a kernel does that combines the same elements of several ranks, in their
// order: it loads packs of some ranks, adds them to what it has, and goes on to the next ranks.
// What it has is in the accumulator's type, and rounded once.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "compression/cuda/blocks.h"
#include "compression/cuda/fold_call.h"

namespace banyan {
namespace {

// A rank's elements are widened by First, combined by Combine, and the result is narrowed, scaled
// or divided by Finish: functions of elements.h.
template <class First, class Combine, class Finish>
struct Fold {
  using Element = typename First::Incoming;
  using Wide = typename Combine::Local;
  static_assert(sizeof(typename Finish::Local) == sizeof(Element));

  BANYAN_HOST_DEVICE static Wide first(Element element, const CudaFoldCall&, unsigned) {
    return First::apply(element, kNeutral);
  }
  BANYAN_HOST_DEVICE static Wide add(Wide wide, Element element, const CudaFoldCall&, unsigned) {
    return Combine::apply(wide, element, 0);
  }
  BANYAN_HOST_DEVICE static Element finish(Wide wide, uint64_t operand) {
    return Finish::apply(wide, operand);
  }

 private:
  static constexpr uint64_t kNeutral = 0x3f800000;  // 1.0F, for those that scale
};

// Each rank's elements are scaled by its own factor as they are widened, and rounded, before they
// are added: that is no fused multiplication and addition.
template <class Scale, class Combine, class Finish>
struct ScaledFold {
  using Element = typename Scale::Incoming;
  using Wide = typename Scale::Local;
  static_assert(std::is_same_v<typename Combine::Incoming, Wide>);
  static_assert(sizeof(typename Finish::Local) == sizeof(Element));

  BANYAN_HOST_DEVICE static Wide first(Element element, const CudaFoldCall& call, unsigned rank) {
    return Scale::apply(element, call.factors[rank]);
  }
  BANYAN_HOST_DEVICE static Wide add(Wide wide, Element element, const CudaFoldCall& call,
                                     unsigned rank) {
    return Combine::apply(wide, Scale::apply(element, call.factors[rank]), 0);
  }
  BANYAN_HOST_DEVICE static Element finish(Wide wide, uint64_t operand) {
    return Finish::apply(wide, operand);
  }
};

// Leaves an element, or a result, as it is.
template <typename T>
struct AsItIs {
  using Local = T;
  using Incoming = T;
  BANYAN_HOST_DEVICE static T apply(T value, uint64_t) { return value; }
};

// Sums of integers wrap, so that those with a sign may be added as those without.
template <typename Integer>
struct SumAsUnsigned {
  using Local = Integer;
  using Incoming = Integer;
  BANYAN_HOST_DEVICE static Integer apply(Integer a, Integer b, uint64_t) {
    using Unsigned = std::make_unsigned_t<Integer>;
    return static_cast<Integer>(
        Sum::apply<Unsigned>(static_cast<Unsigned>(a), static_cast<Unsigned>(b)));
  }
};

// The folds of the kernels.
template <typename Integer, class Operator>
using FoldIntegers = Fold<AsItIs<Integer>, CombineIntegers<Integer, Operator>, AsItIs<Integer>>;
template <typename Integer>
using FoldMeans = Fold<AsItIs<Integer>, SumAsUnsigned<Integer>, DivideIntegers<Integer>>;
template <typename Float>
using FoldFloatSums = Fold<AsItIs<Float>, CombineFloats<Float, Sum>, ScaleFloats<Float>>;
template <typename Float>
using FoldFloatMeans = Fold<AsItIs<Float>, CombineFloats<Float, Sum>, DivideFloats<Float>>;
template <typename Float>
using FoldFloatProducts = Fold<AsItIs<Float>, CombineFloats<Float, Product>, AsItIs<Float>>;
template <class Format, typename Float, class Extreme>
using FoldFloatExtremes = Fold<AsItIs<Float>, ExtremeFloats<Format, Float, Extreme>, AsItIs<Float>>;
template <class Format, class Operator>
using FoldNarrow =
    Fold<DecodeNarrow<Format>, CombineDecoded<Format, Operator>, EncodeScaled<Format>>;
template <class Format>
using FoldNarrowMeans =
    Fold<DecodeNarrow<Format>, CombineDecoded<Format, Sum>, EncodeDivided<Format>>;
template <typename Integer>
using FoldScaledIntegers =
    ScaledFold<ScaleIntegers<Integer>, CombineIntegers<Integer, Sum>, AsItIs<Integer>>;
template <typename Float>
using FoldScaledFloats = ScaledFold<ScaleFloats<Float>, CombineFloats<Float, Sum>, AsItIs<Float>>;
template <class Format>
using FoldScaledNarrow =
    ScaledFold<DecodeNarrow<Format>, CombineFloats<float, Sum>, EncodeScaled<Format>>;
template <class Format, class Extreme>
using FoldNarrowExtremes = Fold<AsItIs<typename Format::Storage>, ExtremeNarrow<Format, Extreme>,
                                AsItIs<typename Format::Storage>>;

inline constexpr unsigned kCudaFoldInFlight = 4;  // packs that a thread loads before it adds one

template <class Function>
BANYAN_HOST_DEVICE void fold_pack(const CudaFoldCall& call, uint64_t item) {
  using Element = typename Function::Element;
  using Wide = typename Function::Wide;
  constexpr unsigned kElements = kCudaPackBytes / sizeof(Element);
  Wide wide[kElements] = {};
  for (unsigned rank = 0; rank < call.ranks; rank += kCudaFoldInFlight) {
    CudaPack<kCudaPackBytes> packs[kCudaFoldInFlight];
    BANYAN_UNROLLED
    for (unsigned u = 0; u < kCudaFoldInFlight; u++) {
      if (rank + u < call.ranks) {
        packs[u] = load_pack<kCudaPackBytes>(call.sources[rank + u] + item * kCudaPackBytes);
      }
    }
    BANYAN_UNROLLED
    for (unsigned u = 0; u < kCudaFoldInFlight; u++) {
      if (rank + u >= call.ranks) break;
      BANYAN_UNROLLED
      for (unsigned e = 0; e < kElements; e++) {
        const auto element = element_of<Element>(packs[u], e);
        wide[e] = rank + u == 0 ? Function::first(element, call, rank + u)
                                : Function::add(wide[e], element, call, rank + u);
      }
    }
  }
  CudaPack<kCudaPackBytes> result;
  BANYAN_UNROLLED
  for (unsigned e = 0; e < kElements; e++) {
    set_element(result, e, Function::finish(wide[e], call.operand));
  }
  store_pack(call.dst + item * kCudaPackBytes, result);
}

template <class Function>
BANYAN_HOST_DEVICE void fold_element(const CudaFoldCall& call, uint64_t i) {
  using Element = typename Function::Element;
  const auto first = load_anywhere<Element>(call.sources[0] + i * sizeof(Element));
  auto wide = Function::first(first, call, 0);
  for (unsigned rank = 1; rank < call.ranks; rank++) {
    const auto from = call.sources[rank] + i * sizeof(Element);
    wide = Function::add(wide, load_anywhere<Element>(from), call, rank);
  }
  store_anywhere<Element>(call.dst + i * sizeof(Element), Function::finish(wide, call.operand));
}

template <class Function>
BANYAN_HOST_DEVICE void run_fold(const CudaFoldCall& call, CudaThread thread) {
  constexpr uint32_t kSize = sizeof(typename Function::Element);
  const uint64_t packs = cuda_fold_packs(call, kSize);
  const uint64_t stride = static_cast<uint64_t>(thread.blocks) * kCudaThreads;
  const uint64_t mine = static_cast<uint64_t>(thread.block) * kCudaThreads + thread.index;
  for (uint64_t item = mine; item < packs; item += stride) fold_pack<Function>(call, item);
  for (uint64_t i = packs * (kCudaPackBytes / kSize) + mine; i < call.count; i += stride) {
    fold_element<Function>(call, i);
  }
}

}  // namespace
}  // namespace banyan
