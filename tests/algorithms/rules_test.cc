// The grammar of BANYAN_ALGO: what it means, and the exact words for what it is not.
// SPDX-License-Identifier: Apache-2.0

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/choice/select.h"

namespace banyan::rules_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr uint64_t kKiB = 1024;
constexpr uint64_t kMiB = 1024 * kKiB;

std::string name(int algorithm) {
  return algorithm < 0 ? "none" : std::string(algorithms()[static_cast<size_t>(algorithm)].name);
}

std::vector<std::string> names(const std::vector<int>& list) {
  std::vector<std::string> result;
  for (const int algorithm : list) result.push_back(name(algorithm));
  return result;
}

Rules rules(std::string_view text) {
  Result<Rules> parsed = parse_rules(text);
  EXPECT_TRUE(parsed.ok()) << text << ": " << parsed.status().message();
  return parsed.ok() ? *parsed : Rules();
}

std::string error(std::string_view text) {
  const Result<Rules> parsed = parse_rules(text);
  if (parsed.ok()) return "accepted";
  EXPECT_EQ(parsed.status().code(), Code::kInvalidArgument);
  return std::string(parsed.status().message());
}

TEST(Rules, Nothing) {
  EXPECT_TRUE(rules("").empty());
  EXPECT_TRUE(rules(" \t\n ").empty());
}

TEST(Rules, ChoiceAlone) {
  const Rules parsed = rules("ring");
  ASSERT_EQ(parsed.size(), 1U);
  EXPECT_TRUE(parsed[0].collectives.empty());
  EXPECT_EQ(parsed[0].size_least, 0U);
  EXPECT_EQ(parsed[0].size_most, std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(parsed[0].ranks_least, 0);
  EXPECT_EQ(parsed[0].ranks_most, std::numeric_limits<int>::max());
  EXPECT_THAT(names(parsed[0].algorithms), ElementsAre("ring"));
  EXPECT_FALSE(parsed[0].excluding);
}

TEST(Rules, EverythingAtOnce) {
  for (const std::string_view text :
       {"allreduce,reduce_scatter size=4K-1M ranks=3-9:^ring,direct;*:bruck,ring;:pairwise",
        "  allreduce , reduce_scatter\tsize = 4K - 1M  ranks = 3 - 9 : ^ ring , direct ; * : bruck "
        ",ring ;\n: pairwise  "}) {
    const Rules parsed = rules(text);
    ASSERT_EQ(parsed.size(), 3U);
    EXPECT_THAT(parsed[0].collectives,
                ElementsAre(Collective::kAllreduce, Collective::kReduceScatter));
    EXPECT_EQ(parsed[0].size_least, 4 * kKiB);
    EXPECT_EQ(parsed[0].size_most, kMiB);
    EXPECT_EQ(parsed[0].ranks_least, 3);
    EXPECT_EQ(parsed[0].ranks_most, 9);
    EXPECT_THAT(names(parsed[0].algorithms), ElementsAre("ring", "direct"));
    EXPECT_TRUE(parsed[0].excluding);
    EXPECT_TRUE(parsed[1].collectives.empty());
    EXPECT_THAT(names(parsed[1].algorithms), ElementsAre("bruck", "ring"));
    EXPECT_FALSE(parsed[1].excluding);
    EXPECT_TRUE(parsed[2].collectives.empty());
    EXPECT_THAT(names(parsed[2].algorithms), ElementsAre("pairwise"));
  }
}

TEST(Rules, OpenRanges) {
  const Rules parsed = rules("size=8K- ranks=2-:ring; size=0-0:ring; gather size=5-:direct");
  ASSERT_EQ(parsed.size(), 3U);
  EXPECT_EQ(parsed[0].size_least, 8 * kKiB);
  EXPECT_EQ(parsed[0].size_most, std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(parsed[0].ranks_least, 2);
  EXPECT_EQ(parsed[0].ranks_most, std::numeric_limits<int>::max());
  EXPECT_EQ(parsed[1].size_most, 0U);
  EXPECT_EQ(parsed[2].size_least, 5U);
}

// However users write them.
TEST(Rules, NamesInAnyCase) {
  const Rules parsed =
      rules("AllReduce SIZE=1k- Dtype=FP32 MEM=Host: Hierarchical(Intra=RING,RAILS=Auto), RecDbl");
  ASSERT_EQ(parsed.size(), 1U);
  EXPECT_THAT(parsed[0].collectives, ElementsAre(Collective::kAllreduce));
  EXPECT_THAT(parsed[0].types, ElementsAre(DataType::kFloat32));
  EXPECT_THAT(names(parsed[0].algorithms), ElementsAre("hierarchical", "recursive_doubling"));
  EXPECT_EQ(parsed[0].parameters[0].intra, Phase::kRing);
  EXPECT_TRUE(rules("^RING")[0].excluding);
  EXPECT_TRUE(parse_algorithm_variable("Explain; BARRIER: Star")->explain);
  EXPECT_EQ(find_algorithm("Double_Tree"), find_algorithm("double_tree"));
}

TEST(Rules, NameAMissingColon) {
  const auto missing = [](int position, const std::string& before) {
    return testing::StartsWith(
        fmt::format("missing ':' at position {}, before {}; valid: ", position, before));
  };
  EXPECT_THAT(error("allreduce ring"), missing(11, "'ring'"));
  EXPECT_THAT(error("allreduce size=0-32K ring"), missing(22, "'ring'"));
  EXPECT_THAT(error("Allreduce, reduce ^ring"), missing(19, "'^'"));
  EXPECT_THAT(error("allreduce"), missing(10, "the end"));
  EXPECT_THAT(error("* ring(seg=4K)"), missing(3, "'ring'"));
  EXPECT_THAT(error("size=0-32K star; barrier: star"), missing(12, "'star'"));
  EXPECT_THAT(error("barrier: star; reduce; ring"), missing(22, "';'"));
  EXPECT_THAT(error("ring allreduce"), HasSubstr("unexpected 'allreduce' at position 6"));
}

TEST(Rules, ThatNoCallCanFollowAreErrors) {
  for (const std::string_view wrong :
       {"barrier dtype=float32: star", "barrier mem=host: star", "barrier size=1-: star",
        "barrier dtype=fp32: ^star", "nodes=5- ranks=2-4: ring", "allreduce ppn=9- ranks=0-8: ring",
        "ranks=7-7: torus(dims=2x4)", "allreduce ranks=0-8: torus(dims=3x3)"})
    EXPECT_THAT(error(wrong), testing::StartsWith("no call can follow the rule at position 1: "))
        << wrong;
  EXPECT_THAT(error("ring; barrier mem=host: star"), HasSubstr("at position 7: a barrier has no"));
  for (const std::string_view right :
       {"barrier size=0-4: star", "allreduce,barrier dtype=float32: recursive_doubling",
        "nodes=4- ranks=4-: ring", "ranks=8-: torus(dims=2x4)", "ranks=7-7: torus(dims=2x4),ring",
        "torus(dims=65535x65535x65535)"})
    EXPECT_EQ(error(right), "accepted") << right;
}

TEST(Rules, AnyCollectiveSwallowsNamedOnes) {
  EXPECT_TRUE(rules("allreduce,*:ring")[0].collectives.empty());
}

int fitting(Collective collective) {
  int algorithm = 0;
  while (!algorithms()[static_cast<size_t>(algorithm)].fits(collective)) ++algorithm;
  return algorithm;
}

TEST(Rules, EveryNameIsAWord) {
  for (const Algorithm& algorithm : algorithms())
    EXPECT_EQ(name(rules(algorithm.name)[0].algorithms[0]), algorithm.name);
  for (int i = 0; i <= static_cast<int>(Collective::kBarrier); ++i) {
    const auto collective = static_cast<Collective>(i);
    EXPECT_THAT(
        rules(std::string(name_of(collective)) + ":" + name(fitting(collective)))[0].collectives,
        ElementsAre(collective));
  }
}

constexpr std::string_view kAlgorithms =
    "recursive_doubling, circulant, ring, binomial, double_tree, bruck, pairwise, dissemination, "
    "direct, star, torus, hierarchical, leaders, recdbl, hier, rab, dtree, tree";
constexpr std::string_view kCollectives =
    "allreduce, reduce, broadcast, allgather, allgatherv, reduce_scatter, reduce_scatterv, "
    "alltoall, alltoallv, gather, scatter, barrier, *";

std::string with(std::string_view text, std::string_view valid) {
  return std::string(text) + "; valid: " + std::string(valid);
}

// A word of users of other libraries is as if the name itself stood there.
TEST(Rules, OtherNames) {
  struct Case {
    std::string_view word, name;
  };
  for (const auto& [word, name] :
       {Case{"recdbl", "recursive_doubling"}, Case{"hier", "hierarchical"}, Case{"rab", "leaders"},
        Case{"dtree", "double_tree"}, Case{"tree", "double_tree"}}) {
    EXPECT_EQ(find_algorithm(word), -1);
    for (const std::string before : {"", "^", "allreduce size=4-: ", "ring, "})
      EXPECT_EQ(names(rules(before + std::string(word))[0].algorithms),
                names(rules(before + std::string(name))[0].algorithms));
  }
  EXPECT_THAT(error("hier(x=1)"), HasSubstr("unknown parameter 'x' at position 6; valid: seg="));
  EXPECT_THAT(error("dtree(rails=2)"), HasSubstr("at position 7; valid: seg=SIZE"));
  EXPECT_EQ(error("barrier: tree"),
            "algorithm 'tree' at position 10 does no barrier; valid: recursive_doubling, binomial, "
            "dissemination, direct, star, leaders");
}

TEST(Rules, OfTheNamesAndParametersOfSeveralLibraries) {
  const Rules parsed = rules(
      "allreduce size=0-32K : recdbl ; allreduce size=32K- nodes=2- : "
      "hier(intra=ring,inter=circulant,seg=1M,rails=auto) ; * : ^dtree");
  ASSERT_EQ(parsed.size(), 3U);
  EXPECT_THAT(names(parsed[0].algorithms), ElementsAre("recursive_doubling"));
  EXPECT_EQ(parsed[0].size_most, 32 * kKiB);
  EXPECT_THAT(names(parsed[1].algorithms), ElementsAre("hierarchical"));
  EXPECT_EQ(parsed[1].size_least, 32 * kKiB);
  EXPECT_EQ(parsed[1].nodes_least, 2);
  EXPECT_EQ(parsed[1].parameters[0],
            (Parameters{.segment = kMiB, .intra = Phase::kRing, .inter = Phase::kCirculant}));
  EXPECT_TRUE(parsed[2].excluding);
  EXPECT_TRUE(parsed[2].collectives.empty());
  EXPECT_THAT(names(parsed[2].algorithms), ElementsAre("double_tree"));

  const Hierarchy hosts = Hierarchy::of_labels("host", std::vector<int>{0, 0, 1, 1});
  const auto choice = [&](uint64_t bytes, const Hierarchy* levels) {
    return choose(equal_blocks(Collective::kAllreduce, DataType::kFloat32, bytes / 4, 4), 4,
                  levels == nullptr ? Medium::kMemory : Medium::kNetwork, parsed, levels);
  };
  EXPECT_EQ(reason_of(choice(32 * kKiB, &hosts)), "BANYAN_ALGO rule 1");
  EXPECT_EQ(reason_of(choice(32 * kKiB + 4, &hosts)),
            "BANYAN_ALGO rule 2, with seg=1M,intra=ring,inter=circulant");
  EXPECT_EQ(reason_of(choice(kMiB, nullptr)), "BANYAN_ALGO rule 3");
}

// Ranks would choose differently by counts that only some of them know.
TEST(Rules, SizesOfAlltoallv) {
  for (const std::string_view text : {"alltoallv size=0-4K: direct", "alltoallv size=4-: direct",
                                      "alltoallv,alltoallv ranks=2- size=4-8: direct"})
    EXPECT_THAT(error(text), HasSubstr("unexpected 'size' at position ")) << text;
  EXPECT_EQ(error("alltoallv size=0-4K: direct"),
            "unexpected 'size' at position 11; valid: alltoallv without a size, since each rank "
            "knows only its own counts");
  EXPECT_EQ(rules("alltoallv size=0-: direct; alltoallv, alltoall size=4-: direct; "
                  "size=4- : direct; * size=4- : direct")
                .size(),
            4U);
}

TEST(Rules, UnknownAlgorithms) {
  EXPECT_EQ(error("rign"), with("unknown algorithm 'rign' at position 1", kAlgorithms));
  EXPECT_EQ(error("  Rnig"), with("unknown algorithm 'Rnig' at position 3", kAlgorithms));
  EXPECT_EQ(error("\x1b[31m"), with("unknown algorithm ' [31m' at position 1", kAlgorithms));
  EXPECT_EQ(error("ring,^direct,x"),
            "unexpected '^' at position 6; valid: one '^' before the first name, for all names of "
            "the rule");
  EXPECT_EQ(error("^ring, quantum"),
            with("unknown algorithm 'quantum' at position 8", kAlgorithms));
  EXPECT_EQ(error("allreduce : ring ; barrier: rnig"),
            with("unknown algorithm 'rnig' at position 29", kAlgorithms));
  EXPECT_EQ(error("allreduce:"),
            with("missing algorithm at position 11, found the end", kAlgorithms));
  EXPECT_EQ(error("ring;"), with("missing algorithm at position 6, found the end", kAlgorithms));
  EXPECT_EQ(error(";"), with("missing algorithm at position 1, found ';'", kAlgorithms));
  EXPECT_EQ(error("ring,;direct"), with("missing algorithm at position 6, found ';'", kAlgorithms));
  EXPECT_EQ(error("^"), with("missing algorithm at position 2, found the end", kAlgorithms));
  EXPECT_EQ(error("^^ring"), error("^^direct"));
  EXPECT_EQ(error(std::string(1000, 'x')),
            with("unknown algorithm '" + std::string(80, 'x') + "...' at position 1", kAlgorithms));
}

TEST(Rules, NamesWithoutUse) {
  EXPECT_EQ(error("ring; barrier:ring"),
            "algorithm 'ring' at position 15 does no barrier; valid: recursive_doubling, binomial, "
            "dissemination, direct, star, leaders");
  EXPECT_EQ(error("barrier:^ring").substr(0, 43), "algorithm 'ring' at position 10 does no bar");
  EXPECT_EQ(rules("barrier,allreduce:ring").size(), 1U);
  EXPECT_EQ(error("gather:^binomial,direct,leaders"),
            "'^' at position 8 leaves nothing for gather; valid: at most all but one of binomial, "
            "direct, leaders, or name the collectives that are meant, as in 'allreduce: ^ring'");
  EXPECT_EQ(error("ring;^direct,binomial,leaders").substr(0, 44),
            "'^' at position 6 leaves nothing for gather;");
  EXPECT_EQ(rules("allreduce:^binomial,direct").size(), 1U);
}

TEST(Rules, UnknownCollectives) {
  EXPECT_EQ(error("allreduc:ring"),
            with("unknown collective 'allreduc' at position 1", kCollectives));
  EXPECT_EQ(error("allreduce,brodcast size=0-4:ring"),
            with("unknown collective 'brodcast' at position 11", kCollectives));
  EXPECT_EQ(error("allreduce,:ring"),
            with("missing collective at position 11, found ':'", kCollectives));
  EXPECT_EQ(error("^allreduce:ring"),
            with("missing collective at position 1, found '^'", kCollectives));
  for (const char* text : {"send", "recv", "finalize", "split"})
    EXPECT_EQ(error(std::string(text) + ":ring"),
              with("unknown collective '" + std::string(text) + "' at position 1", kCollectives));
}

TEST(Rules, WrongConditions) {
  EXPECT_EQ(error("sise=0-4:ring"),
            "unknown condition 'sise' at position 1; valid: size=LO-HI, ranks=LO-HI, nodes=LO-HI, "
            "ppn=LO-HI, dtype=TYPE,TYPE, mem=MEMORY,MEMORY");
  EXPECT_EQ(error("allreduce barrier:ring"),
            "unexpected 'barrier' at position 11; valid: size=LO-HI, ranks=LO-HI, nodes=LO-HI, "
            "ppn=LO-HI, dtype=TYPE,TYPE, mem=MEMORY,MEMORY or ':'");
  EXPECT_EQ(error("allreduce size=4X-1M:ring"),
            "unexpected '4X' at position 16; valid: size=LO-HI in bytes, with K, M or G");
  EXPECT_EQ(error("size=0-1.5K:ring"),
            "unexpected '1.5K' at position 8; valid: size=LO-HI in bytes, with K, M or G");
  EXPECT_EQ(error("size=0-99999999999999999999G:ring"),
            "unexpected '99999999999999999999G' at position 8; valid: size=LO-HI in bytes, with K, "
            "M or G");
  EXPECT_EQ(error("size=-4:ring"), "missing size at position 6, found '-'; valid: size=LO-HI");
  EXPECT_EQ(error("size=4:ring"), "unexpected ':' at position 7; valid: size=LO-HI");
  EXPECT_EQ(error("size=4-2:ring"),
            "empty range '4-2' at position 6; valid: size=LO-HI, LO at most HI");
  EXPECT_EQ(error("size=0-4 size=0-4:ring"),
            "unexpected 'size' at position 10; valid: size=LO-HI once");
  EXPECT_EQ(error("ranks=2-x:ring"),
            "unexpected 'x' at position 9; valid: ranks=LO-HI up to 2147483647");
  EXPECT_EQ(error("ranks=2-2147483648:ring"),
            "unexpected '2147483648' at position 9; valid: ranks=LO-HI up to 2147483647");
  EXPECT_EQ(error("ranks=9-3:ring"),
            "empty range '9-3' at position 7; valid: ranks=LO-HI, LO at most HI");
  EXPECT_EQ(error("ranks=:ring"),
            "missing number of ranks at position 7, found ':'; valid: ranks=LO-HI");
  EXPECT_EQ(error("ranks=1-2 ranks=1-2:ring"),
            "unexpected 'ranks' at position 11; valid: ranks=LO-HI once");
}

TEST(Rules, NodesAndTypes) {
  const Rules right =
      rules("allreduce nodes=2-4 dtype=fp32, bfloat16 :ring;dtype=int8 ranks=3- nodes=1-:ring");
  ASSERT_EQ(right.size(), 2U);
  EXPECT_EQ(right[0].nodes_least, 2);
  EXPECT_EQ(right[0].nodes_most, 4);
  EXPECT_EQ(right[0].ranks_least, 0);
  EXPECT_THAT(right[0].types, ElementsAre(DataType::kFloat32, DataType::kBfloat16));
  EXPECT_EQ(right[1].nodes_least, 1);
  EXPECT_EQ(right[1].nodes_most, std::numeric_limits<int>::max());
  EXPECT_EQ(right[1].ranks_least, 3);
  EXPECT_THAT(right[1].types, ElementsAre(DataType::kInt8));
  EXPECT_EQ(right[0].number, 1);
  EXPECT_EQ(right[1].number, 2);
}

TEST(Rules, RanksOfANode) {
  const Rules right = rules("allreduce ppn=2-8 : ring; ppn=4- nodes=2-: ring");
  ASSERT_EQ(right.size(), 2U);
  EXPECT_EQ(right[0].ppn_least, 2);
  EXPECT_EQ(right[0].ppn_most, 8);
  EXPECT_EQ(right[1].ppn_least, 4);
  EXPECT_EQ(right[1].ppn_most, std::numeric_limits<int>::max());
  EXPECT_EQ(error("ppn=4-2:ring"),
            "empty range '4-2' at position 5; valid: ppn=LO-HI, LO at most HI");
  EXPECT_EQ(error("ppn=:ring"),
            "missing ranks of a node at position 5, found ':'; valid: ppn=LO-HI");
  EXPECT_EQ(error("ppn=1- ppn=2-:ring"), "unexpected 'ppn' at position 8; valid: ppn=LO-HI once");
}

TEST(Rules, WrongNodesAndTypes) {
  const std::string types =
      "int8, uint8, int32, uint32, int64, uint64, float16, float32, float64, bfloat16, "
      "float8_e4m3, float8_e5m2";
  EXPECT_EQ(error("dtype=float31:ring"), with("unknown type 'float31' at position 7", types));
  EXPECT_EQ(error("dtype=:ring"), with("missing type at position 7, found ':'", types));
  EXPECT_EQ(error("dtype=int8,:ring"), with("missing type at position 12, found ':'", types));
  EXPECT_EQ(error("dtype=int8 dtype=int8:ring"),
            "unexpected 'dtype' at position 12; valid: dtype=TYPE,TYPE once");
  EXPECT_EQ(error("nodes=x-2:ring"),
            "unexpected 'x' at position 7; valid: nodes=LO-HI up to 2147483647");
  EXPECT_EQ(error("nodes=4-2:ring"),
            "empty range '4-2' at position 7; valid: nodes=LO-HI, LO at most HI");
}

TEST(Rules, Memory) {
  const Rules right = rules("allreduce mem=host,cuda:ring; mem=managed dtype=int8:ring; ring");
  ASSERT_EQ(right.size(), 3U);
  EXPECT_THAT(right[0].memories, ElementsAre(MemoryKind::kHost, MemoryKind::kDevice));
  EXPECT_THAT(right[1].memories, ElementsAre(MemoryKind::kManaged));
  EXPECT_TRUE(right[2].memories.empty());
  EXPECT_EQ(error("mem=cuba:ring"),
            with("unknown memory 'cuba' at position 5", "host, cuda, managed"));
  EXPECT_EQ(error("mem=host,:ring"),
            with("missing memory at position 10, found ':'", "host, cuda, managed"));
  EXPECT_EQ(error("mem=host mem=cuda:ring"),
            "unexpected 'mem' at position 10; valid: mem=MEMORY,MEMORY once");
}

TEST(Rules, Parameters) {
  for (const std::string_view text :
       {"allreduce nodes=2- : hierarchical(intra=ring,inter=circulant,seg=1M),ring ; * : "
        "torus(dims=2x3),circulant(seg=64K)",
        "allreduce nodes=2-:hierarchical ( seg = 1024K , inter = circulant , intra = ring ) , ring;"
        "torus ( dims = 2x3 ) , circulant ( seg = 65536 )"}) {
    const Rules parsed = rules(text);
    ASSERT_EQ(parsed.size(), 2U);
    EXPECT_THAT(names(parsed[0].algorithms), ElementsAre("hierarchical", "ring"));
    ASSERT_EQ(parsed[0].parameters.size(), 2U);
    EXPECT_EQ(parsed[0].parameters[0].segment, kMiB);
    EXPECT_EQ(parsed[0].parameters[0].intra, Phase::kRing);
    EXPECT_EQ(parsed[0].parameters[0].inter, Phase::kCirculant);
    EXPECT_EQ(parsed[0].parameters[1], Parameters());
    EXPECT_THAT(names(parsed[1].algorithms), ElementsAre("torus", "circulant"));
    EXPECT_EQ(parsed[1].parameters[0], (Parameters{.dimensions = {2, 3}}));
    EXPECT_EQ(parsed[1].parameters[1].segment, 64 * kKiB);
  }
  EXPECT_EQ(rules("^ring").front().parameters, std::vector<Parameters>(1));
}

constexpr std::string_view kHierarchicalForms =
    "seg=SIZE, intra=circulant|ring|pairwise|direct|nccl, inter=circulant|ring|pairwise|direct, "
    "rails=N|auto";

TEST(Rules, WrongParameters) {
  EXPECT_EQ(error("ring()"), with("missing parameter at position 6, found ')'", "seg=SIZE"));
  EXPECT_EQ(error("ring("), with("missing parameter at position 6, found the end", "seg=SIZE"));
  EXPECT_EQ(error("ring(seg=1M,)"),
            with("missing parameter at position 13, found ')'", "seg=SIZE"));
  EXPECT_EQ(error("hierarchical(segment=1M)"),
            with("unknown parameter 'segment' at position 14", kHierarchicalForms));
  EXPECT_EQ(error("ring(intra=ring)"), with("unknown parameter 'intra' at position 6", "seg=SIZE"));
  EXPECT_EQ(error("ring; hierarchical(seg=1M,seg=2M)"),
            with("unexpected 'seg' at position 27", "seg=SIZE once"));
  EXPECT_EQ(error("ring(seg)"), with("unexpected ')' at position 9", "seg=SIZE"));
  for (const std::string& value : std::vector<std::string>{"0", "2G", "16E", "1.5M", "x"})
    EXPECT_EQ(error("ring(seg=" + value + ")"),
              with("unexpected '" + value + "' at position 10",
                   "seg=SIZE, bytes from 1 to 1G, with K, M or G"));
  EXPECT_EQ(error("ring(seg=)"),
            with("unexpected ')' at position 10", "seg=SIZE, bytes from 1 to 1G, with K, M or G"));
  EXPECT_EQ(error("hierarchical(inter=bruck)"),
            with("unexpected 'bruck' at position 20", "inter=circulant|ring|pairwise|direct"));
  EXPECT_EQ(error("torus(dims=0x5)"), with("unexpected '0x5' at position 12",
                                           "dims=AxBxC, one to 3 numbers from 2 to 65535"));
  EXPECT_EQ(error("ring(seg=1M"), with("unexpected end at position 12", "',' or ')'"));
  EXPECT_EQ(error("ring(seg=1M;direct"), with("unexpected ';' at position 12", "',' or ')'"));
  EXPECT_EQ(error("ring(seg=1M)direct"), with("unexpected 'direct' at position 13", "',' or ';'"));
  EXPECT_EQ(error("^ring(seg=1M)"),
            with("unexpected '(' at position 6", "names without parameters after '^'"));
  EXPECT_EQ(error("direct(seg=1M)"),
            with("unexpected '(' at position 7", "direct alone, which takes no parameters"));
  EXPECT_EQ(error("allgather,reduce: ring(seg=1M)"),
            with("parameter 'seg' at position 24 is none of allgather of ring",
                 "of allreduce, broadcast"));
  EXPECT_EQ(rules("allgather,broadcast: ring(seg=1M)").size(), 1U);
  EXPECT_EQ(error("(seg=1M)"), with("missing algorithm at position 1, found '('", kAlgorithms));
}

TEST(Rules, WrongPunctuation) {
  EXPECT_EQ(error("allreduce:ring:direct"), "unexpected ':' at position 15; valid: ',' or ';'");
  EXPECT_EQ(error("ring direct"), "unexpected 'direct' at position 6; valid: ',' or ';'");
  EXPECT_EQ(error("ring-direct"), "unexpected '-' at position 5; valid: ',' or ';'");
  EXPECT_EQ(error("ring^"), "unexpected '^' at position 5; valid: ',' or ';'");
}

// Whatever the letters, an answer comes, and a refusal says where.
TEST(Rules, TooLongAText) {
  std::string text = "ring";
  while (text.size() + 5 <= kMostRulesText) text += ";ring";
  EXPECT_TRUE(parse_rules(text).ok());
  EXPECT_EQ(parse_rules(text + ";ring").status().message(),
            "4099 characters of rules; valid: at most 4096");
}

TEST(Rules, AnyTextIsAnswered) {
  const std::vector<std::string> pieces = {
      "allreduce", "ring", "size", "dtype", "4K",   "9",      "*", ",", ";",   ":",   "^",
      "=",         "-",    " ",    "\x01",  "\xff", "direct", "(", ")", "seg", "mem", "host"};
  uint32_t random = 1;
  int accepted = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string text;
    for (int i = 0; i < round % 9; ++i) {
      random = random * 1664525 + 1013904223;
      text += pieces[(random >> 16) % pieces.size()];
    }
    const Result<Rules> parsed = parse_rules(text);
    if (parsed.ok()) {
      ++accepted;
    } else {
      EXPECT_THAT(std::string(parsed.status().message()), HasSubstr("at position ")) << text;
      EXPECT_THAT(std::string(parsed.status().message()), HasSubstr("; valid: ")) << text;
    }
  }
  EXPECT_GT(accepted, 20000 / 9);
}

}  // namespace
}  // namespace banyan::rules_test
