// The vocabulary of a call: data types, operations, collectives, kinds of memory. Values of the
// first three equal those of banyan.h.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#if __cplusplus < 202002L
#error "The C++ headers of Banyan need C++20 (-std=c++20); banyan/banyan.h serves older programs."
#endif

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace banyan {

enum class DataType : uint8_t {
  kInt8 = 0,
  kUint8 = 1,
  kInt32 = 2,
  kUint32 = 3,
  kInt64 = 4,
  kUint64 = 5,
  kFloat16 = 6,
  kFloat32 = 7,
  kFloat64 = 8,
  kBfloat16 = 9,
  kFloat8E4m3 = 10,
  kFloat8E5m2 = 11,
};
inline constexpr int kDataTypeCount = 12;

enum class ReduceOp : uint8_t {
  kSum = 0,
  kProd = 1,
  kMax = 2,
  kMin = 3,
  kAvg = 4,
  kPreMulSum = 5,  // sum of scalar * x; each rank has its own scalar
};
inline constexpr int kReduceOpCount = 6;

enum class Collective : uint8_t {
  kAllreduce = 0,
  kReduce,
  kBroadcast,
  kAllgather,
  kAllgatherv,
  kReduceScatter,
  kReduceScatterv,
  kAlltoall,
  kAlltoallv,
  kGather,
  kScatter,
  kBarrier,
  kSend,
  kRecv,
  kFinalize,  // not a call of its own in banyan.h's enum, but it takes part in the agreement
  kSplit,
};
inline constexpr int kCollectiveCount = 16;

// Whether it has an operation.
constexpr bool reduces(Collective collective) {
  return collective == Collective::kAllreduce || collective == Collective::kReduce ||
         collective == Collective::kReduceScatter || collective == Collective::kReduceScatterv;
}

// With `v`: blocks may be of different lengths, and the call has a list of counts.
constexpr bool has_blocks_of_own_length(Collective collective) {
  return collective == Collective::kAllgatherv || collective == Collective::kReduceScatterv ||
         collective == Collective::kAlltoallv;
}

// Who can touch memory. The host can touch all of it but kDevice.
enum class MemoryKind : uint8_t {
  kHost = 0,
  kPinned = 1,   // the host's, which a GPU can use
  kDevice = 2,   // a GPU's
  kManaged = 3,  // moves between both
};
inline constexpr int kMemoryKindCount = 4;

constexpr size_t size_of(DataType type) {
  switch (type) {
    case DataType::kInt8:
    case DataType::kUint8:
    case DataType::kFloat8E4m3:
    case DataType::kFloat8E5m2: return 1;
    case DataType::kFloat16:
    case DataType::kBfloat16: return 2;
    case DataType::kInt32:
    case DataType::kUint32:
    case DataType::kFloat32: return 4;
    case DataType::kInt64:
    case DataType::kUint64:
    case DataType::kFloat64: return 8;
  }
  return 0;
}

constexpr bool is_floating(DataType type) {
  return type >= DataType::kFloat16;
}

// 16- and 8-bit floating types: their sums and products are accumulated in fp32.
constexpr bool is_narrow_float(DataType type) {
  return is_floating(type) && size_of(type) < 4;
}

// Gives the type in which values of `type` are combined under `op`. Minimum and maximum need no
// more than the type itself.
constexpr DataType accumulator_of(DataType type, ReduceOp op) {
  const bool exact = op == ReduceOp::kMin || op == ReduceOp::kMax;
  return is_narrow_float(type) && !exact ? DataType::kFloat32 : type;
}

// "float32", "bfloat16", ...; "sum", ...; "allreduce", ...
constexpr std::string_view name_of(DataType type) {
  constexpr std::string_view kNames[] = {"int8",    "uint8",    "int32",       "uint32",
                                         "int64",   "uint64",   "float16",     "float32",
                                         "float64", "bfloat16", "float8_e4m3", "float8_e5m2"};
  return kNames[static_cast<size_t>(type)];
}

constexpr std::string_view name_of(ReduceOp op) {
  constexpr std::string_view kNames[] = {"sum", "prod", "max", "min", "avg", "premulsum"};
  return kNames[static_cast<size_t>(op)];
}

constexpr std::string_view name_of(Collective collective) {
  constexpr std::string_view kNames[] = {
      "allreduce",  "reduce",         "broadcast",       "allgather",
      "allgatherv", "reduce_scatter", "reduce_scatterv", "alltoall",
      "alltoallv",  "gather",         "scatter",         "barrier",
      "send",       "recv",           "finalize",        "split"};
  return kNames[static_cast<size_t>(collective)];
}

constexpr std::string_view name_of(MemoryKind kind) {
  constexpr std::string_view kNames[] = {"host", "pinned", "device", "managed"};
  return kNames[static_cast<size_t>(kind)];
}

}  // namespace banyan
