// SPDX-License-Identifier: Apache-2.0

#include "tests/support/cuda_folds_checks.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/support/on_device.h"

namespace banyan::test {

namespace {

constexpr ReduceOp kFolded[] = {ReduceOp::kSum, ReduceOp::kAvg, ReduceOp::kProd,
                                ReduceOp::kMax, ReduceOp::kMin, ReduceOp::kPreMulSum};

struct FoldCase {
  DataType type = DataType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  size_t ranks = 2;
  uint64_t count = 1;
  size_t at = 0;       // the result begins so many bytes behind a pack's place
  size_t source = 0;   // and the last source
  bool alone = false;  // the result is not the first source
};

template <typename Check>
void for_every_fold(const Check& check) {
  for (size_t type = 0; type < kDataTypeCount; ++type)
    for (const ReduceOp op : kFolded) {
      check(static_cast<DataType>(type), op);
      if (testing::Test::HasFatalFailure()) return;
    }
}

Memory any_bits(size_t bytes, std::mt19937_64& random) {
  Memory memory(bytes);
  for (std::byte& byte : memory) byte = static_cast<std::byte>(random());
  return memory;
}

// Each rank scales what it gives, and accumulators are added.
Memory scaled(const FoldCase& call, const std::vector<Memory>& ranks,
              const std::vector<CudaScalar>& scalars, const Kernels& table) {
  const auto type = static_cast<size_t>(call.type);
  const DataType wide = accumulator_of(call.type, call.op);
  const auto count = static_cast<size_t>(call.count);
  Memory sum(count * size_of(wide)), term(sum.size()), result(count * size_of(call.type));
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    Memory& to = rank == 0 ? sum : term;
    table.decode[type](to.data(), ranks[rank].data(), count, scalars[rank].data());
    if (rank != 0)
      table.reduce[static_cast<size_t>(wide)][static_cast<size_t>(call.op)](sum.data(), sum.data(),
                                                                            term.data(), count);
  }
  if (wide == call.type) return sum;
  table.encode[type](result.data(), sum.data(), count, 1);
  return result;
}

// As the algorithm `direct` does it.
Memory folded(const FoldCase& call, const std::vector<Memory>& ranks,
              const std::vector<CudaScalar>& scalars, const Kernels& table) {
  if (call.op == ReduceOp::kPreMulSum) return scaled(call, ranks, scalars, table);
  const auto type = static_cast<size_t>(call.type);
  const auto op = static_cast<size_t>(call.op);
  const auto count = static_cast<size_t>(call.count);
  const int divisor = call.op == ReduceOp::kAvg ? static_cast<int>(ranks.size()) : 1;
  const DataType wide = accumulator_of(call.type, call.op);
  Memory sum(count * size_of(wide));
  if (wide == call.type)
    sum = ranks.front();
  else
    table.decode[type](sum.data(), ranks.front().data(), count, nullptr);
  const auto& add = wide == call.type ? table.reduce[type][op] : table.decode_reduce[type][op];
  for (size_t rank = 1; rank < ranks.size(); ++rank)
    add(sum.data(), sum.data(), ranks[rank].data(), count);
  if (wide == call.type && call.op != ReduceOp::kAvg) return sum;
  Memory result(count * size_of(call.type));
  table.encode[type](result.data(), sum.data(), count, divisor);
  return result;
}

void check_fold(const TestedFolds& tested, const FoldCase& call, std::mt19937_64& random) {
  const size_t bytes = static_cast<size_t>(call.count) * size_of(call.type);
  std::vector<Memory> given;
  std::vector<std::unique_ptr<OnDevice>> there;
  std::vector<const std::byte*> sources;
  std::vector<CudaScalar> scalars(call.ranks);
  for (CudaScalar& scalar : scalars)
    for (std::byte& byte : scalar) byte = static_cast<std::byte>(random());
  for (size_t rank = 0; rank < call.ranks; ++rank) {
    given.push_back(any_bits(bytes, random));
    const bool is_result = rank == 0 && !call.alone;
    const size_t offset = is_result ? call.at : rank + 1 == call.ranks ? call.source : 0;
    there.push_back(std::make_unique<OnDevice>(tested.memory, given.back(), offset, kGuard));
    sources.push_back(there.back()->data());
  }
  OnDevice apart(tested.memory, Memory(bytes, kCanary), call.at, kGuard);
  OnDevice& result = call.alone ? apart : *there.front();
  const std::string what = std::string(name_of(call.op)) + " of " +
                           std::string(name_of(call.type)) + " of " + std::to_string(call.ranks) +
                           " ranks, " + std::to_string(call.count);
  const int divisor = call.op == ReduceOp::kAvg ? static_cast<int>(call.ranks) : 1;
  const Status status = call.op == ReduceOp::kPreMulSum
                            ? tested.folds.fold_scaled(call.type, result.data(), sources, scalars,
                                                       call.count, nullptr)
                            : tested.folds.fold(call.type, call.op, result.data(), sources,
                                                call.count, divisor, nullptr);
  ASSERT_TRUE(status.ok()) << what << ": " << status.message();
  result.expect(folded(call, given, scalars, tested.reference), what);
}

}  // namespace

void check_fold_lengths(const TestedFolds& tested) {
  std::mt19937_64 random(1);
  size_t draw = 0;
  for_every_fold([&](DataType type, ReduceOp op) {
    for (const uint64_t count : {0, 1, 2, 3, 15, 16, 17, 31, 127, 257, 4096, 4099}) {
      const size_t ranks = 1 + draw++ % kCudaFoldMost;
      const FoldCase call{
          .type = type, .op = op, .ranks = ranks, .count = count, .alone = draw % 3 != 0};
      ASSERT_NO_FATAL_FAILURE(check_fold(tested, call, random));
    }
  });
}

void check_fold_alignments(const TestedFolds& tested) {
  std::mt19937_64 random(2);
  for_every_fold([&](DataType type, ReduceOp op) {
    for (size_t offset = 0; offset <= 16; ++offset)
      for (const bool of_source : {false, true}) {
        FoldCase call{.type = type, .op = op, .ranks = 3, .count = 77, .alone = offset % 2 == 0};
        (of_source ? call.source : call.at) = offset;
        ASSERT_NO_FATAL_FAILURE(check_fold(tested, call, random));
      }
  });
}

void check_fold_values(const TestedFolds& tested, uint64_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  for_every_fold([&](DataType type, ReduceOp op) {
    for (const size_t ranks : {2, 3, 5, 8}) {
      const FoldCase call{.type = type, .op = op, .ranks = ranks, .count = count, .alone = true};
      ASSERT_NO_FATAL_FAILURE(check_fold(tested, call, random));
    }
  });
}

}  // namespace banyan::test
