// What BANYAN_COMPRESS may say, and what calls make of it.
// SPDX-License-Identifier: Apache-2.0

#include "algorithms/choice/compression.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "algorithms/algorithms.h"
#include "compression/codecs.h"
#include "tests/algorithms/verified_case.h"
#include "tests/support/toy_codec.h"

namespace banyan::compression_test {
namespace {

using test::kToy;
using test::kToyWhole;
using testing::HasSubstr;

constexpr CodecChoice kInt8Choice{.codec = kInt8}, kTopkChoice{.codec = kTopk, .parameter = 0.01};

TEST(Compression, IsReadLevelByLevel) {
  const std::pair<const char*, Compression> cases[] = {
      {"off", {}},
      {"exact", {}},
      {"int8", {.inter = kInt8Choice, .alone = kInt8Choice}},
      {"inter=int8", {.inter = kInt8Choice}},
      {"intra = topk:0.01", {.intra = kTopkChoice, .alone = kTopkChoice}},
      {"intra=int8,inter=topk:0.01",
       {.intra = kInt8Choice, .inter = kTopkChoice, .alone = kInt8Choice}},
      {" inter=auto , intra=int8 ",
       {.intra = kInt8Choice, .inter = {.codec = kAutomatic}, .alone = kInt8Choice}}};
  for (const auto& [text, wanted] : cases) {
    const Result<Compression> read = parse_compression(text);
    ASSERT_TRUE(read.ok()) << text << ": " << read.status().message();
    EXPECT_EQ(*read, wanted) << text;
    const Result<Compression> again = parse_compression(text_of(*read));
    ASSERT_TRUE(again.ok()) << text_of(*read);
    EXPECT_EQ(*again, wanted) << text_of(*read);
  }
}

TEST(Compression, NamesTheWrongWord) {
  const std::pair<const char*, const char*> cases[] = {
      {"int9", "word 1 'int9' is no compression: 'int9' at character 1"},
      {"", "word 1 ''"},
      {"int8,off", "word 1 'int8' is no compression: valid: CODEC, or inter=CODEC and intra=CODEC"},
      {"outer=int8", "word 1 'outer=int8'"},
      {"inter=int8,", "word 2 ''"},
      {"inter=int8,inter=off", "word 2 'inter=off'"},
      {"inter=off,intra=zzz", "word 2 'intra=zzz'"},
      {"auto+sr", "word 1 'auto+sr'"},
      {"topk:2", "word 1 'topk:2'"}};
  for (const auto& [text, words] : cases) {
    const Status status = parse_compression(text).status();
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr(words)) << text;
  }
}

Problem sum_of(uint64_t count, DataType type = DataType::kFloat32, ReduceOp op = ReduceOp::kSum) {
  Problem problem;
  problem.count = count;
  problem.type = type;
  problem.op = op;
  problem.compression = {.intra = {kToy}, .inter = {kToyWhole}, .alone = {kToy}};
  return problem;
}

TEST(Compression, KeepsWithinACeiling) {
  const Compression none, alone{.alone = kInt8Choice},
      both{.inter = kInt8Choice, .alone = kInt8Choice}, other{.inter = kTopkChoice},
      any{.inter = {.codec = kAutomatic}, .alone = {.codec = kAutomatic}};
  EXPECT_TRUE(keeps_within(none, none));
  EXPECT_TRUE(keeps_within(none, both));
  EXPECT_TRUE(keeps_within(alone, both));
  EXPECT_TRUE(keeps_within(other, any));
  EXPECT_FALSE(keeps_within(any, both));
  EXPECT_FALSE(keeps_within(both, alone));
  EXPECT_FALSE(keeps_within(other, both));
  EXPECT_EQ(text_of(both), "int8");
  EXPECT_EQ(text_of(other), "inter=topk:0.01,intra=off");
  EXPECT_EQ(text_of(any), "auto");
  EXPECT_EQ(text_of(none), "off");
}

TEST(Compression, IsForSumsOfFloatsThatAreLong) {
  const auto goes = [](const Problem& problem, int ranks = 4) {
    return codecs_for(problem, ranks, Medium::kMemory, nullptr) != Parameters();
  };
  EXPECT_TRUE(goes(sum_of(1024)));
  EXPECT_FALSE(goes(sum_of(1023))) << "it is short";
  EXPECT_FALSE(goes(sum_of(1024), 1)) << "nothing travels";
  EXPECT_TRUE(goes(sum_of(2048, DataType::kBfloat16, ReduceOp::kAvg)));
  EXPECT_FALSE(goes(sum_of(1024, DataType::kFloat64)));
  EXPECT_FALSE(goes(sum_of(1024, DataType::kInt32)));
  EXPECT_FALSE(goes(sum_of(1024, DataType::kFloat32, ReduceOp::kMax)));
  Problem problem = sum_of(4096);
  for (const Collective collective : {Collective::kReduce, Collective::kBroadcast,
                                      Collective::kAllgather, Collective::kAlltoall}) {
    problem.collective = collective;
    EXPECT_FALSE(goes(problem)) << name_of(collective);
  }
  problem.collective = Collective::kReduceScatter;
  EXPECT_TRUE(goes(problem));
  problem.compression = {};
  EXPECT_FALSE(goes(problem)) << "the call asks for that";
  problem.compression = {.alone = {kToy}, .least_bytes = 1 << 20};
  EXPECT_FALSE(goes(problem)) << "and for that";
}

TEST(Compression, HasACodecForEachLevel) {
  const Shape hosts = shape_of("threes", {0, 0, 0, 1, 1, 1}), host = shape_of("one", {0, 0, 0});
  const Hierarchy flat = host.hierarchy.simplified();
  const Parameters several = codecs_for(sum_of(1024), 6, Medium::kNetwork, &hosts.hierarchy);
  EXPECT_EQ(several.inter_codec.codec, kToyWhole);
  EXPECT_EQ(several.intra_codec.codec, kToy);
  const Parameters one = codecs_for(sum_of(1024), 3, Medium::kMemory, &flat);
  EXPECT_EQ(one.inter_codec.codec, kToy) << "the only level";
  EXPECT_EQ(one.intra_codec.codec, kNoCodec);
  const Parameters apart = codecs_for(sum_of(1024), 3, Medium::kNetwork, nullptr);
  EXPECT_EQ(apart.inter_codec.codec, kToyWhole) << "hosts of a rank each";
}

TEST(Compression, ChangesAnAlgorithmThatCannotEncode) {
  const Shape hosts = shape_of("threes", {0, 0, 0, 1, 1, 1});
  Parameters codecs;
  codecs.inter_codec.codec = kToy;
  codecs.intra_codec.codec = kToyWhole;
  const Choice ring{find_algorithm("ring"), "default table", -1};
  const Choice flat = encoded(ring, codecs, Collective::kAllreduce, nullptr);
  EXPECT_EQ(flat.algorithm, find_algorithm("direct"));
  EXPECT_EQ(flat.parameters.inter_codec.codec, kToy);
  EXPECT_EQ(flat.parameters.intra_codec.codec, kNoCodec);
  const Choice levels = encoded(ring, codecs, Collective::kAllreduce, &hosts.hierarchy);
  EXPECT_EQ(levels.algorithm, find_algorithm("hierarchical"));
  EXPECT_EQ(levels.parameters.intra_codec.codec, kToyWhole);
  Choice cut{find_algorithm("hierarchical"), "BANYAN_ALGO rule 1", 0};
  cut.parameters.segment = 65536;
  const Choice kept = encoded(cut, codecs, Collective::kAllreduce, &hosts.hierarchy);
  EXPECT_EQ(kept.parameters.segment, 65536U) << "it goes on as the rule says";
  EXPECT_EQ(kept.because, "BANYAN_ALGO rule 1");
  const Choice exact = encoded(ring, {}, Collective::kAllreduce, nullptr);
  EXPECT_EQ(exact.algorithm, ring.algorithm);
}

}  // namespace
}  // namespace banyan::compression_test
