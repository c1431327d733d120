// Links as measured: the fitted line does not mind wild samples, and the model has the figures.
// SPDX-License-Identifier: Apache-2.0

#include "algorithms/cost/measured_links.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <string_view>
#include <vector>

#include "algorithms/algorithms.h"
#include "algorithms/choice/machine_cost.h"

namespace banyan::measured_links_test {
namespace {

std::vector<LinkSample> samples_on(double us, double byte_us, int each) {
  std::vector<LinkSample> samples;
  for (const double bytes : {65536.0, 262144.0, 1048576.0, 4194304.0})
    samples.insert(samples.end(), static_cast<size_t>(each), {bytes, us + byte_us * bytes});
  return samples;
}

TEST(FitLine, FindsTheLineThatSamplesLieOn) {
  const auto line = fit_line(samples_on(7, 0.008, 3));
  ASSERT_TRUE(line);
  EXPECT_NEAR(line->us, 7, 1e-6);
  EXPECT_NEAR(line->byte_us, 0.008, 1e-9);
}

// One in four is interrupted, and takes up to twenty times as long.
TEST(FitLine, DoesNotMindWildSamples) {
  std::mt19937 random(5);
  std::uniform_real_distribution<double> noise(0.99, 1.01);
  std::uniform_real_distribution<double> wild(2, 20);
  for (int trial = 0; trial < 20; ++trial) {
    std::vector<LinkSample> samples = samples_on(10, 0.001, 8);
    for (size_t i = 0; i < samples.size(); ++i)
      samples[i].us *= i % 4 == 0 ? wild(random) : noise(random);
    const auto line = fit_line(samples);
    ASSERT_TRUE(line);
    EXPECT_NEAR(line->byte_us, 0.001, 0.00005) << "trial " << trial;
  }
}

TEST(FitLine, SaysNothingWhereThereIsNoLine) {
  EXPECT_FALSE(fit_line({}));
  EXPECT_FALSE(fit_line(std::vector<LinkSample>{{8, 1}}));
  EXPECT_FALSE(fit_line(std::vector<LinkSample>{{8, 1}, {8, 2}, {8, 3}}));
  EXPECT_FALSE(fit_line(std::vector<LinkSample>{{8, 2}, {16, 2}}));  // longer ones cost nothing
  EXPECT_FALSE(fit_line(std::vector<LinkSample>{{8, 3}, {16, 2}}));
  // Long ones that are dearer than in proportion would have a negative time for none.
  const auto steep = fit_line(std::vector<LinkSample>{{1, 1}, {2, 4}});
  ASSERT_TRUE(steep);
  EXPECT_EQ(steep->us, 0);
}

MeasuredLink link(double rate, double busy_rate, int pairs) {
  return {.latency_us = 20,
          .busy_latency_us = 30,
          .message_us = 2,
          .GBps = rate,
          .busy_GBps = busy_rate,
          .pairs = pairs};
}

TEST(WithLinks, HasAsManyNicsAsPairsAreFasterTogether) {
  const CostModel model = memory_model(4, 4);
  struct Case {
    double GBps, busy_GBps;
    int pairs;
    double nics, wire_byte;
  };
  const Case cases[] = {
      {0.12, 0.12, 1, 1, 1e-3 / 0.12},   {0.12, 0.03, 4, 1, 1e-3 / 0.12},
      {0.12, 0.12, 4, 4, 1e-3 / 0.12},   {0.12, 0.06, 4, 2, 1e-3 / 0.12},
      {0.12, 0.021, 4, 1, 1e-3 / 0.084},  // all together less than one alone: the cable counts
  };
  for (const Case& row : cases) {
    const CostModel known =
        with_links(model, {.within = {}, .between = link(row.GBps, row.busy_GBps, row.pairs)});
    EXPECT_EQ(known.nics, row.nics);
    EXPECT_NEAR(*known.wire_byte.value, row.wire_byte, 1e-9);
    EXPECT_EQ(known.wire_byte.source, Source::kMeasured);
    EXPECT_EQ(*known.between.alpha.value, 26);  // the cores at both ends take 2 us each of the 30
    EXPECT_EQ(*known.between.overhead.value, 2);
    EXPECT_EQ(known.within, model.within);
  }
}

TEST(WithLinks, LeavesOneHostToWhatIsKnownOfMemory) {
  const CostModel model = memory_model(4, 2);
  EXPECT_EQ(with_links(model, {}), model);
  EXPECT_EQ(with_links(model, {.within = link(8, 4, 2), .between = {}}), model);
  const CostModel known = with_links(model, {.within = link(8, 4, 2), .between = link(1, 1, 2)});
  EXPECT_EQ(*known.within.alpha.value, 26);
  EXPECT_NEAR(*known.within.send_byte.value + *known.within.recv_byte.value, 1e-3 / 8, 1e-12);
  EXPECT_EQ(*known.turn.value, 0);  // in the latency
}

TEST(WithLinks, HasTheSumsOfACore) {
  const CostModel model = memory_model(4, 4);
  MeasuredLinks links{.between = link(1, 1, 1), .sums = MeasuredSums{.GBps = 20, .far_GBps = 4}};
  const CostModel known = with_links(model, links);
  EXPECT_NEAR(*known.reduce_byte.value, 1e-3 / 20, 1e-12);
  EXPECT_NEAR(*known.reduce_far_byte.value, 1e-3 / 4 - 1e-3 / 20, 1e-12);  // beside the other
  EXPECT_EQ(known.reduce_byte.source, Source::kMeasured);
  links.sums->far_GBps = 30;
  EXPECT_EQ(*with_links(model, links).reduce_far_byte.value, 0);
  links.sums.reset();
  EXPECT_EQ(with_links(model, links).reduce_byte, model.reduce_byte);
  EXPECT_EQ(with_links(model, {.sums = MeasuredSums{.GBps = 20, .far_GBps = 4}}), model);
}

MessageTimes met(double times) {
  return {.afar_least = 32 << 10,
          .word_us = 0.1 * times,
          .messages = {{32 << 10, 3 * times, 4 * times, 2 * times, times},
                       {256 << 10, 24 * times, 12 * times, 6 * times, 8 * times}}};
}

// What messages take decides long calls, where all of them take as many times as long.
TEST(WithMessageTimes, PredictionsFollowWhatWasMeasured) {
  const CostModel table = memory_model(2, Medium::kMemory);
  EXPECT_EQ(with_message_times(table, {}, 2), table);
  const CostModel near = with_message_times(table, met(1), 2);
  const CostModel far = with_message_times(table, met(10), 2);
  EXPECT_EQ(near.within.long_byte.source, Source::kMeasured);
  EXPECT_EQ(near.within.send_byte.source, Source::kMeasured);
  EXPECT_EQ(near.reduce_byte.source, Source::kTable);
  Problem problem;
  problem.collective = Collective::kAllreduce;
  for (const uint64_t count : {uint64_t{1}, uint64_t{16} << 10, uint64_t{256} << 10}) {
    problem.count = count;
    for (const std::string_view name : {"circulant", "recursive_doubling", "direct"}) {
      const int algorithm = find_algorithm(name);
      const double us = predict(problem, algorithm, 2, near);
      EXPECT_GT(predict(problem, algorithm, 2, far), 2 * us) << name << ' ' << count;
      EXPECT_LE(lower_bound(problem, 2, near), us) << name;
    }
  }
  // What the caller gave is read as it is; recursive doubling of two ranks sends nothing else.
  problem.count = 256 << 10;
  CostModel dear = near;
  dear.within.long_byte = dear.within.send_byte = Figure{1.0, Source::kMeasured};
  EXPECT_EQ(predict(problem, find_algorithm("recursive_doubling"), 2, dear),
            predict(problem, find_algorithm("recursive_doubling"), 2, near));
  EXPECT_GT(predict(problem, find_algorithm("circulant"), 2, dear),
            10 * predict(problem, find_algorithm("circulant"), 2, near));
}

// Ranks that share a core wait for turns, which come with words.
TEST(WithMessageTimes, AWordIsALatencyOrATurn) {
  const CostModel shared = with_message_times(memory_model(4, 2), met(1), 4);
  EXPECT_EQ(shared.turn.source, Source::kMeasured);
  EXPECT_EQ(*shared.within.alpha.value, 0);
  const CostModel crowded = with_message_times(memory_model(8, 2), met(1), 8);
  EXPECT_NEAR(*crowded.turn.value, *shared.turn.value / 3, 1e-9);
  const CostModel own = with_message_times(memory_model(2, Medium::kMemory), met(1), 2);
  EXPECT_EQ(*own.within.alpha.value, met(1).word_us);
}

// A long allreduce takes what the slowest cut says, by that model.
TEST(WithLinks, PredictsTheCut) {
  const MeasuredLinks links{.within = link(8, 4, 1), .between = link(0.12, 0.06, 2)};
  const CostModel model = with_links(memory_model(2, 2), links);
  const Hierarchy hosts = Hierarchy::of_labels("host", std::vector<int>{0, 0, 1, 1, 2, 2, 3, 3});
  Problem problem;
  problem.collective = Collective::kAllreduce;
  problem.count = 16 << 20;  // of fp32: 64 MiB
  const double cut = 2.0 * 3 / 4 * 67108864 * 1e-3 / 0.12;
  const double predicted = predict(problem, find_algorithm("hierarchical"), 8, model, &hosts);
  EXPECT_GT(predicted, cut);
  EXPECT_LT(predicted, 1.05 * cut);
}

}  // namespace
}  // namespace banyan::measured_links_test
