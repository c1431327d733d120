// SPDX-License-Identifier: Apache-2.0
#include "tests/ranks/ranks_values.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>

namespace banyan::test {
namespace {

void fill_periodic(std::byte* target, const Memory& source, size_t element, size_t base,
                   size_t count) {
  while (count > 0) {
    const size_t start = base % kPeriod;
    const size_t part = std::min(kPeriod - start, count);
    std::memcpy(target, source.data() + start * element, part * element);
    target += part * element;
    base += part;
    count -= part;
  }
}

// Sums of 16 ranks stay finite in every type.
long double float_input(ReduceOp op, uint64_t random) {
  const long double uniform = static_cast<long double>(random >> 11) * 0x1p-53L;
  const long double sign = (random & 1) != 0 ? -1 : 1;
  if (op == ReduceOp::kProd) return sign * (0.625L + 0.75L * uniform);
  return sign * std::ldexp(0.5L + 0.5L * uniform, static_cast<int>(random >> 1 & 7) - 4);
}

long double scale_of(ReduceOp op, DataType type, int rank) {
  if (op != ReduceOp::kPreMulSum) return 1;
  const auto scalar = Table::scalar(type, rank);
  return value_of(type, get_bits(type, scalar.data()));
}

long double combine(ReduceOp op, long double a, long double b) {
  switch (op) {
    case ReduceOp::kProd: return a * b;
    case ReduceOp::kMax: return std::max(a, b);
    case ReduceOp::kMin: return std::min(a, b);
    case ReduceOp::kSum:
    case ReduceOp::kAvg:
    case ReduceOp::kPreMulSum: return a + b;
  }
  return 0;
}

// Gives the distance of the numbers next to `bits`, by magnitude.
long double last_place(DataType type, uint64_t bits) {
  const uint64_t top = uint64_t{1} << (size_of(type) * 8 - 1);
  const uint64_t magnitude = bits & (top - 1);
  return value_of(type, magnitude + 1) - value_of(type, magnitude);
}

// The next float that is not less.
float float_above(long double bound) {
  const auto near = static_cast<float>(bound);
  return near < bound ? std::nextafter(near, std::numeric_limits<float>::infinity()) : near;
}

float float_below(long double bound) {
  return -float_above(-bound);
}

}  // namespace

uint64_t mix(uint64_t value) {
  value += 0x9e3779b97f4a7c15ULL;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ULL;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebULL;
  return value ^ (value >> 31);
}

std::array<std::byte, 8> Table::scalar(DataType type, int rank) {
  constexpr long double kFactors[] = {0.5L, -1.25L, 1, 0.75L, -0.625L, 1.5L, 0.25L, 2, -1.75L};
  std::array<std::byte, 8> scalar{};
  const uint64_t bits = is_floating(type) ? rounded_bits(type, kFactors[rank % 9])
                                          : wrapped(type, rank % 2 == 0 ? rank + 3 : -rank - 1);
  put_bits(type, scalar.data(), bits);
  return scalar;
}

Table::Table(DataType type, ReduceOp op, int ranks, uint64_t seed)
    : type_(type), op_(op), inputs_(static_cast<size_t>(ranks)) {
  make_inputs(seed);
  is_floating(type) ? reduce_floats() : reduce_integers();
}

void Table::make_inputs(uint64_t seed) {
  uint64_t state = mix(seed ^ mix(static_cast<uint64_t>(type_) * 16 + static_cast<uint64_t>(op_)));
  for (Memory& input : inputs_) {
    input.resize(kPeriod * element());
    for (size_t i = 0; i < kPeriod; ++i) {
      state = mix(state);
      const uint64_t bits = is_floating(type_) ? rounded_bits(type_, float_input(op_, state))
                                               : wrapped(type_, static_cast<int64_t>(state));
      put_bits(type_, input.data() + i * element(), bits);
    }
  }
}

// Modulo 2^64, then modulo the type, which is the same as doing every step in the type.
void Table::reduce_integers() {
  exact_.resize(kPeriod * element());
  for (size_t i = 0; i < kPeriod; ++i) {
    uint64_t total = 0;
    for (size_t rank = 0; rank < inputs_.size(); ++rank) {
      const uint64_t bits = get_bits(type_, inputs_[rank].data() + i * element());
      auto x = static_cast<uint64_t>(integer_of(type_, bits));
      if (op_ == ReduceOp::kPreMulSum) {
        const auto factor = scalar(type_, static_cast<int>(rank));
        x *= static_cast<uint64_t>(integer_of(type_, get_bits(type_, factor.data())));
      }
      const Wide a = integer_of(type_, wrapped(type_, static_cast<int64_t>(total)));
      const Wide b = integer_of(type_, bits);
      const bool keep =
          rank > 0 && ((op_ == ReduceOp::kMax && a >= b) || (op_ == ReduceOp::kMin && a <= b));
      if (keep) continue;
      const bool first = rank == 0 || op_ == ReduceOp::kMax || op_ == ReduceOp::kMin;
      total = first ? x : op_ == ReduceOp::kProd ? total * x : total + x;
    }
    uint64_t bits = wrapped(type_, static_cast<int64_t>(total));
    if (op_ == ReduceOp::kAvg) bits = wrapped(type_, integer_of(type_, bits) / ranks());
    put_bits(type_, exact_.data() + i * element(), bits);
  }
}

void Table::reduce_floats() {
  const bool exact = op_ == ReduceOp::kMax || op_ == ReduceOp::kMin;
  if (exact) exact_.resize(kPeriod * element());
  int rounds = 0;
  while ((1 << rounds) < ranks()) ++rounds;
  if (op_ == ReduceOp::kAvg || op_ == ReduceOp::kPreMulSum) ++rounds;
  if (op_ == ReduceOp::kProd) rounds = ranks();
  const long double epsilon = type_ == DataType::kFloat64 ? 0x1p-52L : 0x1p-23L;
  const long double divisor = op_ == ReduceOp::kAvg ? ranks() : 1;
  for (size_t i = 0; i < kPeriod; ++i) {
    long double total = 0, magnitude = 0;
    for (size_t rank = 0; rank < inputs_.size(); ++rank) {
      const long double x = value_of(type_, get_bits(type_, inputs_[rank].data() + i * element())) *
                            scale_of(op_, type_, static_cast<int>(rank));
      total = rank == 0 ? x : combine(op_, total, x);
      magnitude += std::fabs(x);
    }
    if (exact) {
      put_bits(type_, exact_.data() + i * element(), rounded_bits(type_, total));
      continue;
    }
    total /= divisor;
    long double around =
        rounds * epsilon * (op_ == ReduceOp::kProd ? std::fabs(total) : magnitude / divisor);
    if (is_narrow_float(type_) && rounds > 0) {
      const uint64_t nearest = rounded_bits(type_, total);
      total = value_of(type_, nearest);
      around += last_place(type_, nearest);
    }
    low_.push_back(total - around);
    high_.push_back(total + around);
  }
  if (type_ != DataType::kFloat32) return;
  std::transform(low_.begin(), low_.end(), std::back_inserter(low_floats_), float_above);
  std::transform(high_.begin(), high_.end(), std::back_inserter(high_floats_), float_below);
}

void Table::fill(std::byte* target, int rank, size_t base, size_t count) const {
  fill_periodic(target, inputs_[static_cast<size_t>(rank)], element(), base, count);
}

size_t Table::check(const std::byte* got, size_t base, size_t count) const {
  for (size_t done = 0; done < count;) {
    const size_t place = (base + done) % kPeriod;
    const size_t part = std::min(kPeriod - place, count - done);
    const std::byte* from = got + done * element();
    const size_t right = all_right(from, place, part) ? part : count_right(from, place, part);
    done += right;
    if (right != part) return done;
  }
  return count;
}

// A quick look at what is there most of the time; false where it does not tell.
bool Table::all_right(const std::byte* got, size_t place, size_t count) const {
  if (!exact_.empty())
    return std::memcmp(got, exact_.data() + place * element(), count * element()) == 0;
  if (type_ != DataType::kFloat32) return false;
  std::array<float, kPeriod> values;
  std::memcpy(values.data(), got, count * sizeof(float));
  bool right = true;
  for (size_t i = 0; i < count; ++i) {
    right &= values[i] >= low_floats_[place + i];
    right &= values[i] <= high_floats_[place + i];
  }
  return right;
}

size_t Table::count_right(const std::byte* got, size_t place, size_t count) const {
  for (size_t i = 0; i < count; ++i) {
    const std::byte* one = got + i * element();
    if (!exact_.empty()) {
      if (std::memcmp(one, exact_.data() + (place + i) * element(), element()) != 0) return i;
      continue;
    }
    const long double value = value_of(type_, get_bits(type_, one));
    if (!(value >= low_[place + i] && value <= high_[place + i])) return i;
  }
  return count;
}

}  // namespace banyan::test
