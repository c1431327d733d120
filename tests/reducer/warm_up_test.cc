// How the density of sparse codecs falls to what was asked for.
// SPDX-License-Identifier: Apache-2.0

#include "src/reducer/warm_up.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <vector>

#include "algorithms/choice/compression.h"

namespace banyan::warm_up_test {
namespace {

TEST(WarmUp, FallsByHalvesInStairsOfEqualLength) {
  const std::vector<double> expected{0.25, 0.25, 0.125, 0.125, 0.0625, 0.0625, 0.05, 0.05};
  for (uint64_t step = 0; step < expected.size(); ++step)
    EXPECT_EQ(density_at(0.05, step, 6), expected[step]) << step;
}

TEST(WarmUp, SkipsStairsWhereThereAreFewSteps) {
  // Eight of them are above 0.001: each step goes down by two.
  EXPECT_EQ(density_at(0.001, 0, 4), 0.25);
  EXPECT_EQ(density_at(0.001, 1, 4), 0.0625);
  EXPECT_EQ(density_at(0.001, 2, 4), 0.015625);
  EXPECT_EQ(density_at(0.001, 3, 4), 0.00390625);
  EXPECT_EQ(density_at(0.001, 4, 4), 0.001);
}

TEST(WarmUp, IsNoneWhereNoStepsOrADensityOfAQuarterAreAskedFor) {
  EXPECT_EQ(density_at(0.01, 0, 0), 0.01);
  EXPECT_EQ(density_at(0.01, 1000, 1000), 0.01);
  EXPECT_EQ(density_at(0.01, UINT64_MAX, 1000), 0.01);
  for (const double density : {0.25, 0.3, 1.0}) EXPECT_EQ(density_at(density, 0, 100), density);
}

TEST(WarmUp, NeverRisesNorGoesBelowWhatIsAskedFor) {
  for (const double density : {0.2499, 0.2, 0.125, 0.1, 0.01, 0.001, 1e-6, 1e-9, 1e-300})
    for (const uint64_t steps : {1U, 2U, 3U, 7U, 19U, 20U, 100U, 1000U}) {
      double before = density_at(density, 0, steps);
      EXPECT_EQ(before, 0.25);
      std::set<double> stairs;
      for (uint64_t step = 0; step < steps; ++step) {
        const double now = density_at(density, step, steps);
        EXPECT_LE(now, before);
        EXPECT_GT(now, density);
        stairs.insert(before = now);
      }
      EXPECT_LE(stairs.size(), 20U);
      EXPECT_EQ(density_at(density, steps, steps), density);
      // It does not jump at the end, if there are as many steps as stairs.
      EXPECT_TRUE(steps < 20 || density < 1e-6 || before <= 2 * density) << density;
    }
  EXPECT_EQ(density_at(0.01, UINT64_MAX / 2, UINT64_MAX), 0.0625);
}

TEST(WarmUp, ChangesNothingButTheDensitiesOfACompression) {
  const Result<Compression> read = parse_compression("inter=topk:0.01:fp16,intra=randk:0.125");
  ASSERT_TRUE(read.ok());
  Compression compression = *read;
  compression.seed = 5;
  Compression expected = compression;
  expected.inter.parameter = expected.intra.parameter = expected.alone.parameter = 0.25;
  EXPECT_EQ(compression_at(compression, 0, 10), expected);
  expected = compression;
  expected.inter.parameter = 0.015625;
  EXPECT_EQ(compression_at(compression, 9, 10).inter, expected.inter);
  EXPECT_EQ(compression_at(compression, 10, 10), compression);
  for (const char* others : {"off", "threshold:0.01", "sign:0.01", "int8", "auto"}) {
    const Result<Compression> same = parse_compression(others);
    ASSERT_TRUE(same.ok());
    EXPECT_EQ(compression_at(*same, 0, 10), *same) << others;
  }
}

}  // namespace
}  // namespace banyan::warm_up_test
