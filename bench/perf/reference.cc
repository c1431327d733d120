// The laws of what is accepted, in extended precision.
// SPDX-License-Identifier: Apache-2.0

#include "bench/perf/reference.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "bench/perf/elements.h"

namespace banyan::perf {

namespace {

constexpr size_t kShown = 5;  // wrong elements that are kept for printing

// IEEE 754-2019 minimum and maximum: NaN wins, -0 is less than +0.
bool replaces(ReduceOp op, long double candidate, long double best) {
  if (std::isnan(candidate) || std::isnan(best)) return std::isnan(candidate);
  if (candidate == best) return std::signbit(candidate) == (op == ReduceOp::kMin);
  return (candidate < best) == (op == ReduceOp::kMin);
}

Accepted extreme_float(DataType type, ReduceOp op, std::span<const uint64_t> inputs) {
  uint64_t best = inputs.front();
  for (const uint64_t bits : inputs) {
    if (replaces(op, value_of(type, bits), value_of(type, best))) best = bits;
  }
  return {.expected = best};
}

Accepted reduce_floats(DataType type, ReduceOp op, std::span<const uint64_t> inputs) {
  if (op == ReduceOp::kMin || op == ReduceOp::kMax) return extreme_float(type, op, inputs);
  const bool product = op == ReduceOp::kProd;
  const auto ranks = static_cast<long double>(inputs.size());
  long double exact = product ? 1 : 0;
  long double magnitude = 0;
  for (const uint64_t bits : inputs) {
    const long double value = value_of(type, bits);
    exact = product ? exact * value : exact + value;
    magnitude += std::fabs(value);
  }
  auto roundings = static_cast<long double>(std::bit_width(inputs.size() - 1));
  if (product) {
    roundings = ranks;
    magnitude = std::fabs(exact);
  }
  if (op == ReduceOp::kAvg) {
    exact /= ranks;
    magnitude /= ranks;
    roundings += 1;
  }
  const long double epsilon = type == DataType::kFloat64 ? 0x1p-52L : 0x1p-23L;
  long double slack = roundings * epsilon * magnitude;
  Accepted accepted{.expected = bits_of(type, exact), .exact = false};
  const long double center = is_narrow_float(type) ? value_of(type, accepted.expected) : exact;
  if (is_narrow_float(type)) slack += unit_at(type, center);
  accepted.low = center - slack;
  accepted.high = center + slack;
  return accepted;
}

bool integer_replaces(DataType type, ReduceOp op, uint64_t candidate, uint64_t best) {
  const bool less = is_signed(type) ? static_cast<int64_t>(candidate) < static_cast<int64_t>(best)
                                    : candidate < best;
  return op == ReduceOp::kMin ? less : !less;
}

Accepted reduce_integers(DataType type, ReduceOp op, std::span<const uint64_t> inputs) {
  uint64_t total = widen(type, inputs.front());
  for (const uint64_t bits : inputs.subspan(1)) {
    const uint64_t value = widen(type, bits);
    switch (op) {
      case ReduceOp::kSum:
      case ReduceOp::kAvg:
      case ReduceOp::kPreMulSum: total += value; break;
      case ReduceOp::kProd: total *= value; break;
      case ReduceOp::kMin:
      case ReduceOp::kMax:
        if (integer_replaces(type, op, value, total)) total = value;
        break;
    }
  }
  if (op == ReduceOp::kAvg) {
    // The wrapped sum is divided, truncating towards zero.
    total = widen(type, narrow(type, total));
    const auto ranks = static_cast<int64_t>(inputs.size());
    total = is_signed(type) ? static_cast<uint64_t>(static_cast<int64_t>(total) / ranks)
                            : total / static_cast<uint64_t>(ranks);
  }
  return {.expected = narrow(type, total)};
}

void note(Checked& checked, const Wrong& wrong) {
  ++checked.wrong;
  if (checked.first.size() < kShown) checked.first.push_back(wrong);
}

void check_moved(const Origin& origin, const Data& data, const std::byte* output,
                 Checked& checked) {
  const size_t element = size_of(data.type());
  for (uint64_t i = 0; i < origin.count; ++i) {
    const uint64_t at = origin.begin + i;
    const uint64_t got = load_bits(data.type(), output + at * element);
    const uint64_t expected = data.bits(origin.rank, origin.index + i);
    if (got != expected) note(checked, {at, got, expected});
  }
}

// What codecs may add to the distance of a sum.
long double loss_of(double share, int ranks, ReduceOp op) {
  constexpr long double kTwice = 2;           // contributions and sums
  constexpr long double kRoundings = 1.001L;  // of scales and products
  const long double loss =
      kTwice * share * ranks * static_cast<long double>(Data::kFarthest) * kRoundings;
  return op == ReduceOp::kAvg ? loss / ranks : loss;
}

void check_reduced(const Origin& origin, int ranks, const Data& data, ReduceOp op,
                   const std::byte* output, double loss_share, Checked& checked) {
  const DataType type = data.type();
  const long double loss = loss_of(loss_share, ranks, op);
  std::vector<uint64_t> inputs(static_cast<size_t>(ranks));
  for (uint64_t i = 0; i < origin.count; ++i) {
    for (int rank = 0; rank < ranks; ++rank)
      inputs[static_cast<size_t>(rank)] = data.bits(rank, origin.index + i);
    Accepted accepted = reduce_exactly(type, op, inputs);
    accepted.low -= loss;
    accepted.high += loss;
    const uint64_t at = origin.begin + i;
    const uint64_t got = load_bits(type, output + at * size_of(type));
    if (!accepts(type, accepted, got)) note(checked, {at, got, accepted.expected});
  }
}

}  // namespace

Accepted reduce_exactly(DataType type, ReduceOp op, std::span<const uint64_t> inputs) {
  return is_floating(type) ? reduce_floats(type, op, inputs) : reduce_integers(type, op, inputs);
}

bool accepts(DataType type, const Accepted& accepted, uint64_t got) {
  if (got == accepted.expected) return true;
  if (accepted.exact) return false;
  const long double value = value_of(type, got);
  return value >= accepted.low && value <= accepted.high;
}

Checked check_output(const Case& which, const Data& data, ReduceOp op, const std::byte* output,
                     uint64_t begin, uint64_t end, double loss_share) {
  Checked checked;
  for (Origin origin : origins_of(which)) {
    const uint64_t first = std::max(begin, origin.begin);
    const uint64_t last = std::min(end, origin.begin + origin.count);
    if (first >= last) continue;
    origin.index += first - origin.begin;
    origin.begin = first;
    origin.count = last - first;
    if (origin.reduced) {
      check_reduced(origin, which.size, data, op, output, loss_share, checked);
    } else {
      check_moved(origin, data, output, checked);
    }
  }
  return checked;
}

}  // namespace banyan::perf
