// Gradients go into vectors and sums out of them, as plain code has it, element by element.
// SPDX-License-Identifier: Apache-2.0

#include "src/reducer/packing.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "tests/support/kernels_reference.h"

namespace banyan::packing_test {
namespace {

using Floats = std::vector<float>;

constexpr DataType kPacked[] = {DataType::kFloat32, DataType::kFloat16, DataType::kBfloat16};
constexpr uint64_t kCounts[] = {0, 1, 255, 256, 4097, 70'001};
constexpr float kUntouched = 12345;

HostPacking& work() {
  static HostPacking host;
  return host;
}

Contributed contribute(const Contribution& part, float* sum) {
  Contributed seen{1, {1, 1}, {1, 1}};
  work().contribute(part, sum, &seen);
  return seen;
}

Sampled sample(const std::vector<float>& values) {
  Sampled seen{1, 1};
  work().sample(values.data(), values.size(), &seen);
  return seen;
}

uint64_t nonfinite_in(const std::byte* elements, DataType type, uint64_t count) {
  uint64_t found = 1;
  work().count_nonfinite(elements, type, count, &found);
  return found;
}

Floats drawn(uint64_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  Floats values(count);
  for (float& value : values) value = normal(random);
  return values;
}

float element_of(const Memory& elements, DataType type, uint64_t index) {
  return static_cast<float>(
      value_of(type, get_bits(type, elements.data() + index * size_of(type))));
}

double squares_of(const Floats& values) {
  double squares = 0;
  for (const float value : values)
    squares += static_cast<double>(value) * static_cast<double>(value);
  return squares;
}

void expect_near(const Sampled& seen, const Floats& values) {
  const auto count = static_cast<double>(values.size());
  if (values.size() <= 65'536) {
    EXPECT_EQ(seen.values, values.size());
    EXPECT_NEAR(seen.squares, squares_of(values), 1e-9 * squares_of(values));
  } else {
    EXPECT_LE(seen.values, values.size() / 16 + 256);
    EXPECT_GE(seen.values, values.size() / 16);
    const double estimated = seen.squares * count / static_cast<double>(seen.values);
    EXPECT_NEAR(estimated / squares_of(values), 1, 0.15);
  }
}

struct Kind {
  float scale;
  bool has_velocity;
  bool has_residual;
};

// What contribute() is to say, an element at a time.
struct Expected {
  Floats gradient, sum;
};
Expected expected_of(const Memory& elements, DataType type, uint64_t count, const Kind& kind,
                     const Floats& velocity, const Floats& residual, float momentum) {
  Expected expected;
  for (uint64_t i = 0; i < count; ++i) {
    float value = element_of(elements, type, i) * kind.scale;
    if (kind.has_velocity) {
      const float kept = momentum * velocity[i];
      value = value + kept;
    }
    expected.gradient.push_back(value);
    expected.sum.push_back(kind.has_residual ? value + residual[i] : value);
  }
  return expected;
}

void expect_contributed(DataType type, uint64_t count, const Kind& kind, bool in_place,
                        size_t skew) {
  constexpr float kMomentum = 0.9F;
  const Memory elements = make_numbers(type, count, count + skew);
  const Floats velocity = drawn(count, 1), residual = drawn(count, 2);
  const Expected expected = expected_of(elements, type, count, kind, velocity, residual, kMomentum);
  // From the element at `skew` on, with one behind the last that must stay.
  std::vector<std::byte> memory((count + skew) * size_of(type));
  if (count > 0)
    std::memcpy(memory.data() + skew * size_of(type), elements.data(), elements.size());
  Floats room(count + skew + 1, kUntouched), next(count + 1, kUntouched);
  float* const sum = in_place ? reinterpret_cast<float*>(memory.data()) + skew : &room[skew];
  Contribution part{.gradient = memory.data() + skew * size_of(type),
                    .type = type,
                    .count = count,
                    .scale = kind.scale};
  if (kind.has_velocity) {
    part.momentum = kMomentum;
    part.velocity = velocity.data();
    part.next_velocity = next.data();
  }
  if (kind.has_residual) part.residual = residual.data();
  const Contributed seen = contribute(part, sum);
  EXPECT_EQ(Floats(sum, sum + count), expected.sum);
  if (kind.has_velocity) {
    EXPECT_EQ(Floats(next.begin(), next.end() - 1), expected.gradient);
    EXPECT_EQ(next.back(), kUntouched);
  }
  if (!in_place) {
    EXPECT_EQ(room.back(), kUntouched);
    EXPECT_TRUE(count == 0 || std::memcmp(part.gradient, elements.data(), elements.size()) == 0);
  }
  EXPECT_EQ(seen.nonfinite, 0U);
  expect_near(seen.gradient, expected.gradient);
  expect_near(seen.sum, expected.sum);
}

TEST(Packing, ContributesWhatPlainCodeDoes) {
  for (const DataType type : kPacked)
    for (const uint64_t count : kCounts)
      for (const Kind& kind : {Kind{1, false, false}, Kind{0.37F, false, true},
                               Kind{1, true, false}, Kind{0.37F, true, true}})
        for (const size_t skew : {0, 1, 3})
          for (const bool in_place : {false, true}) {
            if (in_place && type != DataType::kFloat32) continue;
            SCOPED_TRACE(testing::Message() << name_of(type) << ", " << count << " elements, from "
                                            << skew << (in_place ? ", in place" : ""));
            expect_contributed(type, count, kind, in_place, skew);
            if (testing::Test::HasFailure()) return;
          }
}

TEST(Packing, CountsWhatIsNotFiniteOfAGradient) {
  Memory elements = make_numbers(DataType::kBfloat16, 300, 1);
  for (const size_t at : {0, 7, 299})
    put_bits(DataType::kBfloat16, &elements[2 * at], at == 7 ? 0x7FC0 : 0xFF80);
  Floats sum(300);
  const Contributed seen = contribute(
      {.gradient = elements.data(), .type = DataType::kBfloat16, .count = 300}, sum.data());
  EXPECT_EQ(seen.nonfinite, 3U);
  EXPECT_TRUE(std::isinf(sum[0]) && std::isnan(sum[7]) && std::isinf(sum[299]));
}

TEST(Packing, SamplesAll) {
  for (const uint64_t count : {0, 1, 255, 4096, 4097, 65'536, 65'537, 300'000})
    expect_near(sample(drawn(count, 5)), drawn(count, 5));
  Floats values(65'537, 1);
  values[300] = 1e20F;  // not in the sample: it has the first 256 of every 4,096
  EXPECT_EQ(sample(values).squares, static_cast<double>(sample(values).values));
  EXPECT_EQ(sample(values).values, 16 * 256U + 1);
}

TEST(Packing, FindsWhatIsNotFinite) {
  for (const DataType type :
       {DataType::kFloat16, DataType::kBfloat16, DataType::kFloat32, DataType::kFloat64})
    for (const uint64_t count : {0, 1, 1023, 1024, 1025, 70'001}) {
      const Memory elements = make_elements(type, count, 3);  // special ones, and any bits
      uint64_t expected = 0;
      for (uint64_t i = 0; i < count; ++i)
        expected +=
            std::isfinite(value_of(type, get_bits(type, &elements[i * size_of(type)]))) ? 0 : 1;
      EXPECT_EQ(nonfinite_in(elements.data(), type, count), expected) << name_of(type);
    }
}

// The smallest, the largest, and what is just too much, each by itself.
TEST(Packing, KnowsFiniteFromInfinite) {
  struct Case {
    DataType type;
    uint64_t finite[4];
    uint64_t others[4];
  };
  constexpr Case kCases[] = {
      {DataType::kFloat16, {1, 0x8001, 0x7BFF, 0xFBFF}, {0x7C00, 0xFC00, 0x7C01, 0xFFFF}},
      {DataType::kBfloat16, {1, 0x8001, 0x7F7F, 0xFF7F}, {0x7F80, 0xFF80, 0x7F81, 0xFFFF}},
      {DataType::kFloat32,
       {1, 0x80000001, 0x7F7FFFFF, 0xFF7FFFFF},
       {0x7F800000, 0xFF800000, 0x7F800001, 0xFFFFFFFF}},
      {DataType::kFloat64,
       {1, 0x8000000000000001, 0x7FEFFFFFFFFFFFFF, 0xFFEFFFFFFFFFFFFF},
       {0x7FF0000000000000, 0xFFF0000000000000, 0x7FF0000000000001, 0xFFFFFFFFFFFFFFFF}}};
  for (const Case& each : kCases) {
    std::array<std::byte, 8> element{};
    for (const uint64_t bits : each.finite) {
      put_bits(each.type, element.data(), bits);
      EXPECT_EQ(nonfinite_in(element.data(), each.type, 1), 0U) << name_of(each.type) << bits;
    }
    for (const uint64_t bits : each.others) {
      put_bits(each.type, element.data(), bits);
      EXPECT_EQ(nonfinite_in(element.data(), each.type, 1), 1U) << name_of(each.type) << bits;
    }
  }
}

TEST(Packing, AddsAResidual) {
  for (const DataType type :
       {DataType::kFloat16, DataType::kBfloat16, DataType::kFloat32, DataType::kFloat64})
    for (const uint64_t count : kCounts) {
      const Memory before = make_numbers(type, count, 4);
      const Floats residual = drawn(count, 6);
      Memory expected = before, got = before;
      for (uint64_t i = 0; i < count; ++i) {
        std::byte* const element = &expected[i * size_of(type)];
        const long double value = value_of(type, get_bits(type, element));
        const auto r = static_cast<long double>(residual[i]);
        put_bits(
            type, element,
            rounded_bits(
                type,
                type == DataType::kFloat64
                    ? static_cast<long double>(static_cast<double>(value) + static_cast<double>(r))
                    : static_cast<long double>(static_cast<float>(value) + static_cast<float>(r))));
      }
      add_residual(residual, type, best_kernels(), got.data());
      EXPECT_EQ(got, expected) << name_of(type) << ", " << count;
    }
}

TEST(Packing, AddsUpSquares) {
  for (const DataType type : kPacked)
    for (const uint64_t count : kCounts) {
      const Memory elements = make_numbers(type, count, 8);
      Floats values;
      for (uint64_t i = 0; i < count; ++i) values.push_back(element_of(elements, type, i));
      EXPECT_NEAR(work().squares_of(elements.data(), type, count), squares_of(values),
                  1e-9 * squares_of(values));
    }
}

// Elements 0, 1 and 4 to 6 were contributed; those of sums lie behind, some of the same elements.
TEST(Packing, GathersWhatIsLeft) {
  const std::vector<Left> lefts = {{4, {4, 3}}, {8, {2, 3}}, {0, {0, 2}}, {11, {4, 2}}};
  Floats left = {1, 2, NAN, NAN, 3, 4, 5, NAN, 10, 20, 30, 100, 200};
  gather_left(lefts, 8, left.data(), work());
  left.resize(8);
  EXPECT_EQ(left, (Floats{1, 2, 10, 20, 133, 204, 5, 0}));
}

TEST(Packing, GathersNothingOfNothing) {
  Floats left(5, NAN);
  gather_left({}, 5, left.data(), work());
  EXPECT_EQ(left, Floats(5));
  gather_left({}, 0, nullptr, work());
  left = {7, 8};
  gather_left(std::vector<Left>{{0, {0, 2}}}, 2, left.data(), work());
  EXPECT_EQ(left, (Floats{7, 8}));
}

// A piece of no elements, and one that begins behind its vector by as much as its elements do.
TEST(Packing, GathersPiecesAtTheEdges) {
  Floats left = {1, NAN, 5, 6};
  gather_left(std::vector<Left>{{0, {0, 1}}, {1, {1, 0}}, {2, {0, 2}}}, 2, left.data(), work());
  EXPECT_EQ(left[0], 6);
  EXPECT_EQ(left[1], 6);
}

// Elements 2 and 3 are another rank's to send, and 6 was sent by another one only.
TEST(Packing, MasksTheVelocityOfWhatWasSent) {
  const std::vector<Left> lefts = {{0, {0, 2}}, {4, {4, 3}}, {7, {0, 7}}};
  Floats left = {0, 0.5F, NAN, NAN, -1, 0, 7.5F};
  left.resize(14);
  const Floats residual = {0.5F, 0.5F, 0.5F, 0.5F, -1, 0.5F, 0.5F};
  const Floats sum = {3, 3, 0, 7, 3, 0, 4};
  Floats velocity = {1, 2, 3, 4, 0, 6, 7};
  mask_velocity(lefts, {left.data(), residual.data(), sum.data()}, velocity.data(), 7, work());
  EXPECT_EQ(velocity, (Floats{0, 0, 3, 0, 0, 0, 7}));
  velocity = {0.25F, 0.5F, 3, 4, 0.5F, 6, 7.5F};
  mask_velocity(lefts, {left.data(), nullptr, sum.data()}, velocity.data(), 7,
                work());  // what is left is lost
  EXPECT_EQ(velocity, (Floats{0, 0.5F, 3, 0, 0, 0, 7.5F}));
}

}  // namespace
}  // namespace banyan::packing_test
