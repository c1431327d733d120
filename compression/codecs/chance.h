// Random words for the values of a superblock, a word each, by where a value is in its vector.
//
//   key      low half of the seed, high half of the seed xor rank
//   counter  low and high half of element / 4, step, tensor; of the latter two the halves are xored
//   word     element mod 4
//
// Internal linkage for the reason that float_formats.h gives.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>

#include "compression/philox.h"
#include "src/base/codec.h"

namespace banyan {
namespace {

struct ChanceOfCall {
  PhiloxKey key;
  uint32_t step;
  uint32_t tensor;
};

// Every instruction set has this: the words of `count` counters from `first` on, four each. It may
// write as many as make the counters a multiple of 16.
void fill_with_chance(uint32_t* words, const ChanceOfCall& call, uint64_t first, size_t count);

template <size_t kCount>
struct Chance {
  uint32_t words[kCount + 64];

  // Where the words from `element` on are.
  const uint32_t* fill(const Coding& coding, uint64_t element) {
    const auto low = [](uint64_t value) { return static_cast<uint32_t>(value); };
    const auto high = [](uint64_t value) { return static_cast<uint32_t>(value >> 32); };
    const ChanceOfCall call = {{low(coding.seed), high(coding.seed) ^ coding.rank},
                               low(coding.step) ^ high(coding.step),
                               low(coding.tensor) ^ high(coding.tensor)};
    fill_with_chance(words, call, element / 4, kCount / 4 + 1);
    return words + element % 4;
  }
};

}  // namespace
}  // namespace banyan
