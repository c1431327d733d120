// SPDX-License-Identifier: Apache-2.0

#include "tests/support/cuda_gradients_checks.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "compression/codecs.h"
#include "tests/support/on_device.h"

namespace banyan::test {

namespace {

using FloatList = std::vector<float>;

constexpr uint64_t kLengths[] = {1, 2, 255, 256, 257, 4095, 4096, 4097, 12'300, 70'001};
constexpr DataType kGradientTypes[] = {DataType::kFloat32, DataType::kFloat16, DataType::kBfloat16};
constexpr uint64_t kSample = 256;  // of each stretch

Memory bytes_of(const FloatList& values) {
  Memory bytes(values.size() * sizeof(float));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

float* floats_at(OnDevice& there) {
  return reinterpret_cast<float*>(there.data());
}

FloatList floats_from(DeviceMemory& memory, const std::byte* from, uint64_t count) {
  FloatList values(count);
  memory.read(values.data(), from, count * sizeof(float));
  return values;
}

FloatList numbers(uint64_t count, uint64_t seed) {
  const Memory drawn = make_numbers(DataType::kFloat32, count, seed);
  FloatList values(count);
  std::memcpy(values.data(), drawn.data(), drawn.size());
  return values;
}

double element(DataType type, const Memory& elements, uint64_t i) {
  return static_cast<double>(value_of(type, get_bits(type, &elements[i * size_of(type)])));
}

// Two NaNs are alike.
bool same(float a, float b) {
  const bool alike = __builtin_bit_cast(uint32_t, a) == __builtin_bit_cast(uint32_t, b);
  return alike || (std::isnan(a) && std::isnan(b));
}

void expect_same(const FloatList& got, const FloatList& wanted, const std::string& what) {
  for (size_t i = 0; i < wanted.size(); ++i)
    ASSERT_TRUE(same(got[i], wanted[i]))
        << what << ": " << i << " is " << got[i] << ", not " << wanted[i];
}

// What kernels say, by stretch.
class Said {
 public:
  Said(DeviceMemory& memory, uint64_t count)
      : memory_(memory),
        stretches_(gradient_stretches(count)),
        there_(memory, Memory(stretches_ * sizeof(GradientSeen), kCanary), 0, kGuard) {}
  GradientSeen* data() { return reinterpret_cast<GradientSeen*>(there_.data()); }
  GradientSeen total() {
    std::vector<GradientSeen> seen(stretches_);
    memory_.read(seen.data(), there_.data(), stretches_ * sizeof(GradientSeen));
    GradientSeen total{0, 0, 0};
    for (const GradientSeen& each : seen)
      total = {total.gradient + each.gradient, total.sum + each.sum,
               total.nonfinite + each.nonfinite};
    return total;
  }

 private:
  DeviceMemory& memory_;
  uint64_t stretches_;
  OnDevice there_;
};

bool is_sampled(uint64_t i) {
  return i % kGradientStretch < kSample;
}

template <typename Values>
double squares_of(const Values& value_at, uint64_t count, bool samples) {
  double squares = 0;
  for (uint64_t i = 0; i < count; ++i) {
    const double value = value_at(i);
    if (!samples || is_sampled(i)) squares += value * value;
  }
  return squares;
}

void expect_near(double got, double wanted, const std::string& what) {
  if (!std::isfinite(wanted)) return;
  EXPECT_NEAR(got, wanted, 1e-12 * wanted) << what;
}

struct Kind {
  float scale;
  bool has_velocity;
  bool has_residual;
  bool samples;
  size_t at;  // in elements
};

void check_contribution(const TestedGradients& tested, DataType type, uint64_t count,
                        const Kind& kind) {
  constexpr float kMomentum = 0.9F;
  const std::string what = std::string(name_of(type)) + ", " + std::to_string(count);
  const Memory elements =
      count % 2 == 0 ? make_numbers(type, count, count) : make_elements(type, count, count);
  const FloatList velocity = numbers(count, 1), residual = numbers(count, 2);
  FloatList next, sum;
  uint64_t nonfinite = 0;
  for (uint64_t i = 0; i < count; ++i) {
    auto value = static_cast<float>(element(type, elements, i));
    nonfinite += std::isfinite(value) ? 0 : 1;
    value = value * kind.scale;
    if (kind.has_velocity) {
      const float kept = kMomentum * velocity[i];
      value = value + kept;
    }
    next.push_back(value);
    sum.push_back(kind.has_residual ? value + residual[i] : value);
  }
  OnDevice given(tested.memory, elements, kind.at * size_of(type));
  OnDevice before(tested.memory, bytes_of(velocity), kind.at * sizeof(float));
  OnDevice after(tested.memory, Memory(count * sizeof(float), kCanary), kind.at * sizeof(float));
  OnDevice left(tested.memory, bytes_of(residual), kind.at * sizeof(float));
  OnDevice result(tested.memory, Memory(count * sizeof(float), kCanary), 0, kGuard);
  Said said(tested.memory, count);
  CudaGradientCall call{.values = given.data(),
                        .sum = floats_at(result),
                        .seen = said.data(),
                        .count = count,
                        .scale = kind.scale,
                        .samples = kind.samples ? 1U : 0U};
  if (kind.has_velocity) {
    call.velocity = floats_at(before);
    call.next_velocity = floats_at(after);
    call.momentum = kMomentum;
  }
  if (kind.has_residual) call.residual = floats_at(left);
  ASSERT_TRUE(tested.gradients.contribute(type, call, nullptr).ok());
  ASSERT_NO_FATAL_FAILURE(
      expect_same(floats_from(tested.memory, result.data(), count), sum, what + ", sum"));
  if (kind.has_velocity) {
    ASSERT_NO_FATAL_FAILURE(
        expect_same(floats_from(tested.memory, after.data(), count), next, what + ", velocity"));
  }
  const GradientSeen total = said.total();
  EXPECT_EQ(total.nonfinite, nonfinite) << what;
  expect_near(total.gradient, squares_of([&](uint64_t i) { return next[i]; }, count, kind.samples),
              what);
  expect_near(total.sum, squares_of([&](uint64_t i) { return sum[i]; }, count, kind.samples), what);
  if (type != DataType::kFloat32) return;
  call.sum = reinterpret_cast<float*>(given.data());
  ASSERT_TRUE(tested.gradients.contribute(type, call, nullptr).ok());
  ASSERT_NO_FATAL_FAILURE(
      expect_same(floats_from(tested.memory, given.data(), count), sum, what + ", in place"));
}

}  // namespace

void check_contributions(const TestedGradients& tested) {
  for (const DataType type : kGradientTypes)
    for (const uint64_t count : kLengths)
      for (const Kind& kind : {Kind{1, false, false, false, 0}, Kind{0.37F, false, true, true, 1},
                               Kind{1, true, false, true, 3}, Kind{0.37F, true, true, false, 0}}) {
        check_contribution(tested, type, count, kind);
        if (testing::Test::HasFatalFailure()) return;
      }
}

void check_looks(const TestedGradients& tested) {
  for (const DataType type :
       {DataType::kFloat32, DataType::kFloat16, DataType::kBfloat16, DataType::kFloat64})
    for (const uint64_t count : kLengths)
      for (const bool samples : {false, true}) {
        const std::string what = std::string(name_of(type)) + ", " + std::to_string(count);
        const Memory elements =
            samples ? make_elements(type, count, count) : make_numbers(type, count, count);
        uint64_t nonfinite = 0;
        for (uint64_t i = 0; i < count; ++i)
          nonfinite += std::isfinite(element(type, elements, i)) ? 0 : 1;
        OnDevice given(tested.memory, elements, size_of(type));
        Said said(tested.memory, count);
        ASSERT_TRUE(tested.gradients
                        .look_at(type,
                                 {.values = given.data(),
                                  .seen = said.data(),
                                  .count = count,
                                  .samples = samples ? 1U : 0U},
                                 nullptr)
                        .ok());
        const GradientSeen total = said.total();
        EXPECT_EQ(total.nonfinite, nonfinite) << what;
        expect_near(
            total.gradient,
            squares_of([&](uint64_t i) { return element(type, elements, i); }, count, samples),
            what);
      }
}

void check_forgetting(const TestedGradients& tested) {
  for (const uint64_t count : kLengths)
    for (const bool has_residual : {false, true})
      for (const bool by_sum : {false, true}) {
        if (by_sum && has_residual) continue;
        const FloatList velocity = numbers(count, 3), residual = numbers(count, 4);
        FloatList vector = numbers(count, 5), wanted(velocity);
        for (uint64_t i = 0; i < count; ++i) {
          const float whole = has_residual ? velocity[i] + residual[i] : velocity[i];
          if (i % 3 == 0) vector[i] = by_sum ? 0 : whole;  // nothing was sent
          if (i % 7 == 5) vector[i] = NAN;
          if (by_sum ? vector[i] != 0 : vector[i] != whole) wanted[i] = 0;
        }
        OnDevice there(tested.memory, bytes_of(velocity), 4, kGuard);
        OnDevice left(tested.memory, bytes_of(residual), 0);
        OnDevice said(tested.memory, bytes_of(vector), 8);
        ASSERT_TRUE(tested.gradients
                        .forget_sent({.values = said.data(),
                                      .velocity = floats_at(there),
                                      .residual = has_residual ? floats_at(left) : nullptr,
                                      .count = count,
                                      .by_sum = by_sum ? 1U : 0U},
                                     nullptr)
                        .ok());
        ASSERT_NO_FATAL_FAILURE(there.expect(bytes_of(wanted), std::to_string(count)));
      }
}

void check_leaving(const TestedGradients& tested) {
  const auto table = scalar_kernels().codecs;
  for (const auto& [type, codec] :
       {std::pair(DataType::kFloat16, kFp16), std::pair(DataType::kBfloat16, kBf16)})
    for (const uint64_t count : kLengths)
      for (const bool in_place : {false, true}) {
        const Memory values = make_elements(DataType::kFloat32, count, count);
        Memory message(count * size_of(type)), left(values.size());
        (void)table[codec - size_t{1}].encode({}, DataType::kFloat32, values.data(), count,
                                              message.data(), left.data());
        OnDevice given(tested.memory, values, 0, kGuard);
        OnDevice rest(tested.memory, Memory(values.size(), kCanary), 4, kGuard);
        OnDevice& to = in_place ? given : rest;
        ASSERT_TRUE(tested.kernels.leave(type, to.data(), given.data(), count, nullptr).ok());
        ASSERT_NO_FATAL_FAILURE(to.expect(left, std::string(name_of(type)) + ", left"));
      }
}

}  // namespace banyan::test
