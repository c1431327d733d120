// The tests of the kernels share this: a reference that works with exact values (long double and
// explicit rounding) and shares no code with the kernels, and inputs that arithmetic trips over.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "compression/kernels.h"

namespace banyan {

using Memory = std::vector<std::byte>;

inline constexpr DataType kTypes[] = {
    DataType::kInt8,    DataType::kUint8,    DataType::kInt32,      DataType::kUint32,
    DataType::kInt64,   DataType::kUint64,   DataType::kFloat16,    DataType::kFloat32,
    DataType::kFloat64, DataType::kBfloat16, DataType::kFloat8E4m3, DataType::kFloat8E5m2};
inline constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kProd, ReduceOp::kMax,
                                    ReduceOp::kMin, ReduceOp::kAvg,  ReduceOp::kPreMulSum};
static_assert(std::size(kTypes) == kDataTypeCount && std::size(kOps) == kReduceOpCount);

inline constexpr int kDivisors[] = {
    1,   2,   3,   4,   5,   7,    8,    9,     10,       16,
    100, 127, 128, 255, 256, 1000, 4096, 65537, 16777217, std::numeric_limits<int>::max()};

constexpr size_t index_of(DataType type) {
  return static_cast<size_t>(type);
}
constexpr size_t index_of(ReduceOp op) {
  return static_cast<size_t>(op);
}

inline const Kernels& scalar_kernels() {
  return *available_kernels().front();
}

__extension__ using Wide = __int128;

// Element `type` at an address, as its bits.
uint64_t get_bits(DataType type, const std::byte* element);
void put_bits(DataType type, std::byte* element, uint64_t bits);

// Give the canonical NaN; the exact value of an element; the element nearest to a value that long
// double holds exactly, ties to even. Floats only.
uint64_t nan_of(DataType type);
long double value_of(DataType type, uint64_t bits);
uint64_t rounded_bits(DataType type, long double value);

// Does one operation on two values of `type`, rounded once. long double holds sums and products of
// float32 and narrower exactly, or well beyond what a second rounding can spoil; float64 is left to
// the hardware's double, which is what the contract says.
uint64_t float_result(DataType type, ReduceOp op, long double a, long double b);

// Integers: the value; the bits of a value that wraps.
Wide integer_of(DataType type, uint64_t bits);
uint64_t wrapped(DataType type, Wide value);

// a (+) b, all of `type`. Narrow sums and products: in float32, then the element's rounding.
uint64_t reference(DataType type, ReduceOp op, uint64_t a, uint64_t b);

std::vector<uint64_t> special_values(DataType type);
// Half of the elements are special, the others random bits.
Memory make_elements(DataType type, size_t count, uint64_t seed);
// Numbers of about the same size, so that sums and products neither overflow nor vanish.
Memory make_numbers(DataType type, size_t count, uint64_t seed);

std::string describe(DataType type, std::string_view what, const Kernels& kernels);
Memory reduce(const Kernels& kernels, DataType type, ReduceOp op, const Memory& a, const Memory& b);

}  // namespace banyan
