// The parts of banyan_perf and banyan_info that need no ranks are tested here: command lines,
// sizes, layouts, statistics, what a result may be, and the forms of output.
// SPDX-License-Identifier: Apache-2.0

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "algorithms/algorithms.h"
#include "bench/info/options.h"
#include "bench/info/show.h"
#include "bench/perf/data.h"
#include "bench/perf/device.h"
#include "bench/perf/elements.h"
#include "bench/perf/options.h"
#include "bench/perf/pattern.h"
#include "bench/perf/reference.h"
#include "bench/perf/report.h"
#include "bench/perf/statistics.h"
#include "src/base/parse.h"

namespace banyan::perf::perf_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> words_of(const std::string& line) {
  std::vector<std::string> words;
  for (const std::string_view word : split(line, ' ')) {
    if (!word.empty()) words.emplace_back(word);
  }
  return words;
}

CommandLine parse(const std::string& line) {
  std::vector<std::string> words = words_of("banyan_perf " + line);
  std::vector<const char*> argv;
  for (const std::string& word : words) argv.push_back(word.c_str());
  return parse_command_line(static_cast<int>(argv.size()), argv.data());
}

std::vector<uint64_t> bytes_of(const std::string& line) {
  std::vector<uint64_t> bytes;
  const CommandLine parsed = parse(line);
  if (!parsed.options) return bytes;
  for (const Size& size : sizes_of(*parsed.options)) bytes.push_back(size.bytes);
  return bytes;
}

TEST(PerfOptions, Defaults) {
  const CommandLine line = parse("allreduce -n 4");
  ASSERT_TRUE(line.options) << line.text;
  EXPECT_EQ(line.options->pattern, Pattern::kAllreduce);
  EXPECT_EQ(line.options->ranks, 4);
  EXPECT_EQ(line.options->type, DataType::kFloat32);
  EXPECT_EQ(line.options->op, ReduceOp::kSum);
  EXPECT_EQ(line.options->rounds, 1);
  EXPECT_EQ(sizes_of(*line.options).front().bytes, 4U);
  EXPECT_EQ(sizes_of(*line.options).back().bytes, 64U << 20);
  EXPECT_EQ(iterations_at(*line.options, 8192), 1000U);
  EXPECT_EQ(iterations_at(*line.options, 8193), 100U);
  EXPECT_EQ(warm_up_at(*line.options, 8192), 200U);
  EXPECT_EQ(warm_up_at(*line.options, 8193), 10U);
}

TEST(PerfOptions, Everything) {
  const CommandLine line = parse(
      "bibw -n 2 -m 1K:4K -i 7 -x 0 --rounds 3 -T bf16 -o max -c -f -z -l --shared --fresh "
      "--bind --algo ring --transports shm --compress off --determinism invariant --csv a.csv "
      "--json -");
  ASSERT_TRUE(line.options) << line.text;
  const Options& options = *line.options;
  EXPECT_EQ(options.pattern, Pattern::kBothWays);
  EXPECT_EQ(options.type, DataType::kBfloat16);
  EXPECT_EQ(options.op, ReduceOp::kMax);
  EXPECT_EQ(iterations_at(options, 1), 7U);
  EXPECT_EQ(warm_up_at(options, 1), 0U);
  EXPECT_EQ(options.rounds, 3);
  EXPECT_TRUE(options.check && options.full && options.tails && options.in_place &&
              options.home == Home::kShared && options.fresh && options.bind && options.invariant &&
              options.quiet());
  EXPECT_EQ(options.algorithm, "ring");
  EXPECT_EQ(options.csv, "a.csv");
}

TEST(PerfOptions, WhatIsWrongIsNamedWithWhatWouldBeRight) {
  struct Case {
    const char *line, *named, *right;
  };
  for (const Case& bad : std::initializer_list<Case>{
           {"-n 2", "COLLECTIVE", "allreduce"},
           {"allreduc -n 2", "allreduc", "allreduce"},
           {"allreduce allgather -n 2", "allgather", "--help"},
           {"allreduce -n two", "-n two", "from 1"},
           {"allreduce -n 0", "-n", "from 1"},
           {"allreduce -n 1025", "-n", "1024"},
           {"allreduce -n", "-n", "RANKS"},
           {"allreduce -n 2 -m banana", "-m banana", "MIN:MAX"},
           {"allreduce -n 2 -m 4X", "4X", "K, M"},
           {"allreduce -n 2 -m :", "-m :", "neither MIN nor MAX"},
           {"allreduce -n 2 -m 4::", "-m 4::", "colon"},
           {"allreduce -n 2 -m 128M:", "-m 128M:", "64M"},
           {"allreduce -n 2 -m :2", "-m :2", "less than 4"},
           {"allreduce -n 2 -m :x", "-m :x", "K, M"},
           {"allreduce -n 2 -m 2048G:", "-m 2048G:", "64M"},
           {"allreduce -n 2 -m 1:2:3", "1:2:3", "MIN:MAX"},
           {"allreduce -n 2 -m 64K:4", "64K", "MIN is more than MAX"},
           {"allreduce -n 2 -m 99999999999999999999G", "99999999999999999999G", "K, M"},
           {"allreduce -n 2 -m 2048G", "2048G", "1024G"},
           {"allreduce -n 2 -i many", "-i many", "at least 1"},
           {"allreduce -n 2 -i 0", "-i", "at least 1"},
           {"allreduce -n 2 -x -1", "-x", "at least 0"},
           {"allreduce -n 2 --rounds 0", "--rounds", "from 1"},
           {"allreduce -n 2 -T float31", "-T float31", "bfloat16"},
           {"allreduce -n 2 -o summ", "-o summ", "sum, prod"},
           {"allreduce -n 2 -d cuba", "-d cuba", "cuda, managed"},
           {"allreduce -n 2 -d cuda --shared", "--shared", "one of them"},
           {"allreduce -n 2 --algo rign", "rign", "ring"},
           {"allreduce -n 2 --algo bruck", "'bruck' has none for allreduce", "ring"},
           {"barrier -n 2 --algo ring", "'ring' has none for barrier", "dissemination"},
           {"barrier -n 2 --algo explain;ring", "'explain;ring' has none for barrier", "star"},
           {"gather -n 2 --algo allreduce:ring;alltoall:bruck", "none for gather", "binomial"},
           {"allreduce -n 2 --transports smh", "smh", "shm"},
           {"allreduce -n 2 --compress int9", "int9", "off"},
           {"allreduce -n 2 --determinism varying", "varying", "deterministic, invariant"},
           {"allreduce -n 2 -d cuda --algo rign", "rign", "ring"},
           {"allreduce -n 2 --compress int8 --transports smh", "smh", "shm"},
           {"allreduce -n 2 --csv - --json -", "--csv", "--json"},
           {"allreduce -n 2 --bogus", "--bogus", "--help"},
           {"latency -n 1", "-n 1", "2"}}) {
    const CommandLine line = parse(bad.line);
    EXPECT_FALSE(line.options) << bad.line;
    EXPECT_EQ(line.status, 2) << bad.line;
    EXPECT_THAT(line.text, AllOf(HasSubstr(bad.named), HasSubstr(bad.right))) << bad.line;
  }
}

TEST(PerfOptions, AnAlgorithmThatOneOfSeveralRulesHasForTheCollective) {
  for (const char* line : {"allreduce -n 2 --algo alltoall:bruck;ring", "barrier -n 2 --algo ^ring",
                           "allgather -n 2 --algo bruck,pairwise", "latency -n 2 --algo bruck",
                           "allreduce -n 2 --algo barrier:direct;allreduce,reduce:ring",
                           "alltoall -n 2 --algo *:bruck", "allreduce -n 2 --algo explain"})
    EXPECT_TRUE(parse(line).options) << parse(line).text;
}

TEST(PerfOptions, CudaNeedsADriver) {
  for (const auto& [word, home] : {std::pair("cuda", Home::kDevice), {"managed", Home::kManaged}}) {
    const CommandLine line = parse(fmt::format("allreduce -n 2 -d {}", word));
    if (find_driver().ok()) {
      ASSERT_TRUE(line.options) << line.text;
      EXPECT_EQ(line.options->home, home);
    } else {
      EXPECT_EQ(line.status, 77);
      EXPECT_THAT(line.text, HasSubstr("no CUDA driver"));
    }
  }
}

TEST(PerfOptions, CompressionIsAsTheVariableHasIt) {
  for (const char* word : {"off", "topk:0.01:fp16", "auto", "inter=int4+sr,intra=off"})
    EXPECT_TRUE(parse(fmt::format("allreduce -n 2 --compress {}", word)).options) << word;
}

TEST(PerfOptions, HelpAndVersion) {
  const CommandLine help = parse("--help");
  EXPECT_EQ(help.status, 0);
  for (int i = 0; i < kPatternCount; ++i)
    EXPECT_THAT(help.text, HasSubstr(std::string(name_of(static_cast<Pattern>(i)))));
  for (int i = 0; i < kDataTypeCount; ++i)
    EXPECT_THAT(help.text, HasSubstr(std::string(name_of(static_cast<DataType>(i)))));
  const CommandLine version = parse("--version");
  EXPECT_EQ(version.status, 0);
  EXPECT_THAT(version.text, ::testing::MatchesRegex("banyan_perf [0-9]+\\.[0-9]+\\.[0-9]+\n"));
}

TEST(PerfOptions, SizesAreWholeElementsAndNoneTwice) {
  EXPECT_THAT(bytes_of("allreduce -n 2 -m 4:32"), ElementsAre(4, 8, 16, 32));
  EXPECT_THAT(bytes_of("allreduce -n 2 -m 1:16"), ElementsAre(4, 8, 16));
  EXPECT_THAT(bytes_of("allreduce -n 2 -m 1:9 -T bf16"), ElementsAre(2, 4, 8));
  EXPECT_THAT(bytes_of("allreduce -n 2 -m :16"), ElementsAre(4, 8, 16));
  EXPECT_THAT(bytes_of("allreduce -n 2 -m 16M:"), ElementsAre(16 << 20, 32 << 20, 64 << 20));
  EXPECT_THAT(bytes_of("allreduce -n 2 -m 100"), ElementsAre(100));
  EXPECT_THAT(bytes_of("allreduce -n 2 -m 101"), ElementsAre(100));
  EXPECT_THAT(bytes_of("allreduce -n 2 -m 0"), ElementsAre(4));
  EXPECT_THAT(bytes_of("allreduce -n 2 -m 3:3 -T int8"), ElementsAre(3));
  EXPECT_THAT(bytes_of("allreduce -n 2 -m 3:13 -T int8"), ElementsAre(3, 6, 12));
  EXPECT_THAT(bytes_of("barrier -n 2 -m 4:64"), ElementsAre(0));
}

Case case_of(Pattern pattern, int rank, int size, bool in_place) {
  return {.pattern = pattern, .rank = rank, .size = size, .count = 5, .in_place = in_place};
}

TEST(PerfPattern, NamesComeBack) {
  for (int i = 0; i < kPatternCount; ++i)
    EXPECT_EQ(static_cast<int>(*parse_pattern(name_of(static_cast<Pattern>(i)))), i);
  EXPECT_EQ(*parse_pattern("AllReduce"), Pattern::kAllreduce);
}

// Every output element has exactly one origin, and that lies within the origin's input.
TEST(PerfPattern, OriginsCoverTheOutputOnce) {
  for (int p = 0; p < kPatternCount; ++p) {
    const auto pattern = static_cast<Pattern>(p);
    for (int size = is_pair(pattern) ? 2 : 1; size <= 5; ++size) {
      for (int rank = 0; rank < size; ++rank) {
        const Case which = case_of(pattern, rank, size, false);
        uint64_t next = 0;
        for (const Origin& origin : origins_of(which)) {
          EXPECT_EQ(origin.begin, next);
          next += origin.count;
          for (int source = 0; source < size; ++source) {
            if (!origin.reduced && source != origin.rank) continue;
            const Layout there = layout_of(case_of(pattern, source, size, false));
            EXPECT_LE(origin.index + origin.count, there.input) << name_of(pattern);
          }
        }
        EXPECT_EQ(next, layout_of(which).output) << name_of(pattern) << " rank " << rank;
      }
    }
  }
}

// As banyan.h has it.
TEST(PerfPattern, InPlaceLayouts) {
  for (int size = 1; size <= 4; ++size) {
    for (int rank = 0; rank < size; ++rank) {
      const auto layout = [&](Pattern pattern) {
        return layout_of(case_of(pattern, rank, size, true));
      };
      const uint64_t mine = static_cast<uint64_t>(rank) * 5;
      EXPECT_TRUE(layout(Pattern::kAllreduce).one_buffer);
      EXPECT_EQ(layout(Pattern::kAllreduce).input_offset, 0U);
      EXPECT_EQ(layout(Pattern::kAlltoall).input_offset, 0U);
      EXPECT_EQ(layout(Pattern::kAllgather).input_offset, mine);
      EXPECT_EQ(layout(Pattern::kAllgather).output_offset, 0U);
      EXPECT_EQ(layout(Pattern::kReduceScatter).output_offset, mine);
      EXPECT_EQ(layout(Pattern::kReduce).one_buffer, rank == 0);
      EXPECT_EQ(layout(Pattern::kGather).one_buffer, rank == 0);
      EXPECT_FALSE(layout(Pattern::kLatency).one_buffer);
    }
  }
}

TEST(PerfPattern, BandwidthsAsNcclTestsDefineThem) {
  EXPECT_DOUBLE_EQ(algorithm_bandwidth(Pattern::kAllreduce, 4, 1000000, 1000), 1);
  EXPECT_DOUBLE_EQ(algorithm_bandwidth(Pattern::kAllgather, 4, 1000000, 1000), 4);
  EXPECT_DOUBLE_EQ(algorithm_bandwidth(Pattern::kBroadcast, 4, 1000000, 1000), 1);
  EXPECT_DOUBLE_EQ(algorithm_bandwidth(Pattern::kAllreduce, 4, 1000, 0), 0);
  EXPECT_DOUBLE_EQ(bus_factor(Pattern::kAllreduce, 4), 1.5);
  EXPECT_DOUBLE_EQ(bus_factor(Pattern::kAlltoall, 4), 0.75);
  EXPECT_DOUBLE_EQ(bus_factor(Pattern::kReduce, 4), 1);
  EXPECT_DOUBLE_EQ(bus_factor(Pattern::kAllreduce, 1), 0);
}

std::vector<DataType> types(bool floating) {
  std::vector<DataType> list;
  for (int i = 0; i < kDataTypeCount; ++i) {
    if (is_floating(static_cast<DataType>(i)) == floating) list.push_back(static_cast<DataType>(i));
  }
  return list;
}

TEST(PerfElements, EveryNarrowValueComesBack) {
  for (const DataType type : types(true)) {
    if (!is_narrow_float(type)) continue;
    const uint64_t all = uint64_t{1} << (8 * size_of(type));
    for (uint64_t bits = 0; bits < all; ++bits) {
      const long double value = value_of(type, bits);
      if (!std::isnan(value)) {
        ASSERT_EQ(bits_of(type, value), bits) << name_of(type);
      }
    }
  }
}

TEST(PerfElements, WideFloatsAgreeWithTheCompiler) {
  for (const double value : {0.0, -0.0, 1.0, -1.5, 3.14159, 1e-310, 1e300, 5e-324}) {
    EXPECT_EQ(bits_of(DataType::kFloat64, value), std::bit_cast<uint64_t>(value)) << value;
    EXPECT_EQ(bits_of(DataType::kFloat32, value),
              std::bit_cast<uint32_t>(static_cast<float>(value)))
        << value;
  }
}

TEST(PerfElements, RoundingAndOverflow) {
  EXPECT_EQ(bits_of(DataType::kBfloat16, 1.0L + 0x1p-8L), 0x3f80U);             // tie to even
  EXPECT_EQ(bits_of(DataType::kBfloat16, 1.0L + 0x1p-8L + 0x1p-30L), 0x3f81U);  // above it
  EXPECT_EQ(bits_of(DataType::kFloat16, 65519.0L), 0x7bffU);
  EXPECT_EQ(bits_of(DataType::kFloat16, 65520.0L), 0x7c00U);
  EXPECT_EQ(bits_of(DataType::kFloat8E4m3, 448.0L), 0x7eU);
  EXPECT_EQ(bits_of(DataType::kFloat8E4m3, 465.0L), 0x7fU);  // no infinity: NaN
  EXPECT_EQ(bits_of(DataType::kFloat8E5m2, -1e9L), 0xfcU);
  EXPECT_EQ(unit_at(DataType::kFloat16, 1.0L), 0x1p-10L);
  EXPECT_EQ(unit_at(DataType::kFloat16, 0.0L), 0x1p-24L);
}

TEST(PerfElements, IntegersWrap) {
  EXPECT_EQ(widen(DataType::kInt8, 0xff), ~uint64_t{0});
  EXPECT_EQ(widen(DataType::kUint8, 0xff), 0xffU);
  EXPECT_EQ(narrow(DataType::kInt8, widen(DataType::kInt8, 0x80) * 3), 0x80U);
  EXPECT_EQ(to_text(DataType::kInt8, 0xff), "-1");
}

TEST(PerfData, IsNormalAndDiffersBetweenRanks) {
  const Data data(DataType::kFloat32, ReduceOp::kSum);
  constexpr uint64_t kCount = 20000;
  double sum = 0;
  double squares = 0;
  uint64_t within_one = 0;
  uint64_t equal = 0;
  for (uint64_t i = 0; i < kCount; ++i) {
    const auto value = static_cast<double>(value_of(data.type(), data.bits(3, i)));
    sum += value;
    squares += value * value;
    within_one += std::fabs(value) < 1 ? 1 : 0;
    equal += data.bits(3, i) == data.bits(4, i) ? 1 : 0;
  }
  EXPECT_NEAR(sum / kCount, 0, 0.03);
  EXPECT_NEAR(squares / kCount, 1, 0.04);
  EXPECT_NEAR(static_cast<double>(within_one) / kCount, 0.6827, 0.015);
  EXPECT_EQ(equal, 0U);
}

TEST(PerfData, AnyPartIsThePartOfTheWhole) {
  for (int t = 0; t < kDataTypeCount; ++t) {
    const auto type = static_cast<DataType>(t);
    const Data data(type, ReduceOp::kSum);
    std::vector<std::byte> whole(100 * size_of(type));
    std::vector<std::byte> part(10 * size_of(type));
    data.write(1, 0, 100, whole.data());
    data.write(1, 37, 10, part.data());
    EXPECT_TRUE(std::equal(part.begin(), part.end(),
                           whole.begin() + static_cast<ptrdiff_t>(37 * size_of(type))));
  }
}

TEST(PerfData, DigestChangesWithEveryByte) {
  std::vector<std::byte> bytes(37);
  const uint64_t before = digest_of(bytes);
  for (std::byte& byte : bytes) {
    byte = std::byte{1};
    EXPECT_NE(digest_of(bytes), before);
    byte = std::byte{0};
  }
  EXPECT_EQ(digest_of(bytes), before);
  bytes.push_back(std::byte{0});
  EXPECT_NE(digest_of(bytes), before);
}

TEST(PerfReference, IntegersWrapAndAverageTruncates) {
  const auto reduced = [](DataType type, ReduceOp op, std::vector<uint64_t> inputs) {
    return reduce_exactly(type, op, inputs).expected;
  };
  EXPECT_EQ(reduced(DataType::kInt8, ReduceOp::kSum, {100, 100}), 200U);
  EXPECT_EQ(reduced(DataType::kUint8, ReduceOp::kSum, {200, 100}), 44U);
  EXPECT_EQ(reduced(DataType::kInt8, ReduceOp::kAvg, {0xff, 0xfc}), 0xfeU);  // -5 / 2 = -2
  EXPECT_EQ(reduced(DataType::kInt8, ReduceOp::kAvg, {100, 100}), 0xe4U);    // -56 / 2 = -28
  EXPECT_EQ(reduced(DataType::kUint8, ReduceOp::kAvg, {7, 8}), 7U);
  EXPECT_EQ(reduced(DataType::kInt8, ReduceOp::kMin, {1, 0xff, 3}), 0xffU);
  EXPECT_EQ(reduced(DataType::kUint8, ReduceOp::kMin, {1, 0xff, 3}), 1U);
  EXPECT_EQ(reduced(DataType::kInt64, ReduceOp::kMax, {~uint64_t{0}, 5}), 5U);
  EXPECT_EQ(reduced(DataType::kInt8, ReduceOp::kProd, {16, 16, 3}), 0U);
}

TEST(PerfReference, MinimumAndMaximumKnowSignedZeroAndNan) {
  const DataType type = DataType::kFloat16;
  const uint64_t minus_zero = 0x8000;
  const uint64_t nan = 0x7e00;
  EXPECT_EQ(reduce_exactly(type, ReduceOp::kMin, std::vector<uint64_t>{0, minus_zero}).expected,
            minus_zero);
  EXPECT_EQ(reduce_exactly(type, ReduceOp::kMax, std::vector<uint64_t>{minus_zero, 0}).expected,
            0U);
  EXPECT_EQ(reduce_exactly(type, ReduceOp::kMax, std::vector<uint64_t>{0x3c00, nan, 0}).expected,
            nan);
}

// float32 sums in any order are accepted, and one unit beyond the bound is not.
TEST(PerfReference, Float32Sums) {
  const DataType type = DataType::kFloat32;
  const Data data(type, ReduceOp::kSum);
  for (const int ranks : {1, 2, 3, 7, 16}) {
    for (uint64_t index = 0; index < 500; ++index) {
      std::vector<uint64_t> inputs;
      for (int rank = 0; rank < ranks; ++rank) inputs.push_back(data.bits(rank, index));
      const Accepted accepted = reduce_exactly(type, ReduceOp::kSum, inputs);
      const auto up = std::accumulate(inputs.begin(), inputs.end(), 0.0F, [](float sum, auto bits) {
        return sum + std::bit_cast<float>(static_cast<uint32_t>(bits));
      });
      EXPECT_TRUE(accepts(type, accepted, std::bit_cast<uint32_t>(up)));
      const auto beyond = static_cast<float>(accepted.high) * (up < 0 ? 0.999F : 1.001F) + 1e-5F;
      EXPECT_FALSE(accepts(type, accepted, std::bit_cast<uint32_t>(beyond)));
      EXPECT_FALSE(accepts(type, accepted, 0x7fc00000));
    }
  }
}

TEST(PerfReference, NarrowSumsAreRoundedOnce) {
  const DataType type = DataType::kBfloat16;
  // 1 + 7 x 2^-9: summed hop by hop in bfloat16 it stays 1; rounded once it is two units more.
  std::vector<uint64_t> inputs(8, bits_of(type, 0x1p-9L));
  inputs[0] = bits_of(type, 1);
  const Accepted accepted = reduce_exactly(type, ReduceOp::kSum, inputs);
  EXPECT_EQ(accepted.expected, 0x3f82U);
  EXPECT_TRUE(accepts(type, accepted, 0x3f81));
  EXPECT_TRUE(accepts(type, accepted, 0x3f83));
  EXPECT_FALSE(accepts(type, accepted, 0x3f80));
}

TEST(PerfReference, EveryPatternFindsASingleWrongElement) {
  for (int t = 0; t < kDataTypeCount; ++t) {
    const auto type = static_cast<DataType>(t);
    const Data data(type, ReduceOp::kSum);
    for (int p = 0; p < kPatternCount; ++p) {
      for (int rank = 0; rank < 3; ++rank) {
        const Case which = case_of(static_cast<Pattern>(p), rank, 3, false);
        const uint64_t elements = layout_of(which).output;
        if (elements == 0) continue;
        std::vector<std::byte> output(elements * size_of(type));
        for (const Origin& origin : origins_of(which)) {
          for (uint64_t i = 0; i < origin.count; ++i) {
            std::vector<uint64_t> inputs;
            for (int source = 0; source < 3; ++source)
              inputs.push_back(data.bits(source, origin.index + i));
            const uint64_t bits = origin.reduced
                                      ? reduce_exactly(type, ReduceOp::kSum, inputs).expected
                                      : inputs[static_cast<size_t>(origin.rank)];
            store_bits(type, bits, output.data() + (origin.begin + i) * size_of(type));
          }
        }
        EXPECT_EQ(check_output(which, data, ReduceOp::kSum, output.data(), 0, elements).wrong, 0U);
        const uint64_t at = elements - 1;
        std::byte* last = output.data() + at * size_of(type) + size_of(type) - 1;
        *last ^= std::byte{0x40};
        const Checked checked =
            check_output(which, data, ReduceOp::kSum, output.data(), 0, elements);
        EXPECT_EQ(checked.wrong, 1U) << name_of(type) << " " << name_of(which.pattern);
        ASSERT_EQ(checked.first.size(), 1U);
        EXPECT_EQ(checked.first[0].index, at);
        EXPECT_EQ(check_output(which, data, ReduceOp::kSum, output.data(), 0, at).wrong, 0U);
        EXPECT_EQ(check_output(which, data, ReduceOp::kSum, output.data(), at, elements).wrong, 1U);
      }
    }
  }
}
}  // namespace
}  // namespace banyan::perf::perf_test
