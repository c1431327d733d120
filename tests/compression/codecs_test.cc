// What holds for every codec, by every instruction set: the bytes are those of the scalar one, for
// values of all kinds, at awkward counts and any address, in place and apart, and nothing outside
// is touched; no message is taken that is none; nothing gets lost between what is decoded and what
// is left.
// SPDX-License-Identifier: Apache-2.0

#include "compression/codecs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <tuple>
#include <vector>

#include "tests/support/codec_values.h"
#include "tests/support/placed.h"

namespace banyan::codecs_test {
namespace {

constexpr uint64_t kCounts[] = {0,    1,    2,    15,   255,  256,  257,   1009,  4095,
                                4096, 4097, 4352, 8191, 8192, 8209, 12289, 20'011};

TEST(Codecs, AreListedUnderTheirNumbers) {
  constexpr std::string_view kNames[] = {"int8", "fp16",  "bf16",    "int4",      "dyn8",
                                         "e4m3", "e5m2",  "onebit",  "threshold", "sign",
                                         "topk", "randk", "nonzero", "absolute",  "relative"};
  ASSERT_EQ(codecs().size(), std::size(kNames));
  for (size_t i = 0; i < codecs().size(); i++) EXPECT_EQ(codecs()[i].name, kNames[i]);
  for (const Kernels* kernels : available_kernels()) {
    ASSERT_EQ(kernels->codecs.size(), codecs().size()) << kernels->name;
    for (size_t i = 0; i < codecs().size(); i++) {
      EXPECT_EQ(kernels->codecs[i].name, codecs()[i].name) << kernels->name;
      EXPECT_EQ(kernels->codecs[i].unit, codecs()[i].unit) << kernels->name;
      EXPECT_EQ(kernels->codecs[i].has_flags, codecs()[i].has_flags) << kernels->name;
      EXPECT_EQ(kernels->codecs[i].of_sums, codecs()[i].of_sums) << kernels->name;
    }
  }
}

// Without a case here, nothing below is asked of a codec.
TEST(Codecs, AreAllTried) {
  for (size_t i = 0; i < codecs().size(); i++) {
    const auto is_tried = [i](const CodecCase& one) {
      return codecs()[one.codec - size_t{1}].name == codecs()[i].name;
    };
    EXPECT_TRUE(std::any_of(codec_cases().begin(), codec_cases().end(), is_tried))
        << codecs()[i].name;
  }
}

// An instruction set, and a case.
class EveryCodec : public testing::TestWithParam<std::tuple<const Kernels*, size_t>> {
 protected:
  static const CodecCase& tried() { return codec_cases()[std::get<1>(GetParam())]; }
  static const Coding& coding() { return tried().coding; }
  static const Codec& of(const Kernels& kernels) {
    return kernels.codecs[tried().codec - size_t{1}];
  }
  static const Codec& codec() { return of(*std::get<0>(GetParam())); }
  static const Codec& scalar() { return of(scalar_kernels()); }

  template <typename Check>
  static void for_each_type_and_count(Check check) {
    for (const DataType type : kCodedTypes) {
      for (const uint64_t count : kCounts) {
        SCOPED_TRACE(std::string(name_of(type)) + " x " + std::to_string(count));
        check(type, count);
        if (HasFatalFailure()) return;
      }
    }
  }
};

void expect_same(const Encoded& got, const Encoded& wanted) {
  EXPECT_EQ(got.size, wanted.size);
  EXPECT_EQ(got.flags, wanted.flags);
  EXPECT_EQ(got.kept, wanted.kept);
  EXPECT_EQ(got.nonfinite, wanted.nonfinite);
}

TEST_P(EveryCodec, WritesTheScalarBytesAnywhere) {
  for_each_type_and_count([](DataType type, uint64_t count) {
    const Memory& values = mixed_values(type, count, count);
    const uint64_t capacity = codec().capacity(coding(), type, count);
    ASSERT_EQ(capacity, scalar().capacity(coding(), type, count));
    Memory left;
    const Message message = encoded(scalar(), coding(), type, values, &left);
    ASSERT_LE(message.bytes.size(), capacity);

    Placed source(values.data(), values.size(), count % 61);
    for (const bool keeps : {false, true}) {
      Memory rest;
      const auto encode = [&](std::byte* to, std::byte* kept) {
        expect_same(codec().encode(coding(), type, source.data(), count, to, kept), message.said);
      };
      Memory got = run_guarded(capacity, count % 59, [&](std::byte* to) {
        if (!keeps) return encode(to, nullptr);
        rest = run_guarded(values.size(), count % 53, [&](std::byte* kept) { encode(to, kept); });
      });
      got.resize(message.bytes.size());
      ASSERT_EQ(got, message.bytes);
      ASSERT_EQ(rest, keeps ? left : Memory()) << keeps;
    }
    ASSERT_TRUE(holds(source, values)) << "values were changed";
    const Memory in_place = run_guarded(values.size(), count % 7, [&](std::byte* both) {
      if (count > 0) std::memcpy(both, values.data(), values.size());
      Memory to(capacity);
      codec().encode(coding(), type, both, count, to.data(), both);
    });
    ASSERT_EQ(in_place, left);
  });
}

TEST_P(EveryCodec, ReadsTheScalarValuesAnywhere) {
  for_each_type_and_count([](DataType type, uint64_t count) {
    const Message message = encoded(scalar(), coding(), type, mixed_values(type, count, count + 1));
    const Memory& addend = mixed_values(type, count, count + 2);
    Memory values(addend.size());
    Memory sum(addend.size());
    ASSERT_TRUE(scalar().decode(coding(), type, message.view(), count, values.data()));
    ASSERT_TRUE(
        scalar().decode_add(coding(), type, message.view(), count, addend.data(), sum.data()));

    Placed source(message.bytes.data(), message.bytes.size(), count % 61);
    const CodecMessage there = {source.data(), message.bytes.size(), message.said.flags};
    Placed other(addend.data(), addend.size(), count % 59);
    ASSERT_EQ(run_guarded(values.size(), count % 53,
                          [&](std::byte* to) {
                            EXPECT_TRUE(codec().decode(coding(), type, there, count, to));
                          }),
              values);
    ASSERT_EQ(run_guarded(sum.size(), count % 47,
                          [&](std::byte* to) {
                            EXPECT_TRUE(
                                codec().decode_add(coding(), type, there, count, other.data(), to));
                          }),
              sum);
    ASSERT_TRUE(holds(other, addend)) << "the addend was changed";
    ASSERT_TRUE(holds(source, message.bytes)) << "the message was changed";
    ASSERT_EQ(
        run_guarded(sum.size(), count % 43,
                    [&](std::byte* both) {
                      if (count > 0) std::memcpy(both, addend.data(), addend.size());
                      EXPECT_TRUE(codec().decode_add(coding(), type, there, count, both, both));
                    }),
        sum);
  });
}

TEST_P(EveryCodec, RefusesMessagesOfAnotherLength) {
  for_each_type_and_count([](DataType type, uint64_t count) {
    const Memory& values = mixed_values(type, count, count);
    const Message message = encoded(codec(), coding(), type, values);
    const uint64_t size = message.bytes.size();
    Message other = message;
    std::vector<uint64_t> lengths = {size + 1, size + 2};
    if (size > 0) lengths.insert(lengths.end(), {0, size / 2, size - 1});
    Memory to(values.size(), std::byte{0x5a});
    const Memory untouched = to;
    for (const uint64_t length : lengths) {
      other.bytes = message.bytes;
      other.bytes.resize(length);
      EXPECT_FALSE(codec().decode(coding(), type, other.view(), count, to.data())) << length;
      EXPECT_FALSE(
          codec().decode_add(coding(), type, other.view(), count, values.data(), to.data()))
          << length;
    }
    EXPECT_EQ(to, untouched);
  });
}

// A peer may say anything.
TEST_P(EveryCodec, TakesAnyBytesAsTheScalarOneDoes) {
  for_each_type_and_count([](DataType type, uint64_t count) {
    Message message;
    message.bytes = make_elements(DataType::kUint8, codec().capacity(coding(), type, count), count);
    const Memory& addend = mixed_values(type, count, count);
    Memory wanted(addend.size(), std::byte{0x5a});
    Memory got = wanted;
    for (int flags = 0; flags < (codec().has_flags ? 256 : 1); flags = 2 * flags + 1) {
      message.said.flags = static_cast<uint8_t>(flags);
      ASSERT_EQ(codec().decode(coding(), type, message.view(), count, got.data()),
                scalar().decode(coding(), type, message.view(), count, wanted.data()));
      ASSERT_EQ(got, wanted);
      ASSERT_EQ(
          codec().decode_add(coding(), type, message.view(), count, addend.data(), got.data()),
          scalar().decode_add(coding(), type, message.view(), count, addend.data(), wanted.data()));
      ASSERT_EQ(got, wanted);
    }
  });
}

TEST_P(EveryCodec, AddsWhatItDecodes) {
  constexpr DataType kType = DataType::kFloat32;
  for (const uint64_t count : kCounts) {
    const Message message = encoded(codec(), coding(), kType, mixed_values(kType, count, count));
    const Memory& addend = mixed_values(kType, count, count + 1);
    Memory sum = addend;
    ASSERT_TRUE(codec().decode_add(coding(), kType, message.view(), count, sum.data(), sum.data()));
    const Memory decoded = decode(codec(), coding(), kType, message, count);
    Memory wanted = reduce(scalar_kernels(), kType, ReduceOp::kSum, addend, decoded);
    // Adding +0 would change the sign of -0 and the payload of NaN.
    for (uint64_t at = 0; tried().is_sparse && at < wanted.size(); at += size_of(kType)) {
      if (get_bits(kType, &decoded[at]) == 0)
        put_bits(kType, &wanted[at], get_bits(kType, &addend[at]));
    }
    ASSERT_EQ(sum, wanted);
  }
}

// To one unit in the last place of the larger of value and decoded.
TEST_P(EveryCodec, LosesNothingBetweenDecodedAndLeft) {
  for_each_type_and_count([](DataType type, uint64_t count) {
    const Memory& values = mixed_values(type, count, count + 3);
    Memory left;
    const Message message = encoded(codec(), coding(), type, values, &left);
    const auto value = wide(type, values);
    const auto rest = wide(type, left);
    const auto sent = wide(type, decode(codec(), coding(), type, message, count));
    for (uint64_t i = 0; i < count; i++) {
      ASSERT_TRUE(std::isfinite(rest[i])) << i;
      if (!std::isfinite(value[i]) || !std::isfinite(sent[i])) continue;
      const double unit = unit_of(type, std::max(std::abs(value[i]), std::abs(sent[i])));
      ASSERT_NEAR(double{sent[i]} + double{rest[i]}, double{value[i]}, unit) << i;
    }
  });
}

TEST_P(EveryCodec, CountsWhatIsNotFinite) {
  for_each_type_and_count([](DataType type, uint64_t count) {
    const Memory& values = mixed_values(type, count, count + 4);
    uint64_t nonfinite = 0;
    for (const float value : wide(type, values)) nonfinite += std::isfinite(value) ? 0 : 1;
    // Rounding may make others infinite.
    EXPECT_GE(encoded(codec(), coding(), type, values).said.nonfinite, nonfinite);
    Memory ones(values.size());
    const uint64_t one = rounded_bits(type, 1);
    for (uint64_t i = 0; i < count; i++) put_bits(type, &ones[i * size_of(type)], one);
    EXPECT_EQ(encoded(codec(), coding(), type, ones).said.nonfinite, 0U);
  });
}

std::string name_of_case(const testing::TestParamInfo<EveryCodec::ParamType>& info) {
  const auto& [kernels, place] = info.param;
  return std::string(codec_cases()[place].name) + "_" + std::string(kernels->name);
}

INSTANTIATE_TEST_SUITE_P(Kernels, EveryCodec,
                         testing::Combine(testing::ValuesIn(available_kernels()),
                                          testing::Range(size_t{0}, codec_cases().size())),
                         name_of_case);

}  // namespace
}  // namespace banyan::codecs_test
