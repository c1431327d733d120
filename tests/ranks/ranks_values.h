// Gives inputs of all ranks, and what a reduction of them may be: exact arithmetic, no kernel of
// ours.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "banyan/types.h"
#include "tests/support/kernels_reference.h"

namespace banyan::test {

// Inputs repeat with a period that shares no factor with the sizes of chunks: large messages cost
// no reference of their own, and a chunk that is shifted or repeated still shows.
inline constexpr size_t kPeriod = 509;

// Judges what is accepted around the exact result x of a sum with m = sum |x_r|:
//
//   float32, float64  (ceil(log2 P) + s) * eps * m with s = 1 where a factor is applied
//   narrower floats   one unit in the last place from the correctly rounded x, plus that
//   products          P * eps relative
//   all else          exact
class Table {
 public:
  Table(DataType type, ReduceOp op, int ranks, uint64_t seed);

  DataType type() const { return type_; }
  ReduceOp op() const { return op_; }
  size_t element() const { return size_of(type_); }
  int ranks() const { return static_cast<int>(inputs_.size()); }

  // Elements base, base + 1, ... of what a rank gives.
  void fill(std::byte* target, int rank, size_t base, size_t count) const;
  // The first element that is no result of the reduction, or count.
  size_t check(const std::byte* got, size_t base, size_t count) const;
  // Gives the factor of premulsum: exact in every type and different on every rank.
  static std::array<std::byte, 8> scalar(DataType type, int rank);

 private:
  void make_inputs(uint64_t seed);
  void reduce_integers();
  void reduce_floats();
  bool all_right(const std::byte* got, size_t place, size_t count) const;
  size_t count_right(const std::byte* got, size_t place, size_t count) const;

  DataType type_;
  ReduceOp op_;
  std::vector<Memory> inputs_;                   // kPeriod elements each
  Memory exact_;                                 // where only one result is right
  std::vector<long double> low_, high_;          // otherwise
  std::vector<float> low_floats_, high_floats_;  // the same of float32, rounded inwards
};

uint64_t mix(uint64_t value);

}  // namespace banyan::test
