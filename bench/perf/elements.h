// Elements of every data type are numbers here, written apart from the library's own kernels so
// that one can judge the other. An element travels as its bits in the low end of 64.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "banyan/types.h"

namespace banyan::perf {

uint64_t load_bits(DataType type, const std::byte* element);
void store_bits(DataType type, uint64_t bits, std::byte* element);

// Floating types: exact, and rounded to nearest, ties to even.
long double value_of(DataType type, uint64_t bits);
uint64_t bits_of(DataType type, long double value);
// One unit in the last place at a finite value.
long double unit_at(DataType type, long double value);

// Sign-extends integers to 64 bits, so that wrapping arithmetic of 64 bits gives the right low
// bits.
uint64_t widen(DataType type, uint64_t bits);
uint64_t narrow(DataType type, uint64_t wide);
bool is_signed(DataType type);

// For people: the number, and the bits of floating types.
std::string to_text(DataType type, uint64_t bits);

}  // namespace banyan::perf
