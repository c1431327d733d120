// What the name of a codec may be, and what is said of one that is none.
// SPDX-License-Identifier: Apache-2.0

#include "compression/grammar.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cfenv>
#include <cmath>
#include <limits>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "compression/codecs.h"

namespace banyan::grammar_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

CodecChoice with(CodecId codec, double parameter = 0) {
  CodecChoice choice;
  choice.codec = codec;
  choice.parameter = parameter;
  return choice;
}
CodecChoice stochastic(CodecChoice choice) {
  choice.stochastic = true;
  return choice;
}
CodecChoice half(CodecChoice choice) {
  choice.half = true;
  return choice;
}
CodecChoice reselecting(CodecChoice choice) {
  choice.reselects = true;
  return choice;
}

struct Named {
  std::string_view name;
  CodecChoice choice;
  std::string_view written = name;
};

const Named named_codecs[] = {
    {"off", {}},
    {"exact", {}, "off"},
    {"fp16", with(kFp16)},
    {"bf16", with(kBf16)},
    {"int8", with(kInt8)},
    {"int8+sr", stochastic(with(kInt8))},
    {"int4", with(kInt4)},
    {"int4+sr", stochastic(with(kInt4))},
    {"dyn8", with(kDyn8)},
    {"e4m3", with(kE4m3)},
    {"e4m3+sr", stochastic(with(kE4m3))},
    {"fp8", with(kE4m3), "e4m3"},
    {"fp8+sr", stochastic(with(kE4m3)), "e4m3+sr"},
    {"e5m2", with(kE5m2)},
    {"e5m2+sr", stochastic(with(kE5m2))},
    {"onebit", with(kOnebit)},
    {"threshold:0.001", with(kThreshold, 0.001)},
    {"threshold:1e-3", with(kThreshold, 0.001), "threshold:0.001"},
    {"threshold:1e+3", with(kThreshold, 1000), "threshold:1000"},
    {"threshold:1E300:fp16", half(with(kThreshold, 1e300)), "threshold:1e+300:fp16"},
    {"sign:0.5", with(kSign, 0.5)},
    {"sign:.5", with(kSign, 0.5), "sign:0.5"},
    {"topk:0.01", with(kTopk, 0.01)},
    {"topk:1", with(kTopk, 1)},
    {"topk:0.01:fp16", half(with(kTopk, 0.01))},
    {"topk:0.01:resel", reselecting(with(kTopk, 0.01))},
    {"topk:0.01:fp16:resel", reselecting(half(with(kTopk, 0.01)))},
    {"topk:0.01:resel:fp16", reselecting(half(with(kTopk, 0.01))), "topk:0.01:fp16:resel"},
    {"randk:0.25", with(kRandk, 0.25)},
    {"randk:0.25:fp16", half(with(kRandk, 0.25))},
};

TEST(Grammar, ReadsEveryWord) {
  std::set<CodecId> seen;
  for (const Named& named : named_codecs) {
    const Result<CodecChoice> read = parse_codec(named.name);
    ASSERT_TRUE(read.ok()) << named.name << ": " << read.status().message();
    EXPECT_EQ(*read, named.choice) << named.name;
    seen.insert(read->codec);
  }
  EXPECT_EQ(seen.size(), size_t{kRandk} + 1) << "a codec has no name here";
}

TEST(Grammar, WritesWhatItReads) {
  for (const Named& named : named_codecs) {
    EXPECT_EQ(text_of(named.choice), named.written);
    EXPECT_EQ(*parse_codec(named.written), named.choice) << named.written;
  }
}

TEST(Grammar, WritesEveryNumberSoThatItReadsBack) {
  std::mt19937_64 random(29);
  std::uniform_real_distribution<double> exponents(-300, 300), shares(0, 1);
  for (int i = 0; i < 10'000; i++) {
    const CodecChoice threshold = with(kThreshold, std::pow(10, exponents(random)));
    const CodecChoice share = with(kRandk, 1 - shares(random));
    ASSERT_EQ(*parse_codec(text_of(threshold)), threshold) << text_of(threshold);
    ASSERT_EQ(*parse_codec(text_of(share)), share) << text_of(share);
  }
  for (const double number :
       {std::numeric_limits<double>::denorm_min(), std::numeric_limits<double>::max()}) {
    const CodecChoice choice = with(kThreshold, number);
    EXPECT_EQ(*parse_codec(text_of(choice)), choice);
  }
}

TEST(Grammar, ReadsTheSameNumberInAnyFloatMode) {
  const int before = std::fegetround();
  for (const int mode : {FE_DOWNWARD, FE_UPWARD, FE_TOWARDZERO}) {
    ASSERT_EQ(std::fesetround(mode), 0);
    const Result<CodecChoice> hundredth = parse_codec("topk:0.01");
    const int after = std::fegetround();
    std::fesetround(before);
    EXPECT_EQ(hundredth->parameter, 0.01);
    EXPECT_EQ(after, mode) << "the caller's mode is another one";
  }
}

struct Wrong {
  std::string name;
  size_t position;
  std::string part;
  std::string valid;  // how the list of valid words begins
};

TEST(Grammar, SaysWhatIsWrongAndWhere) {
  const std::string names = "off, exact, fp16, bf16, int8, int4, dyn8, e4m3, fp8, e5m2, onebit, ";
  const std::string kinds = "threshold:T, sign:T, topk:D, randk:D";
  const Wrong cases[] = {
      {"", 1, "", names + kinds},
      {"int9", 1, "int9", names},
      {"INT8", 1, "INT8", names},
      {" int8", 1, " int8", names},
      {"int8 ", 1, "int8 ", names},
      {"auto", 1, "auto", names},
      {"nonzero", 1, "nonzero", names},
      {"intra=int8", 1, "intra=int8", names},
      {"int8,int8", 1, "int8,int8", names},
      {":fp16", 1, "", names},
      {"+sr", 1, "", names},
      {"off+sr", 4, "+sr", "nothing more"},
      {"off:1", 4, ":1", "nothing more"},
      {"exact:", 6, ":", "nothing more"},
      {"bf16+sr", 5, "+sr", "nothing more"},
      {"dyn8+sr", 5, "+sr", "nothing more"},
      {"onebit+sr", 7, "+sr", "nothing more"},
      {"fp16:fp16", 5, ":fp16", "nothing more"},
      {"int8:3", 5, ":3", "+sr"},
      {"int8:fp16", 5, ":fp16", "+sr"},
      {"int8+xx", 5, "+xx", "+sr"},
      {"int8+", 5, "+", "+sr"},
      {"int8:", 5, ":", "+sr"},
      {"int8++sr", 5, "+", "+sr"},
      {"int8+SR", 5, "+SR", "+sr"},
      {"int8+sr ", 5, "+sr ", "+sr"},
      {"int8+sr+sr", 8, "+sr", "nothing more"},
      {"fp8+sr:fp16", 7, ":fp16", "nothing more"},
      {"threshold", 10, "", "threshold:T, a number above 0"},
      {"threshold:", 10, ":", "threshold:T, a number above 0"},
      {"threshold+sr", 10, "+sr", "threshold:T"},
      {"threshold:0", 10, ":0", "threshold:T"},
      {"threshold:-1", 10, ":-1", "threshold:T"},
      {"threshold:-0", 10, ":-0", "threshold:T"},
      {"threshold:+1", 10, ":+1", "threshold:T"},
      {"threshold: 1", 10, ": 1", "threshold:T"},
      {"threshold:1 ", 10, ":1 ", "threshold:T"},
      {"threshold:nan", 10, ":nan", "threshold:T"},
      {"threshold:inf", 10, ":inf", "threshold:T"},
      {"threshold:0x1p3", 10, ":0x1p3", "threshold:T"},
      {"threshold:1e999", 10, ":1e999", "threshold:T"},
      {"threshold:1e-999", 10, ":1e-999", "threshold:T"},
      {"threshold:1,5", 10, ":1,5", "threshold:T"},
      {"threshold:1:resel", 12, ":resel", ":fp16"},
      {"threshold:1:fp16:fp16", 17, ":fp16", "nothing more"},
      {"sign:x", 5, ":x", "sign:T, a number above 0 that float32 holds"},
      {"sign:1e39", 5, ":1e39", "sign:T"},
      {"sign:1:fp16", 7, ":fp16", "nothing more"},
      {"topk", 5, "", "topk:D, a number above 0 and at most 1"},
      {"topk:", 5, ":", "topk:D"},
      {"topk::fp16", 5, ":", "topk:D"},
      {"topk:0", 5, ":0", "topk:D"},
      {"topk:1.5", 5, ":1.5", "topk:D"},
      {"topk:-0.1", 5, ":-0.1", "topk:D"},
      {"topk:abc", 5, ":abc", "topk:D"},
      {"topk:0.5junk", 5, ":0.5junk", "topk:D"},
      {"topk:0.1+sr", 5, ":0.1+sr", "topk:D"},
      {"topk:0.1:zzz", 9, ":zzz", ":fp16, :resel"},
      {"topk:0.1:fp16+sr", 14, "+sr", ":resel"},
      {"topk:0.1:fp16:fp16", 14, ":fp16", ":resel"},
      {"topk:0.1:resel:fp16:resel", 20, ":resel", "nothing more"},
      {"topk:0.1:", 9, ":", ":fp16, :resel"},
      {"randk:2", 6, ":2", "randk:D, a number above 0 and at most 1"},
      {"randk:0.1:resel", 10, ":resel", ":fp16"},
  };
  for (const Wrong& wrong : cases) {
    const Result<CodecChoice> read = parse_codec(wrong.name);
    ASSERT_FALSE(read.ok()) << wrong.name;
    EXPECT_EQ(read.status().code(), Code::kInvalidArgument);
    EXPECT_THAT(
        std::string(read.status().message()),
        AllOf(StartsWith("'" + wrong.part + "' at character " + std::to_string(wrong.position) +
                         " of '" + wrong.name + "' is no "),
              HasSubstr("; valid: " + wrong.valid)));
  }
}

TEST(Grammar, TakesNothingBehindANul) {
  for (const std::string_view name :
       {std::string_view("int8\0", 5), std::string_view("\0", 1), std::string_view("int8\0+sr", 8),
        std::string_view("topk:0.1\0", 9), std::string_view("topk:0.1:fp16\0", 14)}) {
    const Result<CodecChoice> read = parse_codec(name);
    ASSERT_FALSE(read.ok());
    EXPECT_EQ(read.status().message().find('\0'), std::string_view::npos);
  }
}

TEST(Grammar, SaysLittleOfMuch) {
  const std::string much(1'000'000, '9');
  for (const std::string& name :
       {much, "int8+" + much, "topk:" + much, "topk:0.1:" + much, "threshold:" + much,
        "threshold:1" + std::string(1'000'000, ':'), std::string(1'000'000, '+')}) {
    const Result<CodecChoice> read = parse_codec(name);
    ASSERT_FALSE(read.ok());
    EXPECT_LT(read.status().message().size(), 500U);
  }
  // A long number is one nevertheless.
  EXPECT_EQ(parse_codec("topk:0." + much)->parameter, 1);
}

TEST(Grammar, SaysNothingThatDrivesATerminal) {
  const Result<CodecChoice> read = parse_codec("int8\x1b[31m\n\xff");
  ASSERT_FALSE(read.ok());
  EXPECT_THAT(std::string(read.status().message()), HasSubstr("'int8 [31m ?'"));
}

TEST(Grammar, KnowsWhatIsAChoice) {
  for (const Named& named : named_codecs) EXPECT_TRUE(is_choice(named.choice)) << named.name;
  const double infinity = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const CodecChoice wrong[] = {
      with(kNonzero),
      with(255),
      with(kNoCodec, 1),
      with(kInt8, 0.5),
      with(kInt8, nan),
      half(with(kInt8)),
      stochastic({}),
      with(kThreshold),
      with(kThreshold, -1),
      with(kSign, 1e39),
      with(kTopk, 1.5),
      with(kThreshold, infinity),
      with(kRandk, nan),
      half(with(kSign, 1)),
      reselecting(with(kRandk, 1)),
      stochastic(with(kDyn8)),
  };
  for (const CodecChoice& choice : wrong)
    EXPECT_FALSE(is_choice(choice)) << int{choice.codec} << ' ' << choice.parameter;
}

TEST(Grammar, MakesACodingOfAChoice) {
  const Coding rounded = coding_of(*parse_codec("int8+sr"), DataType::kBfloat16);
  EXPECT_TRUE(rounded.stochastic);
  EXPECT_EQ(rounded.carried, DataType::kBfloat16);
  const Coding half = coding_of(*parse_codec("topk:0.25:fp16"), DataType::kFloat64);
  EXPECT_FALSE(half.stochastic);
  EXPECT_EQ(half.parameter, 0.25);
  EXPECT_EQ(half.carried, DataType::kFloat16);
  EXPECT_EQ(coding_of(*parse_codec("threshold:2"), DataType::kFloat64).carried, DataType::kFloat64);
}

}  // namespace
}  // namespace banyan::grammar_test
