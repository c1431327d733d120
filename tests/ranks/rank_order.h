// Sums in the order of ranks, by plain code: what every call has, bit for bit, on a communicator
// that asks for invariant sums. The values are such that another order has other bits.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "banyan/banyan.h"
#include "banyan/types.h"

namespace banyan::test {

inline constexpr Collective kSummingCollectives[] = {Collective::kAllreduce, Collective::kReduce,
                                                     Collective::kReduceScatter,
                                                     Collective::kReduceScatterv};
inline constexpr DataType kFloatTypes[] = {DataType::kFloat32,    DataType::kFloat64,
                                           DataType::kBfloat16,   DataType::kFloat16,
                                           DataType::kFloat8E4m3, DataType::kFloat8E5m2};
inline constexpr ReduceOp kSummingOps[] = {ReduceOp::kSum, ReduceOp::kAvg, ReduceOp::kPreMulSum,
                                           ReduceOp::kProd};

struct OrderedSum {
  Collective collective = Collective::kAllreduce;
  DataType type = DataType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  size_t count = 0;              // of the vector; reduce_scatter cuts it into blocks
  int pieces = 1;                // calls among which it is cut, at whole superblocks
  std::string_view algorithm{};  // that calls name; empty: blocking calls, which name none
  uint64_t seed = 0;             // of the values
};
std::string describe(const OrderedSum& sum);

// Makes it as one rank of a communicator; `codec`: by which its long sums go, or "off". Calls are
// made twice. Gives what is wrong; empty: nothing.
std::string check_ordered(banyan_comm_t comm, const OrderedSum& sum, std::string_view codec);

// Whether so many ranks' values of a type, added from the last to the first, have other bits.
bool order_matters(DataType type, int ranks);

}  // namespace banyan::test
