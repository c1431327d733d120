// The models of the example that computes nothing, against what their papers and everybody's
// implementations of them say, and the arithmetic of its report.
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <string>

#include "examples/train_synthetic/measure.h"
#include "examples/train_synthetic/models.h"
#include "examples/train_synthetic/pace.h"

namespace banyan::synthetic::synthetic_models_test {
namespace {

Model named(const char* name) {
  const auto model = model_of(name);
  EXPECT_TRUE(model.ok()) << model.status().message();
  return model.ok() ? *model : Model();
}

TEST(SyntheticModelsTest, Resnet50IsThatOfItsPaper) {
  const Model model = named("resnet50");
  EXPECT_EQ(parameters_of(model), 25557032U);
  EXPECT_EQ(tensors_of(model), 161U);
  EXPECT_EQ(model.front().tensors.front().count, 64U * 3 * 7 * 7);
  EXPECT_EQ(model.back().tensors.front().count, 2048U * 1000);
  EXPECT_NEAR(work_of(model), 3.8e9, 0.08e9);  // the paper's table 1
}

TEST(SyntheticModelsTest, Gpt2IsThatOfItsPaper) {
  const Model model = named("gpt2");
  EXPECT_EQ(parameters_of(model), 124439808U);
  EXPECT_EQ(tensors_of(model), 148U);
  // A token's multiply-adds are one for each parameter that it meets, and those of attention.
  const double matrices = 12.0 * 12 * 768 * 768 + 50257.0 * 768;
  EXPECT_DOUBLE_EQ(work_of(model), matrices + 12.0 * 2 * 1024 * 768);
}

TEST(SyntheticModelsTest, NamesAreDifferentAndCountsAreNot0) {
  for (const char* name : {"resnet50", "gpt2", "mlp:7-5-3"}) {
    std::set<std::string> names;
    for (const Layer& layer : named(name)) {
      for (const Tensor& tensor : layer.tensors) {
        EXPECT_TRUE(names.insert(tensor.name).second) << tensor.name;
        EXPECT_GT(tensor.count, 0U) << tensor.name;
      }
    }
  }
}

TEST(SyntheticModelsTest, PerceptronsHaveTheLayersOfTheirNames) {
  const Model model = named("mlp:7-5-3");
  ASSERT_EQ(model.size(), 2U);
  EXPECT_EQ(parameters_of(model), 7U * 5 + 5 + 5 * 3 + 3);
  EXPECT_EQ(work_of(model), 7 * 5 + 5 * 3);
}

TEST(SyntheticModelsTest, OtherNamesAreRefused) {
  for (const char* name : {"", "resnet", "mlp", "mlp:", "mlp:7", "mlp:7-", "mlp:-7", "mlp:7-0",
                           "mlp:7-x", "mlp:7-5 ", "mlp:7--5", "mlp:7-65537", "mlp:7-5-"}) {
    const auto model = model_of(name);
    EXPECT_EQ(model.status().code(), Code::kInvalidArgument) << name;
  }
}

Report report_of(double compute, double communication, double step) {
  return {compute, {communication, 0, 0}, {step, 0, 0}, {}};
}

TEST(SyntheticModelsTest, OverlapIsAShareOfTheShorter) {
  EXPECT_DOUBLE_EQ(report_of(3, 2, 5).overlap(), 0);
  EXPECT_DOUBLE_EQ(report_of(3, 2, 3).overlap(), 1);
  EXPECT_DOUBLE_EQ(report_of(3, 2, 4).overlap(), 0.5);
  EXPECT_DOUBLE_EQ(report_of(2, 8, 9).overlap(), 0.5);
  EXPECT_DOUBLE_EQ(report_of(3, 2, 6).overlap(), 0) << "slower than one after the other";
  EXPECT_DOUBLE_EQ(report_of(3, 2, 2).overlap(), 1) << "faster than either";
  EXPECT_DOUBLE_EQ(report_of(0, 2, 2).overlap(), 0) << "nothing to hide behind";
}

// Seconds that 20 pieces of 100 us take, at best: others may have the cores for most of the time,
// but a turn on one is longer than that.
double seconds_of_pieces(bool spins) {
  double best = 1e9;
  for (int round = 0; round < 200; ++round) {
    Pace pace(spins);
    const auto start = Pace::Clock::now();
    for (int i = 0; i < 20; ++i) pace.spend(1e-4);
    const std::chrono::duration<double> took = Pace::Clock::now() - start;
    best = std::min(best, took.count());
  }
  return best;
}

TEST(SyntheticModelsTest, PiecesOfTimeComeToTheirSum) {
  for (const bool spins : {false, true}) {
    const double seconds = seconds_of_pieces(spins);
    EXPECT_GE(seconds, 0.002) << spins;
    // A sleep is some 60 us too long, which would make it 0.0032.
    EXPECT_LT(seconds, 0.0022) << spins;
  }
}

TEST(SyntheticModelsTest, ATimeWithoutACoreIsNotMadeUpFor) {
  Pace pace(false);
  const auto start = Pace::Clock::now();
  pace.spend(-0.05);  // which ends 50 ms too late
  pace.spend(0.02);
  EXPECT_GE(Pace::Clock::now() - start, std::chrono::milliseconds(19));
}

}  // namespace
}  // namespace banyan::synthetic::synthetic_models_test
