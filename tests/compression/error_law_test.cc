// What sums by codecs lose, and how short sparse ones are. Ranks are simulated: each encodes its
// values, owners add what is decoded in the order of the ranks, encode the sum, and all decode it.
// That is scatter-reduce-allgather, whose error does not grow with the ranks. A ring, which rounds
// at every hop, is beside it.
//
// Values are normal. What each rank owns does not show, so that one owner stands for all; the sum
// of P ranks is on the way to that of P + 1.
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <span>
#include <vector>

#include "compression/codecs.h"
#include "tests/support/codec_values.h"

namespace banyan::error_law_test {
namespace {

using Values = std::vector<float>;

constexpr DataType kF32 = DataType::kFloat32;
constexpr size_t kRanks = 64;
constexpr size_t kCount = 65'536;

const Codec& codec_of(CodecId id) {
  return codecs()[id - size_t{1}];
}

Values normal_values(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  Values values(count);
  for (float& value : values) value = normal(random);
  return values;
}

std::vector<Values> normal_ranks(size_t ranks, size_t count) {
  std::vector<Values> all;
  for (size_t rank = 0; rank < ranks; rank++)
    all.push_back(normal_values(count, static_cast<uint32_t>(rank) + 1));
  return all;
}

const std::vector<Values>& ranks() {
  static const std::vector<Values> all = normal_ranks(kRanks, kCount);
  return all;
}

std::byte* bytes_of(Values& values) {
  return std::as_writable_bytes(std::span(values)).data();
}

Message message_of(CodecId id, const Coding& coding, const Values& values, Values* left = nullptr) {
  Message message;
  message.bytes.resize(codec_of(id).capacity(coding, kF32, values.size()));
  message.said =
      codec_of(id).encode(coding, kF32, std::as_bytes(std::span(values)).data(), values.size(),
                          message.bytes.data(), left == nullptr ? nullptr : bytes_of(*left));
  message.bytes.resize(message.said.size);
  return message;
}

void add(CodecId id, const Coding& coding, const Message& message, Values& sum) {
  ASSERT_TRUE(codec_of(id).decode_add(coding, kF32, message.view(), sum.size(), bytes_of(sum),
                                      bytes_of(sum)));
}

// What arrives of values.
Values sent(CodecId id, const Coding& coding, const Values& values) {
  Values arrived(values.size());
  EXPECT_TRUE(codec_of(id).decode(coding, kF32, message_of(id, coding, values).view(),
                                  values.size(), bytes_of(arrived)));
  return arrived;
}

template <typename Sum>
void add_plainly(const Values& values, std::vector<Sum>& sum) {
  for (size_t i = 0; i < values.size(); i++) sum[i] += static_cast<Sum>(values[i]);
}

// The power of what is off, as a share of the power of all.
double error_of(const Values& values, const std::vector<double>& exact) {
  double off = 0;
  double power = 0;
  for (size_t i = 0; i < values.size(); i++) {
    const double distance = static_cast<double>(values[i]) - exact[i];
    off += distance * distance;
    power += exact[i] * exact[i];
  }
  return off / power;
}

bool same_bits(const Values& a, const Values& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// Error c of one encoding, and those of the sum of P ranks at place P: with its owner, and where it
// arrives.
struct Errors {
  double c = 0;
  std::vector<double> of_owners{0};
  std::vector<double> of_sums{0};
};

Errors errors_of_rounds(CodecId id) {
  Errors errors;
  const Values& first = ranks().front();
  errors.c = error_of(sent(id, {}, first), {first.begin(), first.end()});
  Values sum(kCount);
  std::vector<double> exact(kCount);
  for (const Values& own : ranks()) {
    add(id, {}, message_of(id, {}, own), sum);
    add_plainly(own, exact);
    errors.of_owners.push_back(error_of(sum, exact));
    errors.of_sums.push_back(error_of(sent(id, {}, sum), exact));
  }
  return errors;
}

std::vector<double> errors_of_ring(CodecId id) {
  std::vector<double> errors{0};
  Values passed(kCount);  // what goes to the next rank
  std::vector<double> exact(kCount);
  for (const Values& own : ranks()) {
    add_plainly(own, passed);
    add_plainly(own, exact);
    passed = sent(id, {}, passed);
    errors.push_back(error_of(passed, exact));
  }
  return errors;
}

TEST(ErrorLaw, SumsLoseTwiceWhatOneEncodingDoesHoweverManyRanks) {
  for (const CodecId id : {kInt8, kInt4, kDyn8, kE4m3, kE5m2, kFp16, kBf16}) {
    SCOPED_TRACE(codec_of(id).name);
    const auto [c, of_owners, of_sums] = errors_of_rounds(id);
    ASSERT_EQ(of_sums.size(), kRanks + 1);
    for (size_t p = 2; p <= kRanks; p++) {
      // Sums of two values of 16 bits often lie halfway between two others.
      const bool halfway = p == 2 && (id == kFp16 || id == kBf16);
      EXPECT_LE(of_sums[p], (halfway ? 2.3 : 2.1) * c) << p;
      EXPECT_GE(of_sums[p], 1.9 * c) << p;
      EXPECT_NEAR(of_owners[p], c, 0.1 * c) << p;
    }
    const auto [least, most] = std::minmax_element(of_sums.begin() + 4, of_sums.end());
    EXPECT_LE(*most, 1.1 * *least) << "not flat";
  }
}

TEST(ErrorLaw, Bfloat16LosesTenTimesLessThanInARing) {
  EXPECT_LE(10 * errors_of_rounds(kBf16).of_sums[kRanks], errors_of_ring(kBf16)[kRanks]);
}

// Which is why no codec goes by a ring.
TEST(ErrorLaw, RingsLoseTheMoreTheMoreRanks) {
  const double c = errors_of_rounds(kInt8).c;
  const std::vector<double> of_ring = errors_of_ring(kInt8);
  for (size_t p = 2; p <= 32; p++) {
    const double law = c * static_cast<double>(p + 1) / 2;
    EXPECT_NEAR(of_ring[p], law, 0.15 * law) << p;
  }
}

// Two hosts of four ranks each: hosts add up their own ranks, and encode that sum, too. To encode
// what was decoded, as hosts do for their ranks at the end, loses nothing.
TEST(ErrorLaw, ALevelMoreLosesAsMuchAsOneEncodingMore) {
  constexpr size_t kOfHost = 4;
  for (const CodecId id : {kInt8, kInt4, kE4m3}) {
    Values sum(kCount);
    std::vector<double> exact(kCount);
    for (size_t host = 0; host < 2; host++) {
      Values own(kCount);
      for (size_t rank = host * kOfHost; rank < (host + 1) * kOfHost; rank++) {
        add(id, {}, message_of(id, {}, ranks()[rank]), own);
        add_plainly(ranks()[rank], exact);
      }
      add(id, {}, message_of(id, {}, own), sum);
    }
    const double c = errors_of_rounds(id).c;
    const Values arrived = sent(id, {}, sent(id, {}, sum));
    EXPECT_NEAR(error_of(arrived, exact), 3 * c, 0.15 * c) << codec_of(id).name;
  }
}

// What of `values` is at least so large.
Values large_ones(const Values& values, double least) {
  Values large(values.size());
  for (size_t i = 0; i < values.size(); i++)
    if (std::abs(static_cast<double>(values[i])) >= least) large[i] = values[i];
  return large;
}

TEST(SparseSums, AreExact) {
  for (const double least : {0.5, 2.0, 3.3}) {
    const Coding coding = {.parameter = least};
    Values sum(kCount);
    Values wanted(kCount);
    for (const Values& own : ranks()) {
      add(kThreshold, coding, message_of(kThreshold, coding, own), sum);
      add_plainly(large_ones(own, least), wanted);
      ASSERT_TRUE(same_bits(sum, wanted)) << least;
      ASSERT_TRUE(same_bits(sent(codec_of(kThreshold).of_sums, coding, sum), wanted)) << least;
    }
  }
}

// Values are multiples of 2^-12, and few, so that float32 holds all sums of them. What is not said
// in one step is added to the next one's values.
TEST(SparseSums, LoseNothingOverManySteps) {
  struct Case {
    CodecId id;
    double parameter;
  };
  constexpr uint32_t kSteps = 50;
  constexpr uint32_t kFew = 4;
  constexpr size_t kHere = 8192;
  for (const auto& [id, parameter] :
       {Case{kThreshold, 4.0}, Case{kTopk, 0.01}, Case{kRandk, 0.01}}) {
    SCOPED_TRACE(codec_of(id).name);
    Values given(kHere);
    Values arrived(kHere);
    std::vector<Values> left(kFew, Values(kHere));
    for (uint32_t step = 0; step < kSteps; step++) {
      const Coding coding = {.parameter = parameter, .seed = 1, .step = step};
      Values sum(kHere);
      for (uint32_t rank = 0; rank < kFew; rank++) {
        Values own = normal_values(kHere, step * kFew + rank + 1);
        for (float& value : own) value = std::round(value * 0x1p12F) * 0x1p-12F;
        add_plainly(own, given);
        add_plainly(left[rank], own);
        const Message message = message_of(id, coding, own, &left[rank]);
        ASSERT_LT(message.said.kept, kHere / 2);
        add(id, coding, message, sum);
      }
      add_plainly(sent(kNonzero, coding, sum), arrived);
      Values all = arrived;
      for (const Values& rest : left) add_plainly(rest, all);
      ASSERT_TRUE(same_bits(all, given)) << step;
    }
    EXPECT_NE(std::count(arrived.begin(), arrived.end(), 0.0F), std::ptrdiff_t{kHere});
  }
}

// The share that sums of P ranks say, where ranks say a share d each, of independent values.
void expect_filled(const std::vector<Values>& all, double least, size_t from) {
  const Coding coding = {.parameter = least};
  const auto count = static_cast<double>(all.front().size());
  double kept = 0;
  for (const Values& own : all)
    kept += static_cast<double>(message_of(kThreshold, coding, own).said.kept);
  const double d = kept / count / static_cast<double>(all.size());
  Values sum(all.front().size());
  for (size_t p = 1; p <= all.size(); p++) {
    add(kThreshold, coding, message_of(kThreshold, coding, all[p - 1]), sum);
    if (p < from) continue;
    const double law = 1 - std::pow(1 - d, static_cast<double>(p));
    const auto said = static_cast<double>(message_of(kNonzero, coding, sum).said.kept) / count;
    EXPECT_NEAR(said, law, 0.02 * law) << d << " " << p;
  }
}

constexpr size_t kEight = 8;
constexpr size_t kMebi = 1 << 20;
constexpr double kOneInAThousand = 3.2905267;  // of normal values are at least so large

const std::vector<Values>& eight_ranks() {
  static const std::vector<Values> all = normal_ranks(kEight, kMebi);
  return all;
}

TEST(SparseSums, FillInAsIndependentSharesDo) {
  expect_filled(ranks(), 2.5758, 16);
  expect_filled(eight_ranks(), 2.5758, 2);
  expect_filled(eight_ranks(), kOneInAThousand, 2);
}

// Bytes that a rank sends: of its values the shares of others, and the sum of its own share to
// them.
double bytes_sent(size_t rank, const Coding& coding) {
  constexpr size_t kShare = kMebi / kEight;
  const auto share_of = [](const Values& values, size_t share) {
    const auto begin = values.begin() + static_cast<std::ptrdiff_t>(share * kShare);
    return Values(begin, begin + kShare);
  };
  size_t bytes = 0;
  Values sum(kShare);
  for (size_t other = 0; other < kEight; other++) {
    const Message given = message_of(kThreshold, coding, share_of(eight_ranks()[rank], other));
    if (other != rank) bytes += given.bytes.size();
    const Values own = share_of(eight_ranks()[other], rank);
    add(kThreshold, coding, message_of(kThreshold, coding, own), sum);
  }
  bytes += (kEight - 1) * message_of(codec_of(kThreshold).of_sums, coding, sum).bytes.size();
  return static_cast<double>(bytes);
}

TEST(SparseSums, OfOneInAThousandAreShort) {
  constexpr double kDense = 2.0 * (kEight - 1) / kEight * sizeof(float) * kMebi;
  const auto shorter = [](DataType carried) {
    double bytes = 0;
    for (size_t rank = 0; rank < kEight; rank++)
      bytes += bytes_sent(rank, {.parameter = kOneInAThousand, .carried = carried});
    return kDense * kEight / bytes;
  };
  EXPECT_GE(shorter(kF32), 140);
  EXPECT_GE(shorter(DataType::kFloat16), 200);
}

}  // namespace
}  // namespace banyan::error_law_test
