// SPDX-License-Identifier: Apache-2.0

#include "tests/support/cuda_kernels_checks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "compression/cuda/spans.h"
#include "tests/support/kernels_reference.h"
#include "tests/support/on_device.h"

namespace banyan::test {

namespace {

constexpr ReduceOp kDistinctOps[] = {ReduceOp::kSum, ReduceOp::kProd, ReduceOp::kMax,
                                     ReduceOp::kMin};

// Addresses within a pack, as offsets.
struct Offsets {
  size_t local;
  size_t incoming;
  size_t dst;
};

std::string text_of(const Offsets& at) {
  return std::to_string(at.local) + ", " + std::to_string(at.incoming) + " -> " +
         std::to_string(at.dst);
}

enum class Verb { kReduce, kDecodeReduce };

// local (+) incoming, apart and in place.
void check_combine(const Tested& tested, Verb verb, DataType type, ReduceOp op, const Memory& local,
                   const Memory& incoming, const Offsets& at) {
  const bool decodes = verb == Verb::kDecodeReduce;
  const auto& table = decodes ? tested.reference.decode_reduce : tested.reference.reduce;
  const size_t count = incoming.size() / size_of(type);
  Memory wanted(local.size());
  table[index_of(type)][index_of(op)](wanted.data(), local.data(), incoming.data(), count);
  OnDevice a(tested.memory, local, at.local);
  OnDevice b(tested.memory, incoming, at.incoming);
  OnDevice dst(tested.memory, Memory(local.size(), kCanary), at.dst, kGuard);
  const auto call = decodes ? &CudaKernels::decode_reduce : &CudaKernels::reduce;
  const std::string what = std::string(decodes ? "decode_" : "") + "reduce " +
                           std::string(name_of(op)) + " " + std::string(name_of(type)) + ", " +
                           std::to_string(count) + " at " + text_of(at);
  for (const bool in_place : {false, true}) {
    OnDevice& to = in_place ? a : dst;
    const Status status =
        (tested.kernels.*call)(type, op, to.data(), a.data(), b.data(), count, nullptr);
    ASSERT_TRUE(status.ok()) << what << ": " << status.message();
    ASSERT_NO_FATAL_FAILURE(to.expect(wanted, what + (in_place ? " in place" : "")));
    ASSERT_NO_FATAL_FAILURE(a.expect(in_place ? wanted : local, what + ", local"));
  }
  ASSERT_NO_FATAL_FAILURE(b.expect(incoming, what + ", incoming"));
}

void check_decode(const Tested& tested, DataType type, const Memory& elements,
                  const std::byte* scalar, const Offsets& at) {
  const DataType wide = accumulator_of(type, ReduceOp::kSum);
  const size_t count = elements.size() / size_of(type);
  Memory wanted(count * size_of(wide));
  tested.reference.decode[index_of(type)](wanted.data(), elements.data(), count, scalar);
  OnDevice src(tested.memory, elements, at.incoming);
  OnDevice dst(tested.memory, Memory(wanted.size(), kCanary), at.dst, kGuard);
  const std::string what =
      "decode " + std::string(name_of(type)) + ", " + std::to_string(count) + " at " + text_of(at);
  ASSERT_TRUE(tested.kernels.decode(type, dst.data(), src.data(), count, scalar, nullptr).ok());
  ASSERT_NO_FATAL_FAILURE(dst.expect(wanted, what));
  if (wide != type) return;
  ASSERT_TRUE(tested.kernels.decode(type, src.data(), src.data(), count, scalar, nullptr).ok());
  ASSERT_NO_FATAL_FAILURE(src.expect(wanted, what + " in place"));
}

void check_encode(const Tested& tested, DataType type, const Memory& sums, int divisor,
                  const Offsets& at) {
  const DataType wide = accumulator_of(type, ReduceOp::kSum);
  const size_t count = sums.size() / size_of(wide);
  Memory wanted(count * size_of(type));
  tested.reference.encode[index_of(type)](wanted.data(), sums.data(), count, divisor);
  OnDevice src(tested.memory, sums, at.incoming);
  OnDevice dst(tested.memory, Memory(wanted.size(), kCanary), at.dst, kGuard);
  const std::string what = "encode " + std::string(name_of(type)) + ", " + std::to_string(count) +
                           " by " + std::to_string(divisor) + " at " + text_of(at);
  ASSERT_TRUE(tested.kernels.encode(type, dst.data(), src.data(), count, divisor, nullptr).ok());
  ASSERT_NO_FATAL_FAILURE(dst.expect(wanted, what));
  if (wide != type) return;
  ASSERT_TRUE(tested.kernels.encode(type, src.data(), src.data(), count, divisor, nullptr).ok());
  ASSERT_NO_FATAL_FAILURE(src.expect(wanted, what + " in place"));
}

// Around a pack, a block, a tile and two; `pack` is in elements.
std::vector<size_t> lengths(size_t pack) {
  std::vector<size_t> result;
  for (size_t i = 0; i <= 35; i++) result.push_back(i);
  result.insert(result.end(), {63, 64, 65, 127, 131, 251, 255, 256, 257, 1021, 1024, 4099});
  for (const size_t packs : {kCudaThreads, kCudaTile, 2 * kCudaTile}) {
    const size_t elements = packs * pack;
    result.insert(result.end(), {elements - 1, elements, elements + 1, elements + pack + 1});
  }
  return result;
}

size_t pack_of(DataType type, DataType wide) {
  return kCudaPackBytes / std::max(size_of(type), size_of(wide));
}

// Three counts of four move all pointers by as many elements, so that they reach a boundary
// together. The fourth moves them apart.
Offsets offsets_for(size_t count, size_t local_size, size_t incoming_size) {
  const size_t ahead = count % 16;
  const Offsets together{ahead * local_size % 64, ahead * incoming_size % 64,
                         ahead * local_size % 64};
  if (count % 4 != 3) return together;
  return {together.local + count % 3, together.incoming, together.dst + local_size};
}

}  // namespace

void check_combining_lengths(const Tested& tested) {
  for (const DataType type : kTypes) {
    for (const ReduceOp op : kDistinctOps) {
      for (const Verb verb : {Verb::kReduce, Verb::kDecodeReduce}) {
        const DataType local = verb == Verb::kReduce ? type : accumulator_of(type, op);
        if (verb == Verb::kDecodeReduce && local == type) continue;
        for (const size_t count : lengths(pack_of(type, local))) {
          ASSERT_NO_FATAL_FAILURE(check_combine(tested, verb, type, op,
                                                make_elements(local, count, count),
                                                make_elements(type, count, count + 1),
                                                offsets_for(count, size_of(local), size_of(type))));
        }
      }
    }
  }
}

void check_decoding_lengths(const Tested& tested) {
  for (const DataType type : kTypes) {
    const DataType wide = accumulator_of(type, ReduceOp::kSum);
    const Memory scalars = make_elements(type, 6, 11);
    for (const size_t count : lengths(pack_of(type, wide))) {
      const size_t s = count % 7;
      const std::byte* scalar = s == 6 ? nullptr : &scalars[s * size_of(type)];
      ASSERT_NO_FATAL_FAILURE(check_decode(tested, type, make_elements(type, count, count + 2),
                                           scalar,
                                           offsets_for(count, size_of(wide), size_of(type))));
    }
  }
}

void check_encoding_lengths(const Tested& tested) {
  for (const DataType type : kTypes) {
    const DataType wide = accumulator_of(type, ReduceOp::kSum);
    for (const size_t count : lengths(pack_of(type, wide))) {
      ASSERT_NO_FATAL_FAILURE(check_encode(tested, type, make_elements(wide, count, count + 3),
                                           kDivisors[count % std::size(kDivisors)],
                                           offsets_for(count, size_of(type), size_of(wide))));
    }
  }
}

void check_alignments(const Tested& tested) {
  for (const DataType type : kTypes) {
    const DataType wide = accumulator_of(type, ReduceOp::kSum);
    // With packs, and with elements on both sides of them.
    const Memory elements = make_elements(type, 131, 21);
    const Memory others = make_elements(type, 131, 22);
    const Memory sums = make_elements(wide, 131, 23);
    std::mt19937 random(24);
    for (size_t i = 0; i < 112; i++) {
      Offsets at{0, 0, 0};
      if (i < 16) at = {i, i, i};
      if (i >= 16 && i < 32) at.local = i - 16;
      if (i >= 32 && i < 48) at.incoming = i - 32;
      if (i >= 48 && i < 64) at.dst = i - 48;
      if (i >= 64 && i < 80)
        at = {(i - 64) * size_of(wide), (i - 64) * size_of(type), (i - 64) * size_of(wide)};
      if (i >= 80) at = {random() % 16, random() % 16, random() % 16};
      const Offsets back{at.dst, at.local, at.incoming};
      for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMax}) {
        ASSERT_NO_FATAL_FAILURE(
            check_combine(tested, Verb::kReduce, type, op, elements, others, at));
      }
      if (wide != type) {
        ASSERT_NO_FATAL_FAILURE(
            check_combine(tested, Verb::kDecodeReduce, type, ReduceOp::kSum, sums, others, at));
      }
      ASSERT_NO_FATAL_FAILURE(check_decode(tested, type, elements, nullptr, at));
      ASSERT_NO_FATAL_FAILURE(check_encode(tested, type, sums, 3, back));
    }
  }
}

void check_combining_patterns(const Tested& tested) {
  constexpr size_t kPairs = 65536;
  for (const DataType type : kTypes) {
    const size_t size = size_of(type);
    Memory a = make_elements(type, kPairs, 31);
    Memory b = make_elements(type, kPairs, 32);
    const auto special = special_values(type);
    for (size_t i = 0; i < kPairs; i++) {
      const size_t shuffled = i * 40503 % kPairs;
      if (size == 1) {
        put_bits(type, &a[i], i >> 8);
        put_bits(type, &b[i], i & 255);
      } else if (size == 2) {
        put_bits(type, &a[i * 2], i);
        put_bits(type, &b[i * 2], i % 2 == 0 ? shuffled : special[i / 2 % special.size()]);
      } else if (i < special.size() * special.size()) {
        put_bits(type, &a[i * size], special[i / special.size()]);
        put_bits(type, &b[i * size], special[i % special.size()]);
      }
    }
    for (const ReduceOp op : kDistinctOps) {
      ASSERT_NO_FATAL_FAILURE(check_combine(tested, Verb::kReduce, type, op, a, b, {0, 0, 0}));
      const DataType wide = accumulator_of(type, op);
      if (wide == type) continue;
      ASSERT_NO_FATAL_FAILURE(check_combine(tested, Verb::kDecodeReduce, type, op,
                                            make_elements(wide, kPairs, 33), b, {0, 0, 0}));
      ASSERT_NO_FATAL_FAILURE(check_combine(tested, Verb::kDecodeReduce, type, op,
                                            make_numbers(wide, kPairs, 34), a, {0, 0, 0}));
    }
  }
}

void check_decoding_patterns(const Tested& tested) {
  for (const DataType type : kTypes) {
    const size_t size = size_of(type);
    const size_t count = size_t{1} << std::min<size_t>(8 * size, 16);
    Memory elements = make_elements(type, count, 41);
    for (size_t i = 0; i < count && size <= 2; i++) put_bits(type, &elements[i * size], i);
    ASSERT_NO_FATAL_FAILURE(check_decode(tested, type, elements, nullptr, {0, 0, 0}));
    for (const uint64_t scalar : special_values(type)) {
      std::byte element[8];
      put_bits(type, element, scalar);
      ASSERT_NO_FATAL_FAILURE(check_decode(tested, type, elements, element, {0, 0, 0}));
    }
  }
}

void check_encoding_patterns(const Tested& tested) {
  constexpr uint32_t kHalf = 65536;
  for (const DataType type : kTypes) {
    const DataType wide = accumulator_of(type, ReduceOp::kSum);
    Memory sums = make_elements(wide, kHalf, 51);
    for (const int divisor : kDivisors) {
      ASSERT_NO_FATAL_FAILURE(check_encode(tested, type, sums, divisor, {0, 0, 0}));
    }
    if (wide != DataType::kFloat32) continue;
    for (const uint32_t low : {0U, 1U, 0x7fffU, 0x8000U, 0x8001U, 0xffffU, 0x1000U, 0xefffU}) {
      for (uint32_t i = 0; i < kHalf; i++) put_bits(wide, &sums[i * 4], i << 16 | low);
      ASSERT_NO_FATAL_FAILURE(check_encode(tested, type, sums, 1, {0, 0, 0}));
    }
  }
}

void check_random(const Tested& tested, size_t count) {
  std::mt19937_64 random(61);
  const auto bits = [&random](DataType type, size_t elements) {
    Memory memory(elements * size_of(type) + 8);
    for (size_t i = 0; i + 8 <= memory.size(); i += 8)
      put_bits(DataType::kUint64, &memory[i], random());
    memory.resize(elements * size_of(type));
    return memory;
  };
  for (const DataType type : kTypes) {
    const DataType wide = accumulator_of(type, ReduceOp::kSum);
    const Memory a = bits(type, count);
    const Memory b = bits(type, count);
    const Memory sums = bits(wide, count);
    for (const ReduceOp op : kDistinctOps) {
      ASSERT_NO_FATAL_FAILURE(check_combine(tested, Verb::kReduce, type, op, a, b, {0, 0, 0}));
      if (accumulator_of(type, op) == type) continue;
      ASSERT_NO_FATAL_FAILURE(
          check_combine(tested, Verb::kDecodeReduce, type, op, sums, b, {0, 0, 0}));
    }
    ASSERT_NO_FATAL_FAILURE(check_decode(tested, type, a, b.data(), {0, 0, 0}));
    for (const int divisor : {1, 3, 8}) {
      ASSERT_NO_FATAL_FAILURE(check_encode(tested, type, sums, divisor, {0, 0, 0}));
    }
  }
}

}  // namespace banyan::test
