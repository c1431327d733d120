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
#include <cstring>

#include "compression/philox.h"
#include "src/base/codec.h"

namespace banyan {
namespace {

template <size_t kCount>
struct Chance {
  uint32_t words[kCount + 4];

  // Where the words from `element` on are.
  const uint32_t* fill(const Coding& coding, uint64_t element) {
    const auto low = [](uint64_t value) { return static_cast<uint32_t>(value); };
    const auto high = [](uint64_t value) { return static_cast<uint32_t>(value >> 32); };
    const PhiloxKey key = {low(coding.seed), high(coding.seed) ^ coding.rank};
    const uint32_t step = low(coding.step) ^ high(coding.step);
    const uint32_t tensor = low(coding.tensor) ^ high(coding.tensor);
    for (size_t i = 0; i < kCount / 4 + 1; ++i) {
      const uint64_t four = element / 4 + i;
      const PhiloxCounter random = philox({{low(four), high(four), step, tensor}}, key);
      std::memcpy(words + 4 * i, random.word, sizeof random.word);
    }
    return words + element % 4;
  }
};

}  // namespace
}  // namespace banyan
