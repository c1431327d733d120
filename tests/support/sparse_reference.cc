// SPDX-License-Identifier: Apache-2.0

#include "tests/support/sparse_reference.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace banyan {
namespace {

constexpr uint64_t kRegion = 65'536;

void append(Memory& to, uint64_t value, size_t size) {
  for (size_t i = 0; i < size; i++) to.push_back(static_cast<std::byte>(value >> 8 * i));
}

// NaN is larger than infinity.
bool is_larger(long double a, long double b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && !std::isnan(b);
  return std::fabs(a) > std::fabs(b);
}

uint64_t carried_bits(DataType carried, long double number, bool kept) {
  return kept ? rounded_bits(carried, number) : 0;
}

Memory element(DataType type, uint64_t bits) {
  Memory memory(size_of(type));
  put_bits(type, memory.data(), bits);
  return memory;
}

}  // namespace

std::vector<long double> numbers_of(DataType type, const Memory& values) {
  std::vector<long double> numbers;
  for (size_t at = 0; at < values.size(); at += size_of(type)) {
    numbers.push_back(value_of(type, get_bits(type, &values[at])));
  }
  return numbers;
}

Memory rounded(DataType type, const std::vector<long double>& numbers) {
  Memory values;
  for (const long double number : numbers)
    append(values, rounded_bits(type, number), size_of(type));
  return values;
}

Memory sparse_values(DataType type, uint64_t count, uint64_t seed) {
  if (type != DataType::kFloat64) return mixed_values(type, count, seed);
  auto numbers = numbers_of(DataType::kFloat32, mixed_values(DataType::kFloat32, count, seed));
  for (size_t i = 0; i < numbers.size(); i += 3) numbers[i] *= 1 + 0x1p-40L;
  return rounded(type, numbers);
}

Memory finite_values(DataType type, uint64_t count, uint64_t seed) {
  Memory values = sparse_values(type, count, seed);
  for (size_t at = 0; at < values.size(); at += size_of(type)) {
    if (std::isfinite(value_of(type, get_bits(type, &values[at])))) continue;
    put_bits(type, &values[at], rounded_bits(type, 1));
  }
  return values;
}

Kept kept_from(DataType type, const Memory& values, double threshold) {
  Kept kept;
  for (const long double number : numbers_of(type, values)) {
    kept.push_back(std::isnan(number) || std::fabs(number) >= static_cast<long double>(threshold));
  }
  return kept;
}

Kept kept_largest(DataType type, const Memory& values, uint64_t wanted) {
  const auto numbers = numbers_of(type, values);
  std::vector<size_t> order(numbers.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return is_larger(numbers[a], numbers[b]); });
  Kept kept(numbers.size());
  for (uint64_t i = 0; i < wanted; i++) kept[order[i]] = true;
  return kept;
}

Kept kept_nonzero(DataType type, const Memory& values) {
  Kept kept;
  for (size_t at = 0; at < values.size(); at += size_of(type)) {
    kept.push_back(get_bits(type, &values[at]) != 0);
  }
  return kept;
}

uint64_t count_of(const Kept& kept) {
  return static_cast<uint64_t>(std::count(kept.begin(), kept.end(), true));
}

uint64_t Lengths::shortest() const {
  return std::min({list, bitmap, dense});
}

uint8_t Lengths::form() const {
  return list == shortest() ? 0 : bitmap == shortest() ? 1 : 2;
}

Lengths lengths_of(uint64_t count, uint64_t kept, uint64_t size) {
  return {(count + kRegion - 1) / kRegion * 4 + kept * (2 + size), (count + 7) / 8 + kept * size,
          count * size};
}

Message said_in_forms(DataType type, DataType carried, const Memory& values, const Kept& kept) {
  const auto numbers = numbers_of(type, values);
  const uint64_t count = kept.size();
  const Lengths lengths = lengths_of(count, count_of(kept), size_of(carried));
  Memory places;
  Memory bits((count + 7) / 8);
  Memory said;
  std::vector<uint32_t> counts((count + kRegion - 1) / kRegion);
  Message message;
  message.said = {lengths.shortest(), lengths.form(), count_of(kept), 0};
  for (uint64_t i = 0; i < count; i++) {
    const uint64_t one = carried_bits(carried, numbers[i], kept[i]);
    if (!std::isfinite(value_of(carried, one))) message.said.nonfinite++;
    if (message.said.flags == 2 || kept[i]) append(said, one, size_of(carried));
    if (!kept[i]) continue;
    append(places, i % kRegion, 2);
    bits[i / 8] |= std::byte{1} << i % 8;
    counts[i / kRegion]++;
  }
  if (message.said.flags == 0) {
    for (const uint32_t one : counts) append(message.bytes, one, 4);
    message.bytes.insert(message.bytes.end(), places.begin(), places.end());
  } else if (message.said.flags == 1) {
    message.bytes = bits;
  }
  message.bytes.insert(message.bytes.end(), said.begin(), said.end());
  return message;
}

Memory sent_of(DataType type, DataType carried, const Memory& values, const Kept& kept,
               DataType target) {
  const auto numbers = numbers_of(type, values);
  Memory sent;
  for (size_t i = 0; i < numbers.size(); i++) {
    const uint64_t one = carried_bits(carried, numbers[i], kept[i]);
    append(sent, rounded_bits(target, value_of(carried, one)), size_of(target));
  }
  return sent;
}

Memory left_of(DataType type, DataType carried, const Memory& values, const Kept& kept) {
  auto numbers = numbers_of(type, values);
  for (size_t i = 0; i < numbers.size(); i++) {
    const long double sent = value_of(carried, carried_bits(carried, numbers[i], kept[i]));
    const bool finite = std::isfinite(numbers[i]) && std::isfinite(sent);
    numbers[i] = finite ? numbers[i] - sent : 0;
  }
  return rounded(type, numbers);
}

Memory added_to(DataType type, DataType carried, const Memory& values, const Kept& kept,
                const Memory& addend) {
  const bool is_double = type == DataType::kFloat64 || carried == DataType::kFloat64;
  const DataType wide = is_double ? DataType::kFloat64 : DataType::kFloat32;
  const auto numbers = numbers_of(type, values);
  const auto before = numbers_of(type, addend);
  Memory sum = addend;
  for (size_t i = 0; i < numbers.size(); i++) {
    const uint64_t one = carried_bits(carried, numbers[i], kept[i]);
    if (one == 0) continue;
    const uint64_t added = float_result(wide, ReduceOp::kSum, before[i], value_of(carried, one));
    const Memory after = element(type, rounded_bits(type, value_of(wide, added)));
    std::copy(after.begin(), after.end(), sum.begin() + static_cast<ptrdiff_t>(i * after.size()));
  }
  return sum;
}

}  // namespace banyan
