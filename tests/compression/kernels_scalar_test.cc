// The scalar kernels, which are the specification of the others, are compared with the reference:
// all pairs of 8-bit elements, all conversions of 16-bit ones, samples of what is larger.
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "tests/support/kernels_reference.h"

namespace banyan::kernels_scalar_test {
namespace {

void expect_reference(DataType type, ReduceOp op, const Memory& a, const Memory& b) {
  const Memory result = reduce(scalar_kernels(), type, op, a, b);
  const size_t size = size_of(type);
  for (size_t offset = 0; offset < a.size(); offset += size) {
    const uint64_t x = get_bits(type, &a[offset]);
    const uint64_t y = get_bits(type, &b[offset]);
    ASSERT_EQ(get_bits(type, &result[offset]), reference(type, op, x, y))
        << name_of(type) << " " << name_of(op) << std::hex << " of 0x" << x << " and 0x" << y;
  }
}

TEST(ScalarKernels, ReduceAllPairsOf8Bits) {
  for (const DataType type :
       {DataType::kInt8, DataType::kUint8, DataType::kFloat8E4m3, DataType::kFloat8E5m2}) {
    Memory a(65536);
    Memory b(65536);
    for (unsigned i = 0; i < 65536; i++) {
      a[i] = static_cast<std::byte>(i >> 8);
      b[i] = static_cast<std::byte>(i & 255);
    }
    for (const ReduceOp op : kOps) expect_reference(type, op, a, b);
  }
}

TEST(ScalarKernels, ReduceSpecialAndRandomPairs) {
  for (const DataType type : kTypes) {
    const auto special = special_values(type);
    Memory a = make_elements(type, 4000, 1);
    Memory b = make_elements(type, 4000, 2);
    for (const uint64_t x : special) {
      for (const uint64_t y : special) {
        a.resize(a.size() + size_of(type));
        b.resize(b.size() + size_of(type));
        put_bits(type, &a[a.size() - size_of(type)], x);
        put_bits(type, &b[b.size() - size_of(type)], y);
      }
    }
    for (const ReduceOp op : kOps) {
      expect_reference(type, op, a, b);
      expect_reference(type, op, make_numbers(type, 4000, 3), make_numbers(type, 4000, 4));
    }
  }
}

TEST(ScalarKernels, DecodeEveryNarrowElement) {
  for (const DataType type : kTypes) {
    if (!is_narrow_float(type)) continue;
    const size_t count = size_t{1} << (8 * size_of(type));
    Memory elements(count * size_of(type));
    for (size_t i = 0; i < count; i++) put_bits(type, &elements[i * size_of(type)], i);
    Memory wide(count * 4);
    scalar_kernels().decode[index_of(type)](wide.data(), elements.data(), count, nullptr);
    for (size_t i = 0; i < count; i++) {
      ASSERT_EQ(get_bits(DataType::kFloat32, &wide[i * 4]),
                rounded_bits(DataType::kFloat32, value_of(type, i)))
          << name_of(type) << std::hex << " 0x" << i;
    }
    // And back: only NaN changes, to the canonical one.
    Memory again(elements.size());
    scalar_kernels().encode[index_of(type)](again.data(), wide.data(), count, 1);
    for (size_t i = 0; i < count; i++) {
      const uint64_t expected = std::isnan(value_of(type, i)) ? nan_of(type) : i;
      ASSERT_EQ(get_bits(type, &again[i * size_of(type)]), expected) << name_of(type) << " " << i;
    }
  }
}

// Every number of the type, every midpoint between two, and what lies right beside them.
TEST(ScalarKernels, EncodeRoundsToNearestEven) {
  for (const DataType type : kTypes) {
    if (!is_narrow_float(type)) continue;
    const auto largest = static_cast<uint32_t>(uint64_t{1} << (8 * size_of(type) - 1));
    std::vector<uint32_t> inputs;
    for (uint32_t i = 0; i < largest; i++) {
      const uint64_t low = rounded_bits(DataType::kFloat32, value_of(type, i));
      const uint64_t high = rounded_bits(DataType::kFloat32, value_of(type, i + 1));
      if (high < low) continue;
      const auto middle = static_cast<uint32_t>((low + high) / 2);
      for (const uint32_t bits : {static_cast<uint32_t>(low), middle - 1, middle, middle + 1}) {
        inputs.push_back(bits);
        inputs.push_back(bits | 0x80000000U);
      }
    }
    for (const uint64_t bits : special_values(DataType::kFloat32)) {
      inputs.push_back(static_cast<uint32_t>(bits));
    }
    std::mt19937 random(5);
    for (int i = 0; i < 100000; i++) inputs.push_back(static_cast<uint32_t>(random()));
    Memory result(inputs.size() * size_of(type));
    scalar_kernels().encode[index_of(type)](result.data(), inputs.data(), inputs.size(), 1);
    for (size_t i = 0; i < inputs.size(); i++) {
      ASSERT_EQ(get_bits(type, &result[i * size_of(type)]),
                rounded_bits(type, value_of(DataType::kFloat32, inputs[i])))
          << name_of(type) << std::hex << " 0x" << inputs[i];
    }
  }
}

TEST(ScalarKernels, DecodeMultipliesByTheScalar) {
  for (const DataType type : kTypes) {
    const DataType wide = accumulator_of(type, ReduceOp::kSum);
    const size_t count = 3000;
    const Memory src = make_elements(type, count, 6);
    for (const uint64_t scalar : special_values(type)) {
      std::byte element[8];
      put_bits(type, element, scalar);
      Memory result(count * size_of(wide));
      scalar_kernels().decode[index_of(type)](result.data(), src.data(), count, element);
      for (size_t i = 0; i < count; i++) {
        const uint64_t x = get_bits(type, &src[i * size_of(type)]);
        const uint64_t expected =
            is_floating(type)
                ? float_result(wide, ReduceOp::kProd, value_of(type, x), value_of(type, scalar))
                : reference(type, ReduceOp::kProd, x, scalar);
        ASSERT_EQ(get_bits(wide, &result[i * size_of(wide)]), expected)
            << name_of(type) << std::hex << " 0x" << scalar << " * 0x" << x;
      }
    }
  }
}

TEST(ScalarKernels, EncodeDividesIntegersTowardsZero) {
  for (const DataType type : kTypes) {
    if (is_floating(type)) continue;
    Memory src = make_elements(type, 3000, 7);
    for (unsigned i = 0; i < 256; i++) {
      src.resize(src.size() + size_of(type));
      put_bits(type, &src[src.size() - size_of(type)], i * 0x0101010101010101U);
    }
    const size_t count = src.size() / size_of(type);
    for (const int divisor : kDivisors) {
      Memory result(src.size());
      scalar_kernels().encode[index_of(type)](result.data(), src.data(), count, divisor);
      for (size_t i = 0; i < count; i++) {
        const Wide x = integer_of(type, get_bits(type, &src[i * size_of(type)]));
        ASSERT_EQ(get_bits(type, &result[i * size_of(type)]), wrapped(type, x / divisor))
            << name_of(type) << " " << static_cast<int64_t>(x) << " / " << divisor;
      }
    }
  }
}

// Multiples of the divisor and their neighbours, where a rounded quotient would show.
TEST(ScalarKernels, EncodeDividesLargeIntegersExactly) {
  std::mt19937 random(8);
  for (int n = 0; n < 100000; n++) {
    const auto divisor =
        static_cast<uint32_t>(n % 2 == 0 ? random() % 1000 + 1 : random() % 0x7fffffff + 1);
    const auto value = static_cast<uint32_t>(random() / divisor * divisor + n % 3 - 1);
    uint32_t quotient = 0;
    scalar_kernels().encode[index_of(DataType::kUint32)](&quotient, &value, 1,
                                                         static_cast<int>(divisor));
    ASSERT_EQ(quotient, value / divisor) << value << " / " << divisor;
    scalar_kernels().encode[index_of(DataType::kInt32)](&quotient, &value, 1,
                                                        static_cast<int>(divisor));
    ASSERT_EQ(static_cast<int32_t>(quotient),
              static_cast<int32_t>(value) / static_cast<int32_t>(divisor));
  }
}

TEST(ScalarKernels, EncodeDividesFloatsInTheAccumulator) {
  for (const DataType type : kTypes) {
    if (!is_floating(type)) continue;
    const DataType wide = accumulator_of(type, ReduceOp::kSum);
    const size_t count = 4000;
    Memory src = make_elements(wide, count, 9);
    const Memory numbers = make_numbers(wide, count, 10);
    src.insert(src.end(), numbers.begin(), numbers.end());
    for (const int divisor : kDivisors) {
      Memory result(2 * count * size_of(type));
      scalar_kernels().encode[index_of(type)](result.data(), src.data(), 2 * count, divisor);
      for (size_t i = 0; i < 2 * count; i++) {
        const uint64_t x = get_bits(wide, &src[i * size_of(wide)]);
        const uint64_t rounded_divisor = rounded_bits(wide, divisor);
        // Long double quotients of float32 are far from where a second rounding goes wrong:
        // 64 bits are more than twice 24 plus two.
        const long double quotient =
            wide == DataType::kFloat64
                ? static_cast<double>(value_of(wide, x)) / static_cast<double>(divisor)
                : value_of(wide, x) / value_of(wide, rounded_divisor);
        const uint64_t expected = rounded_bits(type, value_of(wide, rounded_bits(wide, quotient)));
        ASSERT_EQ(get_bits(type, &result[i * size_of(type)]), expected)
            << name_of(type) << std::hex << " 0x" << x << std::dec << " / " << divisor;
      }
    }
  }
}

// Spelt out once, so that no mistake shared by reference and kernel can hide it.
TEST(ScalarKernels, AndAllOthersGiveKnownBits) {
  struct Case {
    DataType type;
    ReduceOp op;
    uint64_t a, b, result;
  };
  using enum DataType;
  using enum ReduceOp;
  const Case cases[] = {
      {kInt8, kSum, 0x7f, 0x01, 0x80},
      {kInt8, kMax, 0x80, 0x01, 0x01},
      {kUint8, kMax, 0x80, 0x01, 0x80},
      {kInt64, kProd, 0x8000000000000000, 0xffffffffffffffff, 0x8000000000000000},
      {kFloat32, kSum, 0x7f800000, 0xff800000, 0x7fc00000},  // inf - inf
      {kFloat32, kSum, 0xffc12345, 0x3f800000, 0x7fc00000},  // payload goes
      {kFloat32, kMin, 0x00000000, 0x80000000, 0x80000000},  // -0 < +0
      {kFloat32, kMax, 0x80000000, 0x00000000, 0x00000000},
      {kFloat32, kMin, 0xff800000, 0x7f800001, 0x7fc00000},  // NaN wins
      {kFloat64, kMax, 0x7ff0000000000000, 0xfff8000000000001, 0x7ff8000000000000},
      {kFloat16, kSum, 0x7bff, 0x5000, 0x7c00},  // 65504 + 32 overflows
      {kFloat16, kSum, 0x7bff, 0x4bff, 0x7bff},  // 65504 + 15.99 does not
      {kFloat16, kSum, 0x0001, 0x0001, 0x0002},  // subnormals
      {kFloat16, kSum, 0xfe01, 0x3c00, 0x7e00},
      {kBfloat16, kSum, 0x3f80, 0x3b80, 0x3f80},  // 1 + 2^-8: tie to even
      {kBfloat16, kSum, 0x3f81, 0x3b80, 0x3f82},
      {kBfloat16, kSum, 0x7f7f, 0x7f7f, 0x7f80},
      {kFloat8E4m3, kSum, 0x7e, 0x58, 0x7e},  // 448 + 16: tie to even
      {kFloat8E4m3, kSum, 0x7e, 0x59, 0x7f},  // 448 + 18 overflows to NaN
      {kFloat8E4m3, kSum, 0xfe, 0xfe, 0x7f},  // which has no sign
      {kFloat8E4m3, kMin, 0xff, 0x00, 0x7f},
      {kFloat8E5m2, kSum, 0x7b, 0x7b, 0x7c},
      {kFloat8E5m2, kSum, 0xfb, 0xfb, 0xfc},
      {kFloat8E5m2, kSum, 0x7c, 0xfc, 0x7e},
  };
  for (const Case& c : cases) {
    for (const Kernels* kernels : available_kernels()) {
      uint64_t result = 0;
      kernels->reduce[index_of(c.type)][index_of(c.op)](&result, &c.a, &c.b, 1);
      EXPECT_EQ(result, c.result) << describe(c.type, name_of(c.op), *kernels) << std::hex
                                  << " of 0x" << c.a << " and 0x" << c.b;
      kernels->reduce[index_of(c.type)][index_of(c.op)](&result, &c.b, &c.a, 1);
      EXPECT_EQ(result, c.result) << "the other way round";
    }
  }
}

}  // namespace
}  // namespace banyan::kernels_scalar_test
