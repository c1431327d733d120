// Judges what a result may be: the exact answer from everybody's inputs, and how far from it is
// accepted.
//
// With x the exact result, m the sum of the magnitudes and P ranks:
//
//   integers                         the bits of wrapping arithmetic
//   minimum, maximum, moved data     exact
//   float32 and float64 sums         within (ceil(log2 P) + s) * eps * m of x, s: 1 for averages
//   float32 and float64 products     within P * eps * |x|
//   16- and 8-bit types              within one unit in the last place of the rounded x, plus what
//                                    float32 accumulation loses by the same law
//   sums by codecs                   farther by 2 P M s, with M the greatest magnitude of the data
//                                    and s the share of it that the codecs lose at most of one
//                                    value (fp32's roundings are less)
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "banyan/types.h"
#include "bench/perf/data.h"
#include "bench/perf/pattern.h"

namespace banyan::perf {

struct Wrong {
  uint64_t index = 0;  // in the output
  uint64_t got = 0;    // bits
  uint64_t expected = 0;
};

struct Checked {
  uint64_t wrong = 0;
  std::vector<Wrong> first;  // the first few
};
// Compares elements [begin, end) of a rank's output, which lies at `output`.
Checked check_output(const Case& which, const Data& data, ReduceOp op, const std::byte* output,
                     uint64_t begin, uint64_t end, double loss_share = 0);

// The same for one reduced element, from its inputs in rank order. For tests.
struct Accepted {
  uint64_t expected = 0;  // bits, rounded
  long double low = 0;    // of floating sums and products; otherwise only `expected` is right
  long double high = 0;
  bool exact = true;
};
Accepted reduce_exactly(DataType type, ReduceOp op, std::span<const uint64_t> inputs);
bool accepts(DataType type, const Accepted& accepted, uint64_t got);

}  // namespace banyan::perf
