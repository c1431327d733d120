// SPDX-License-Identifier: Apache-2.0

#include "tests/support/cuda_sparse_checks.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "compression/codecs.h"
#include "tests/support/codec_values.h"
#include "tests/support/on_device.h"

namespace banyan::test {

namespace {

constexpr DataType kType = DataType::kFloat32;

// What a message says, by a codec and its parameter.
struct SparseSort {
  CodecId codec;
  double parameter;
  DataType carried;
};

// Addresses within a pack, as offsets.
struct SparseOffsets {
  size_t message = 0;
  size_t values = 0;
  size_t other = 0;
};

class SparseCheck {
 public:
  SparseCheck(const TestedSparse& tested, const SparseSort& sort, const Memory& values,
              uint64_t first)
      : tested_(tested),
        codec_(tested.reference.codecs[sort.codec - size_t{1}]),
        sort_(sort),
        values_(values),
        count_(values.size() / sizeof(float)),
        room_(tested.memory, Memory(CudaSparse::room(sort.codec, count_), kCanary), 0, kGuard),
        said_(tested.memory, Memory(sizeof(uint64_t), kCanary), 0, kGuard),
        what_(fmt::format("{} {} as {}, {}", codec_.name, sort.parameter, name_of(sort.carried),
                          count_)) {
    coding_.parameter = sort.parameter;
    coding_.carried = sort.carried;
    coding_.seed = 0x1234'5678'9abc'def0 + count_;
    coding_.step = (uint64_t{7} << 32) + count_ / 3;
    coding_.first = first;
    if (codec_.select == nullptr) return;
    selection_ = codec_.select(coding_, kType, values.data(), count_);
    coding_.selection = &selection_;
  }

  void encodes(const SparseOffsets& at) {
    Memory left;
    wanted_ = encoded(codec_, coding_, kType, values_, &left);
    OnDevice given(tested_.memory, values_, at.values);
    OnDevice rest(tested_.memory, Memory(values_.size(), kCanary), at.other, kGuard);
    ASSERT_NO_FATAL_FAILURE(encode(given.data(), nullptr, at));
    ASSERT_NO_FATAL_FAILURE(encode(given.data(), rest.data(), at));
    ASSERT_NO_FATAL_FAILURE(rest.expect(left, what_ + ", left"));
    ASSERT_NO_FATAL_FAILURE(given.expect(values_, what_ + ", values"));
    ASSERT_NO_FATAL_FAILURE(encode(given.data(), given.data(), at));
    ASSERT_NO_FATAL_FAILURE(given.expect(left, what_ + ", left in place"));
  }

  // After encodes().
  void decodes(const Memory& addend, const SparseOffsets& at) {
    const Memory decoded = decode(codec_, coding_, kType, wanted_, count_);
    Memory sum(addend.size());
    ASSERT_TRUE(
        codec_.decode_add(coding_, kType, wanted_.view(), count_, addend.data(), sum.data()));
    OnDevice message(tested_.memory, wanted_.bytes, at.message);
    OnDevice values(tested_.memory, Memory(addend.size(), kCanary), at.values, kGuard);
    OnDevice terms(tested_.memory, addend, at.other);
    const CodecMessage there{message.data(), wanted_.bytes.size(), wanted_.said.flags};
    ASSERT_TRUE(
        tested_.sparse
            .decode(sort_.codec, coding_, there, count_, values.data(), room_.data(), nullptr)
            .ok());
    ASSERT_NO_FATAL_FAILURE(values.expect(decoded, what_ + ", decoded"));
    for (OnDevice* to : {&values, &terms}) {
      ASSERT_TRUE(tested_.sparse
                      .decode_add(sort_.codec, coding_, there, count_, terms.data(), to->data(),
                                  room_.data(), nullptr)
                      .ok());
      ASSERT_NO_FATAL_FAILURE(to->expect(sum, what_ + ", sum"));
    }
  }

  uint8_t form() const { return wanted_.said.flags; }

 private:
  void encode(const std::byte* values, std::byte* left, const SparseOffsets& at) {
    const uint64_t capacity = codec_.capacity(coding_, kType, count_);
    OnDevice message(tested_.memory, Memory(capacity + 1, kCanary), at.message, kGuard);
    const Status status =
        tested_.sparse.encode(sort_.codec, coding_, values, count_, message.data(), left,
                              room_.data(), reinterpret_cast<uint64_t*>(said_.data()), nullptr);
    ASSERT_TRUE(status.ok()) << what_ << ": " << status.message();
    uint64_t said = 0;
    tested_.memory.read(&said, said_.data(), sizeof said);
    ASSERT_EQ(said, wanted_.bytes.size() + 1) << what_;
    Memory all(capacity + 1);
    tested_.memory.read(all.data(), message.data(), all.size());
    ASSERT_EQ(all[said - 1], static_cast<std::byte>(wanted_.said.flags)) << what_;
    all.resize(said - 1);
    ASSERT_EQ(all, wanted_.bytes) << what_;
  }

  const TestedSparse& tested_;
  const Codec& codec_;
  const SparseSort sort_;
  const Memory& values_;
  const uint64_t count_;
  Coding coding_;
  Selection selection_;
  OnDevice room_, said_;
  const std::string what_;
  Message wanted_;
};

// From none to all that is said.
template <typename Check>
void for_every_sparse_sort(const Check& check) {
  constexpr SparseSort kSorts[] = {
      {kThreshold, 1e30, kType}, {kThreshold, 3, kType}, {kThreshold, 0, kType},
      {kTopk, 0.003, kType},     {kTopk, 0.2, kType},    {kTopk, 1, kType},
      {kNonzero, 0, kType},      {kSign, 1e30, kType},   {kSign, 0.01, kType},
      {kRandk, 0.003, kType},    {kRandk, 0.3, kType},   {kRandk, 0.9, kType},
      {kSign, 1e39, kType},      {kSign, 1e-60, kType},
  };
  for (SparseSort sort : kSorts)
    for (const DataType carried : {DataType::kFloat32, DataType::kFloat16}) {
      sort.carried = carried;
      check(sort);
      if (testing::Test::HasFatalFailure()) return;
    }
}

// Zeros, but for one of so many.
Memory mostly_zeros(uint64_t count, uint64_t one_of, uint64_t seed) {
  Memory values = mixed_values(kType, count, seed);
  for (uint64_t i = 0; i < count; ++i)
    if ((i * 2654435761U + seed) % one_of != 0)
      std::memset(values.data() + i * sizeof(float), 0, sizeof(float));
  return values;
}

void check_these(const TestedSparse& tested, const SparseSort& sort, const Memory& values,
                 uint64_t first, const SparseOffsets& at) {
  SparseCheck check(tested, sort, values, first);
  ASSERT_NO_FATAL_FAILURE(check.encodes(at));
  ASSERT_NO_FATAL_FAILURE(check.decodes(mixed_values(kType, values.size() / 4, 77), at));
}

// A message that one value spoils says nothing of the others.
void check_both(const TestedSparse& tested, const SparseSort& sort, const Memory& values,
                uint64_t first, const SparseOffsets& at) {
  ASSERT_NO_FATAL_FAILURE(check_these(tested, sort, values, first, at));
  if (sort.codec != kSign && sort.codec != kRandk) return;
  ASSERT_NO_FATAL_FAILURE(check_these(tested, sort, finite_of(kType, values), first, at));
}

}  // namespace

void check_sparse_lengths(const TestedSparse& tested) {
  for_every_sparse_sort([&](const SparseSort& sort) {
    for (const uint64_t count : {0, 1, 7, 8, 9, 33, 257, 4097, 32767, 32769, 65535, 65537, 131073})
      for (const uint64_t one_of : {uint64_t{1}, uint64_t{200}})
        ASSERT_NO_FATAL_FAILURE(check_both(tested, sort, mostly_zeros(count, one_of, count),
                                           one_of == 1 ? 0 : (uint64_t{3} << 32) + 6, {}));
  });
  // Where there are more NaN than topk says, nothing is left of the others either.
  Memory nans(1000 * sizeof(float));
  for (uint64_t i = 0; i < nans.size(); i += sizeof(uint32_t)) {
    const auto nan = static_cast<uint32_t>(0x7fc0'0000 + i);
    std::memcpy(nans.data() + i, &nan, sizeof nan);
  }
  ASSERT_NO_FATAL_FAILURE(check_both(tested, {kTopk, 0.2, kType}, nans, 0, {}));
  // Which forms these are is no accident.
  const Memory few = mostly_zeros(5000, 200, 1);
  const Memory half = mostly_zeros(5000, 2, 1);
  uint8_t wanted = 0;
  for (const auto& [values, codec] :
       {std::pair(&few, kNonzero), std::pair(&half, kNonzero), std::pair(&half, kThreshold)}) {
    SparseCheck check(tested, {codec, 0, kType}, *values, 0);
    ASSERT_NO_FATAL_FAILURE(check.encodes({}));
    ASSERT_EQ(check.form(), wanted++);
  }
}

void check_long_choice(const TestedSparse& tested) {
  Memory values(((uint64_t{1} << 23) + 5000) * sizeof(float));
  for (uint64_t i = 0; i < values.size() / sizeof(float); ++i) {
    const auto value = static_cast<float>(i);
    std::memcpy(values.data() + i * sizeof value, &value, sizeof value);
  }
  SparseCheck check(tested, {kRandk, 2e-5, kType}, values, 0);
  ASSERT_NO_FATAL_FAILURE(check.encodes({}));
  ASSERT_NO_FATAL_FAILURE(check.decodes(values, {}));
}

void check_sparse_alignments(const TestedSparse& tested) {
  const Memory values = mostly_zeros(5000, 7, 3);
  for_every_sparse_sort([&](const SparseSort& sort) {
    for (size_t offset = 0; offset < kCudaPackBytes; ++offset) {
      ASSERT_NO_FATAL_FAILURE(check_both(tested, sort, values, 0, {.message = offset}));
      ASSERT_NO_FATAL_FAILURE(check_both(tested, sort, values, 0, {.values = offset}));
      ASSERT_NO_FATAL_FAILURE(
          check_both(tested, sort, values, 0, {.message = 1, .values = 8, .other = offset}));
    }
  });
}

void check_topk(const TestedSparse& tested) {
  const Codec& codec = tested.reference.codecs[kTopk - size_t{1}];
  constexpr uint32_t kAlike[] = {0, 0x8000'0000, 0x3f80'0000, 0x7f80'0000, 0x7fc0'0000, 1};
  std::vector<Memory> vectors;
  for (const uint64_t count : {1, 9, 256, 5000, 70001, 140000}) {
    vectors.push_back(mixed_values(kType, count, count));
    vectors.push_back(mostly_zeros(count, 40, 5));
    for (const uint32_t bits : kAlike) {
      Memory& alike = vectors.emplace_back(count * sizeof(float));
      for (uint64_t i = 0; i < count; ++i) {
        const uint32_t value = i % 2 == 0 ? bits : bits ^ 0x8000'0000;
        std::memcpy(alike.data() + i * sizeof value, &value, sizeof value);
      }
    }
  }
  for (const Memory& values : vectors)
    for (const double density : {1e-9, 0.001, 0.1, 0.5, 1.0}) {
      const uint64_t count = values.size() / sizeof(float);
      Coding coding;
      coding.parameter = density;
      coding.first = (uint64_t{5} << 32) + count;
      OnDevice given(tested.memory, values, 0);
      OnDevice room(tested.memory, Memory(CudaTopk::room(count), kCanary), 0, kGuard);
      OnDevice said(tested.memory, Memory(sizeof(Selection), kCanary), 0, kGuard);
      const Status status =
          tested.topk.select(coding, given.data(), count, reinterpret_cast<Selection*>(said.data()),
                             room.data(), nullptr);
      ASSERT_TRUE(status.ok()) << status.message();
      const Selection wanted = codec.select(coding, kType, values.data(), count);
      Memory bytes(sizeof wanted);
      std::memcpy(bytes.data(), &wanted, sizeof wanted);
      ASSERT_NO_FATAL_FAILURE(said.expect(bytes, fmt::format("{} of {}", density, count)));
    }
}

void check_sparse_values(const TestedSparse& tested, uint64_t count, uint64_t seed) {
  for_every_sparse_sort([&](const SparseSort& sort) {
    ASSERT_NO_FATAL_FAILURE(check_both(tested, sort, mixed_values(kType, count, seed), 4096, {}));
  });
}

}  // namespace banyan::test
