// What the threads of a block do to choose places at random, as codecs/sample.inc does. A block has
// a span: it throws as many darts as are missing, at most a few hundred, looks which of them hit,
// and goes on with those that still miss. Darts one after the other would not have stopped earlier,
// since each hits at most one place, so that the choice is the same.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>

#include "compression/cuda/blocks.h"
#include "compression/cuda/choice_call.h"
#include "compression/cuda/count_in.h"
#include "compression/philox.h"

namespace banyan {
namespace {

inline constexpr unsigned kCudaDarts = 2 * kCudaThreads;  // the most that a block throws at once

struct ChoiceSpan {
  uint64_t start;
  uint64_t count;
  uint64_t wanted;

  BANYAN_HOST_DEVICE ChoiceSpan(const CudaChoiceCall& call, uint64_t span)
      : start(span << call.log),
        count(call.count - start < (uint64_t{1} << call.log) ? call.count - start
                                                             : uint64_t{1} << call.log),
        wanted(call.of_spans == nullptr ? call.wanted : call.of_spans[span]) {}
};

// The block's, between barriers.
struct DartRounds {
  uint64_t thrown;
  uint64_t missing;
  uint32_t hit;  // in this round

  BANYAN_HOST_DEVICE unsigned darts() const {
    return missing < kCudaDarts ? static_cast<unsigned>(missing) : kCudaDarts;
  }
  BANYAN_HOST_DEVICE void settle(unsigned thread) {
    if (thread != 0) return;
    thrown += darts();
    missing -= hit;
    hit = 0;
  }
};

// Four words have the same counter.
BANYAN_HOST_DEVICE PhiloxCounter dart_words(const CudaChoiceCall& call, uint64_t start,
                                            uint64_t word) {
  return philox({{static_cast<uint32_t>(word / 4), static_cast<uint32_t>(start >> kChoiceLogLeaf),
                  call.log, call.step}},
                {call.key[0], call.key[1]});
}

// Which parts of a span are hit how often. A thread has every so many-th part, and looks at all
// darts for those that are for it, in their order: what a part takes depends on what it has.
struct CutSpan {
  struct Shared : DartRounds {
    uint64_t darts_thrown[kCudaDarts];
    uint32_t hits[1U << kChoiceLogParts];
  };

  BANYAN_HOST_DEVICE static uint64_t parts_of(const CudaChoiceCall& call, uint64_t span) {
    return choice_spans(ChoiceSpan(call, span).count, call.log_part);
  }
  BANYAN_HOST_DEVICE static void begin(const CudaChoiceCall& call, Shared& shared, uint64_t span,
                                       unsigned thread) {
    const uint64_t parts = parts_of(call, span);
    for (uint64_t part = thread; part < parts; part += kCudaThreads) shared.hits[part] = 0;
    if (thread == 0) static_cast<DartRounds&>(shared) = {0, ChoiceSpan(call, span).wanted, 0};
  }
  BANYAN_HOST_DEVICE static void throw_darts(const CudaChoiceCall& call, Shared& shared,
                                             uint64_t span, unsigned thread) {
    for (unsigned i = thread; i < shared.darts(); i += kCudaThreads) {
      const uint64_t word = 2 * (shared.thrown + i);
      const PhiloxCounter four = dart_words(call, ChoiceSpan(call, span).start, word);
      const bool upper = word % 4 != 0;
      const uint64_t low = upper ? four.word[2] : four.word[0];
      const uint64_t high = upper ? four.word[3] : four.word[1];
      shared.darts_thrown[i] = (high << 32 | low) >> (64 - call.log);
    }
  }
  BANYAN_HOST_DEVICE static void catch_darts(const CudaChoiceCall& call, Shared& shared,
                                             uint64_t span, unsigned thread) {
    const uint64_t count = ChoiceSpan(call, span).count;
    const uint64_t size = uint64_t{1} << call.log_part;
    uint32_t hit = 0;
    for (unsigned i = 0; i < shared.darts(); i++) {
      const uint64_t dart = shared.darts_thrown[i];
      const uint64_t part = dart >> call.log_part;
      if (part % kCudaThreads != thread || part * size >= count) continue;
      const uint64_t rest = count - part * size;
      // Those of the part that are hit may be any, so they may be its last ones.
      if ((dart & (size - 1)) >= (rest < size ? rest : size) - shared.hits[part]) continue;
      shared.hits[part]++;
      hit++;
    }
    if (hit != 0) count_in<uint32_t>(shared.hit, hit);
  }
  BANYAN_HOST_DEVICE static void end(const CudaChoiceCall& call, const Shared& shared,
                                     uint64_t span, unsigned thread) {
    const uint64_t first = span << (call.log - call.log_part);
    const uint64_t parts = parts_of(call, span);
    for (uint64_t part = thread; part < parts; part += kCudaThreads)
      call.of_parts[first + part] = shared.hits[part];
  }
};

// The places of a leaf that are hit, or those that are not.
struct FillLeaf {
  struct Shared : DartRounds {
    uint32_t bits[kChoiceLeafWords];
  };

  BANYAN_HOST_DEVICE static void begin(const CudaChoiceCall& call, Shared& shared, uint64_t span,
                                       unsigned thread) {
    if (thread < kChoiceLeafWords) shared.bits[thread] = 0;
    if (thread == 0) static_cast<DartRounds&>(shared) = {0, ChoiceSpan(call, span).wanted, 0};
  }
  BANYAN_HOST_DEVICE static void throw_darts(const CudaChoiceCall& call, Shared& shared,
                                             uint64_t span, unsigned thread) {
    const ChoiceSpan leaf(call, span);
    unsigned width = 0;
    while ((leaf.count - 1) >> width != 0) width++;
    for (unsigned i = thread; i < shared.darts(); i += kCudaThreads) {
      const uint64_t word = shared.thrown + i;
      const PhiloxCounter four = dart_words(call, leaf.start, word);
      const uint32_t even = word % 4 < 2 ? four.word[0] : four.word[2];
      const uint32_t odd = word % 4 < 2 ? four.word[1] : four.word[3];
      const uint64_t random = word % 2 == 0 ? even : odd;
      const auto place = static_cast<uint32_t>(random << width >> 32);
      if (place >= leaf.count) continue;
      const uint32_t bit = 1U << place % 32;
      if ((set_in(shared.bits[place / 32], bit) & bit) == 0) count_in<uint32_t>(shared.hit, 1);
    }
  }
  BANYAN_HOST_DEVICE static void catch_darts(const CudaChoiceCall&, Shared&, uint64_t, unsigned) {}
  BANYAN_HOST_DEVICE static void end(const CudaChoiceCall& call, const Shared& shared,
                                     uint64_t span, unsigned thread) {
    if (thread >= kChoiceLeafWords) return;
    const uint64_t count = ChoiceSpan(call, span).count;
    const uint64_t before = thread * 32;
    const uint32_t there = before >= count        ? 0
                           : count - before >= 32 ? ~uint32_t{0}
                                                  : (1U << (count - before)) - 1;
    const uint32_t bits = shared.bits[thread];
    call.bits[span * kChoiceLeafWords + thread] = call.all_but != 0 ? bits ^ there : bits;
  }
};

#ifdef __CUDACC__
template <class Function>
__device__ void run_rounds(const CudaChoiceCall& call, CudaThread thread) {
  __shared__ typename Function::Shared shared;
  const uint64_t spans = choice_spans(call.count, call.log);
  for (uint64_t span = thread.block; span < spans; span += thread.blocks) {
    Function::begin(call, shared, span, thread.index);
    __syncthreads();
    while (shared.missing > 0) {
      Function::throw_darts(call, shared, span, thread.index);
      __syncthreads();
      Function::catch_darts(call, shared, span, thread.index);
      __syncthreads();
      shared.settle(thread.index);
      __syncthreads();
    }
    Function::end(call, shared, span, thread.index);
    __syncthreads();
  }
}
#endif

// The same on the host: what is between two barriers is a loop over the threads.
template <class Function>
void run_all_rounds(const CudaChoiceCall& call, unsigned blocks) {
  const auto for_threads = [](const auto& work) {
    for (unsigned i = 0; i < kCudaThreads; ++i) work(i);
  };
  const uint64_t spans = choice_spans(call.count, call.log);
  for (unsigned block = 0; block < blocks; ++block)
    for (uint64_t span = block; span < spans; span += blocks) {
      typename Function::Shared shared;
      for_threads([&](unsigned i) { Function::begin(call, shared, span, i); });
      while (shared.missing > 0) {
        for_threads([&](unsigned i) { Function::throw_darts(call, shared, span, i); });
        for_threads([&](unsigned i) { Function::catch_darts(call, shared, span, i); });
        for_threads([&](unsigned i) { shared.settle(i); });
      }
      for_threads([&](unsigned i) { Function::end(call, shared, span, i); });
    }
}

}  // namespace
}  // namespace banyan
