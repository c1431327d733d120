// What sparse codecs have to write, in plain code that shares none with them: a message as its
// definition says it, from which values are kept.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <vector>

#include "tests/support/codec_values.h"

namespace banyan {

// Sparse codecs take these.
inline constexpr DataType kSparseTypes[] = {DataType::kFloat32, DataType::kFloat16,
                                            DataType::kBfloat16, DataType::kFloat64};

std::vector<long double> numbers_of(DataType type, const Memory& values);
Memory rounded(DataType type, const std::vector<long double>& numbers);

// As mixed_values, of any of these types. Finite: with 1 in the place of what is not.
Memory sparse_values(DataType type, uint64_t count, uint64_t seed);
Memory finite_values(DataType type, uint64_t count, uint64_t seed);

using Kept = std::vector<bool>;

Kept kept_from(DataType type, const Memory& values, double threshold);
Kept kept_largest(DataType type, const Memory& values, uint64_t wanted);
Kept kept_nonzero(DataType type, const Memory& values);
uint64_t count_of(const Kept& kept);

// How long the forms are in which `kept` of `count` values may be said, each of `size` bytes.
struct Lengths {
  uint64_t list, bitmap, dense;

  uint64_t shortest() const;
  uint8_t form() const;
};
Lengths lengths_of(uint64_t count, uint64_t kept, uint64_t size);

// A message that says these in the shortest form. Its `nonfinite` counts what it says.
Message said_in_forms(DataType type, DataType carried, const Memory& values, const Kept& kept);

// What was said of each value as its decoder gives it; what the encoder leaves; and what it becomes
// added to others.
Memory sent_of(DataType type, DataType carried, const Memory& values, const Kept& kept,
               DataType target);
Memory left_of(DataType type, DataType carried, const Memory& values, const Kept& kept);
Memory added_to(DataType type, DataType carried, const Memory& values, const Kept& kept,
                const Memory& addend);

}  // namespace banyan
