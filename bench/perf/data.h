// Every rank can compute the input of every other one: it is a pure function of (rank, index).
//
// Numbers are normally distributed with a fixed seed per rank.
//
//   floating types   mean 0 and deviation 1
//   their products   mean 1 and deviation 1/8, so that they neither overflow nor vanish
//   integers         scaled to use a good part of their range, unsigned ones by magnitude
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "banyan/types.h"

namespace banyan::perf {

class Data {
 public:
  // No magnitude of sums' floating types is greater.
  static constexpr double kFarthest = 4;

  Data(DataType type, ReduceOp op);

  DataType type() const { return type_; }
  uint64_t bits(int rank, uint64_t index) const;
  // Elements [begin, begin + count) of a rank's input.
  void write(int rank, uint64_t begin, uint64_t count, std::byte* elements) const;

 private:
  uint64_t draw(uint64_t seed, uint64_t index) const;
  template <typename Word>
  void write_words(uint64_t seed, uint64_t begin, uint64_t count, std::byte* elements) const;
  // float32 and float64 draw from a continuum, the others from a table of elements.
  bool continuous() const { return type_ == DataType::kFloat32 || type_ == DataType::kFloat64; }

  DataType type_;
  ReduceOp op_;
  std::vector<double> edges_;    // quantiles of the normal distribution
  std::vector<uint64_t> table_;  // one element for each interval between them
};

// A digest of bytes that changes with any of them; for comparing results between ranks.
uint64_t digest_of(std::span<const std::byte> bytes);

}  // namespace banyan::perf
