// Every instruction set is compared with the scalar kernels, bit for bit: all types and operators,
// awkward lengths, all alignments, in place and not, nothing read or written outside. (The scalar
// kernels have their own test, against a reference.)
// SPDX-License-Identifier: Apache-2.0

#include "compression/kernels.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "tests/support/kernels_reference.h"
#include "tests/support/placed.h"

namespace banyan::kernels_test {
namespace {

TEST(KernelTables, AreCompleteAndBeginWithScalar) {
  ASSERT_FALSE(available_kernels().empty());
  EXPECT_EQ(scalar_kernels().name, "scalar");
  EXPECT_EQ(&best_kernels(), available_kernels().back());
  for (const Kernels* kernels : available_kernels()) {
    for (const DataType type : kTypes) {
      const size_t t = index_of(type);
      EXPECT_NE(kernels->decode[t], nullptr);
      EXPECT_NE(kernels->encode[t], nullptr);
      for (const ReduceOp op : kOps) {
        const size_t o = index_of(op);
        ASSERT_NE(kernels->reduce[t][o], nullptr) << describe(type, name_of(op), *kernels);
        ASSERT_NE(kernels->decode_reduce[t][o], nullptr) << describe(type, name_of(op), *kernels);
        if (accumulator_of(type, op) == type) {
          EXPECT_EQ(kernels->reduce[t][o], kernels->decode_reduce[t][o]);
        }
      }
      for (const ReduceOp op : {ReduceOp::kAvg, ReduceOp::kPreMulSum}) {
        const size_t sum = index_of(ReduceOp::kSum);
        EXPECT_EQ(kernels->reduce[t][index_of(op)], kernels->reduce[t][sum]);
        EXPECT_EQ(kernels->decode_reduce[t][index_of(op)], kernels->decode_reduce[t][sum]);
      }
    }
  }
}

std::vector<size_t> lengths() {
  std::vector<size_t> result;
  for (size_t i = 0; i <= 67; i++) result.push_back(i);
  result.insert(result.end(), {127, 128, 129, 255, 1000, 1023, 4099});
  return result;
}

std::vector<size_t> offsets_of(size_t element) {
  std::vector<size_t> result;
  for (size_t i = 0; i < 64; i += element) result.push_back(i);
  if (element > 1) result.insert(result.end(), {1, 3, 31, 63});
  return result;
}

void check_combine(CombineKernel expected, CombineKernel actual, DataType local_type,
                   DataType incoming_type, size_t count, const size_t (&offsets)[3]) {
  const Memory local = make_elements(local_type, count, count);
  const Memory incoming = make_elements(incoming_type, count, count + 1);
  Memory wanted(local.size());
  expected(wanted.data(), local.data(), incoming.data(), count);
  Placed a(local.data(), local.size(), offsets[0]);
  Placed b(incoming.data(), incoming.size(), offsets[1]);
  const Memory got = run_guarded(local.size(), offsets[2],
                                 [&](std::byte* dst) { actual(dst, a.data(), b.data(), count); });
  ASSERT_EQ(got, wanted) << count << " elements at " << offsets[0] << ", " << offsets[1] << " -> "
                         << offsets[2];
  ASSERT_TRUE(holds(a, local)) << "local was changed";
  actual(a.data(), a.data(), b.data(), count);
  ASSERT_TRUE(holds(a, wanted)) << count << " in place";
  ASSERT_TRUE(holds(b, incoming)) << "incoming was changed";
}

constexpr ReduceOp kDistinctOps[] = {ReduceOp::kSum, ReduceOp::kProd, ReduceOp::kMax,
                                     ReduceOp::kMin};

class EveryKernel : public testing::TestWithParam<const Kernels*> {};

TEST_P(EveryKernel, CombinesAsScalarDoesAtEveryLength) {
  const Kernels& kernels = *GetParam();
  for (const DataType type : kTypes) {
    const size_t t = index_of(type);
    for (const ReduceOp op : kDistinctOps) {
      const size_t o = index_of(op);
      SCOPED_TRACE(describe(type, name_of(op), kernels));
      for (const size_t count : lengths()) {
        const size_t size = size_of(type);
        const size_t offsets[] = {size * (count % 7), count % 5, size * (count % 3) + count % 2};
        check_combine(scalar_kernels().reduce[t][o], kernels.reduce[t][o], type, type, count,
                      offsets);
        check_combine(scalar_kernels().decode_reduce[t][o], kernels.decode_reduce[t][o],
                      accumulator_of(type, op), type, count, offsets);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(EveryKernel, CombinesAtEveryAlignment) {
  const Kernels& kernels = *GetParam();
  for (const DataType type : kTypes) {
    const size_t t = index_of(type);
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMin}) {
      const size_t o = index_of(op);
      SCOPED_TRACE(describe(type, name_of(op), kernels));
      for (const size_t offset : offsets_of(size_of(type))) {
        for (const size_t other : {size_t{0}, size_of(type), size_t{7}}) {
          const size_t offsets[] = {other, offset, (offset + other) % 64};
          check_combine(scalar_kernels().reduce[t][o], kernels.reduce[t][o], type, type, 131,
                        offsets);
          check_combine(scalar_kernels().decode_reduce[t][o], kernels.decode_reduce[t][o],
                        accumulator_of(type, op), type, 131, offsets);
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST_P(EveryKernel, DecodesAsScalarDoes) {
  const Kernels& kernels = *GetParam();
  for (const DataType type : kTypes) {
    const size_t t = index_of(type);
    const DataType wide = accumulator_of(type, ReduceOp::kSum);
    const Memory scalars = make_elements(type, 6, 11);
    for (const size_t count : lengths()) {
      SCOPED_TRACE(describe(type, "decode", kernels) + " of " + std::to_string(count));
      const Memory elements = make_elements(type, count, count + 2);
      Placed src(elements.data(), elements.size(), count % 9);
      for (size_t s = 0; s <= 6; s++) {
        // Also the scalar is at no particular address.
        const std::byte* scalar = s == 6 ? nullptr : &scalars[s * size_of(type)];
        Memory wanted(count * size_of(wide));
        scalar_kernels().decode[t](wanted.data(), elements.data(), count, scalar);
        const Memory got = run_guarded(wanted.size(), count % 11, [&](std::byte* dst) {
          kernels.decode[t](dst, src.data(), count, scalar);
        });
        ASSERT_EQ(got, wanted);
        if (wide != type) continue;
        Placed in_place(elements.data(), elements.size(), count % 13);
        kernels.decode[t](in_place.data(), in_place.data(), count, scalar);
        ASSERT_TRUE(holds(in_place, wanted));
      }
    }
  }
}

TEST_P(EveryKernel, EncodesAsScalarDoes) {
  const Kernels& kernels = *GetParam();
  for (const DataType type : kTypes) {
    const size_t t = index_of(type);
    const DataType wide = accumulator_of(type, ReduceOp::kSum);
    for (const size_t count : lengths()) {
      const Memory sums = make_elements(wide, count, count + 3);
      Placed src(sums.data(), sums.size(), count % 9);
      for (const int divisor : {1, 3, 8, 255, 65537}) {
        SCOPED_TRACE(describe(type, "encode", kernels) + " of " + std::to_string(count) +
                     " divided by " + std::to_string(divisor));
        Memory wanted(count * size_of(type));
        scalar_kernels().encode[t](wanted.data(), sums.data(), count, divisor);
        const Memory got = run_guarded(wanted.size(), count % 11, [&](std::byte* dst) {
          kernels.encode[t](dst, src.data(), count, divisor);
        });
        ASSERT_EQ(got, wanted);
        if (wide != type) continue;
        Placed in_place(sums.data(), sums.size(), count % 13);
        kernels.encode[t](in_place.data(), in_place.data(), count, divisor);
        ASSERT_TRUE(holds(in_place, wanted));
      }
    }
  }
}

// All narrow elements, and float32 inputs at every midpoint: what the lengths above only sample.
TEST_P(EveryKernel, ConvertsEveryElementAsScalarDoes) {
  const Kernels& kernels = *GetParam();
  for (const DataType type : kTypes) {
    if (!is_narrow_float(type)) continue;
    const size_t t = index_of(type);
    const size_t count = size_t{1} << (8 * size_of(type));
    Memory elements(count * size_of(type));
    for (size_t i = 0; i < count; i++) put_bits(type, &elements[i * size_of(type)], i);
    Memory wanted(count * 4);
    Memory got(count * 4);
    scalar_kernels().decode[t](wanted.data(), elements.data(), count, nullptr);
    kernels.decode[t](got.data(), elements.data(), count, nullptr);
    ASSERT_EQ(got, wanted) << describe(type, "decode", kernels);
    // The upper half of float32 takes all values, the lower those next to where rounding turns.
    for (const uint32_t low : {0U, 1U, 0x7fffU, 0x8000U, 0x8001U, 0xffffU, 0x1000U, 0xefffU}) {
      std::vector<uint32_t> inputs(65536);
      for (uint32_t i = 0; i < 65536; i++) inputs[i] = i << 16 | low;
      Memory wanted_elements(inputs.size() * size_of(type));
      Memory got_elements(inputs.size() * size_of(type));
      scalar_kernels().encode[t](wanted_elements.data(), inputs.data(), inputs.size(), 1);
      kernels.encode[t](got_elements.data(), inputs.data(), inputs.size(), 1);
      ASSERT_EQ(got_elements, wanted_elements) << describe(type, "encode", kernels);
    }
  }
}

// One element stands among numbers of the usual kind, in every lane and behind the last whole
// vector: what a vector is rounded by may hang on it.
TEST_P(EveryKernel, RoundsAroundOneElementOfAnotherKindAsScalarDoes) {
  const Kernels& kernels = *GetParam();
  constexpr size_t kCount = 141;
  for (const DataType type : kTypes) {
    if (!is_narrow_float(type)) continue;
    const size_t t = index_of(type);
    const auto sum_of = [t](const Kernels& by, const Memory& a, const Memory& b) {
      Memory result(a.size());
      by.reduce[t][index_of(ReduceOp::kSum)](result.data(), a.data(), b.data(), kCount);
      return result;
    };
    const auto encoded = [t, type](const Kernels& by, const Memory& sums) {
      Memory result(kCount * size_of(type));
      by.encode[t](result.data(), sums.data(), kCount, 1);
      return result;
    };
    const Memory numbers = make_numbers(type, kCount, 14);
    const Memory zeros(numbers.size());
    const Memory sums = make_numbers(DataType::kFloat32, kCount, 15);
    for (size_t lane = 0; lane < kCount; lane++) {
      SCOPED_TRACE(describe(type, "lane", kernels) + " " + std::to_string(lane));
      for (const uint64_t bits : {uint64_t{0}, uint64_t{1}, nan_of(type), nan_of(type) + 1}) {
        Memory elements = numbers;
        put_bits(type, &elements[lane * size_of(type)], bits);
        ASSERT_EQ(sum_of(kernels, elements, zeros), sum_of(scalar_kernels(), elements, zeros))
            << bits;
      }
      // Zero, subnormals below, at and above a half of bfloat16's last bit, infinity, NaN.
      for (const uint32_t bits : {0x80000000U, 0x00000001U, 0x80008000U, 0x00018000U, 0x807fffffU,
                                  0x7f800000U, 0x7f800001U, 0xffc12345U}) {
        Memory wide = sums;
        put_bits(DataType::kFloat32, &wide[lane * sizeof bits], bits);
        ASSERT_EQ(encoded(kernels, wide), encoded(scalar_kernels(), wide)) << bits;
      }
    }
  }
}

TEST_P(EveryKernel, GivesTheSameBitsWhicheverRankIsLocal) {
  const Kernels& kernels = *GetParam();
  for (const DataType type : kTypes) {
    const Memory a = make_elements(type, 5000, 12);
    const Memory b = make_elements(type, 5000, 13);
    for (const ReduceOp op : kDistinctOps) {
      EXPECT_EQ(reduce(kernels, type, op, a, b), reduce(kernels, type, op, b, a))
          << describe(type, name_of(op), kernels);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, EveryKernel, testing::ValuesIn(available_kernels()),
                         [](const auto& kernels) { return std::string(kernels.param->name); });

}  // namespace
}  // namespace banyan::kernels_test
