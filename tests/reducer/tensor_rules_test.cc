// A tensor gets one compression: its own setting, the first rule that matches, the default; and
// the words for rules and wishes that are refused.
// SPDX-License-Identifier: Apache-2.0

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/choice/compression.h"
#include "src/reducer/rules.h"

namespace banyan::tensor_rules_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Compression by(std::string_view text) {
  const Result<Compression> read = parse_compression(text);
  EXPECT_TRUE(read.ok()) << text;
  return *read;
}

std::vector<std::string> read(std::string_view text) {
  const Result<std::vector<TensorRule>> rules = parse_tensor_rules(text);
  if (!rules.ok()) return {std::string(rules.status().message())};
  std::vector<std::string> texts;
  for (const TensorRule& rule : *rules)
    texts.push_back(rule.glob + " -> " + text_of(rule.compression));
  return texts;
}

TEST(TensorRules, AreRead) {
  EXPECT_THAT(read(""), ElementsAre());
  EXPECT_THAT(read(" ;; "), ElementsAre());
  EXPECT_THAT(read("*=int8"), ElementsAre("* -> int8"));
  EXPECT_THAT(read(";a.*=off; b[12]?  = topk:0.01:fp16 ;*=auto;"),
              ElementsAre("a.* -> off", "b[12]? -> topk:0.01:fp16", "* -> auto"));
  EXPECT_THAT(read("a = inter=int8 , intra=off"), ElementsAre("a -> inter=int8,intra=off"));
  EXPECT_THAT(read("a=inter=int4,intra=int8;b=exact"),
              ElementsAre("a -> inter=int4,intra=int8", "b -> off"));
}

TEST(TensorRules, WhatIsWrongIsNamedWithItsPlace) {
  EXPECT_THAT(
      read("nothing"),
      ElementsAre("rules, character 1: 'nothing' has no '='; valid: GLOB=COMPRESSION, and ';' "
                  "between two of them"));
  EXPECT_THAT(read("a=int8;  b"), ElementsAre(HasSubstr("rules, character 10: 'b' has no '='")));
  EXPECT_THAT(read("=int8;a"), ElementsAre(HasSubstr("rules, character 1: '=int8' has no glob")));
  EXPECT_THAT(read("a=off; =int8"), ElementsAre(HasSubstr("rules, character 8: '=int8' has no")));
  EXPECT_THAT(read("a=int8;b= int9"),
              ElementsAre(AllOf(HasSubstr("rules, character 11: 'int9': "), HasSubstr("int8"))));
  EXPECT_THAT(read("a=topk:2"), ElementsAre(HasSubstr("rules, character 3: 'topk:2': ")));
  EXPECT_THAT(read("a="), ElementsAre(HasSubstr("rules, character 3: '': ")));
  EXPECT_EQ(parse_tensor_rules("a=int9").status().code(), Code::kInvalidArgument);
  EXPECT_EQ(parse_tensor_rules("\x1b[2J").status().message().find('\x1b'), std::string::npos);
}

Settings settings(std::string_view codec, bool has_ceiling = true) {
  Settings made;
  made.compression = by(codec);
  made.has_ceiling = has_ceiling;
  return made;
}

Tensor matrix(std::string name, uint64_t count = 8000) {
  return {.id = 1, .name = std::move(name), .count = count, .dimensions = 2};
}

// What a tensor gets, or why it is refused.
std::string given(const Tensor& tensor, std::string_view rules, const Settings& settings,
                  const std::optional<Compression>& own = {}) {
  const Result<std::vector<TensorRule>> read = parse_tensor_rules(rules);
  EXPECT_TRUE(read.ok()) << rules;
  const Result<Compression> compression = compression_of(tensor, own, *read, settings);
  if (compression.ok()) return text_of(*compression);
  EXPECT_EQ(compression.status().code(), Code::kInvalidArgument);
  return std::string(compression.status().message());
}

TEST(TensorRules, TheCommunicatorDecidesForTensorsThatAreNeitherFlatNorSmall) {
  const Settings int8 = settings("int8");
  EXPECT_EQ(given(matrix("a"), "", int8), "int8");
  EXPECT_EQ(given(matrix("a", 4096), "", int8), "int8");
  EXPECT_EQ(given(matrix("a", 4095), "", int8), "off");
  Tensor bias = matrix("a");
  bias.dimensions = 1;
  EXPECT_EQ(given(bias, "", int8), "off");
  EXPECT_EQ(given(bias, "a=int8", int8), "int8");
  bias.dimensions = 0;
  EXPECT_EQ(given(bias, "", int8), "int8");
  EXPECT_EQ(given(matrix("a"), "", settings("off", false)), "off");
}

TEST(TensorRules, TheFirstThatMatchesCounts) {
  const Settings int8 = settings("int8");
  constexpr std::string_view kRules = "layer1.*=off;layer?.*=int8;*=off";
  EXPECT_EQ(given(matrix("layer1.weight"), kRules, int8), "off");
  EXPECT_EQ(given(matrix("layer2.weight", 2000), kRules, int8), "int8");
  EXPECT_EQ(given(matrix("layer22.weight"), kRules, int8), "off");
  EXPECT_EQ(given(matrix("other"), "layer*=off", int8), "int8");  // none matches
}

TEST(TensorRules, GoWithTheCommunicatorsSeedAndLeastBytes) {
  Settings made = settings("int8");
  made.compression.least_bytes = 20;
  made.compression.seed = 5;
  const std::vector<TensorRule> rules{{"*", by("int8")}};
  const Result<Compression> ruled = compression_of(matrix("a", 5), {}, rules, made);
  ASSERT_TRUE(ruled.ok());
  EXPECT_EQ(*ruled, made.compression);
  EXPECT_EQ(given(matrix("a", 4), "*=int8", made), "off");
  Compression own = by("int8");
  own.least_bytes = 16;
  own.seed = 6;
  const Result<Compression> its = compression_of(matrix("a", 4), own, rules, made);
  ASSERT_TRUE(its.ok());
  EXPECT_EQ(*its, own);
  EXPECT_EQ(given(matrix("a", 3), "*=int8", made, own), "off");
}

TEST(TensorRules, ATensorsOwnSettingGoesBeforeThem) {
  const Settings int8 = settings("int8");
  EXPECT_EQ(given(matrix("a"), "*=int8", int8, Compression()), "off");
  Tensor bias = matrix("a");
  bias.dimensions = 1;
  EXPECT_EQ(given(bias, "*=off", int8, by("int8")), "int8");
  const Settings free = settings("off", false);
  EXPECT_EQ(given(bias, "", free, by("topk:0.1")), "topk:0.1");
  EXPECT_EQ(given(bias, "*=sign:0.1", free), "sign:0.1");
}

TEST(TensorRules, NothingIsLostThatTheCommunicatorDoesNotAccept) {
  EXPECT_EQ(given(matrix("b.weight"), "b*=int4", settings("int8")),
            "tensor 'b.weight' asks for compression 'int4' by rule 'b*', and the communicator "
            "accepts 'int8' at most");
  EXPECT_EQ(given(matrix("b.weight"), "*=off", settings("off"), by("int8")),
            "tensor 'b.weight' asks for compression 'int8', and the communicator accepts 'exact' "
            "at most");
  EXPECT_EQ(given(matrix("b"), "b=int8", settings("auto")), "int8");
  // What the tensor would not get is refused all the same: it is the wish that is wrong.
  EXPECT_THAT(given(matrix("b", 3), "b=int4", settings("int8")), HasSubstr("accepts 'int8'"));
  EXPECT_EQ(given(matrix("b"), "c=int4", settings("int8")), "int8");
}

TEST(TensorRules, TensorsOfATypeThatNoCodecTakesAreExact) {
  Tensor wide = matrix("w");
  wide.type = DataType::kFloat64;
  EXPECT_EQ(given(wide, "", settings("int8")), "off");
  EXPECT_EQ(given(wide, "*=int8", settings("int8")), "off");
  EXPECT_EQ(given(wide, "", settings("int8"), Compression()), "off");
  EXPECT_EQ(given(wide, "", settings("off", false), by("int8")),
            "tensor 'w' asks for compression 'int8', and its type is float64; valid: exact, or "
            "float32, float16 or bfloat16");
  for (const DataType type : {DataType::kFloat16, DataType::kBfloat16}) {
    wide.type = type;
    EXPECT_EQ(given(wide, "", settings("off", false), by("int8")), "int8");
  }
}

TEST(TensorRules, NamesThatCouldDriveATerminalDoNot) {
  const std::string text = given(matrix("\x1b[2J"), "", settings("off"), by("int8"));
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
}

}  // namespace
}  // namespace banyan::tensor_rules_test
