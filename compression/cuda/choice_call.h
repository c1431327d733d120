// What the kernels are told that choose places at random: both sides see it.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <cstdint>

#include "compression/cuda/spans.h"

namespace banyan {

// A span of 2^12 places keeps a bit for each, a longer one is cut into up to 2^11 parts.
inline constexpr unsigned kChoiceLogLeaf = 12;
inline constexpr unsigned kChoiceLogParts = 11;
inline constexpr unsigned kChoiceLeafWords = (1U << kChoiceLogLeaf) / 32;

struct CudaChoiceCall {
  uint64_t count = 0;   // places
  uint64_t wanted = 0;  // of them, where there is one span
  uint32_t key[2] = {};
  uint32_t step = 0;
  uint32_t log = 0;       // of the spans that are cut, or filled
  uint32_t log_part = 0;  // of the parts
  uint32_t all_but = 0;   // 1: those that are hit are left out
  // By span and by part: how many places of it are hit. Null spans: there is one.
  const uint32_t* of_spans = nullptr;
  uint32_t* of_parts = nullptr;
  uint32_t* bits = nullptr;  // by place, in whole leaves
};

BANYAN_HOST_DEVICE uint64_t choice_spans(uint64_t count, unsigned log) {
  return (count >> log) + ((count & ((uint64_t{1} << log) - 1)) != 0 ? 1 : 0);
}

// The logarithm of how long the parts of a span of 2^`log` are.
BANYAN_HOST_DEVICE unsigned choice_log_part(unsigned log) {
  return log > kChoiceLogParts + kChoiceLogLeaf ? log - kChoiceLogParts : kChoiceLogLeaf;
}

// That of the shortest span that has so many places.
inline unsigned choice_log(uint64_t count) {
  unsigned log = kChoiceLogLeaf;
  while ((count - 1) >> log != 0) ++log;
  return log;
}

// Room for the bits of at least one place, and for the hits of all spans, at a multiple of 8.
inline size_t choice_bits(uint64_t count) {
  return choice_spans(count, kChoiceLogLeaf) * kChoiceLeafWords * sizeof(uint32_t);
}
inline size_t choice_room(uint64_t count) {
  if (count == 0) return 0;
  uint64_t spans = 0;
  for (unsigned log = choice_log(count); log > kChoiceLogLeaf;) {
    log = choice_log_part(log);
    spans += choice_spans(count, log);
  }
  return choice_bits(count) + (spans + spans % 2) * sizeof(uint32_t);
}

}  // namespace banyan
